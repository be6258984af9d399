//! Goal: a login is right, wrong or impossible as the machine's PAM says, and nothing is admitted by mistake.
//! Method: the real libpam and its own modules, by services in a folder of the test.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use stria_pam::{BYTES_MAX, Login, Verdict, check};
use tempfile::TempDir;

/// A service `stria` with these lines.
fn service(lines: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("stria"), lines).expect("a file");
    folder
}

fn login(folder: &Path, user: &str, password: &str) -> Login {
    let service = folder.join("stria").display().to_string();
    Login { service, user: user.into(), password: password.into(), from: "192.0.2.7".into() }
}

fn verdict(folder: &Path, user: &str, password: &str) -> Verdict {
    check(&login(folder, user, password))
}

/// A service that asks a script, which knows alice and her password, and refuses carol's account.
fn by_script() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    let text = "#!/bin/sh\n[ \"$PAM_RHOST\" = 192.0.2.7 ] || exit 1\n\
                case $PAM_TYPE in\nauth) [ \"$(tr -d '\\0')\" = \"open sesame\" ] ;;\naccount) [ \"$PAM_USER\" != carol ] ;;\nesac\n";
    fs::write(&script, text).expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its own file");
    let script = script.display();
    let lines = format!("auth required pam_exec.so quiet expose_authtok {script}\naccount required pam_exec.so quiet {script}\n");
    fs::write(folder.path().join("stria"), lines).expect("a file");
    folder
}

#[test]
fn a_module_gets_name_password_and_origin() {
    let folder = by_script();
    assert_eq!(verdict(folder.path(), "alice", "open sesame"), Verdict::Right("alice".into()));
    for (user, password) in [("alice", "open"), ("alice", ""), ("carol", "open sesame")] {
        let verdict = verdict(folder.path(), user, password);
        assert!(matches!(verdict, Verdict::Wrong(_)), "{user} with {password:?}: {verdict:?}");
    }
    let elsewhere = Login { from: "192.0.2.8".into(), ..login(folder.path(), "alice", "open sesame") };
    assert!(matches!(check(&elsewhere), Verdict::Wrong(_)));
}

#[test]
fn account_and_password_must_both_be_good() {
    let both = |auth: &str, account: &str| {
        let folder = service(&format!("auth required {auth}\naccount required {account}\n"));
        verdict(folder.path(), "root", "x")
    };
    assert_eq!(both("pam_permit.so", "pam_permit.so"), Verdict::Right("root".into()));
    assert!(matches!(both("pam_deny.so", "pam_permit.so"), Verdict::Wrong(_)));
    assert!(matches!(both("pam_permit.so", "pam_deny.so"), Verdict::Wrong(_)));
}

#[test]
fn a_service_that_is_not_there_or_broken_admits_nobody() {
    // libpam would take `other`.
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("other"), "auth required pam_permit.so\naccount required pam_permit.so\n").expect("a file");
    let missing = verdict(folder.path(), "root", "x");
    assert!(matches!(&missing, Verdict::Failed(text) if text.contains("no service")), "{missing:?}");
    for lines in ["", "auth required pam_of_nobody.so\naccount required pam_permit.so\n", "account required pam_permit.so\n"] {
        let verdict = verdict(service(lines).path(), "root", "x");
        assert!(!matches!(verdict, Verdict::Right(_)), "{lines:?}: {verdict:?}");
    }
}

#[test]
fn names_and_passwords_that_no_account_has_are_wrong() {
    let folder = service("auth required pam_permit.so\naccount required pam_permit.so\n");
    let long = "x".repeat(BYTES_MAX + 1);
    for (user, password) in [("", "x"), ("ro\0ot", "x"), ("root", "x\0y"), (&long[..], "x"), ("root", &long[..])] {
        assert!(matches!(verdict(folder.path(), user, password), Verdict::Wrong(_)), "{user:?} {password:?}");
    }
}
