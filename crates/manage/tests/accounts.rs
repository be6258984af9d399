//! Goal: accounts of the system log in to the API with their password, as PAM and the groups say, and nobody else does.
//! Method: the real daemon by TLS and the machine's libpam, once with a script for a module, once with pam_unix and accounts of
//! the test alone.

mod support;

use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};
use stria_testkit::certificates::Authority;
use support::curl::{Answer, curl};
use support::daemon::Daemon;
use support::{PATIENCE, Place, may_skip};

const PASSWORD: &str = "open sesame";
/// crypt(3) of it, by SHA-512, which every libcrypt has.
const HASH: &str = "$6$stria.test$p6yl5o9Iq..qrIdEwxKOaVr9iV9vqtNzTokvoztgy/DfUCfX.z77UJ0avDmkhtUwSt0qpvi0onYr4tNZVC/wr.";

/// A machine with an API by TLS, whose accounts are checked by a PAM service with these lines.
struct Machine {
    place: Place,
    authority: Authority,
}

impl Machine {
    fn new(service: &str) -> Self {
        let place = Place::new();
        place.is_a_machine();
        let authority = Authority::with_both(&place.path("tls"));
        fs::write(place.path("login"), service).expect("a file");
        Self { place, authority }
    }

    /// Sets `[api]` to these lines besides those for TLS and the service.
    fn configure(&self, api: &str) {
        self.place.is_a_machine();
        let text = fs::read_to_string(self.place.config()).expect("a configuration");
        let file = |name: &str| self.authority.file(name).display().to_string();
        let (cert, key, service) =
            (file("server-cert.pem"), file("server-key.pem"), self.place.path("login").display().to_string());
        let tls = format!("listen = [\"127.0.0.1:0\"]\ntls-cert = {cert:?}\ntls-key = {key:?}\npam-service = {service:?}\n");
        fs::write(self.place.config(), format!("{text}\n[api]\n{tls}{api}\n")).expect("a file");
    }

    fn start(&self) -> Daemon {
        let log = self.place.path("state/events.jsonl");
        if log.exists() {
            fs::remove_file(&log).expect("its own file");
        }
        Daemon::start(&self.place)
    }

    fn events(&self) -> String {
        self.place.ok(&["events", "--json"])
    }

    /// A request by TLS.
    fn at(&self, path: &str, arguments: &[&str]) -> Answer {
        let end = Instant::now() + PATIENCE;
        let port = loop {
            let events = self.events();
            if let Some((_, rest)) = events.split_once("the API is at https://127.0.0.1:") {
                break rest.split(|c: char| !c.is_ascii_digit()).next().expect("a port").to_owned();
            }
            assert!(Instant::now() < end, "{events}");
            std::thread::sleep(Duration::from_millis(50));
        };
        let (ca, url) =
            (self.authority.file("ca-cert.pem").display().to_string(), format!("https://localhost:{port}/api/v1{path}"));
        curl(&[&["--cacert", &ca, &url], arguments].concat())
    }

    fn log_in(&self, user: &str, password: &str) -> Answer {
        self.at("/session", &["--json", &json!({"user": user, "password": password}).to_string()])
    }

    /// The role that a login gives; `None` if it is refused.
    fn role(&self, user: &str, password: &str) -> Option<Value> {
        let answer = self.log_in(user, password);
        match answer.status {
            200 => Some(answer.body["role"].clone()),
            _ => {
                assert_eq!(answer.kind(), (401, "unauthorized"), "{user}: {answer:?}");
                None
            }
        }
    }
}

fn cookie(answer: &Answer) -> String {
    let line = answer.head.lines().find(|line| line.starts_with("set-cookie:")).expect("a cookie");
    format!("cookie: {}", line["set-cookie: ".len()..].split(';').next().expect("a value"))
}

/// A service whose module is a script that knows one password for all accounts.
fn by_script() -> Machine {
    let machine = Machine::new("");
    let script = machine.place.path("script");
    let text = format!(
        "#!/bin/sh\n[ $PAM_RHOST = 127.0.0.1 ] || exit 1\n[ $PAM_TYPE = account ] || [ \"$(tr -d '\\0')\" = \"{PASSWORD}\" ]\n"
    );
    fs::write(&script, text).expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("its own file");
    let script = script.display();
    let lines = format!("auth required pam_exec.so quiet expose_authtok {script}\naccount required pam_exec.so quiet {script}\n");
    fs::write(machine.place.path("login"), lines).expect("a file");
    machine
}

#[test]
fn groups_give_roles_and_every_refusal_is_alike() {
    let machine = by_script();
    machine.configure("");
    let daemon = machine.start();
    assert_eq!(machine.at("/login", &[]).body, json!({"accounts": false}));
    assert_eq!(machine.log_in("root", PASSWORD).kind(), (403, "forbidden"), "accounts are off unless they are switched on");
    daemon.signal("-TERM");
    daemon.ended_well();

    // Every Debian has these accounts, and groups of their own.
    machine.configure("system-accounts = \"groups\"\ngroup = \"games\"\nadmin-group = \"daemon\"\n");
    let daemon = machine.start();
    assert_eq!(machine.at("/login", &[]).body, json!({"accounts": true}));
    for (user, role) in [("root", "admin"), ("daemon", "admin"), ("games", "operate")] {
        assert_eq!(machine.role(user, PASSWORD), Some(json!(role)), "{user}");
    }
    let refusals = [("games", "open"), ("nobody.here", PASSWORD), ("man", PASSWORD)].map(|(user, password)| {
        let begun = Instant::now();
        let answer = machine.log_in(user, password);
        assert!(begun.elapsed() >= Duration::from_secs(3), "{user} was refused after {:?}", begun.elapsed());
        (answer.status, answer.body)
    });
    assert!(refusals.iter().all(|refusal| refusal == &refusals[0]) && refusals[0].0 == 401, "{refusals:?}");

    // The session is that of a token: the cookie alone changes nothing.
    let session = machine.log_in("games", PASSWORD);
    let (cookie, csrf) = (cookie(&session), format!("x-stria-csrf: {}", session.body["csrf"].as_str().expect("a value")));
    let who = machine.at("/session", &["--header", &cookie]).body;
    assert!(who["via"] == "session" && who["name"].as_str().is_some_and(|name| name.starts_with("games (user ")), "{who:#}");
    let end = ["--request", "DELETE", "--header", &cookie];
    assert_eq!(machine.at("/session", &end).kind(), (403, "forbidden"));
    assert_eq!(machine.at("/session", &[&end[..], &["--header", &csrf]].concat()).status, 200);
    assert_eq!(machine.at("/session", &["--header", &cookie]).status, 401);

    // The record has names, reasons and no password, and no name that nobody has.
    let events = machine.events();
    for words in [
        "session of games (user ",
        "was refused a login as games: ",
        "was refused a login as an unknown name: ",
        "man: the password is right",
    ] {
        assert!(events.contains(words), "{words}: {events}");
    }
    assert!(!events.contains("sesame") && !events.contains("nobody.here"), "{events}");
    daemon.signal("-TERM");
    let log = daemon.ended_well();
    assert!(!log.contains("sesame"), "{log}");

    machine.configure("system-accounts = \"view\"\ngroup = \"games\"\n");
    let daemon = machine.start();
    assert_eq!((machine.role("man", PASSWORD), machine.role("games", PASSWORD)), (Some(json!("view")), Some(json!("operate"))));
    // Ten wrong passwords within a minute, however many at a time: then the right one has to wait, too.
    let guess = |count: usize| (0..count).map(|_| machine.log_in("games", "open").status).collect::<Vec<_>>();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        (0..4)
            .map(|_| scope.spawn(|| guess(3)))
            .collect::<Vec<_>>()
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 10, "{statuses:?}");
    assert_eq!(machine.log_in("games", PASSWORD).kind(), (429, "too_many"));
    daemon.signal("-TERM");
    daemon.ended_well();
}

#[test]
fn a_service_that_is_missing_admits_nobody_and_is_told() {
    let machine = by_script();
    machine.configure("system-accounts = \"view\"\n");
    machine.place.ok(&["config", "check"]);
    fs::remove_file(machine.place.path("login")).expect("its own file");
    machine.place.run(&["config", "check"]).refused(1, &["[api] system-accounts", "login is not there"]);
    let daemon = machine.start();
    assert_eq!(machine.log_in("root", PASSWORD).kind(), (500, "failed"));
    let events = machine.events();
    assert!(events.contains("could not be checked: PAM has no service"), "{events}");
    daemon.signal("-TERM");
    daemon.ended_well();
    for line in ["system-accounts = \"all\"", "system-accounts = true", "system-accounts = \"view\"\npam-service = \"x/y\""] {
        machine.configure(&line.replace("pam-service", "\npam-service"));
        assert_ne!(machine.place.run(&["config", "check"]).code, 0, "{line}");
    }
}

/// Accounts and their shadow lie over those of the machine, in a mount namespace of the test.
#[test]
fn pam_unix_checks_accounts_of_the_shadow_file() {
    const TEST: &str = "pam_unix_checks_accounts_of_the_shadow_file";
    let run =
        |program: &str, arguments: &[&str]| Command::new(program).args(arguments).status().is_ok_and(|status| status.success());
    if std::env::var_os("STRIA_ACCOUNTS_INSIDE").is_none() {
        let way: &[&str] = if run("unshare", &["-m", "true"]) { &["-m"] } else { &["-r", "-m"] };
        if !run("unshare", &[way, &["true"]].concat()) {
            return may_skip("there is no mount namespace to be had", "run as root, or allow user namespaces");
        }
        let this = std::env::current_exe().expect("a path");
        let mut again = Command::new("unshare");
        again.args(way).arg(this).args(["--exact", TEST, "--nocapture"]).env("STRIA_ACCOUNTS_INSIDE", "1");
        assert!(again.status().expect("unshare was there").success(), "see above");
        return;
    }
    let machine = Machine::new("auth required pam_unix.so\naccount required pam_unix.so\n");
    let over = |name: &str, text: String| {
        let path = machine.place.path(name);
        fs::write(&path, text).expect("a file");
        assert!(run("mount", &["--bind", path.to_str().expect("a plain path"), &format!("/etc/{name}")]));
        path
    };
    // The last day of bob's account was the second of January 1970; carol has no password.
    let users =
        [("root", HASH, ""), ("alice", HASH, ""), ("bob", HASH, "1"), ("carol", "", ""), ("dave", HASH, ""), ("erin", "!", "")];
    let numbered = || users.iter().enumerate().map(|(index, user)| (if index == 0 { 0 } else { 7000 + index }, user));
    over("passwd", numbered().map(|(uid, (name, ..))| format!("{name}:x:{uid}:{uid}::/:/bin/sh\n")).collect());
    over("shadow", users.iter().map(|(name, hash, expires)| format!("{name}:{hash}:19000:0:99999:7::{expires}:\n")).collect());
    let group = |operators: &str| format!("root:x:0:\nstria:x:7100:{operators}\nheads:x:7101:dave\n");
    let groups = over("group", group("alice,bob,carol,erin"));
    machine.configure("system-accounts = \"groups\"\nadmin-group = \"heads\"\n");
    let daemon = machine.start();
    assert_eq!(machine.role("root", PASSWORD), Some(json!("admin")));
    assert_eq!(machine.role("dave", PASSWORD), Some(json!("admin")));
    for (user, password) in [("alice", "open"), ("bob", PASSWORD), ("carol", ""), ("erin", PASSWORD), ("frank", PASSWORD)] {
        assert_eq!(machine.role(user, password), None, "{user}");
    }
    let events = machine.events();
    assert!(events.contains("as bob: User account has expired"), "{events}");

    // An account that leaves its group leaves its role at once.
    let session = machine.log_in("alice", PASSWORD);
    assert_eq!(session.body["role"], "operate", "{session:?}");
    let cookie = cookie(&session);
    fs::write(&groups, group("bob")).expect("its own file");
    assert_eq!(machine.at("/session", &["--header", &cookie]).status, 401);
    daemon.signal("-TERM");
    daemon.ended_well();
}
