//! The limit of this process on its memory: a program that reaches it in the middle of its work ends there, without a word.

use crate::size::show;
use std::fs;

/// 256 MiB: programs, their libraries and the stacks of some threads need less.
const BYTES_MIN: u64 = 256 << 20;

/// A limit: its line in `/proc/PID/limits`, the option of `ulimit`, and the setting of a systemd unit.
const LIMITS: [(&str, &str, &str); 2] =
    [("Max address space", "ulimit -v", "LimitAS"), ("Max data size", "ulimit -d", "LimitDATA")];

/// The limits that a process has, in bytes.
fn set(page: &str) -> impl Iterator<Item = (u64, &'static str, &'static str)> {
    let soft = |name| page.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok());
    LIMITS.into_iter().filter_map(move |(name, option, setting)| Some((soft(name)?, option, setting)))
}

fn too_small_in(page: &str) -> Option<String> {
    let (bytes, option, setting) = set(page).find(|(bytes, ..)| *bytes < BYTES_MIN)?;
    let (bytes, least) = (show(bytes), show(BYTES_MIN));
    Some(format!(
        "this program may use {bytes} of memory only: raise the limit that `{option}` shows to {least} or more ({setting}= in a \
         systemd unit)"
    ))
}

fn page() -> String {
    fs::read_to_string("/proc/self/limits").unwrap_or_default()
}

/// The reason why no command can run within the present limits, if one is too small.
pub(crate) fn too_small() -> Option<String> {
    too_small_in(&page())
}

/// What a limit means for a process that serves for long, if there is one.
pub fn memory_limit_warning() -> Option<String> {
    let page = page();
    let (bytes, option, setting) = set(&page).next()?;
    Some(format!(
        "this process may use {} of memory only, and ends when a thread or a request needs more: lift the limit that `{option}` shows \
         ({setting}=infinity in a systemd unit)",
        show(bytes)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_leaves_too_little_is_named() {
        let page = |space: &str, data: &str| {
            format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max data size             {data}            unlimited            bytes     \n\
                 Max address space         {space}            unlimited            bytes     \n"
            )
        };
        assert_eq!(too_small_in(&page("unlimited", "unlimited")), None);
        assert_eq!(too_small_in(&page("268435456", "unlimited")), None);
        let words = too_small_in(&page("61440000", "unlimited")).expect("too small");
        assert!(words.contains("`ulimit -v`") && words.contains("256 MiB or more"), "{words}");
        assert!(too_small_in(&page("unlimited", "1024")).expect("too small").contains("`ulimit -d`"));
        assert_eq!(too_small(), None);
    }
}
