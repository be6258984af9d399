//! Sentences for people, which programs can tell apart.
//!
//! A sentence is declared once: its code, its values with their types, and its English text. The text is what
//! [`Display`](std::fmt::Display) gives; JSON has `{"code": "member-in-sync", "values": {"drive": "/dev/sdb", "slot": 2}}`. With
//! these a client words the sentence in its reader's language, and `docs/openapi.json` lists every code with its English and the
//! types of its values. A code stays when its text changes.
//!
//! What stands between backticks is a command, and each value in it a word of a shell.
//!
//! It does not know what the sentences are about.

#![forbid(unsafe_code)]

pub use schemars;
pub use serde;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt;
use stria_block::{of_shell_word, shell_word};

#[cfg(test)]
extern crate self as stria_sentence;

/// Declares the sentences of one subject. The values of a sentence are named in its text, as in `format!`.
#[macro_export]
macro_rules! sentences {
    ($(#[$about:meta])* pub enum $name:ident { $($code:ident { $($value:ident: $type:ty),* $(,)? } => $english:literal,)* }) => {
        $(#[$about])*
        #[allow(missing_docs)] // The text of a sentence is its description.
        #[derive(Clone, Debug, PartialEq, Eq, $crate::serde::Serialize, $crate::serde::Deserialize, $crate::schemars::JsonSchema)]
        #[serde(crate = "stria_sentence::serde", tag = "code", content = "values", rename_all = "kebab-case")]
        #[schemars(crate = "stria_sentence::schemars")]
        pub enum $name {
            $(#[doc = $english] $code { $($value: $type),* },)*
        }

        impl $name {
            /// Each variant with its English, whose values stand in braces.
            pub const TEXTS: &'static [(&'static str, &'static str)] = &[$((::std::stringify!($code), $english)),*];
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let place = $crate::Place::default();
                match self {
                    $(Self::$code { $($value),* } => {
                        $(let $value = place.of(::std::stringify!($value), $value);)*
                        ::std::fmt::Write::write_fmt(&mut place.writer(f), ::std::format_args!($english))
                    })*
                }
            }
        }
    };
}

/// The value that holds several words of a command, made by its caller.
const WORDS: &str = "words";

/// Where the writing of a sentence stands.
#[derive(Debug, Default)]
pub struct Place {
    in_command: Cell<bool>,
    in_value: Cell<bool>,
}

impl Place {
    /// A value of the sentence.
    pub fn of<'a, T>(&'a self, name: &'static str, value: &'a T) -> Value<'a, T> {
        Value { place: self, name, value }
    }

    /// What the sentence is written to.
    pub fn writer<'a, 'b>(&'a self, to: &'a mut fmt::Formatter<'b>) -> Writer<'a, 'b> {
        Writer { place: self, to }
    }
}

/// Notes where commands begin and end in the English.
#[allow(missing_debug_implementations)] // A formatter has none.
pub struct Writer<'a, 'b> {
    place: &'a Place,
    to: &'a mut fmt::Formatter<'b>,
}

impl fmt::Write for Writer<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !self.place.in_value.get() {
            let ends = text.matches('`').count();
            self.place.in_command.set(self.place.in_command.get() ^ (ends % 2 == 1));
        }
        self.to.write_str(text)
    }
}

/// A value of a sentence, as it stands there: within a command it is a word of a shell.
pub struct Value<'a, T> {
    place: &'a Place,
    name: &'static str,
    value: &'a T,
}

impl<T> Value<'_, T> {
    fn written(&self, write: impl FnOnce() -> fmt::Result) -> fmt::Result {
        self.place.in_value.set(true);
        let written = write();
        self.place.in_value.set(false);
        written
    }
}

impl<T: fmt::Display> fmt::Display for Value<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_word = self.place.in_command.get() && self.name != WORDS;
        self.written(|| if is_word { f.write_str(&shell_word(&self.value.to_string())) } else { self.value.fmt(f) })
    }
}

impl<T: fmt::Debug> fmt::Debug for Value<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written(|| self.value.fmt(f))
    }
}

/// Several names, which stand in a text with commas between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Names(pub Vec<String>);

impl<T: Into<String>> FromIterator<T> for Names {
    fn from_iter<I: IntoIterator<Item = T>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// Values that hold the sentences of another value's text. They add nothing to the English.
pub const SILENT: [&str; 3] = ["cause", "causes", "ends"];

/// Reads a text that was made without its sentence: the first of these whose English gives this very text. `of`: makes a sentence
/// of a code and the texts of its values. A value that stands beside another one in the text cannot be told from it. Those of
/// [`SILENT`] names have no text.
pub fn read<T: fmt::Display>(
    texts: impl IntoIterator<Item = (&'static str, &'static str)>,
    text: &str,
    of: impl Fn(String, &[(&str, &str)]) -> Option<T>,
) -> Option<T> {
    texts.into_iter().find_map(|(code, english)| {
        let english = SILENT.iter().fold(english.to_owned(), |english, name| english.replace(&format!("{{{name}}}"), ""));
        let found = values(&english, text)?;
        let values: Vec<(&str, &str)> = found.iter().map(|(name, value)| (*name, &**value)).collect();
        let said = of(kebab(code), &values)?;
        (said.to_string() == text).then_some(said)
    })
}

/// The values of a text by its English: each is as short as possible.
fn values<'a>(english: &'a str, text: &str) -> Option<Vec<(&'a str, String)>> {
    let (first, rest) = english.split_once('{').unwrap_or((english, ""));
    let mut left = text.strip_prefix(first)?;
    let mut found: Vec<(&str, String)> = Vec::new();
    let mut in_command = first.matches('`').count() % 2 == 1;
    let mut holes = rest.split('{').filter(|hole| !hole.is_empty()).peekable();
    while let Some(hole) = holes.next() {
        let (name, literal) = hole.split_once('}')?;
        let end = if holes.peek().is_none() { left.strip_suffix(literal)?.len() } else { left.find(literal)? };
        let value = if in_command && name != WORDS { of_shell_word(&left[..end])? } else { left[..end].to_owned() };
        left = &left[end + literal.len()..];
        in_command ^= literal.matches('`').count() % 2 == 1;
        match found.iter().find(|(known, _)| *known == name) {
            Some((_, before)) if *before != value => return None,
            Some(_) => {}
            None => found.push((name, value)),
        }
    }
    left.is_empty().then_some(found)
}

/// `MemberInSync` as a code: `member-in-sync`.
fn kebab(variant: &str) -> String {
    let mut code = String::new();
    for letter in variant.chars() {
        if letter.is_ascii_uppercase() && !code.is_empty() {
            code.push('-');
        }
        code.push(letter.to_ascii_lowercase());
    }
    code
}

/// Reads the sentence of a record that another version may have written: `None` if its code is unknown here.
///
/// # Errors
/// When it is no JSON.
pub fn if_known<'de, D: serde::Deserializer<'de>, T: serde::de::DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either<T> {
        Known(T),
        Unknown(serde::de::IgnoredAny),
    }
    Ok(match Option::<Either<T>>::deserialize(from)? {
        Some(Either::Known(said)) => Some(said),
        Some(Either::Unknown(_)) | None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::{Names, if_known, read};
    use serde_json::{Map, Value, json};

    sentences! {
        /// What the tests say.
        pub enum Said {
            SlotsAreFree { slots: Names, count: u64 } => "{count} slots are free: {slots}",
            NothingIsFree {} => "nothing is free",
            IsIn { drive: String, slot: u64 } => "{drive} is in slot {slot}; `remove {drive}` takes it out",
            Erased { words: String, drive: String } => "erased: repeat `wipe {words}` for {drive}",
        }
    }

    #[test]
    fn a_text_without_its_sentence_is_read_if_the_english_gives_it() {
        let of = |code: String, values: &[(&str, &str)]| {
            let value = |text: &str| text.parse::<u64>().map_or(json!(text), |number| json!(number));
            let values: Map<String, Value> = values.iter().map(|(name, text)| ((*name).to_owned(), value(text))).collect();
            serde_json::from_value::<Said>(json!({"code": code, "values": values})).ok()
        };
        let told = |text: &str| -> Option<Said> { read(Said::TEXTS.iter().copied(), text, of) };
        assert_eq!(told("nothing is free"), Some(Said::NothingIsFree {}));
        let said = Said::IsIn { drive: "a is in slot b".into(), slot: 3 };
        assert_eq!(told(&said.to_string()), None, "the shortest value is not this one");
        let said = Said::IsIn { drive: "/dev/a".into(), slot: 3 };
        assert_eq!(told(&said.to_string()), Some(said));
        for other in [
            "nothing is free.",
            "",
            "/dev/a is in slot x; `remove /dev/a` takes it out",
            "/dev/a is in slot 3; `remove /dev/b` takes it out",
        ] {
            assert_eq!(told(other), None, "{other}");
        }
    }

    #[test]
    fn a_value_is_a_word_of_a_shell_within_a_command_alone() {
        let of = |code: String, values: &[(&str, &str)]| {
            let value = |(name, text): &(&str, &str)| ((*name).to_owned(), if *name == "slot" { json!(3) } else { json!(text) });
            serde_json::from_value::<Said>(json!({"code": code, "values": values.iter().map(value).collect::<Map<_, _>>()})).ok()
        };
        for (drive, text) in [
            ("/dev/my disk", "/dev/my disk is in slot 3; `remove '/dev/my disk'` takes it out"),
            ("it's", r"it's is in slot 3; `remove 'it'\''s'` takes it out"),
            // What a value holds begins and ends no command.
            ("a`b", "a`b is in slot 3; `remove 'a`b'` takes it out"),
        ] {
            let said = Said::IsIn { drive: drive.into(), slot: 3 };
            assert_eq!(said.to_string(), text);
            assert_eq!(read(Said::TEXTS.iter().copied(), text, of), Some(said), "{text}");
        }
        let said = Said::Erased { words: "'a b' c --discard".into(), drive: "a b".into() };
        assert_eq!(said.to_string(), "erased: repeat `wipe 'a b' c --discard` for a b");
        assert_eq!(read(Said::TEXTS.iter().copied(), &said.to_string(), of), Some(said));
    }

    #[test]
    fn a_sentence_has_its_text_its_code_and_its_values() {
        let said = Said::SlotsAreFree { slots: ["3", "5"].into_iter().collect(), count: 2 };
        assert_eq!(said.to_string(), "2 slots are free: 3, 5");
        let json = json!({"code": "slots-are-free", "values": {"slots": ["3", "5"], "count": 2}});
        assert_eq!(serde_json::to_value(&said).unwrap(), json);
        assert_eq!(serde_json::from_value::<Said>(json).unwrap(), said);
        assert_eq!(serde_json::to_value(Said::NothingIsFree {}).unwrap(), json!({"code": "nothing-is-free", "values": {}}));
    }

    #[test]
    fn a_record_of_another_version_is_read() {
        #[derive(serde::Deserialize)]
        struct Record {
            #[serde(default, deserialize_with = "if_known")]
            said: Option<Said>,
        }
        let read = |said: serde_json::Value| serde_json::from_value::<Record>(json!({ "said": said })).unwrap().said;
        assert_eq!(read(json!({"code": "nothing-is-free", "values": {}})), Some(Said::NothingIsFree {}));
        assert_eq!(read(json!({"code": "of-tomorrow", "values": {"a": [1, {"b": null}]}})), None);
        assert_eq!(read(json!(null)), None);
        assert!(serde_json::from_value::<Record>(json!({})).unwrap().said.is_none(), "of yesterday");
    }

    #[test]
    fn the_schema_has_every_code_with_its_text() {
        let schema = serde_json::to_value(schemars::schema_for!(Said)).unwrap();
        let kinds = schema["oneOf"].as_array().expect("one schema a sentence");
        let seen: Vec<_> =
            kinds.iter().map(|kind| (kind["properties"]["code"]["const"].clone(), kind["description"].clone())).collect();
        assert_eq!(
            seen,
            [
                (json!("slots-are-free"), json!("{count} slots are free: {slots}")),
                (json!("nothing-is-free"), json!("nothing is free")),
                (json!("is-in"), json!("{drive} is in slot {slot}; `remove {drive}` takes it out")),
                (json!("erased"), json!("erased: repeat `wipe {words}` for {drive}"))
            ]
        );
    }
}
