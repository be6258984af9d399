use super::edit::{Edit, Replacement, TEMPLATE};
use super::*;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const UUID: &str = "3aaa0122:29827cfa:5331ad66:ca767371";

fn uuid(text: &str) -> Uuid {
    text.parse().expect("a UUID")
}

#[test]
fn the_shipped_configuration_says_what_holds_without_it() {
    assert_eq!(Config::parse(TEMPLATE), Ok(Config::default()));
    // Its comments are good, too: without the marks it is a configuration that says the same, but for examples.
    let is_setting = |line: &&str| line.starts_with("# [") || line.starts_with("# ") && line.contains(" = ");
    let lines = TEMPLATE.lines().filter(is_setting).map(|line| &line[2..]);
    let text: Vec<&str> = lines.filter(|line| !line.starts_with("group") && !line.starts_with("What")).collect();
    let config = Config::parse(&text.join("\n")).expect("the examples are valid");
    assert_eq!(config.daemon.degraded_after, Patience(Some(Duration::from_secs(30))));
    assert_eq!(config.daemon.state, Daemon::default().state);
    let array = &config.arrays[0];
    assert_eq!((array.uuid, array.ublk, array.start), (uuid(UUID), Block::Any, true));
}

#[test]
fn mistakes_are_named_with_their_line() {
    let part = format!("[[array]]\nuuid = \"{UUID}\"\n");
    for (text, line, words) in [
        ("[daemon]\ndegraded-aftr = \"1s\"\n", ":2: ", "degraded-aftr"),
        ("[daemon]\n\ndegraded-after = \"soon\"\n", ":3: ", "never"),
        ("[[array]]\nuuid = \"3aaa\"\n", ":2: ", "stria examine"),
        ("[[array]]\nname = \"tank\"\n", ":1: ", "uuid"),
        ("[daemon\n", ":1: ", ""),
        (&format!("{part}ublk = \"yes\"\n"), ":3: ", "ublkbN"),
        (&format!("{part}ublk-copy = \"kernel\"\n"), ":3: ", "driver"),
        (&format!("{part}{part}"), ":4: ", "twice"),
        (&format!("{part}lanes = 0\n"), ":3: ", "1 to 64"),
        (&format!("{part}vhost-user = [\"tank.disk\"]\n"), ":3: ", "slash"),
        ("[daemon]\nsearch = [\"images\"]\n", ":2: ", "slash"),
        ("[nbd]\nlisten = [\"tank.sock\"]\n", ":2: ", "unix:PATH"),
        ("[nbd]\ntls-ca = \"/ca\"\n", ":1: ", "tls-cert"),
    ] {
        let error = Config::parse(text).expect_err(text);
        assert!(error.starts_with(line) && error.contains(words), "{text}: {error}");
    }
    let twins = format!("{part}name = \"a\"\n[[array]]\nuuid = \"{}\"\nname = \"a\"\n", UUID.replace('3', "4"));
    assert!(Config::parse(&twins).expect_err("one name").contains("both called \"a\""));
}

/// One fault after another took as many runs of `config check` as there were faults.
#[test]
fn all_faults_are_told_at_once() {
    let other = UUID.replace('3', "4");
    let text = format!(
        "# a comment, in words: ä\n[daemon]\ndegraded-aftr = \"1s\" # a typo\nsearch = [\n  \"images\",\n]\n[daemn]\nx = 1\n\n[nbd]\nlisten = [\"tank.sock\"]\n\
         mode = \"9\"\nclients = \"many\"\n\n[alarms]\nconsole = \"tty1\"\n[alarms.mail]\nto = 7\n\n[[array]]\nuuid = \"{UUID}\"\nname = \"tank\"\nlanes = 0\n\
         ublk = \"yes\"\n\n[[array]]\nuuid = \"no\"\nlanes = 99\n\n[[array]]\nuuid = \"{other}\"\nname = \"tank\"\nvhost-user-group = \"no such group\"\n"
    );
    let (config, faults) = faults::of_file(&text);
    let found: Vec<(Option<usize>, &str)> = faults.iter().map(|fault| (fault.line, fault.text.as_str())).collect();
    let expected = [
        (3, "degraded-aftr"),
        (4, "[daemon] search: images must begin"),
        (7, "daemn"),
        (11, "unix:PATH"),
        (12, "octal"),
        (13, "[nbd] clients: invalid type"),
        (16, "tty1"),
        (18, "[alarms.mail] to: invalid type"),
        (23, "1 to 64"),
        (24, "ublkbN"),
        (27, "[[array]] uuid: \"no\""),
        (32, "both called"),
        (33, "no such group"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for ((line, text), (expected_line, words)) in found.iter().zip(expected) {
        assert!(*line == Some(expected_line) && text.contains(words), "{expected_line} {words}: {found:#?}");
    }
    // A configuration that is saved is refused with the same faults. Files and groups of the machine are not checked then.
    let told = Config::parse(&text).expect_err("it has faults");
    assert!(told.starts_with(":3: [daemon] degraded-aftr"), "{told}");
    for (line, words) in &expected[1..expected.len() - 1] {
        assert!(told.contains(&format!("; line {line}: ")) && told.contains(words), "{line} {words}: {told}");
    }
    assert!(!told.contains("no such group"), "{told}");
    // What is left of it is what could be read.
    let names: Vec<Option<String>> = config.expect("it is TOML").arrays.into_iter().map(|array| array.name).collect();
    assert_eq!(names, [Some("tank".into()), Some("tank".into())]);
    // What is no TOML has one fault.
    let (config, faults) = faults::of_file("[daemon]\nsearch = [\n[nbd\nx = 1\n");
    assert!(config.is_none() && faults.len() == 1 && faults[0].line.is_some(), "{faults:?}");
}

#[test]
fn identities_are_read_as_every_program_writes_them() {
    let dashed = "3aaa0122-2982-7cfa-5331-ad66ca767371";
    assert_eq!(uuid(dashed), uuid(UUID));
    assert_eq!(uuid(dashed).to_string(), UUID);
    for text in [
        "",
        "3aaa0122",
        "3aaa0122:29827cfa:5331ad66:ca76737",
        "+aaa0122:29827cfa:5331ad66:ca767371",
        "3äaa0122:29827cfa:5331ad66:ca76737",
    ] {
        assert!(text.parse::<Uuid>().is_err(), "{text}");
    }
}

/// Commands change what they mean, and leave what people wrote.
#[test]
fn a_group_that_is_not_there_is_no_fault_of_the_configuration() {
    let text = "[nbd]\ngroup = \"no such group\"\n[api]\nadmin-group = \"no such group\"\n[alarms.mail]\nto = [\"a@example.org\"]\n\
                smtp = \"smtp://a@example.org\"\nsmtp-password-file = \"/nowhere/password\"\n[[array]]\n\
                uuid = \"11111111:22222222:33333333:44444444\"\nvhost-user-group = \"no such group\"\n";
    let config = Config::parse(text).expect("arrays start all the same");
    let api = config.api.options().expect("it is good");
    assert!(api.admin_group.is_none() && api.unknown.len() == 1 && api.unknown[0].contains("[api] admin-group"), "{api:?}");
    assert!(config.nbd.group().is_err_and(|error| error.contains("no such group")) && faults::of_file(text).1.len() == 3);
}

#[test]
fn drives_have_their_owner_whatever_else_the_file_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, wanted) = (folder.path().join("stria.toml"), "11111111:22222222:33333333:44444444");
    std::fs::write(&path, format!("[nbd]\nno-such-key = 1\n[[array]]\nuuid = \"{wanted}\"\nlanes = 900\n")).expect("a file");
    assert!(Config::read(&path).is_err());
    let names = |text: &str| Config::names(&path, text.parse().expect("a UUID")).expect("it is read");
    assert!(names(wanted) && !names("11111111:22222222:33333333:44444445"));
}

#[test]
fn a_file_behind_a_link_is_replaced_and_the_link_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, link) = (folder.path().join("in-a-repository.toml"), folder.path().join("stria.toml"));
    std::fs::write(&path, "").expect("a file");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    Replacement::open(&link).expect("it is there").write("# new\n").expect("it is written");
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), "# new\n");
}

/// The lock was one on the folder, which every user of the machine can open: a command waited for such a user without a word.
#[test]
fn a_change_waits_for_another_for_a_time_and_names_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("stria.toml");
    let open = |patience| Replacement::open_within(&path, Duration::from_millis(patience));
    let by_anybody = std::fs::File::open(folder.path()).expect("a folder");
    by_anybody.lock().expect("a lock");
    let first = open(0).expect("nothing changes it");
    let words = open(100).err().expect("it is locked").to_string();
    assert!(words.contains("stria.toml cannot be changed: this very process is changing it"), "{words}");
    let waits = std::thread::scope(|scope| {
        let second = scope.spawn(|| open(60_000).is_ok());
        drop(first);
        second.join().expect("no panic")
    });
    assert!(waits);
    let mode = std::fs::metadata(folder.path().join(".stria.lock")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "no other user can open it");
}

#[test]
fn changes_keep_comments_and_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("stria.toml");
    let text = format!(
        "# mine\n[daemon]\ndegraded-after = \"never\" # I wait\n\n# the big one\n[[array]]\nuuid = \"{UUID}\"\nname = \"tank\" # a name\n\n# at the end\n"
    );
    std::fs::write(&path, &text).expect("a file");
    let other = Array {
        name: Some("pool".into()),
        ublk: Block::Number(3),
        ublk_copy: UblkCopy::Driver,
        ..Array::new(uuid(&UUID.replace('3', "4")))
    };
    let change = |work: &dyn Fn(&mut Edit)| {
        let mut edit = Edit::open(&path).expect("it is valid");
        work(&mut edit);
        let config = edit.save().expect("it stays valid");
        assert_eq!(Config::read(&path).expect("it was written"), config);
        (config, std::fs::read_to_string(&path).expect("a text"))
    };
    let (config, added) = change(&|edit| edit.put(&other).expect("it takes one"));
    assert_eq!(config.arrays[1], other);
    assert!(added.starts_with(text.trim_end()) && added.contains("# at the end\n\n[[array]]"), "{added}");
    let (config, renamed) = change(&|edit| {
        let array = Array { name: Some("lake".into()), read_only: true, ..edit.before().arrays[0].clone() };
        edit.put(&array).expect("it is there");
    });
    assert!(renamed.contains("name = \"lake\" # a name\n") && config.arrays[0].read_only, "{renamed}");
    let (config, removed) = change(&|edit| assert!(edit.remove(uuid(UUID)).expect("it can be changed")));
    assert_eq!(config.arrays, std::slice::from_ref(&other));
    assert!(removed.contains("# the big one\n") && removed.contains("# at the end") && removed.contains("# I wait"), "{removed}");
    let (config, _) = change(&|edit| assert!(edit.remove(other.uuid).expect("it can be changed")));
    assert_eq!(config.arrays, []);
    let (_, same) = change(&|edit| assert!(!edit.remove(other.uuid).expect("it can be changed")));
    assert!(same.contains("# at the end"), "{same}");

    // What would be invalid is not written.
    let mut edit = Edit::open(&path).expect("it is valid");
    edit.put(&Array { lanes: Some(200), ..other.clone() }).expect("it takes one");
    assert!(edit.save().expect_err("too many lanes").to_string().contains("was not changed"));
    assert_eq!(std::fs::read_to_string(&path).expect("a text"), same);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2, "nothing is left behind beside the lock");
}

/// A form sets what needs one line each; what stands beside it stays.
#[test]
fn channels_of_alarms_are_set_and_taken_out_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("stria.toml");
    let set = |mail: &[&str], webhook: &str| {
        let mut edit = Edit::open(&path).expect("it is valid");
        edit.alarms(&mail.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>(), webhook).expect("it can be changed");
        edit.save().map(|config| (config.alarms, std::fs::read_to_string(&path).expect("a text")))
    };
    std::fs::write(&path, "# mine\n[alarms]\nrepeat = \"1h\" # often\n").expect("a file");
    let (alarms, text) = set(&["a@example.org", "b@example.org"], "https://example.org/hook").expect("it is valid");
    assert_eq!(alarms.mail.expect("mail").to, ["a@example.org", "b@example.org"]);
    assert_eq!(alarms.webhook.as_deref(), Some("https://example.org/hook"));
    assert!(text.starts_with("# mine\n") && text.contains("# often"), "{text}");
    let (alarms, text) = set(&[], "").expect("it is valid");
    assert_eq!((alarms.mail, alarms.webhook), (None, None));
    assert!(!text.contains("mail") && text.contains("# often"), "{text}");
    // A mail server stays as it was written.
    std::fs::write(&path, "[alarms.mail]\nto = [\"a@example.org\"]\nsmtp = \"smtp://relay:25\"\n").expect("a file");
    let (alarms, _) = set(&["c@example.org"], "").expect("it is valid");
    let mail = alarms.mail.expect("mail");
    assert_eq!((mail.to, mail.smtp.as_deref()), (vec!["c@example.org".to_owned()], Some("smtp://relay:25")));
}

/// The comments above an array are often the head of the file. They went to its end with the array, below all other parts.
#[test]
fn comments_stay_where_they_are_when_an_array_is_released_and_adopted_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("stria.toml");
    let change = |work: &dyn Fn(&mut Edit)| {
        let mut edit = Edit::open(&path).expect("it is valid");
        work(&mut edit);
        edit.save().expect("it stays valid");
        std::fs::read_to_string(&path).expect("a text")
    };
    let adopt = |edit: &mut Edit| {
        edit.put(&Array::new(uuid(UUID))).expect("it takes one");
        edit.search(std::iter::once(&PathBuf::from("/srv/d0"))).expect("it takes one");
    };
    let release = |edit: &mut Edit| assert!(edit.remove(uuid(UUID)).expect("it can be changed"));
    // An array of image files: `search` stands behind it.
    for _ in 0..3 {
        let adopted = change(&adopt);
        assert!(adopted.starts_with(TEMPLATE.trim_end()), "{adopted}");
        assert_eq!((adopted.matches("[[array]]\nuuid").count(), adopted.matches("\n[daemon]").count()), (1, 1), "{adopted}");
        let released = change(&release);
        assert!(released.starts_with(TEMPLATE.trim_end()), "{released}");
    }
    // In the middle of a file that a person wrote, beside another one and alone.
    let head = "# This machine is in rack 7.\n# Ask Ann.\n";
    let other = UUID.replace('3', "4");
    let rest = "\n# mail\n[alarms]\nrepeat = \"2days\" # not more\n\n# the end\n";
    for middle in [String::new(), format!("\n# the other one\n[[array]]\nuuid = \"{other}\"\n")] {
        std::fs::write(&path, format!("{head}[[array]]\nuuid = \"{UUID}\"\n{middle}{rest}")).expect("a file");
        let released = change(&release);
        assert_eq!(released, format!("{head}{middle}{rest}"));
        for _ in 0..2 {
            let adopted = change(&|edit| edit.put(&Array::new(uuid(UUID))).expect("it takes one"));
            let part = format!("\n[[array]]\nuuid = \"{UUID}\"\n");
            assert_eq!(adopted.replacen(&part, "", 1), released, "{adopted}");
            assert!(change(&release).starts_with(head));
        }
    }
}

#[test]
fn a_new_configuration_begins_with_the_shipped_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("etc/stria.toml");
    let mut edit = Edit::open(&path).expect("there is none");
    edit.put(&Array::new(uuid(UUID))).expect("it takes one");
    edit.search(std::iter::once(&PathBuf::from("/srv/d0"))).expect("it takes one");
    let config = edit.save().expect("it is valid");
    assert_eq!(config.daemon.search, [PathBuf::from("/srv/d0")]);
    let text = std::fs::read_to_string(&path).expect("a text");
    assert!(text.starts_with("# What `stria daemon` serves") && text.contains("# [nbd]\n"), "{text}");
}

/// Postfix's sendmail waits for ever where it may not write its queue, and no mail left.
#[test]
fn mail_by_sendmail_is_warned_of_where_a_unit_bounds_the_daemon() {
    let warnings = |text: &str, has_unit| faults::warnings(&Config::parse(text).expect("valid"), has_unit);
    let mail = "[alarms.mail]\nto = [\"a@b\"]\n";
    assert!(warnings(mail, true)[0].contains("`smtp` is missing"));
    assert!(warnings(mail, false).is_empty() && warnings("", true).is_empty());
    assert!(warnings(&format!("{mail}smtp = \"smtp://localhost\"\n"), true).is_empty());
    let faults = Config::parse("[daemon]\n\n[alarms]\nrepeat = \"2s\"\n");
    assert!(faults.expect_err("too often").starts_with(":4: [alarms] repeat: 2s is too often"));
}
