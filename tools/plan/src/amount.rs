//! Amounts in words: with as many digits as they need, in a unit that fits.

/// 9: the most digits of two amounts that are compared. Source: none; amounts that differ by less are shown as equal.
const DIGITS_MAX: usize = 9;

/// The power of ten of a number's first digit, after it was rounded to so many digits.
fn power(value: f64, digits: usize) -> i32 {
    let text = format!("{value:.0$e}", digits - 1);
    text.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0)
}

/// A number in `digits` significant digits. Digits before the point are never cut.
fn in_digits(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value:.0}");
    }
    let power = power(value, digits);
    if power < -4 {
        return format!("{value:.0$e}", digits - 1);
    }
    format!("{value:.0$}", usize::try_from(digits as i32 - 1 - power).unwrap_or(0))
}

/// A number in three significant digits: "24.0", "1.44", "30200", "0.00400".
pub fn number(value: f64) -> String {
    in_digits(value, 3)
}

/// A number in two significant digits, with an exponent where it is long: "190", "9.5e4".
pub fn rough(value: f64) -> String {
    let text = format!("{value:.1e}");
    match text.parse::<f64>() {
        Ok(rounded @ 10.0..1e4) => rounded.to_string(),
        _ => text,
    }
}

/// A space in so many digits; `of` chooses the unit.
fn space_in(bytes: f64, of: f64, digits: usize) -> String {
    let units = [(1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    // Rounded before, so that 999.9 GB are 1.00 TB.
    let rounded: f64 = format!("{of:.2e}").parse().unwrap_or(of);
    match units.into_iter().find(|(unit, _)| rounded >= *unit) {
        Some((unit, name)) => format!("{} {name}", in_digits(bytes / unit, digits)),
        None => format!("{} bytes", in_digits(bytes, digits)),
    }
}

/// Bytes: "24.0 TB", "120 GB".
pub fn space(bytes: f64) -> String {
    space_in(bytes, bytes, 3)
}

/// 1,000: two spaces that differ by more have each its own unit.
const ONE_UNIT_MAX: f64 = 1e3;

/// Two spaces in one unit, with as many digits as it takes to tell them apart. Spaces that are far apart have each its own unit.
pub fn spaces(one: f64, other: f64) -> (String, String) {
    if one.max(other) > ONE_UNIT_MAX * one.min(other) {
        return (space(one), space(other));
    }
    let both = |digits| (space_in(one, one.max(other), digits), space_in(other, one.max(other), digits));
    let apart = (3..=DIGITS_MAX).map(both).find(|(one, other)| one != other);
    apart.unwrap_or_else(|| both(3))
}

/// Money as it was given, or a multiple of it: all digits, without the rounding errors of binary fractions.
pub fn money(value: f64) -> String {
    let exact = format!("{value:.11e}").parse().unwrap_or(value);
    if exact == 0.0 || (1e-6..=1e15).contains(&f64::abs(exact)) { exact.to_string() } else { format!("{exact:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_their_digits() {
        let numbers = [(24.0, "24.0"), (1.4403, "1.44"), (30_249.0, "30249"), (0.004, "0.00400"), (99.96, "100"), (0.0, "0")];
        for (value, words) in numbers {
            assert_eq!(number(value), words);
        }
        for (bytes, words) in [
            (120.034e9, "120 GB"),
            (1.44e12, "1.44 TB"),
            (1e9, "1.00 GB"),
            (999.9e9, "1.00 TB"),
            (4096.0, "4.10 kB"),
            (12.0, "12.0 bytes"),
            (2.5e16, "25.0 PB"),
        ] {
            assert_eq!(space(bytes), words);
        }
        assert_eq!((rough(95_000.0), rough(150_000.0)), ("9.5e4".to_owned(), "1.5e5".to_owned()));
        assert_eq!([188.0, 9_940.0, 9_960.0, 12.0, 0.004].map(rough), ["190", "9900", "1.0e4", "12", "4.0e-3"]);
    }

    #[test]
    fn two_spaces_are_told_apart() {
        let words = |one, other| {
            let (one, other) = spaces(one, other);
            format!("{one}, {other}")
        };
        assert_eq!(words(125e9, 120e9), "125 GB, 120 GB");
        assert_eq!(words(1.4405e12, 1.4403e12), "1.4405 TB, 1.4403 TB");
        assert_eq!(words(2e12, 120e9), "2.00 TB, 0.120 TB");
        // A petabyte was asked for, and the answer was that the largest array holds 0.000480 PB.
        assert_eq!(words(1e15, 480e9), "1.00 PB, 480 GB");
    }

    /// Messages named "a budget of at least 0.30000000000000004", and a price of 0 for 0.004.
    #[test]
    fn money_is_what_was_named() {
        for (value, words) in [
            (0.1 * 3.0, "0.3"),
            (0.004, "0.004"),
            (3600.0, "3600"),
            (8.0 * 449.99, "3599.92"),
            (1e12, "1000000000000"),
            (1e-9, "1e-9"),
        ] {
            assert_eq!(money(value), words);
        }
    }
}
