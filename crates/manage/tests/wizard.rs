//! Goal: `stria create` without arguments asks three questions on a terminal, shows the command that follows, and makes the array only when that
//! is confirmed. Method: a real terminal by `script` (util-linux), answers on its input, image files.

mod support;

use std::io::Write;
use std::process::{Command, Stdio};
use support::{Place, stria};

const MIB: u64 = 1 << 20;

/// Returns what the terminal showed when these lines were typed, and the exit code.
fn typed(place: &Place, lines: &[&str]) -> (String, i32) {
    let mut command = Command::new("script");
    command.args(["-qec", &format!("{} create", stria().display()), "/dev/null"]);
    command.current_dir(place.path("")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("script is part of util-linux");
    let mut input = child.stdin.take().expect("a pipe");
    for line in lines {
        writeln!(input, "{line}").expect("the terminal takes it");
    }
    // The end of the input would be typed as Ctrl-D.
    let output = child.wait_with_output().expect("it ends");
    drop(input);
    (String::from_utf8_lossy(&output.stdout).replace('\r', ""), output.status.code().expect("no signal"))
}

#[test]
fn three_answers_make_an_array_and_show_the_command_for_it() {
    let place = Place::new();
    let images = place.images(5, 64 * MIB);
    let drives = images[..4].join(" ");
    let answers = ["9", "1", "d0 d1", "d0 d1 d2 d0", "d0 d1 d2 nowhere", &drives, "5K", "", "a/b", "vault", "y"];
    let (shown, code) = typed(&place, &answers);
    assert_eq!(code, 0, "{shown}");
    for words in [
        "1. What is the array for?",
        "survives any 2 failures",
        "a small random write costs six requests",
        "a number from 1 to 7",
        "2. On which drives?",
        "RAID 6 needs 4 drives at least",
        "named twice",
        "is not there",
        "3. How large is a strip",
        "a power of two from 4K to 1M",
        "without slashes",
        "About 128 MiB of space on 4 drives",
        &format!("stria create vault --level 6 {drives}"),
        "array \"vault\" is made: RAID 6",
    ] {
        assert!(shown.contains(words), "\"{words}\" is not in {shown}");
    }
    place.run(&[&["assemble"], &images[..4].iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
}

#[test]
fn what_is_not_confirmed_is_not_done() {
    let place = Place::new();
    let images = place.images(2, 64 * MIB);
    let before = support::contents(&images);
    let (shown, code) = typed(&place, &["4", &images.join(" "), "tank", "n"]);
    assert!(code == 4 && shown.contains("RAID 1 has none") && shown.contains("nothing was done"), "{code}: {shown}");
    assert!(support::contents(&images) == before, "nothing was written");
    // Without a terminal the command asks nothing.
    place.run(&["create"]).refused(2, &["--level", "NAME"]);
}
