//! Goal: the bundle that ships is what the page's sources give, and the page works.
//! Method: npm and the tests of `page/`, which drive a real Chromium: on invented machines, and on this build's daemon with image
//! files.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use support::may_skip;

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../page")
}

/// A command of Node.js in the page's folder. `scripts/setup test` installs a newer Node.js where the system's is too old.
fn command(program: &str, arguments: &[&str]) -> Command {
    let home = std::env::var("HOME").unwrap_or_default();
    let own = format!("{home}/.cache/stria-tools/node/node_modules/node/bin");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    let path = if Path::new(&own).exists() { format!("{own}:{path}") } else { path };
    command.args(arguments).current_dir(page()).env("PATH", path).env("STRIA", env!("CARGO_BIN_EXE_stria"));
    command
}

fn run(program: &str, arguments: &[&str]) {
    let output = command(program, arguments).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{stdout}\n{stderr}", output.status);
}

/// The page's packages in the versions of its lock file, once. False: this machine has no npm, and nothing can be tested.
fn packages() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| {
        if command("npm", &["--version"]).output().is_err() {
            may_skip("npm is missing", "run: scripts/setup test");
            return false;
        }
        let (lock, done) = (page().join("package-lock.json"), page().join("node_modules/.stria-lock"));
        let wanted = std::fs::read(lock).expect("the lock file");
        if std::fs::read(&done).ok().as_ref() != Some(&wanted) {
            run("npm", &["ci", "--no-audit", "--no-fund"]);
            std::fs::write(done, wanted).expect("a file");
        }
        true
    })
}

#[test]
fn the_bundle_is_what_the_sources_give() {
    if packages() {
        run("npm", &["run", "check"]);
        run("node", &["build.mjs", "--compare"]);
    }
}

/// The contract may have grown since the types were made; what the page uses of it must still be there.
#[test]
fn the_page_fits_the_api_as_it_is_described() {
    if packages() {
        let copy = std::env::temp_dir().join(format!("stria-page-types-{}", std::process::id()));
        let there = copy.to_str().expect("text");
        let page = page().display().to_string();
        run("mkdir", &["-p", there]);
        run("cp", &["-r", &format!("{page}/src"), &format!("{page}/tsconfig.json"), there]);
        run("ln", &["-s", &format!("{page}/node_modules"), &format!("{there}/node_modules")]);
        let types = format!("{there}/src/contract.d.ts");
        run("npx", &["openapi-typescript", "../docs/openapi.json", "--default-non-nullable=false", "-o", &types]);
        run("npx", &["tsc", "--noEmit", "--project", there]);
        std::fs::remove_dir_all(copy).expect("it is ours");
    }
}

#[test]
fn every_screen_can_be_used_by_everybody() {
    if packages() {
        run("node", &["--test", "tests/screens.test.mjs"]);
    }
}

#[test]
fn the_page_does_what_it_says_with_a_real_daemon() {
    if packages() {
        run("node", &["--test", "tests/daemon.test.mjs"]);
    }
}

#[test]
fn the_bad_day_on_nvme_drives_is_seen_from_another_machine() {
    if packages() && stria_testkit::nvme::wanted() {
        run("node", &["--test", "tests/nvme.test.mjs"]);
    }
}
