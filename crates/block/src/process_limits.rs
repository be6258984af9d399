//! The limits of a process that a shell's `ulimit` shows. The system names none of them: it gives an error number.

/// The remedy where the system gives no thread and no process (EAGAIN of clone(2)).
pub const NO_THREAD: &str = "raise the limit that `ulimit -u` shows (TasksMax= in a systemd unit)";

/// The system's words, and the remedy. Longer words come first.
const REMEDIES: [(&str, &str); 4] = [
    ("Too many open files in system", "raise sysctl fs.file-max"),
    ("Too many open files", "raise the limit that `ulimit -n` shows (LimitNOFILE= in a systemd unit)"),
    (
        "Cannot allocate memory",
        "free memory, or raise the limits that `ulimit -v` and, for io_uring, `ulimit -l` show (LimitAS= and LimitMEMLOCK= in a \
         systemd unit)",
    ),
    ("failed to map segment from shared object", "raise the limit that `ulimit -v` shows (LimitAS= in a systemd unit)"),
];

/// A sentence about a failure, followed by the limit to raise if it has the system's words for one that was reached, and does
/// not name it yet.
pub fn with_limit(sentence: &str) -> String {
    let is_named = |remedy: &str| sentence.contains("`ulimit") || sentence.contains(remedy);
    let remedy = REMEDIES.iter().find(|(words, _)| sentence.contains(words)).filter(|(_, remedy)| !is_named(remedy));
    remedy.map_or_else(|| sentence.to_owned(), |(_, remedy)| format!("{sentence}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_was_reached_is_named_once() {
        for (number, limit) in [(24, "`ulimit -n`"), (23, "fs.file-max"), (12, "`ulimit -l`")] {
            let sentence = format!("/dev/sdb: cannot open: {}", std::io::Error::from_raw_os_error(number));
            let told = with_limit(&sentence);
            assert!(told.starts_with(&sentence) && told.contains(limit), "{told}");
            assert_eq!(with_limit(&told), told);
        }
        let loader = "fio: error while loading shared libraries: libm.so: failed to map segment from shared object";
        assert!(with_limit(loader).contains("`ulimit -v`"));
        assert_eq!(with_limit("/dev/sdb: cannot open: Input/output error"), "/dev/sdb: cannot open: Input/output error");
    }
}
