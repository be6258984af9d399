//! `create` without arguments, on a terminal: three questions, each with what the choices give, and the command line that follows
//! from the answers. Nothing is written before that is confirmed, and then by the command line itself.

use crate::cli::Cli;
use clap::FromArgMatches;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use stria_block::shell_word;
use stria_drive::DriveInfo;
use stria_format::md::SuperblockError;
use stria_host::{ArrayLevel, block_devices, default_strip_sectors, examine};
use stria_terminal::output::{can_ask, confirm, paragraphs, print, table};
use stria_terminal::{Failure, absolute, size};

/// A level, as it is chosen by its purpose.
struct Purpose {
    level: &'static str,
    name: &'static str,
    drives_min: usize,
    space: &'static str,
    speed: &'static str,
    safety: &'static str,
}

const PURPOSES: [Purpose; 7] = [
    Purpose {
        level: "6",
        name: "much space that must be safe: files, backups, archives",
        drives_min: 4,
        space: "all drives but two",
        speed: "reads of all drives; a small random write costs six requests to drives, a large one little",
        safety: "survives any 2 failures, and names the drive that is wrong",
    },
    Purpose {
        level: "10",
        name: "fast random writes: databases, virtual machines",
        drives_min: 2,
        space: "half of the drives",
        speed: "reads of all drives; a write costs two requests to drives",
        safety: "survives any 1 failure, and more if they hit different pairs",
    },
    Purpose {
        level: "5",
        name: "the most space that survives a failure",
        drives_min: 3,
        space: "all drives but one",
        speed: "reads of all drives; a small random write costs four requests to drives, a large one little",
        safety: "survives any 1 failure; a second during the rebuild loses all",
    },
    Purpose {
        level: "1",
        name: "the same data on every drive: the system, or two drives",
        drives_min: 2,
        space: "one drive",
        speed: "reads of all drives; writes of one",
        safety: "survives the failure of all drives but one",
    },
    Purpose {
        level: "60",
        name: "many drives: two RAID 6 side by side",
        drives_min: 8,
        space: "all drives but four",
        speed: "as RAID 6, with shorter rebuilds and twice the small writes",
        safety: "survives any 2 failures, and up to 4",
    },
    Purpose {
        level: "0",
        name: "speed and space for data that may be lost: scratch, caches",
        drives_min: 1,
        space: "all drives",
        speed: "reads and writes of all drives",
        safety: "NONE: the first failure loses everything",
    },
    Purpose {
        level: "jbod",
        name: "drives of any size, one after the other",
        drives_min: 1,
        space: "all drives",
        speed: "of one drive at a time",
        safety: "NONE: the first failure loses everything",
    },
];

impl Purpose {
    /// How many drives' worth of data `count` drives hold.
    fn data_drives(&self, count: usize) -> f64 {
        let level: ArrayLevel = self.level.parse().expect("every purpose has a level");
        level.data_drives(count, 2)
    }

    fn has_strips(&self) -> bool {
        !matches!(self.level, "1" | "jbod")
    }

    /// The reason why it cannot be made of so many drives.
    fn objection(&self, count: usize) -> Option<String> {
        match (count < self.drives_min, self.level == "60" && count % 2 == 1) {
            (true, _) => Some(format!("RAID {} needs {} drives at least", self.level, self.drives_min)),
            (false, true) => Some("RAID 60 needs an even number of drives".into()),
            (false, false) => None,
        }
    }
}

fn nothing_done() -> Failure {
    Failure::Unsafe("nothing was done".into())
}

/// Asks until `parse` takes the answer. An empty answer means `default`, where there is one.
fn ask<T>(question: &str, default: Option<&str>, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, Failure> {
    loop {
        let shown = default.map_or_else(String::new, |default| format!(" [{default}]"));
        print(&format!("{question}{shown}: "));
        let mut answer = String::new();
        if io::stdin().read_line(&mut answer).map_or(true, |read| read == 0) {
            print("\n");
            return Err(nothing_done());
        }
        let answer = if answer.trim().is_empty() { default.unwrap_or("") } else { answer.trim() };
        match parse(answer) {
            Ok(value) => return Ok(value),
            Err(error) => print(&format!("  {error}\n")),
        }
    }
}

/// A drive that may be chosen.
struct Free {
    path: PathBuf,
    info: DriveInfo,
}

/// Block devices that carry nothing and that nothing else uses.
fn free_drives() -> Vec<Free> {
    let examined = examine(&block_devices()).into_iter().filter_map(Result::ok);
    let is_free = |path: &Path| stria_drive::SyncDrive::open(path, stria_drive::Access::Exclusive).is_ok();
    let mut free: Vec<Free> = examined
        .filter(|drive| matches!(drive.candidate.found, Err(SuperblockError::Absent)) && drive.candidate.carries.is_empty())
        .filter(|drive| is_free(&drive.info.path))
        .map(|drive| Free { path: drive.info.path.clone(), info: drive.info })
        .collect();
    free.sort_by(|one, other| one.path.cmp(&other.path));
    free
}

/// `1 3-5`, or paths, or both.
fn chosen(answer: &str, free: &[Free]) -> Result<Vec<PathBuf>, String> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for word in answer.split([' ', ',']).filter(|word| !word.is_empty()) {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        match (first.parse::<usize>(), last.parse::<usize>()) {
            (Ok(first), Ok(last)) if first >= 1 && first <= last && last <= free.len() => {
                paths.extend(free[first - 1..last].iter().map(|drive| drive.path.clone()));
            }
            (Ok(_), Ok(_)) => return Err(format!("there is no drive {word} in the list")),
            _ => paths.push(absolute(Path::new(word))),
        }
    }
    if let Some(path) = paths.iter().enumerate().find_map(|(at, path)| paths[..at].contains(path).then_some(path)) {
        return Err(format!("{} is named twice", path.display()));
    }
    if let Some(path) = paths.iter().find(|path| !path.exists()) {
        return Err(format!("{} is not there: name a drive of the list by its number, or any other by its path", path.display()));
    }
    Ok(paths)
}

fn number_up_to(count: usize) -> impl Fn(&str) -> Result<usize, String> {
    move |answer| match answer.parse::<usize>() {
        Ok(number) if (1..=count).contains(&number) => Ok(number - 1),
        _ => Err(format!("a number from 1 to {count}")),
    }
}

/// `1 drive`
fn drives_of(count: usize) -> String {
    format!("{count} {}", if count == 1 { "drive" } else { "drives" })
}

fn level() -> Result<&'static Purpose, Failure> {
    let mut text = String::from("1. What is the array for?\n\n");
    for (index, purpose) in PURPOSES.iter().enumerate() {
        let raid = if purpose.level == "jbod" { "JBOD".to_owned() } else { format!("RAID {}", purpose.level) };
        let _ = writeln!(text, "{:>3}  {} ({raid}, {} or more)", index + 1, purpose.name, drives_of(purpose.drives_min));
        let rows = [("space", purpose.space), ("speed", purpose.speed), ("safety", purpose.safety)];
        let rows = rows.map(|(name, words)| vec![name.to_owned(), words.to_owned()]).to_vec();
        text.extend(paragraphs(74, rows).lines().map(|line| format!("       {line}\n")));
    }
    print(&text);
    Ok(&PURPOSES[ask("\nPurpose", Some("1"), number_up_to(PURPOSES.len()))?])
}

fn drives(purpose: &Purpose) -> Result<Vec<PathBuf>, Failure> {
    let free = free_drives();
    print("\n2. On which drives?\n\n");
    if free.is_empty() {
        print("No block device here is free and empty. Name image files, or drives that may be overwritten, by their paths.\n");
    } else {
        let row = |(index, drive): (usize, &Free)| {
            let kind = if drive.info.limits.rotational { "hard disk" } else { "SSD" };
            let size = size::show(drive.info.limits.size_sectors * 512);
            let model = [drive.info.model.clone(), drive.info.serial.clone()].into_iter().flatten().collect::<Vec<_>>().join(" ");
            vec![(index + 1).to_string(), drive.path.display().to_string(), size, kind.to_owned(), model]
        };
        print(&table(&["", "drive", "size", "kind", "model"], &[0, 2], free.iter().enumerate().map(row).collect()));
        print("\n");
    }
    ask("Drives, as numbers (1-4 6) or paths", None, |answer| {
        let paths = chosen(answer, &free)?;
        purpose.objection(paths.len()).map_or(Ok(paths), Err)
    })
}

fn strip(purpose: &Purpose, paths: &[PathBuf], rotational: bool) -> Result<Option<u64>, Failure> {
    print("\n3. How large is a strip, the piece that lies on one drive before the next drive is used?\n\n");
    if !purpose.has_strips() {
        print(&format!("RAID {} has none: nothing to choose.\n", purpose.level));
        return Ok(None);
    }
    let count = if purpose.level == "60" { paths.len() / 2 } else { paths.len() };
    let usual = default_strip_sectors(count, rotational) * 512;
    let data = purpose.data_drives(paths.len()) as u64;
    let row = |bytes: u64| {
        let words = match bytes {
            _ if bytes == usual => "what fits these drives best in most cases",
            _ if bytes < usual => "large requests use more drives at once; small ones more often touch two",
            _ => "each request stays on one drive, so many at a time go on side by side; full stripes are larger",
        };
        vec![size::show(bytes), format!("a full stripe of {}", size::show(bytes * data.max(1))), words.to_owned()]
    };
    let sizes = [usual / 4, usual, usual * 4].map(|bytes| bytes.clamp(4096, 1 << 20));
    print(&table(&["strip", "", "gives"], &[], sizes.into_iter().map(row).collect()));
    print("\n");
    let strip = ask("Strip, 4K to 1M", Some(&size::show(usual)), |answer| {
        let bytes = size::parse(answer)?;
        let is_valid = bytes.is_power_of_two() && (4096..=1 << 20).contains(&bytes);
        if is_valid { Ok(bytes) } else { Err("a power of two from 4K to 1M".into()) }
    })?;
    Ok((strip != usual).then_some(strip))
}

/// True if the arguments are only `create`, and somebody sits at a terminal.
pub fn is_asked_for(arguments: impl Iterator<Item = std::ffi::OsString>) -> bool {
    arguments.collect::<Vec<_>>() == ["create"] && can_ask() && io::IsTerminal::is_terminal(&io::stdout())
}

/// Asks, and returns the command line that the answers make.
///
/// # Errors
/// When an answer is missing, or the result is not confirmed: nothing was done.
pub fn create() -> Result<Cli, Failure> {
    print("A new array in three steps. Ctrl-C ends this at any time; nothing is written before the last question.\n\n");
    let purpose = level()?;
    let paths = drives(purpose)?;
    let infos = paths.iter().map(|path| stria_drive::probe(path).map_err(Failure::failed)).collect::<Result<Vec<_>, _>>()?;
    let strip = strip(purpose, &paths, infos.iter().any(|info| info.limits.rotational))?;
    let name = ask("\nName of the array", Some("tank"), |answer| {
        stria_format::md::create::name_bytes(answer).map(|_| answer.to_owned()).map_err(|error| error.to_string())
    })?;
    let mut words = vec!["create".to_owned(), name, "--level".into(), purpose.level.into()];
    if let Some(strip) = strip {
        words.extend(["--strip".into(), size::show(strip)]);
    }
    words.extend(paths.iter().map(|path| path.display().to_string()));
    let sizes = infos.iter().map(|info| info.limits.size_sectors * 512);
    let space = match purpose.level {
        "jbod" | "0" => sizes.sum::<u64>() as f64,
        _ => sizes.min().unwrap_or(0) as f64 * purpose.data_drives(paths.len()),
    };
    let line = words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
    print(&format!(
        "\nAbout {} of space on {} drives; {}.\nThe same without questions:\n\n    stria {line}\n\n",
        size::show(space as u64 >> 20 << 20),
        paths.len(),
        purpose.safety
    ));
    confirm(&format!("Make it on {} drives?", paths.len()), false)?;
    let words = std::iter::once("stria".to_owned()).chain(words);
    let parsed = Cli::command_line().try_get_matches_from(words).and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.map_err(|error| Failure::Failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_purpose_is_a_level_that_create_knows() {
        for purpose in &PURPOSES {
            assert!(purpose.level.parse::<stria_host::ArrayLevel>().is_ok(), "{}", purpose.level);
            assert_eq!(purpose.objection(purpose.drives_min), None, "{}", purpose.level);
            assert!(purpose.drives_min == 1 || purpose.objection(purpose.drives_min - 1).is_some(), "{}", purpose.level);
            assert!(purpose.data_drives(purpose.drives_min) >= 1.0, "{}", purpose.level);
        }
    }

    #[test]
    fn the_space_of_a_purpose_is_what_its_words_say() {
        let space = |level: &str, count: usize| {
            PURPOSES.iter().find(|purpose| purpose.level == level).map(|purpose| purpose.data_drives(count))
        };
        for (level, space_of_eight) in [("6", 6.0), ("10", 4.0), ("5", 7.0), ("1", 1.0), ("60", 4.0), ("0", 8.0), ("jbod", 8.0)] {
            assert_eq!(space(level, 8), Some(space_of_eight), "{level}");
        }
        assert_eq!(space("10", 5), Some(2.5));
    }

    #[test]
    fn drives_are_numbers_of_the_list_or_paths() {
        assert!(chosen("1", &[]).unwrap_err().contains("no drive 1"));
        assert_eq!(chosen("/dev/null", &[]), Ok(vec![PathBuf::from("/dev/null")]));
        assert!(chosen("/dev/null /dev/null", &[]).unwrap_err().contains("twice"));
        assert!(chosen("/no/such/drive", &[]).unwrap_err().contains("not there"));
    }
}
