//! Goal: what `make install` and `make deb` install is whole: every command has its page, and units and rules name the program.
//! Method: the scripts, with the program of this test.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Place, run_tool};

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A folder with this program alone, as where it was built.
fn built(place: &Place) -> PathBuf {
    let folder = place.path("built");
    fs::create_dir(&folder).expect("a folder");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_stria"), folder.join("stria")).expect("a link");
    folder
}

#[test]
fn everything_is_installed_below_the_prefix() {
    let place = Place::new();
    let root = place.path("root");
    let install = || {
        let mut command = Command::new(project("packaging/install"));
        let output = command.arg(built(&place)).env("DESTDIR", &root).env("PREFIX", "/opt/stria").output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        fs::remove_dir_all(place.path("built")).expect("a folder");
    };
    install();
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    // Every command of the help has its page.
    let help = place.ok(&["--help"]);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> =
        commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|name| !name.is_empty()).collect();
    assert!(commands.contains(&"adopt") && commands.len() > 30, "{commands:?}");
    for command in commands.iter().filter(|command| **command != "help") {
        let page = text(&format!("opt/stria/share/man/man1/stria-{command}.1"));
        assert!(page.contains(".SH SYNOPSIS") && page.contains("stria"), "{command}: {page}");
    }
    assert!(text("opt/stria/share/man/man1/stria-config-check.1").contains("NAME"));
    for page in ["man5/stria.toml.5", "man7/stria.7", "man8/stria-daemon.8"] {
        assert!(text(&format!("opt/stria/share/man/{page}")).contains(".SH SEE ALSO"));
    }
    for file in ["etc/systemd/system/stria.service", "etc/udev/rules.d/63-stria-members.rules"] {
        let text = text(file);
        assert!(text.contains("/opt/stria/bin/stria ") && !text.contains("/usr/bin/stria"), "{file}: {text}");
    }
    assert!(text("opt/stria/share/bash-completion/completions/stria").contains("adopt"));
    let config = root.join("etc/stria/stria.toml");
    let program = root.join("opt/stria/bin/stria");
    let output = Command::new(&program).args(["config", "check", "--config"]).arg(&config).output().expect("it is a program");
    assert!(output.status.success(), "{output:?}");
    // An administrator's configuration stays.
    fs::write(&config, "# mine\n").expect("a file");
    install();
    assert_eq!(text("etc/stria/stria.toml"), "# mine\n");
    // systemd understands the units, but for the manual pages and the program, which are elsewhere here.
    let units = ["stria.service", "stria.socket"].map(|unit| root.join("etc/systemd/system").join(unit).display().to_string());
    let verified = Command::new("systemd-analyze").arg("verify").args(&units).output();
    if let Ok(verified) = verified {
        let told = String::from_utf8_lossy(&verified.stderr).into_owned();
        let is_ours = |line: &&str| line.contains("stria.") && !line.contains("not executable") && !line.contains("'man ");
        let ours: Vec<&str> = told.lines().filter(is_ours).collect();
        assert!(ours.is_empty(), "{told}");
    }
}

#[test]
fn a_debian_package_has_all_of_it() {
    let place = Place::new();
    if run_tool("dpkg-deb", &["--version"]).is_none() {
        return;
    }
    let mut command = Command::new(project("packaging/deb/make"));
    let output = command.arg(built(&place)).arg(place.path("deb")).env("COMPRESSION", "none").output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let package = String::from_utf8(output.stdout).expect("text");
    let list = run_tool("dpkg-deb", &["--contents", package.trim()]).expect("it was here before");
    for file in [
        "./usr/bin/stria\n",
        "./usr/lib/systemd/system/stria.service\n",
        "./usr/lib/systemd/system/stria.socket\n",
        "./usr/lib/udev/rules.d/63-stria-members.rules\n",
        "./usr/lib/udev/rules.d/65-stria.rules\n",
        "./usr/share/man/man1/stria-adopt.1.gz\n",
        "./usr/share/man/man8/stria-daemon.8.gz\n",
        "./etc/stria/stria.toml\n",
        "./usr/share/zsh/site-functions/_stria\n",
    ] {
        assert!(list.contains(file), "{file}: {list}");
    }
    assert!(list.lines().all(|line| line.contains(" root/root ")), "{list}");
    let control = run_tool("dpkg-deb", &["--field", package.trim()]).expect("it was here before");
    assert!(control.contains("Package: stria\n") && control.contains("Depends: libc6 (>= 2."), "{control}");
}
