//! Profiles: drives and platforms as data files, each parameter with its source.
//!
//! A file has a `name` and a table of parameters, each `[value, kind, source]`; a table within it (`[platform.ceilings]`) has
//! parameters as well. The kinds are those of [`Origin`]. Of a calibrated parameter the source begins with the published number
//! that it was calibrated on, followed by a colon.

use crate::backplane::DriveConfig;
use crate::hdd::HddConfig;
use crate::platform::PlatformConfig;
use crate::ssd::SsdConfig;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use toml::{Table, Value};

/// The origin of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A data sheet, a manual or a standard.
    Sheet,
    /// The single drive's own row of the publication.
    Row,
    /// One number of an array's rows, which no longer counts as predicted.
    Calibrated,
    /// What flash or disks of the kind do, where nobody says it of this one.
    Technology,
    /// A data sheet is said to have it: quoted from memory, not looked up again.
    Memory,
    /// Measured on this code.
    Measured,
}

impl Origin {
    /// Its name in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sheet => "data sheet or standard",
            Self::Row => "the single drive's row",
            Self::Calibrated => "calibrated",
            Self::Technology => "technology",
            Self::Memory => "from memory",
            Self::Measured => "measured",
        }
    }
}

/// A parameter of a profile and its source.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name in the configuration.
    pub name: String,
    /// Its value, as in the file.
    pub value: String,
    /// The kind of source.
    pub origin: Origin,
    /// The source.
    pub source: String,
}

impl Parameter {
    /// The published number that the parameter was calibrated on.
    pub fn calibrated_on(&self) -> Option<&str> {
        (self.origin == Origin::Calibrated).then(|| self.source.split(": ").next().unwrap_or_default())
    }
}

/// A profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile<T> {
    /// The file's name, without its ending.
    pub key: String,
    /// The configuration of the model.
    pub name: String,
    /// The parameters.
    pub config: T,
    /// Their sources.
    pub parameters: Vec<Parameter>,
}

/// The reason why a profile is invalid.
#[derive(Debug, thiserror::Error)]
#[error("profile {key}: {problem}")]
pub struct ProfileError {
    key: String,
    problem: String,
}

/// Reads the text of a profile.
///
/// # Errors
/// If it is no TOML, a parameter has no source, or the values do not make a configuration.
pub fn parse<T: DeserializeOwned>(key: &str, text: &str) -> Result<Profile<T>, ProfileError> {
    let refuse = |problem: String| ProfileError { key: key.to_owned(), problem };
    let table: Table = text.parse().map_err(|error: toml::de::Error| refuse(located(text, &error)))?;
    let (mut name, mut values, mut parameters) = (String::new(), Table::new(), Vec::new());
    for (entry, value) in table {
        match value {
            Value::String(text) if entry == "name" => name = text,
            Value::Table(part) => {
                let mut plain = Table::new();
                for (parameter, value) in part {
                    // A table of parameters within: ceilings.
                    let Value::Table(inner) = value else {
                        let (value, found) = with_source(&parameter, value).map_err(&refuse)?;
                        plain.insert(parameter, value);
                        parameters.push(found);
                        continue;
                    };
                    let mut values = Table::new();
                    for (name, value) in inner {
                        let (value, found) = with_source(&format!("{parameter}.{name}"), value).map_err(&refuse)?;
                        values.insert(name, value);
                        parameters.push(found);
                    }
                    plain.insert(parameter, Value::Table(values));
                }
                values.insert(entry, Value::Table(plain));
            }
            _ => return Err(refuse(format!("{entry} is neither the name nor a table of parameters"))),
        }
    }
    if name.is_empty() {
        return Err(refuse("it has no name: write name = \"…\" in the first line".to_owned()));
    }
    let config = Value::Table(values).try_into().map_err(|error: toml::de::Error| refuse(error.message().to_owned()))?;
    Ok(Profile { key: key.to_owned(), name, config, parameters })
}

/// A mistake of the syntax in one line.
fn located(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().and_then(|span| text.get(..span.start)).map_or(1, |before| before.lines().count().max(1));
    format!("line {line} is no TOML: {}", error.message().replace('\n', ", "))
}

fn with_source(name: &str, value: Value) -> Result<(Value, Parameter), String> {
    let explain = || format!("{name} is not [value, kind, source]");
    let Value::Array(parts) = value else { return Err(explain()) };
    let [value, Value::String(kind), Value::String(source)] = &parts[..] else { return Err(explain()) };
    let origin = match kind.as_str() {
        "sheet" => Origin::Sheet,
        "row" => Origin::Row,
        "calibrated" => Origin::Calibrated,
        "technology" => Origin::Technology,
        "memory" => Origin::Memory,
        "measured" => Origin::Measured,
        _ => return Err(format!("{name} has the kind {kind:?}: use sheet, row, calibrated, technology, memory or measured")),
    };
    if source.is_empty() || (origin == Origin::Calibrated && !source.contains(": ")) {
        return Err(format!("{name} has no source; a calibrated one begins with the published number and a colon"));
    }
    if origin != Origin::Calibrated && source.contains(".text[") {
        return Err(format!("{name} is taken from a published sentence, and its kind is {kind:?}: use calibrated"));
    }
    let parameter = Parameter { name: name.to_owned(), value: shown(value), origin, source: source.clone() };
    Ok((value.clone(), parameter))
}

/// A value as text; a table's entries with their names.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(parts) => parts.iter().map(shown).collect::<Vec<_>>().join(", "),
        Value::Table(parts) => parts.iter().map(|(name, part)| format!("{name} {}", shown(part))).collect::<Vec<_>>().join(", "),
    }
}

/// The files of the drives.
const DRIVES: &[(&str, &str)] = &[
    ("ssd520", include_str!("../profiles/drives/ssd520.toml")),
    ("s3500", include_str!("../profiles/drives/s3500.toml")),
    ("p4510", include_str!("../profiles/drives/p4510.toml")),
    ("d3700", include_str!("../profiles/drives/d3700.toml")),
    ("savvio10k5", include_str!("../profiles/drives/savvio10k5.toml")),
];

/// Parts of the model names that drives report, and their profiles. Source: the makers' order numbers.
const MODELS: &[(&str, &str)] = &[
    ("SSDSC2CW120A3", "ssd520"),
    ("SSDSC2BB480G4", "s3500"),
    ("SSDPE2KX040T8", "p4510"),
    ("SSDPD2MD800", "d3700"),
    ("ST9300605SS", "savvio10k5"),
];

/// The parts of model names by which drives of this profile are known.
pub fn models_of_key(key: &str) -> Vec<&'static str> {
    MODELS.iter().filter(|(_, known)| *known == key).map(|(part, _)| *part).collect()
}

/// The profile of a drive that reports this model name.
pub fn key_of_model(model: &str) -> Option<&'static str> {
    MODELS.iter().find(|(part, _)| model.contains(part)).map(|(_, key)| *key)
}

/// The files of the platforms.
const PLATFORMS: &[(&str, &str)] = &[
    ("z87", include_str!("../profiles/platforms/z87.toml")),
    ("z87-cache", include_str!("../profiles/platforms/z87-cache.toml")),
    ("z77", include_str!("../profiles/platforms/z77.toml")),
    ("a85x", include_str!("../profiles/platforms/a85x.toml")),
    ("c226", include_str!("../profiles/platforms/c226.toml")),
    ("rs25", include_str!("../profiles/platforms/rs25.toml")),
    ("rs2", include_str!("../profiles/platforms/rs2.toml")),
    ("a6805", include_str!("../profiles/platforms/a6805.toml")),
    ("esrt2", include_str!("../profiles/platforms/esrt2.toml")),
    ("p4510-host", include_str!("../profiles/platforms/p4510-host.toml")),
    ("p4510-md", include_str!("../profiles/platforms/p4510-md.toml")),
    ("p4510-megaraid", include_str!("../profiles/platforms/p4510-megaraid.toml")),
    ("d3700-host", include_str!("../profiles/platforms/d3700-host.toml")),
    ("d3700-vroc", include_str!("../profiles/platforms/d3700-vroc.toml")),
    ("stria", include_str!("../profiles/platforms/stria.toml")),
];

/// Other names of platforms: the controllers' chips, as people call them.
const ALIASES: &[(&str, &str)] =
    &[("lsi2208", "rs25"), ("lsi2108", "rs2"), ("adaptec6805", "a6805"), ("rst", "z87"), ("rste", "c226")];

/// The drives of platforms' publications.
const PUBLISHED_WITH: &[(&str, &str)] = &[
    ("z87", "ssd520"),
    ("z87-cache", "ssd520"),
    ("z77", "ssd520"),
    ("a85x", "ssd520"),
    ("c226", "s3500"),
    ("rs25", "savvio10k5"),
    ("rs2", "savvio10k5"),
    ("a6805", "savvio10k5"),
    ("esrt2", "savvio10k5"),
    ("p4510-host", "p4510"),
    ("p4510-md", "p4510"),
    ("p4510-megaraid", "p4510"),
    ("d3700-host", "d3700"),
    ("d3700-vroc", "d3700"),
];

/// The key of a platform by any of its names; upper and lower case are alike.
fn platform_key(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name)).map_or(name, |(_, key)| key)
}

/// The drive of a platform's publication; `None` if no publication is about it.
pub fn published_with(platform: &str) -> Option<&'static str> {
    PUBLISHED_WITH.iter().find(|(key, _)| key.eq_ignore_ascii_case(platform_key(platform))).map(|(_, drive)| *drive)
}

/// Properties that do not change a drive's speed, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Facts {
    /// Mean time between failures.
    pub mtbf_hours: Option<f64>,
    /// Unreadable bits of one bit read.
    pub unreadable_per_bit: Option<f64>,
    /// Terabytes that may be written.
    pub tbw_tb: Option<f64>,
    /// The price, in any currency.
    pub price: Option<f64>,
}

/// From 1,000 hours to a billion. Source: none; data sheets say 600,000 to 3 million.
const MTBF_HOURS: RangeInclusive<f64> = 1e3..=1e9;
/// From 1 bit in 10^30 to 1 in 10^9. Source: none; data sheets say 10^14 to 10^18.
const UNREADABLE_PER_BIT: RangeInclusive<f64> = 1e-30..=1e-9;
/// From a gigabyte to 10^9 TB. Source: none; data sheets say 40 to 100,000 TB.
const TBW_TB: RangeInclusive<f64> = 1e-3..=1e9;
/// 10^12: the highest price. Source: none; it fits every currency.
pub const PRICE_MAX: f64 = 1e12;

/// A drive of the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct CatalogueDrive {
    /// Its model.
    pub config: DriveConfig,
    /// Its other properties.
    pub facts: Facts,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct DriveFile {
    ssd: Option<SsdConfig>,
    hdd: Option<HddConfig>,
    #[serde(default)]
    facts: Facts,
}

fn text_of(what: &str, files: &[(&'static str, &'static str)], key: &str) -> Result<(&'static str, &'static str), ProfileError> {
    files.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).copied().ok_or_else(|| {
        let known: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
        ProfileError { key: key.to_owned(), problem: format!("there is no such {what}: choose one of {}", known.join(", ")) }
    })
}

/// A drive's profile.
///
/// # Errors
/// If there is none of the name.
pub fn drive(key: &str) -> Result<Profile<DriveConfig>, ProfileError> {
    let Profile { key, name, config, parameters } = catalogue_drive(key)?;
    Ok(Profile { key, name, config: config.config, parameters })
}

/// The same, with its other properties.
///
/// # Errors
/// If there is none of the name.
pub fn catalogue_drive(key: &str) -> Result<Profile<CatalogueDrive>, ProfileError> {
    let (key, text) = text_of("drive", DRIVES, key)?;
    parse_drive(key, text)
}

/// A drive of a profile's text, which need not be part of the program.
///
/// # Errors
/// If it is no profile, or none that can be modelled.
pub fn parse_drive(key: &str, text: &str) -> Result<Profile<CatalogueDrive>, ProfileError> {
    as_drive(parse(key, text)?)
}

fn as_drive(file: Profile<DriveFile>) -> Result<Profile<CatalogueDrive>, ProfileError> {
    let Profile { key, name, config, parameters } = file;
    let DriveFile { ssd, hdd, facts } = config;
    let config = match (ssd, hdd) {
        (Some(ssd), None) => DriveConfig::Ssd(ssd),
        (None, Some(hdd)) => DriveConfig::Hdd(hdd),
        _ => {
            return Err(ProfileError {
                key,
                problem: "it has neither a table [ssd] nor [hdd], or both: write one of them".to_owned(),
            });
        }
    };
    let facts_refusal = [
        ("mtbf_hours", facts.mtbf_hours, MTBF_HOURS),
        ("unreadable_per_bit", facts.unreadable_per_bit, UNREADABLE_PER_BIT),
        ("tbw_tb", facts.tbw_tb, TBW_TB),
        ("price", facts.price, f64::MIN_POSITIVE..=PRICE_MAX),
    ]
    .into_iter()
    .find_map(|(name, value, bounds)| Some((name, value.filter(|value| !bounds.contains(value))?, bounds)))
    .map(|(name, value, bounds)| match value > 0.0 {
        true => format!("{name} is {value:e}: it must lie between {:e} and {:e}", bounds.start(), bounds.end()),
        false => format!("{name} must be above 0"),
    });
    match config.refusal().or(facts_refusal) {
        Some(problem) => Err(ProfileError { key, problem }),
        None => Ok(Profile { key, name, config: CatalogueDrive { config, facts }, parameters }),
    }
}

/// Keys and names of all drives.
///
/// # Errors
/// If a profile is none.
pub fn drives() -> Result<Vec<Profile<CatalogueDrive>>, ProfileError> {
    DRIVES.iter().map(|(key, _)| catalogue_drive(key)).collect()
}

/// Keys and names of all platforms.
///
/// # Errors
/// If a profile is none.
pub fn platforms() -> Result<Vec<Profile<PlatformConfig>>, ProfileError> {
    PLATFORMS.iter().map(|(key, _)| platform(key)).collect()
}

#[derive(serde::Deserialize)]
struct PlatformFile {
    platform: Option<PlatformConfig>,
    /// Tables that a platform does not have.
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// A platform's profile.
///
/// # Errors
/// If there is none of the name.
pub fn platform(key: &str) -> Result<Profile<PlatformConfig>, ProfileError> {
    let (key, text) = text_of("platform", PLATFORMS, platform_key(key))?;
    parse_platform(key, text)
}

/// Reads the text of a platform's profile.
///
/// # Errors
/// As [`parse`].
pub fn parse_platform(key: &str, text: &str) -> Result<Profile<PlatformConfig>, ProfileError> {
    let Profile { key, name, config, mut parameters } = parse::<PlatformFile>(key, text)?;
    let PlatformFile { platform, others } = config;
    let Some(mut config) = platform else {
        let problem = "it has no table [platform]: a drive's profile goes with --drives".to_owned();
        return Err(ProfileError { key, problem });
    };
    if let Some(table) = others.keys().next() {
        let problem = match &**table {
            "ceilings" => "it has a table [ceilings], which has no effect: write [platform.ceilings]".to_owned(),
            other => format!("a platform has no table [{other}]: write its parameters into [platform], or take it out"),
        };
        return Err(ProfileError { key, problem });
    }
    // An earlier `stria plan measure` wrote profiles without it.
    if config.metadata && parameters.iter().all(|parameter| parameter.name != "hedges_reads") {
        config.hedges_reads = true;
        let source = "not in the profile: `metadata` is Stria's, and Stria's engine hedges reads (docs/MEMBERS.md)".to_owned();
        parameters.push(Parameter { name: "hedges_reads".to_owned(), value: "true".to_owned(), origin: Origin::Sheet, source });
    }
    match config.refusal() {
        Some(problem) => Err(ProfileError { key, problem }),
        None => Ok(Profile { key, name, config, parameters }),
    }
}

/// The text of a profile that was made from the profile `stria`, with measured parameters in the place of its own.
pub fn platform_text(profile: &Profile<PlatformConfig>) -> String {
    let (_, text) = PLATFORMS.iter().find(|(key, _)| *key == "stria").expect("it is there");
    let mut table: Table = text.parse().expect("it parses in tests");
    table.insert("name".to_owned(), Value::String(profile.name.clone()));
    if let Some(Value::Table(values)) = table.get_mut("platform") {
        for parameter in profile.parameters.iter().filter(|parameter| parameter.origin == Origin::Measured) {
            let number = parameter.value.parse().expect("what is measured is a number");
            let parts = [Value::Integer(number), Value::String("measured".to_owned()), Value::String(parameter.source.clone())];
            values.insert(parameter.name.clone(), Value::Array(parts.to_vec()));
        }
    }
    table.to_string()
}

/// Every parameter of every profile, with the profile's key.
///
/// # Errors
/// If a profile is none.
pub fn parameters() -> Result<Vec<(String, Parameter)>, ProfileError> {
    let mut all = Vec::new();
    for (key, _) in DRIVES {
        all.extend(drive(key)?.parameters.into_iter().map(|parameter| ((*key).to_owned(), parameter)));
    }
    for (key, _) in PLATFORMS {
        all.extend(platform(key)?.parameters.into_iter().map(|parameter| ((*key).to_owned(), parameter)));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_of_every_profile_has_a_source() {
        assert!(parameters().expect("all profiles parse").len() > 100);
    }

    #[test]
    fn a_profile_that_an_earlier_measurement_wrote_hedges_reads_and_says_why() {
        let stria = platform("stria").expect("there");
        let now = platform_text(&stria);
        let lines = |keep: fn(&&str) -> bool| now.lines().filter(keep).collect::<Vec<_>>().join("\n");
        let of = |profile: &Profile<PlatformConfig>| {
            let found = profile.parameters.iter().find(|parameter| parameter.name == "hedges_reads");
            (profile.config.hedges_reads, found.map(|parameter| parameter.source.clone()).unwrap_or_default())
        };
        let before = parse_platform("here", &lines(|line| !line.starts_with("hedges_reads"))).expect("a profile");
        assert!(of(&stria).0 && of(&before).0 && of(&before).1.starts_with("not in the profile: "), "{:?}", of(&before));
        // What a profile says stands; a platform without Stria's metadata has no such reads.
        let says = lines(|_| true).replace("hedges_reads = [true", "hedges_reads = [false");
        assert!(!of(&parse_platform("here", &says).expect("a profile")).0);
        let other = lines(|line| !line.starts_with("hedges_reads") && !line.starts_with("metadata"));
        assert_eq!(of(&parse_platform("here", &other).expect("a profile")), (false, String::new()));
    }

    #[test]
    fn a_parameter_without_a_source_is_refused() {
        let refusal = |text: &str| parse::<PlatformFile>("x", text).map(|_| ()).expect_err("it lacks something").to_string();
        assert!(refusal("name = 'x'\n[platform]\nserial_ns = 5").contains("serial_ns is not [value, kind, source]"));
        assert!(refusal("name = 'x'\n[platform]\nserial_ns = [5, 'guess', 'me']").contains("\"guess\""));
        assert!(refusal("name = 'x'\n[platform]\nserial_ns = [5, 'sheet', '']").contains("has no source"));
        assert!(
            refusal("name = 'x'\n[platform]\nserial_ns = [5, 'calibrated', 'by eye']")
                .contains("begins with the published number")
        );
        let sentence = refusal("name = 'x'\n[platform]\nserial_ns = [5, 'sheet', 'as z87.text[3] says']");
        assert!(sentence.contains("use calibrated"), "{sentence}");
        assert!(refusal("name = 'x'\n[platform.ceilings]\nread = [5, 'sheet', '']").contains("ceilings.read has no source"));
        assert!(refusal("name = 'x'\n[platform]\nnonsense = [5, 'sheet', 'p. 3']").contains("nonsense"));
    }

    /// A table that has no effect was accepted, with all its parameters.
    #[test]
    fn a_table_that_a_platform_does_not_have_is_refused() {
        let refusal = |more: &str| {
            let text = format!("name = 'x'\n[platform]\nserial_ns = [5, 'sheet', 'p. 3']\n{more}");
            parse_platform("x", &text).map(|_| ()).expect_err("it has too much").to_string()
        };
        assert!(refusal("[ceilings]\nread = [5000, 'sheet', 'p. 3']").contains("write [platform.ceilings]"));
        assert!(refusal("[nonsense]\nread = [5, 'sheet', 'p. 3']").contains("a platform has no table [nonsense]"));
    }

    #[test]
    fn names_are_found_in_upper_and_lower_case() {
        assert_eq!(drive("P4510").expect("in the catalogue").key, "p4510");
        assert_eq!(platform("LSI2208").expect("in the catalogue").key, "rs25");
        assert_eq!(published_with("LSI2208"), Some("savvio10k5"));
    }

    /// A value that was not looked up does not count as one of a data sheet.
    #[test]
    fn what_is_quoted_from_memory_is_marked_so() {
        for (key, parameter) in parameters().expect("all profiles parse") {
            let says_so = parameter.source.contains("memory") && !parameter.source.contains("no memory");
            assert!(!says_so || parameter.origin == Origin::Memory, "{key}: {} is quoted from memory", parameter.name);
        }
    }

    #[test]
    fn a_drive_that_cannot_be_modelled_is_refused() {
        let (_, text) = DRIVES.iter().find(|(key, _)| *key == "p4510").expect("it is there");
        let refusal = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            parse_drive("x", &text.replace(from, to)).map(|_| ()).expect_err("it cannot be modelled").to_string()
        };
        assert!(parse_drive("x", text).is_ok());
        assert!(refusal("dies = [64,", "dies = [0,").contains("dies must be above 0"));
        assert!(refusal("spare_share = [0.086,", "spare_share = [-1.0,").contains("spare_share must lie above 0"));
        // The maps of such drives have no block to collect into.
        assert!(
            refusal("spare_share = [0.086,", "spare_share = [0.005,")
                .contains("spare_share is 0.005: at least 0.016 can be modelled")
        );
        assert!(
            refusal("spare_share = [0.086,", "stored_share = [1e-9, 'sheet', 'x']\nspare_share = [0.086,")
                .contains("stored_share")
        );
        assert!(refusal("program_bytes = [65_536,", "program_bytes = [1000,").contains("program_bytes must be whole pages"));
        assert!(refusal("capacity_bytes = [4_000_787_030_016,", "capacity_bytes = [5_000,").contains("capacity_bytes"));
        assert!(refusal("link_bytes_per_s = [3_000_000_000,", "link_bytes_per_s = [0,").contains("link_bytes_per_s"));
        assert!(refusal("[ssd]", "[tape]").contains("tape"));
        assert!(refusal("mtbf_hours = [2_000_000.0,", "mtbf_hours = [0.0,").contains("mtbf_hours must be above 0"));
        for value in ["nan", "inf", "1e-300", "1e300", "-1.0"] {
            let refused = refusal("mtbf_hours = [2_000_000.0,", &format!("mtbf_hours = [{value},"));
            assert!(refused.contains("mtbf_hours"), "{value}: {refused}");
        }
    }
}
