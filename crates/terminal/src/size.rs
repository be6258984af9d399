//! Sizes in the form that people write and read.

/// Bytes of a size such as `64K`, `1GiB`, `2TB` or `2048s`: K, M, G, T and KiB … are powers of 1024, KB … powers of
/// 1000, `s` is a sector of 512 bytes, and a bare number is bytes.
///
/// # Errors
/// A sentence with the valid forms.
pub fn parse(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let bytes_per_unit: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "s" => 512,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(format!("\"{text}\" is not a size: write it like 64K, 1MiB, 1.5GiB, 2TB or 2048s (sectors)")),
    };
    let whole = number.parse::<u64>().ok().and_then(|number| number.checked_mul(bytes_per_unit));
    let bytes = whole.or_else(|| {
        let bytes = number.parse::<f64>().ok()? * bytes_per_unit as f64;
        (number.contains('.') && bytes.fract() == 0.0 && bytes < 9e15).then_some(bytes as u64)
    });
    bytes.ok_or_else(|| format!("\"{text}\" is not a whole number of bytes that fits 64 bits: write it like 64K or 1.5GiB"))
}

/// As [`parse`], in sectors.
///
/// # Errors
/// As [`parse`], and when it is no multiple of a sector.
pub fn parse_sectors(text: &str) -> Result<u64, String> {
    match parse(text)? {
        bytes if bytes.is_multiple_of(512) => Ok(bytes / 512),
        bytes => Err(format!("{bytes} bytes are not whole sectors of 512 bytes: round the size")),
    }
}

pub use stria_block::show_size as show;

/// Seconds as `1 h 02 min`, `3 min 20 s` or `7 s`.
pub fn show_duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        let cases = [("64K", 65536), ("1GiB", 1 << 30), ("1.5m", 3 << 19), ("2TB", 2_000_000_000_000), ("8s", 4096), ("0", 0)];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "64X", "-1K", "1e3", "0.3", "99999999999T", "1.2.3K"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse_sectors("4K"), Ok(8));
        assert!(parse_sectors("100").is_err());
    }

    #[test]
    fn sizes_show_short() {
        let cases = [(0, "0 B"), (512, "512 B"), (65536, "64 KiB"), (3 << 29, "1.5 GiB"), (1_000_000, "976.6 KiB")];
        for (bytes, shown) in cases {
            assert_eq!(show(bytes), shown);
        }
        assert_eq!((show_duration(7).as_str(), show_duration(3720).as_str()), ("7 s", "1 h 02 min"));
    }
}
