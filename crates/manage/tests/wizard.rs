//! Goal: `stria create` without arguments asks three questions on a terminal, shows the command that follows, and makes the array
//! only when that is confirmed. Method: a real terminal by `script` (util-linux), answers on its input, image files.

mod support;

use std::io::{Read, Write};
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

/// Before, the answer to a question about one content overwrote another that had come meanwhile, as only `create` compared the
/// two.
#[test]
fn a_drive_that_has_changed_since_the_question_is_not_overwritten() {
    let place = Place::new();
    let images = place.images(7, 64 * MIB);
    for (name, drives) in [("tank", &images[..3]), ("old", &images[3..5]), ("dear", &images[5..])] {
        let made =
            [&["create", name, "--level", "1", "--assume-clean"], &drives.iter().map(String::as_str).collect::<Vec<_>>()[..]];
        place.ok(&made.concat());
    }
    let _serve = place.serve(&[&images[0], &images[1], &images[2]]);
    let dear = std::fs::read(&images[5]).expect("an image");
    for command in [format!("add tank {}", images[3]), format!("replace tank {} {}", images[0], images[3])] {
        std::fs::copy(&images[4], &images[3]).expect("an image");
        let mut terminal = place.command_line("script", &["-qec", &format!("{} {command}", stria().display()), "/dev/null"]);
        let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script is part of util-linux");
        let (mut input, mut output) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let mut shown = Vec::new();
        while !String::from_utf8_lossy(&shown).contains("Overwrite?") {
            let mut byte = [0];
            assert_eq!(output.read(&mut byte).expect("it speaks"), 1, "{}", String::from_utf8_lossy(&shown));
            shown.push(byte[0]);
        }
        assert!(String::from_utf8_lossy(&shown).contains("\"old\""), "{}", String::from_utf8_lossy(&shown));
        std::fs::write(&images[3], &dear).expect("an image");
        writeln!(input, "y").expect("the terminal takes it");
        output.read_to_end(&mut shown).expect("it ends");
        let (code, shown) = (child.wait().expect("it ends").code(), String::from_utf8_lossy(&shown).into_owned());
        drop(input);
        assert!(code == Some(1) && shown.contains("than what was confirmed"), "{code:?} {shown}");
        assert!(std::fs::read(&images[3]).expect("an image") == dear, "{command}: it was overwritten");
    }
    // What has not changed is overwritten.
    std::fs::copy(&images[4], &images[3]).expect("an image");
    let mut terminal =
        place.command_line("script", &["-qec", &format!("{} add tank {}", stria().display(), images[3]), "/dev/null"]);
    let mut child = terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script is part of util-linux");
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(input, "y").expect("the terminal takes it");
    let output = child.wait_with_output().expect("it ends");
    drop(input);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
