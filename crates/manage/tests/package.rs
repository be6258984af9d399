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
    // Without it the daemon sees no process that has a block device open.
    let unit = text("etc/systemd/system/stria.service");
    let capabilities = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).expect("it bounds them");
    assert!(capabilities.split(' ').any(|capability| capability == "CAP_SYS_PTRACE"), "{capabilities}");
    assert!(text("opt/stria/share/bash-completion/completions/stria").contains("adopt"));
    // Cockpit's page is the daemon's own, started by a file that loads Cockpit's library first.
    let manifest: serde_json::Value = serde_json::from_str(&text("opt/stria/share/cockpit/stria/manifest.json")).expect("JSON");
    assert_eq!(manifest["menu"]["index"]["label"], "Stria");
    let own = fs::read(project("crates/manage/page/page.js")).expect("the bundle");
    assert_eq!(fs::read(root.join("opt/stria/share/cockpit/stria/page.js")).expect("the bundle"), own);
    let index = text("opt/stria/share/cockpit/stria/index.html");
    assert!(index.find("../base1/cockpit.js").expect("Cockpit's library") < index.find("page.js").expect("the page"), "{index}");
    let config = root.join("etc/stria/stria.toml");
    let program = root.join("opt/stria/bin/stria");
    let output = Command::new(&program).args(["config", "check", "--config"]).arg(&config).output().expect("it is a program");
    assert!(output.status.success(), "{output:?}");
    // An administrator's configuration stays.
    assert!(text("etc/pam.d/stria").lines().any(|line| line.ends_with("-auth") && !line.starts_with('#')));
    let own = ["etc/stria/stria.toml", "etc/pam.d/stria"];
    own.iter().for_each(|file| fs::write(root.join(file), "# mine\n").expect("a file"));
    install();
    own.iter().for_each(|file| assert_eq!(text(file), "# mine\n"));
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

/// Bug: a note that was left from a detached device gave a disk of another program the array's names.
#[test]
fn an_nbd_disk_has_the_names_of_the_array_that_linux_says_it_is() {
    let rules = fs::read_to_string(project("packaging/udev/65-stria.rules")).expect("the rules");
    let imports: Vec<&str> = rules.lines().filter(|rule| rule.contains("IMPORT{file}=\"/run/stria/nbd-")).collect();
    let [rule] = imports[..] else { panic!("{imports:?}") };
    assert!(rule.contains("TEST==\"pid\"") && rule.contains("ATTR{backend}==\"stria-?*\""), "{rule}");
    let program = rule.split_once("PROGRAM==\"").and_then(|(_, rest)| rest.split_once('"')).expect("a program").0;
    let place = Place::new();
    let is_named = |backend: &str, note: &str| {
        fs::write(place.path("nbd-7"), note).expect("a file");
        let program = program.replace("/run/stria/nbd-%n", &place.path("nbd-7").display().to_string());
        let program = program.replace("$attr{backend}", backend).replace("$$", "$");
        // udev splits the words itself, as a shell does.
        Command::new("sh").args(["-c", &program]).status().expect("it starts").success()
    };
    let note = "STRIA_UUID=00010203\nSTRIA_NAME=tank\nSTRIA_CONNECTIONS=1\n";
    assert!(is_named("stria-00010203", note));
    for (backend, note) in
        [("stria-00010204", note), ("stria-0001020", note), ("stria-00010203", ""), ("stria-00010203", "STRIA_UUID=\n")]
    {
        assert!(!is_named(backend, note), "{backend} {note}");
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
        "./etc/pam.d/stria\n",
        "./usr/share/zsh/site-functions/_stria\n",
    ] {
        assert!(list.contains(file), "{file}: {list}");
    }
    assert!(list.lines().all(|line| line.contains(" root/root ")), "{list}");
    let control = run_tool("dpkg-deb", &["--field", package.trim()]).expect("it was here before");
    assert!(control.contains("Package: stria\n") && control.contains("Depends: libc6 (>= 2."), "{control}");
}

/// The identifier that GitHub, and pandoc after it, gives a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

/// A page's text without its examples of code, in which brackets mean other things.
fn prose(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.split("```")
        .step_by(2)
        .flat_map(|part| part.lines())
        .filter(|line| !line.starts_with("    "))
        .fold(String::new(), |text, line| text + line + "\n")
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("there").path()) {
        match path.is_dir() {
            true if ["target", ".git", "node_modules", "shared"].iter().any(|name| path.ends_with(name)) => {}
            true => pages(&path, found),
            false if path.extension().is_some_and(|end| end == "md") => found.push(path),
            false => {}
        }
    }
}

#[test]
fn every_link_of_the_documentation_leads_to_a_page_and_a_heading() {
    let mut found = Vec::new();
    pages(&project("").canonicalize().expect("the project"), &mut found);
    let (mut count, mut faults) = (0, Vec::new());
    for page in &found {
        let text = prose(page);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains(':') {
                continue;
            }
            count += 1;
            let (place, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if place.is_empty() { page.clone() } else { page.parent().expect("a folder").join(place) };
            if !target.exists() {
                faults.push(format!("{}: {link} is not here", page.display()));
            } else if !heading.is_empty()
                && !prose(&target).lines().any(|line| line.starts_with('#') && anchor(line.trim_start_matches('#')) == heading)
            {
                faults.push(format!("{}: {link}: there is no such heading", page.display()));
            }
        }
    }
    assert!(found.len() > 40 && count > 60, "{} pages, {count} links", found.len());
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_package_starts_the_daemon_when_it_is_installed_first_or_again_and_an_upgrade_only_restarts_it() {
    let place = Place::new();
    let (root, stubs, told) = (place.path("root"), place.path("stubs"), place.path("told"));
    fs::create_dir_all(root.join("run/systemd/system")).expect("a folder");
    fs::create_dir(&stubs).expect("a folder");
    let is_broken = place.path("is-broken");
    stria_testkit::script(&stubs.join("stria"), &format!("#!/bin/sh\n! [ -e {} ]\n", is_broken.display()));
    for program in ["getent", "groupadd", "deb-systemd-helper", "udevadm", "systemctl"] {
        stria_testkit::script(&stubs.join(program), &format!("#!/bin/sh\necho {program} \"$@\" >>{}\n", told.display()));
    }
    let configure = |last: &str| {
        let _ = fs::remove_file(&told);
        let mut script = Command::new("sh");
        script.arg(project("packaging/deb/postinst")).args(["configure", last]);
        let path = format!("{}:{}", stubs.display(), std::env::var("PATH").unwrap_or_default());
        let output = script.env("PATH", path).env("DPKG_ROOT", &root).output().expect("it starts");
        assert!(output.status.success(), "{output:?}");
        let told = fs::read_to_string(&told).expect("it told");
        (told.contains("systemctl start stria.service"), told.contains("systemctl try-restart stria.service"))
    };
    assert_eq!(configure(""), (true, false), "the first time");
    assert_eq!(configure("0.1.0"), (false, true), "an upgrade");
    fs::write(&is_broken, "").expect("a file");
    assert_eq!(configure("0.1.0"), (false, false), "an upgrade with a configuration that the new version cannot read");
    let masked = root.join("var/lib/systemd/deb-systemd-helper-masked");
    fs::create_dir_all(&masked).and_then(|()| fs::write(masked.join("stria.service"), "")).expect("a file");
    assert_eq!(configure("0.1.0"), (true, false), "after a removal");
}

/// Bug: it stood before remote-fs.target, and logins after that, while it waited for its array; later multi-user.target waited
/// with it for ever. `find` in attach.rs has it count as started meanwhile, and tests/boot boots such a machine.
#[test]
fn the_unit_that_attaches_an_array_holds_up_no_target() {
    let unit = fs::read_to_string(project("packaging/systemd/stria-attach@.service")).expect("a unit");
    let settings: Vec<&str> = unit.lines().filter(|line| !line.starts_with('#')).collect();
    // What attaches the array, once it is served, has systemd's usual time.
    let refused = ["TimeoutStartSec=", "TimeoutSec=", "Before=", "RequiredBy=", "Wants=remote", "DefaultDependencies="];
    assert!(!settings.iter().any(|line| refused.iter().any(|order| line.starts_with(order))), "{settings:?}");
    assert!(settings.contains(&"Type=notify") && settings.contains(&"WantedBy=multi-user.target"), "{settings:?}");
    let example = unit.lines().find(|line| line.contains("ext4")).expect("a line for fstab");
    assert!(example.contains("nofail,x-systemd.requires=stria-attach@tank.service"), "{example}");
    let place = Place::new();
    let (copy, program) = (place.path("stria-attach@tank.service"), place.path("stria"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_stria"), &program).expect("a link");
    fs::write(&copy, unit.replace("/usr/bin/stria", &program.display().to_string())).expect("a file");
    if let Ok(verified) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&copy).output() {
        let told = String::from_utf8_lossy(&verified.stderr).into_owned();
        assert!(!told.lines().any(|line| line.contains("stria-attach@")), "{told}");
    }
}

/// Every failure of the daemon was told as arrays in use, and sent people to unmount what was not mounted.
#[test]
fn a_removal_that_is_refused_says_why() {
    let place = Place::new();
    let stubs = place.path("stubs");
    fs::create_dir(&stubs).expect("a folder");
    stria_testkit::script(&stubs.join("systemctl"), "#!/bin/sh\n");
    stria_testkit::script(&stubs.join("stria"), "#!/bin/sh\nexit $STOP_ENDS_WITH\n");
    let removal = |status: &str| {
        let script = r#"set -e; mount -t tmpfs none /run; mkdir -p /run/systemd/system; sh "$1" remove"#;
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", script, "sh"]).arg(project("packaging/deb/prerm")).env("STOP_ENDS_WITH", status);
        let path = format!("{}:{}", stubs.display(), std::env::var("PATH").unwrap_or_default());
        let output = command.env("PATH", path).output().expect("it starts");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(removal("0"), (true, String::new()));
    let (removed, told) = removal("4");
    assert!(!removed && told.contains("arrays are in use"), "{told}");
    for status in ["1", "2"] {
        let (removed, told) = removal(status);
        assert!(!removed && told.contains("did not stop its arrays") && !told.contains("unmount"), "{told}");
    }
}

/// A purge of the package, with empty file systems in place of the machine's.
#[test]
fn a_purge_removes_what_the_daemon_wrote_and_nothing_else() {
    let script = r#"set -e
        mount -t tmpfs none /var/lib; mount -t tmpfs none /etc; cd /var/lib
        mkdir -p /etc/stria stria/images stria/reports
        touch stria/events.jsonl stria/events.1.jsonl stria/routine.json stria/jobs.json stria/.jobs.json.77 /etc/stria/tokens /etc/stria/.stria.lock
        touch stria/d1.img stria/images/d2.img
        sh "$1" purge
        find stria /etc/stria -type f || true
        rm -r stria/d1.img stria/images
        sh "$1" purge
        find stria /etc/stria 2>/dev/null || true"#;
    let postrm = project("packaging/deb/postrm");
    let output = Command::new("unshare").args(["-m", "sh", "-c", script, "sh"]).arg(postrm).output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let mut left: Vec<&str> = std::str::from_utf8(&output.stdout).expect("paths").lines().collect();
    left.sort_unstable();
    assert_eq!(left, ["stria/d1.img", "stria/images/d2.img"], "{output:?}");
}
