use super::*;

fn uuid(digit: char) -> Uuid {
    digit.to_string().repeat(32).parse().expect("a UUID")
}

fn arrays(digits: &[char]) -> Vec<(String, Vec<Uuid>)> {
    digits.iter().map(|digit| (format!("tank{digit}"), vec![uuid(*digit)])).collect()
}

const OWN: &str = "HOMEHOST <system>\nMAILADDR root\n";

#[test]
fn the_block_comes_and_goes_and_leaves_the_rest_as_it_was() {
    let one = with_block(OWN, &arrays(&['a'])).expect("a text");
    assert_eq!(one, format!("{OWN}{BEGIN}\n# tanka\nARRAY <ignore> UUID=aaaaaaaa:aaaaaaaa:aaaaaaaa:aaaaaaaa\n{END}\n"));
    let two = with_block(&one, &arrays(&['a', 'b'])).expect("a text");
    assert_eq!(two.matches("ARRAY <ignore>").count(), 2);
    assert_eq!(with_block(&two, &arrays(&['a'])).expect("a text"), one);
    assert_eq!(with_block(&two, &[]).expect("a text"), OWN);
    assert_eq!(with_block("", &[]).expect("a text"), "");
}

/// mdadm takes the first line that fits, so an older one would win.
#[test]
fn lines_about_the_array_are_hidden_and_come_back() {
    let old = "ARRAY /dev/md/other UUID=bbbbbbbb:bbbbbbbb:bbbbbbbb:bbbbbbbb\narr /dev/md0 metadata=1.2\n   uuid=AAAAAAAA:aaaaaaaa.aaaaaaaa:aaaaaaaa\n";
    let hidden = with_block(old, &arrays(&['a'])).expect("a text");
    assert!(hidden.contains("\n#stria# arr /dev/md0 metadata=1.2\n#stria#    uuid=AAAAAAAA"), "{hidden}");
    assert!(hidden.starts_with("ARRAY /dev/md/other"), "{hidden}");
    assert_eq!(with_block(&hidden, &arrays(&['a'])).expect("a text"), hidden, "twice is as once");
    assert_eq!(with_block(&hidden, &[]).expect("a text"), old);
}

#[test]
fn a_block_without_its_end_is_not_guessed_at() {
    assert_eq!(with_block(&format!("{BEGIN}\nMAILADDR root\n"), &arrays(&['a'])), None);
    let file = || PathBuf::from("/etc/mdadm.conf");
    let before = Fault::BlockOpen { path: file() }.before().to_string();
    let afterwards = Fault::BlockOpen { path: file() }.afterwards().to_string();
    assert!(before.contains(END) && before == format!("{afterwards}; nothing was done"), "{before} {afterwards}");
}

/// Fedora's boot images are dracut's. On Debian dracut may be there as well, and update-initramfs then starts it.
#[test]
fn the_program_that_makes_the_boot_image_is_named() {
    let note = |programs: &[&str]| boot_image_note(|program| programs.contains(&program)).unwrap_or_default();
    assert!(note(&["/usr/sbin/update-initramfs", "/usr/bin/dracut"]).contains("update-initramfs -u"));
    assert!(note(&["/usr/bin/dracut"]).contains("dracut --regenerate-all --force"));
    assert!(note(&["/usr/sbin/dracut"]).contains("dracut --regenerate-all --force"));
    assert_eq!(note(&[]), "", "without a boot image there is nothing to say");
}
