//! Text from outside, made safe to print.
//!
//! Names come from drives that anybody may plug in, and from clients; they reach terminals and logs. Printed as they are, an
//! escape sequence commands the terminal, a newline forges a line, and marks that turn the direction of writing or pile up on a
//! letter lie about the text. [`Shown`] alone decides what may be printed of such text. JSON stores it as it is, with its own
//! escapes.

use std::fmt::{self, Write};

/// 512: a longer text is cut, and ends with an ellipsis. None of Stria's names is as long.
const CHARS_MAX: usize = 512;
/// Marks that one letter may carry: Vietnamese and Hebrew need two, and three are still legible.
const MARKS_MAX: usize = 3;

/// A text that prints as one line of visible characters: control characters, line ends, marks of writing direction, invisible
/// characters and heaps of combining marks are escaped as in Rust and JSON.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    text: &'a str,
    lines: bool,
    chars_max: usize,
}

/// For a name within a sentence, or within one of several lines.
pub fn shown(text: &str) -> Shown<'_> {
    Shown { text, lines: false, chars_max: CHARS_MAX }
}

/// For a whole sentence. It prints as one line, whatever the names in it hold.
pub fn shown_sentence(text: &str) -> Shown<'_> {
    Shown { text, lines: false, chars_max: usize::MAX }
}

/// For a name in a line that is parsed by its blanks: those of the name are escaped too, so that it ends where it should and
/// gives no further field.
pub fn shown_field(text: &str) -> String {
    shown(text).to_string().replace(' ', "\\u{20}")
}

/// For text of several lines: line ends and tabs stay, so names in it must have gone through [`shown`] before.
pub fn shown_lines(text: &str) -> Shown<'_> {
    Shown { text, lines: true, chars_max: usize::MAX }
}

/// True if a text prints as it is.
pub fn is_plain(text: &str) -> bool {
    shown_sentence(text).to_string() == text
}

/// Text as one word of a POSIX shell, for a command that a message suggests: quoted if it would not be read as it is.
#[inline]
pub fn shell_word(text: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "/._-+:@%=,".contains(char);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// The text that [`shell_word`] made a word of; `None`: it makes no such word.
#[inline]
pub fn of_shell_word(word: &str) -> Option<String> {
    let quoted = word.strip_prefix('\'').and_then(|word| word.strip_suffix('\''));
    let text = quoted.map_or_else(|| word.to_owned(), |text| text.replace("'\\''", "'"));
    (shell_word(&text) == word).then_some(text)
}

/// JSON that prints the same on any terminal: invisible characters within its strings are escaped, as JSON allows for any
/// character.
pub fn shown_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for char in json.chars() {
        // Line ends stand between values only, where they are white space.
        if char == '\n' || is_visible(char) && !is_mark(char) {
            shown.push(char);
        } else {
            let mut units = [0; 2];
            char.encode_utf16(&mut units).iter().for_each(|unit| shown.push_str(&format!("\\u{unit:04x}")));
        }
    }
    shown
}

/// A size in the largest unit that leaves at most one decimal, or is rounded to one.
// Compiled where it is used: here it changed what is inlined, at 20 instructions of a RAID 6 write.
#[inline]
pub fn show_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (1..UNITS.len()).rev().find(|&unit| bytes >> (10 * unit) > 0).unwrap_or(0);
    let value = bytes as f64 / (1_u64 << (10 * unit)) as f64;
    let digits = usize::from(value.fract() != 0.0);
    format!("{value:.digits$} {}", UNITS[unit])
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut marks = 0;
        for (index, char) in self.text.chars().enumerate() {
            if index >= self.chars_max {
                return f.write_char('…');
            }
            marks = if is_mark(char) { marks + 1 } else { 0 };
            let stays = self.lines && matches!(char, '\n' | '\t');
            match stays || (marks <= MARKS_MAX && is_visible(char) && !(marks > 0 && index == 0)) {
                true => f.write_char(char)?,
                false => write!(f, "{}", escape(char))?,
            }
        }
        Ok(())
    }
}

fn escape(char: char) -> String {
    match char {
        '\n' | '\r' | '\t' => char.escape_default().to_string(),
        _ => format!("\\u{{{:x}}}", u32::from(char)),
    }
}

/// True if a character is visible and affects nothing beside it. The only blank is U+0020: every other one passes for it.
fn is_visible(char: char) -> bool {
    let hidden = matches!(u32::from(char),
        // Those that Unicode has not drawn (Default_Ignorable_Code_Point), with the controls of format beside them (category Cf).
        0xad | 0x34f | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2 | 0x115f..=0x1160 | 0x17b4..=0x17b5
        | 0x180b..=0x180f | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0
        | 0xfff0..=0xfffc | 0x110bd | 0x110cd | 0x13430..=0x1343f | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff
        // Blanks and the ends of lines and paragraphs (category Z), then signs that are drawn blank.
        | 0xa0 | 0x1680 | 0x2000..=0x200a | 0x2028..=0x2029 | 0x202f | 0x205f | 0x3000
        | 0x2800 | 0x13441..=0x13442 | 0x16fe4 | 0x1d159
        // For private use, and no characters at all: the planes from 4 on hold nothing else that is drawn.
        | 0xe000..=0xf8ff | 0xfdd0..=0xfdef | 0xfffe..=0xffff | 0x1fffe..=0x1ffff | 0x2fffe..=0x2ffff | 0x3fffe..);
    !char.is_control() && !hidden
}

/// Marks that combine with the letter before them: those of the blocks made for them, which fonts pile up.
fn is_mark(char: char) -> bool {
    matches!(u32::from(char),
        0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x5bf..=0x5c7 | 0x610..=0x61a | 0x64b..=0x65f | 0x670 | 0x6d6..=0x6ed
        | 0x730..=0x74a | 0x7eb..=0x7f3 | 0x816..=0x82d | 0x8d3..=0x903 | 0xe31 | 0xe34..=0xe3a | 0xe47..=0xe4e
        | 0xeb1 | 0xeb4..=0xebc | 0xec8..=0xece | 0x135d..=0x135f | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff | 0x20d0..=0x20ff
        | 0x2cef..=0x2cf1 | 0x2de0..=0x2dff | 0x302a..=0x302f | 0x3099..=0x309a | 0xa66f..=0xa67d | 0xa8e0..=0xa8f1
        | 0xfe20..=0xfe2f | 0x1d165..=0x1d172 | 0x1e000..=0x1e02a)
}

/// Text as a file name: `[A-Za-z0-9._-]`, not hidden, 1 to 64 characters. Other characters become `_`.
pub fn file_name(text: &str) -> String {
    let char = |char: char| if char.is_ascii_alphanumeric() || "._-".contains(char) { char } else { '_' };
    let name: String = text.chars().map(char).take(64).collect();
    match name.chars().next() {
        None => "_".to_owned(),
        Some('.' | '-') => format!("_{}", &name[1..]),
        Some(_) => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_shown_commands_a_terminal_or_ends_a_line() {
        for (text, expected) in [
            ("tank", "tank"),
            ("host:tank-1", "host:tank-1"),
            ("Größe 大 🦀 naïve", "Größe 大 🦀 naïve"),
            ("a\x1b[31mred", "a\\u{1b}[31mred"),
            ("x\ncontrol /tmp/evil", "x\\ncontrol /tmp/evil"),
            ("x\r\t\x07\x08\x7f", "x\\r\\t\\u{7}\\u{8}\\u{7f}"),
            ("csi\u{9b}2J", "csi\\u{9b}2J"),
            ("a\u{202e}cba\u{2066}", "a\\u{202e}cba\\u{2066}"),
            ("a\u{200b}b\u{feff}", "a\\u{200b}b\\u{feff}"),
            ("line\u{2028}end\u{85}", "line\\u{2028}end\\u{85}"),
            ("tag\u{e0041}", "tag\\u{e0041}"),
            ("o\u{302}\u{301}", "o\u{302}\u{301}"),
            ("\u{301}o", "\\u{301}o"),
            ("C:\\x20", "C:\\x20"),
        ] {
            assert_eq!(shown(text).to_string(), expected);
        }
        let heap = format!("z{}", "\u{336}".repeat(50));
        assert_eq!(shown(&heap).to_string().chars().filter(|char| is_mark(*char)).count(), MARKS_MAX);
        let every: String = (0..=0x10_ffff).filter_map(char::from_u32).collect();
        let lines = shown_lines(&every).to_string();
        assert!(lines.chars().all(|char| matches!(char, '\n' | '\t') || (!char.is_control() && is_visible(char))));
        assert_eq!(shown(&"long ".repeat(1000)).to_string().chars().count(), CHARS_MAX + 1);
        assert_eq!(
            shown_json("{\"n\":\"a\u{9b}\u{202e}\u{1f980}\u{e0041}o\u{301}\"}\n"),
            "{\"n\":\"a\\u009b\\u202e\u{1f980}\\udb40\\udc41o\\u0301\"}\n"
        );
        assert_eq!(shown_lines("two\nlines\x1b").to_string(), "two\nlines\\u{1b}");
        assert_eq!(shown_field("x kind=stopped\n"), "x\\u{20}kind=stopped\\n");
    }

    /// Every code point, against a table of the classes that Unicode 17 lists: each stands here by itself, as in the standard.
    #[test]
    fn what_is_not_drawn_is_not_printed_whatever_its_class() {
        const CLASSES: [(&str, &[(u32, u32)]); 8] = [
            ("a control character", &[(0, 0x1f), (0x7f, 0x9f)]),
            (
                "ignored where it is drawn",
                &[
                    (0xad, 0xad),
                    (0x34f, 0x34f),
                    (0x61c, 0x61c),
                    (0x115f, 0x1160),
                    (0x17b4, 0x17b5),
                    (0x180b, 0x180f),
                    (0x200b, 0x200f),
                    (0x202a, 0x202e),
                    (0x2060, 0x206f),
                    (0x3164, 0x3164),
                    (0xfe00, 0xfe0f),
                    (0xfeff, 0xfeff),
                    (0xffa0, 0xffa0),
                    (0xfff0, 0xfff8),
                    (0x1bca0, 0x1bca3),
                    (0x1d173, 0x1d17a),
                    (0xe0000, 0xe0fff),
                ],
            ),
            (
                "another control of format",
                &[
                    (0x600, 0x605),
                    (0x6dd, 0x6dd),
                    (0x70f, 0x70f),
                    (0x890, 0x891),
                    (0x8e2, 0x8e2),
                    (0xfff9, 0xfffb),
                    (0x110bd, 0x110bd),
                    (0x110cd, 0x110cd),
                    (0x13430, 0x1343f),
                ],
            ),
            (
                "a blank other than U+0020",
                &[(0xa0, 0xa0), (0x1680, 0x1680), (0x2000, 0x200a), (0x202f, 0x202f), (0x205f, 0x205f), (0x3000, 0x3000)],
            ),
            (
                "a sign that is drawn blank, or stands for an object",
                &[(0x2800, 0x2800), (0xfffc, 0xfffc), (0x13441, 0x13442), (0x16fe4, 0x16fe4), (0x1d159, 0x1d159)],
            ),
            ("the end of a line or paragraph", &[(0x2028, 0x2029)]),
            ("for private use", &[(0xe000, 0xf8ff), (0xf_0000, 0x10_ffff)]),
            ("no character", &[(0xfdd0, 0xfdef), (0x4_0000, 0xd_ffff), (0xe_1000, 0xe_ffff)]),
        ];
        for char in (0..=0x10_ffff).filter_map(char::from_u32) {
            let code = u32::from(char);
            let class = CLASSES.iter().find(|(_, ranges)| ranges.iter().any(|&(first, last)| (first..=last).contains(&code)));
            let class = class.map(|(class, _)| *class).or((code & 0xfffe == 0xfffe).then_some("no character"));
            assert_eq!(is_visible(char), class.is_none(), "U+{code:04X} is {class:?}");
            let text = format!("a{char}b");
            assert!(class.is_none() || !shown(&text).to_string().contains(char), "U+{code:04X}: {class:?}");
            assert_eq!(is_plain(&text), class.is_none(), "U+{code:04X} is {class:?}");
            assert!(class.is_none() || char == '\n' || !shown_json(&text).contains(char), "U+{code:04X}: {class:?}");
        }
    }

    /// A shell reads every word as the text that it was made of, and as that alone.
    #[test]
    fn a_word_is_read_by_a_shell_as_its_text() {
        let all: String = (1..=127_u8).map(char::from).collect();
        let long = ["tank", "/dev/disk/by-id/nvme-QEMU_1:2@3,4=5%+6"];
        let odd = [
            "",
            " ",
            "my array",
            "it's",
            "''",
            "'",
            "a'b'c",
            "$HOME",
            "`id`",
            "a;b",
            "~",
            "*",
            "!",
            "\\",
            "\\'",
            "#1",
            "Größe 大",
            &all,
        ];
        for text in long.iter().chain(&odd) {
            let word = shell_word(text);
            assert_eq!(word == **text, long.contains(text), "{word}: quoted only if needed");
            assert_eq!(of_shell_word(&word).as_deref(), Some(*text));
            let script = format!("printf '%s|' {word}");
            let printed = std::process::Command::new("sh").args(["-c", &script]).output().expect("a shell").stdout;
            assert_eq!(String::from_utf8(printed).expect("text"), format!("{text}|"));
        }
        for no_word in ["", "my array", "'tank'", "'", "'a'b'"] {
            assert_eq!(of_shell_word(no_word), None, "{no_word}");
        }
    }

    #[test]
    fn file_names_are_plain() {
        for (text, expected) in [
            ("tank", "tank"),
            ("../../etc/passwd", "_._.._etc_passwd"),
            ("", "_"),
            (".", "_"),
            ("..", "_."),
            (".hidden", "_hidden"),
            ("-rf", "_rf"),
            ("a b\n\u{202e}ü", "a_b___"),
            ("Tank_1.x-y", "Tank_1.x-y"),
        ] {
            assert_eq!(file_name(text), expected);
        }
        assert_eq!(file_name(&"x".repeat(300)).len(), 64);
    }
}
