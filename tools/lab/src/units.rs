//! Sizes and durations in text form.

use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Bytes of a size such as `4K`, `0.5K`, `1GiB` or `2TB`: K, M, G, T are powers of 1024, KB … powers of 1000.
///
/// # Errors
/// A sentence with the valid forms.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (base, power) = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => (1024_f64, 0),
        "k" | "kib" => (1024.0, 1),
        "m" | "mib" => (1024.0, 2),
        "g" | "gib" => (1024.0, 3),
        "t" | "tib" => (1024.0, 4),
        "kb" => (1000.0, 1),
        "mb" => (1000.0, 2),
        "gb" => (1000.0, 3),
        "tb" => (1000.0, 4),
        _ => return Err(format!("\"{text}\" is not a size: write it like 4K, 1MiB, 1.5GiB or 2TB")),
    };
    let bytes = number.parse::<f64>().ok().map(|number| number * base.powi(power)).filter(|bytes| bytes.fract() == 0.0);
    match bytes.filter(|bytes| (0.0..9e15).contains(bytes)) {
        Some(bytes) => Ok(bytes as u64),
        None => Err(format!("\"{text}\" is not a whole number of bytes: write it like 4K, 1MiB, 1.5GiB or 2TB")),
    }
}

/// `4 KiB`, `512 B`, `1.5 GiB`.
pub fn show_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (1..UNITS.len()).rev().find(|&unit| bytes >> (10 * unit) > 0).unwrap_or(0);
    let value = bytes as f64 / (1_u64 << (10 * unit)) as f64;
    format!("{value:.*} {}", usize::from(value.fract() != 0.0), UNITS[unit])
}

/// `1 h 02 min`, `3 min 20 s`, `7 s`.
pub fn show_seconds(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match (whole / 86400, whole / 3600 % 24, whole / 60 % 60, whole % 60) {
        // "0 s" would be said of them.
        (0, 0, 0, _) if seconds > 0.0 && seconds < 0.05 => format!("{} ms", (seconds * 1e5).round().max(1.0) / 100.0),
        (0, 0, 0, _) if seconds < 10.0 => format!("{} s", (seconds * 10.0).round() / 10.0),
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes:02} min"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}

/// Bytes, in an experiment a number or a text such as `"64K"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Size(pub u64);

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizeVisitor;
        impl Visitor<'_> for SizeVisitor {
            type Value = Size;

            fn expecting(&self, out: &mut fmt::Formatter) -> fmt::Result {
                out.write_str("a size such as \"64K\"")
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Size, E> {
                u64::try_from(value).map(Size).map_err(|_| E::custom(format!("{value} is not a size: it is negative")))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Size, E> {
                Ok(Size(value))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                parse_size(text).map(Size).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(SizeVisitor)
    }
}

/// A number of any size, in a bounded length: `0.5`, `1e308`.
pub fn show_number(number: f64) -> String {
    if number.abs() >= 1e18 { format!("{number:e}") } else { number.to_string() }
}

/// A number with its noun: `1 pass`, `3 passes`.
pub fn counted(count: u32, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        for (text, bytes) in [("0.5K", 512), ("4K", 4096), ("1.5GiB", 3 << 29), ("2TB", 2_000_000_000_000), ("7", 7)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "4X", "-4K", "0.3"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        assert_eq!((show_size(512), show_size(3 << 29)), ("512 B".into(), "1.5 GiB".into()));
        assert_eq!(
            (show_seconds(0.0), show_seconds(0.0189), show_seconds(0.05)),
            ("0 s".into(), "18.9 ms".into(), "0.1 s".into())
        );
        assert_eq!(
            (show_seconds(1.25), show_seconds(61.0), show_seconds(90000.0)),
            ("1.3 s".into(), "1 min 01 s".into(), "1 d 1 h".into())
        );
    }
}
