//! Goal: the API of the daemon admits the right users, does what was planned and nothing else, and shows what goes on.
//! Method: the real daemon on image files; curl over the unix socket and TLS, a client of the test, and raw sockets for hostile
//! clients.

#[path = "../../format/tests/support/imsm.rs"]
mod imsm;
#[path = "support/member_name.rs"]
mod member_name;
mod support;

use rcgen::ExtendedKeyUsagePurpose;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use stria_manage::client::Client;
use stria_testkit::certificates::Authority;
use support::curl::{Answer, curl, curl_command};
use support::daemon::Daemon;
use support::{PATIENCE, Place};

const SIZE: u64 = 64 << 20;

/// A machine with five empty drives and no array.
fn machine(api: &str) -> (Place, Vec<String>) {
    let place = Place::new();
    place.is_a_machine();
    let folder = place.path("drives");
    fs::create_dir(&folder).expect("a folder");
    place.configure(&format!("search = [{:?}]", folder.display().to_string()));
    let text = fs::read_to_string(place.config()).expect("a configuration");
    let tokens = place.path("tokens").display().to_string();
    fs::write(place.config(), format!("{text}\n[api]\ntokens = {tokens:?}\n{api}\n")).expect("a file");
    let image = |index: u64| {
        let path = folder.join(format!("d{index}"));
        fs::File::create(&path).and_then(|file| file.set_len(SIZE)).expect("an image");
        path.display().to_string()
    };
    let drives = (0..5).map(image).collect();
    (place, drives)
}

fn socket(place: &Place) -> PathBuf {
    place.path("control.api")
}

/// An image with Intel's metadata: that of drive 0 of a RAID 5 of three, of which drive 1 has failed.
fn intel_image(path: &Path, damage: bool) {
    let mut bytes = imsm::raid5(0, 1);
    bytes[0xd8 + 48 + 0x18] |= 4;
    imsm::seal(&mut bytes);
    bytes[0x100] ^= u8::from(damage);
    let image = fs::File::create(path).and_then(|file| file.set_len(SIZE).map(|()| file)).expect("an image");
    let (first, rest) = bytes.split_at(512);
    image.write_all_at(first, SIZE - 1024).and_then(|()| image.write_all_at(rest, SIZE - 1536)).expect("metadata");
}

/// Only `stria examine` told it; the list of drives said that they carry something.
#[test]
fn drives_of_firmware_raid_tell_their_volumes_or_why_not() {
    let (place, _) = machine("");
    let path = |name: &str| place.path("drives").join(name);
    for (name, damage) in [("SERIAL0", false), ("copy", false), ("broken", true)] {
        intel_image(&path(name), damage);
    }
    let daemon = Daemon::start(&place);
    let drives = ask(&place, "/drives", None).body;
    let of = |name: &str| {
        let path = path(name).display().to_string();
        drives.as_array().expect("a list").iter().find(|drive| drive["path"] == *path).expect("the drive").clone()
    };
    let volume = &of("SERIAL0")["volumes"][0];
    let shown = ["name", "format", "level", "member_count", "slot", "missing_slots", "rebuilding_slots", "clean"];
    let shown: Vec<Value> = shown.iter().map(|key| volume[key].clone()).collect();
    assert_eq!(json!(shown), json!(["tank", "IMSM", "raid5", 3, 0, [1], [], true]), "{volume:#}");
    assert!(of("SERIAL0")["volumes_error"].is_null() && of("d0")["volumes"] == json!([]) && of("SERIAL0")["free"] == false);
    let said = of("copy")["volumes_error_said"].clone();
    assert_eq!(said, json!({"code": "firmware-other-serials", "values": {"serials": "SERIAL0, SERIAL1, SERIAL2"}}), "{said:#}");
    let broken = of("broken");
    let (said, text) = (&broken["volumes_error_said"], text_of(&broken["volumes_error"]));
    assert_eq!((&said["code"], &said["values"]["format"]), (&json!("firmware-metadata-damaged"), &json!("IMSM")), "{broken:#}");
    assert!(text.starts_with("its IMSM metadata are damaged: checksum 0x"), "{text}");
    let foreign = ask(&place, "/foreign", None).body;
    let codes = |key: &str| -> Vec<Value> {
        foreign["firmware"].as_array().expect("a list").iter().map(|member| member[key]["code"].clone()).collect()
    };
    assert_eq!(codes("reason_said"), vec![json!("carries-firmware-raid"); 3], "{foreign:#}");
    assert_eq!(codes("remedy_said"), vec![json!("firmware-raid-remedy"); 3]);
    daemon.signal("-TERM");
    daemon.ended_well();
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A request on the unix socket.
fn ask(place: &Place, path: &str, body: Option<Value>) -> Answer {
    let (socket, url) = (socket(place).display().to_string(), format!("http://localhost/api/v1{path}"));
    let body = body.map(|body| body.to_string());
    let mut arguments = vec!["--unix-socket", &socket, &url];
    if let Some(body) = &body {
        arguments.extend(["--json", body]);
    }
    curl(&arguments)
}

fn plan(place: &Place, action: Value) -> Value {
    let answer = ask(place, "/plans", Some(action));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// Plans, confirms and waits. Returns the job at its end.
fn do_it(place: &Place, action: Value) -> Value {
    let offer = plan(place, action);
    let answer = ask(place, "/jobs", Some(json!({"token": offer["token"], "confirm": offer["plan"]["confirm"]})));
    assert_eq!(answer.status, 202, "{answer:?}");
    ended(place, &answer.body)
}

fn ended(place: &Place, job: &Value) -> Value {
    let (end, path) = (Instant::now() + PATIENCE, format!("/jobs/{}", job["id"]));
    loop {
        let job = ask(place, &path, None).body;
        if job["state"] != "running" {
            return job;
        }
        assert!(Instant::now() < end, "waited in vain: {job:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn create(drives: &[String]) -> Value {
    json!({"action": "create", "name": "tank", "level": "5", "drives": drives, "assume_clean": true})
}

#[test]
fn what_was_planned_is_done_and_nothing_else() {
    let (place, drives) = machine("");
    let daemon = Daemon::start_with(&place, &[("TZ", "XYZ-5:30")]);
    let about = ask(&place, "", None);
    assert_eq!((&about.body["user"]["role"], &about.body["user"]["via"]), (&json!("admin"), &json!("unix")), "{about:?}");
    assert_eq!(about.body["zone"], "UTC+05:30", "{about:?}");
    let empty = ask(&place, "/summary", None).body;
    assert!(empty["sentence"].as_str().is_some_and(|text| text.contains("No array")), "{empty}");
    let free = ask(&place, "/drives", None).body;
    assert!(free.as_array().expect("a list").iter().all(|drive| drive["free"] == true && drive["kind"] == "file"), "{free:#}");
    assert_eq!(free.as_array().map(Vec::len), Some(5));

    // A spare is no drive of which the array is made, and no resync writes it.
    let mut with_spare = create(&drives[..3]);
    with_spare["spares"] = json!([drives[3]]);
    let planned = &plan(&place, with_spare)["plan"];
    assert!(planned["title"].as_str().is_some_and(|title| title.ends_with(" of 3 drives; spares: 1.")), "{planned:#}");
    assert_eq!(
        (&planned["writes"][3]["drive"], &planned["writes"][3]["what"]),
        (&json!(drives[3]), &json!("metadata of a spare"))
    );

    // A plan writes nothing. A confirmed plan does what it says.
    let offer = plan(&place, create(&drives[..3]));
    assert_eq!(offer["plan"]["forecast"]["losses_survived"], 1, "{offer:#}");
    assert_eq!(offer["plan"]["confirm"], Value::Null, "nothing is lost: {offer:#}");
    assert!(offer["plan"]["writes"].as_array().expect("a list").iter().all(|write| write["extents"][0]["length_bytes"].is_u64()));
    assert!(ask(&place, "/drives", None).body.as_array().expect("a list").iter().all(|drive| drive["free"] == true));
    let job = ended(&place, &ask(&place, "/jobs", Some(json!({"token": offer["token"]}))).body);
    assert_eq!(job["state"], "done", "{job:#}");
    let tank = ask(&place, "/arrays/tank", None).body;
    assert_eq!((&tank["state"], &tank["view"]["health"]), (&json!("served"), &json!("optimal")), "{tank:#}");
    assert_eq!(tank["view"]["size_bytes"], offer["plan"]["forecast"]["size_bytes"]);
    let again = ask(&place, "/jobs", Some(json!({"token": offer["token"]})));
    assert_eq!(again.kind(), (409, "plan_changed"), "a token is for one use");
    // Our own client gets the same answers.
    let arrays: Value = Client::at(socket(&place)).get("/api/v1/arrays").expect("an answer");
    assert_eq!(arrays[0]["name"], "tank");

    // A drive that changes between plan and confirmation.
    let add = json!({"action": "add", "array": "tank", "drive": drives[3]});
    let offer = plan(&place, add.clone());
    place.ok(&["create", "other", "--level", "1", &drives[3], "missing"]);
    let refused = ask(&place, "/jobs", Some(json!({"token": offer["token"]})));
    assert_eq!(refused.kind(), (409, "plan_changed"), "{refused:?}");
    assert_eq!(refused.body["error"]["said"], json!({"code": "plan-outdated", "values": {}}), "{refused:?}");
    let offer = plan(&place, add.clone());
    assert_eq!((&offer["plan"]["confirm"], &offer["plan"]["role"]), (&json!("tank"), &json!("admin")), "{offer:#}");
    // Another drive at its path, with the same content.
    let aside = place.path("aside");
    fs::rename(&drives[3], &aside).and_then(|()| fs::copy(&aside, &drives[3])).expect("a copy");
    let refused = ask(&place, "/jobs", Some(json!({"token": offer["token"], "confirm": "tank"})));
    assert_eq!(refused.kind(), (409, "plan_changed"), "{refused:?}");
    fs::rename(&aside, &drives[3]).expect("it is back");
    let offer = plan(&place, add.clone());
    let unconfirmed = ask(&place, "/jobs", Some(json!({"token": offer["token"], "confirm": "lake"})));
    assert_eq!(unconfirmed.kind(), (400, "invalid"));
    let job = do_it(&place, add);
    assert_eq!(job["state"], "done", "{job:#}");

    // An action that loses data needs a plan. A path that is no drive of the machine is not touched. An invalid request is
    // refused.
    let kinds = [
        ("/actions", json!({"action": "destroy", "array": "tank"}), (428, "plan_needed")),
        ("/plans", json!({"action": "destroy", "array": "tank"}), (409, "refused")),
        ("/plans", json!({"action": "destroy", "array": "lake"}), (404, "not_found")),
        ("/plans", json!({"action": "wipe", "drives": ["/etc/passwd"]}), (409, "refused")),
        ("/plans", json!({"action": "wipe", "drives": [drives[0]]}), (409, "refused")),
        ("/plans", json!({"action": "wipe", "drives": []}), (400, "invalid")),
        ("/plans", json!({"action": "wipe", "drives": [drives[4]], "means": "secure_erase"}), (409, "refused")),
        ("/plans", json!({"action": "wipe", "drives": [drives[4]], "means": "fire"}), (400, "invalid")),
        ("/plans", json!({"action": "firmware", "array": "tank", "drive": drives[0], "image": "image"}), (400, "invalid")),
        ("/plans", json!({"action": "firmware", "array": "tank", "drive": drives[0], "image": drives[4]}), (409, "refused")),
        (
            "/actions",
            json!({"action": "firmware", "array": "tank", "drive": drives[0], "image": drives[4]}),
            (428, "plan_needed"),
        ),
        ("/plans", json!({"action": "explode", "array": "tank"}), (400, "invalid")),
        ("/plans", json!({"action": "destroy", "array": "tank", "force": true}), (400, "invalid")),
        ("/plans", json!({"action": "create", "name": "a/b", "level": "1", "drives": [drives[4]]}), (400, "invalid")),
        ("/nothing", json!({}), (404, "not_found")),
    ];
    for (path, body, wanted) in kinds {
        let answer = ask(&place, path, Some(body.clone()));
        assert_eq!(answer.kind(), wanted, "{path} {body}: {answer:?}");
    }

    // A job goes on without its client, and follows the rebuild that it began.
    let job = do_it(&place, json!({"action": "fail", "array": "tank", "drive": drives[0]}));
    assert_eq!(job["state"], "done", "{job:#}");
    let summary = ask(&place, "/summary", None).body;
    assert!(summary["matters"][0]["since_ms"].is_u64() && summary["urgency"] != "well", "{summary:#}");
    place.settled("tank");
    let scrub = ask(&place, "/actions", Some(json!({"action": "scrub", "array": "tank"})));
    assert_eq!(scrub.status, 202, "{scrub:?}");
    let job = ended(&place, &scrub.body);
    assert!(job["state"] == "done" && job["ended_ms"].is_u64(), "{job:#}");
    let gone = do_it(&place, json!({"action": "remove", "array": "tank", "drive": drives[0]}));
    assert_eq!(gone["state"], "done", "{gone:#}");
    let summary = ask(&place, "/summary", None).body;
    // On a busy machine one image file may be slow beside the others, and is reported as slow.
    let is_slow = |matter: &Value| matter["what"].as_str().is_some_and(|text| text.contains("it slows all of them"));
    assert!(summary["matters"].as_array().expect("a list").iter().all(is_slow), "{summary:#}");
    assert!(summary["well"][0].as_str().is_some_and(|text| text.contains("the last scrub")), "{summary:#}");

    // The configuration is changed as a whole or not at all.
    let config = ask(&place, "/config", None).body;
    let put = |body: Value| {
        let (socket, body) = (socket(&place).display().to_string(), body.to_string());
        curl(&["--unix-socket", &socket, "--request", "PUT", "--json", &body, "http://localhost/api/v1/config"])
    };
    let broken = json!({"text": "[daemn]\n", "tag": config["tag"]});
    assert_eq!(put(broken.clone()).kind(), (400, "invalid"));
    assert_eq!(ask(&place, "/config/check", Some(broken)).body["good"], false);
    // All faults are told at once, as `config check` does.
    let faulty = format!("{}\n[nbd]\nclients = \"x\"\n[daemn]\n", config["text"].as_str().expect("text"));
    let verdict = ask(&place, "/config/check", Some(json!({"text": faulty, "tag": config["tag"]}))).body;
    let faults: Vec<&str> = verdict["faults"].as_array().expect("a list").iter().filter_map(|f| f["text"].as_str()).collect();
    assert_eq!((faults.len(), &verdict["good"]), (2, &json!(false)), "{verdict:#}");
    assert!(faults[0].contains("clients") && faults[1].contains("daemn"), "{verdict:#}");
    let refused = put(json!({"text": faulty, "tag": config["tag"]}));
    let told = refused.body["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(refused.kind() == (400, "invalid") && faults.iter().all(|fault| told.contains(fault)), "{refused:?}");
    let text = format!("# a comment\n{}", config["text"].as_str().expect("text"));
    assert_eq!(put(json!({"text": text, "tag": "0"})).kind(), (409, "plan_changed"));
    assert_eq!(put(json!({"text": text, "tag": config["tag"]})).status, 200);
    assert!(fs::read_to_string(place.config()).is_ok_and(|text| text.starts_with("# a comment\n")));
    // A file that somebody broke by hand is repaired in the same way.
    fs::write(place.config(), "[daemn]\n").expect("a file");
    let config = ask(&place, "/config", None).body;
    assert_eq!(config["text"], "[daemn]\n");
    assert_eq!(put(json!({"text": text, "tag": config["tag"]})).status, 200);
    assert!(fs::read_to_string(place.config()).is_ok_and(|now| now == text));

    // The end of the array, by its name.
    let stopped = ended(&place, &ask(&place, "/actions", Some(json!({"action": "stop", "array": "tank"}))).body);
    assert_eq!(stopped["state"], "done", "{stopped:#}");
    let job = do_it(&place, json!({"action": "rename", "array": "tank", "name": "lake"}));
    assert_eq!(job["state"], "done", "{job:#}");
    let job = do_it(&place, json!({"action": "start", "array": "lake", "force": true}));
    assert_eq!(job["state"], "done", "{job:#}");
    assert_eq!(do_it(&place, json!({"action": "stop", "array": "lake", "force": true}))["state"], "done");
    let job = do_it(&place, json!({"action": "destroy", "array": "lake"}));
    assert_eq!(job["state"], "done", "{job:#}");
    let drives = ask(&place, "/drives", None).body;
    let carry: Vec<&Value> = drives.as_array().expect("a list").iter().filter(|drive| drive["free"] != true).collect();
    assert!(carry.len() <= 1, "all but the failed drive, which was removed before, are free: {carry:#?}");
    daemon.signal("-TERM");
    daemon.ended_well();
    assert!(!socket(&place).exists());

    // Jobs and the record of orders outlive the daemon. A job that ran when it ended is not lost.
    let file = place.path("state").join("jobs.json");
    let mut kept: Vec<Value> = serde_json::from_slice(&fs::read(&file).expect("jobs")).expect("JSON");
    let last = kept.last_mut().expect("a job");
    assert_eq!((&last["action"]["action"], &last["state"]), (&json!("destroy"), &json!("done")), "{last:#}");
    (last["state"], last["ended_ms"]) = (json!("running"), Value::Null);
    kept.insert(0, json!({"id": 0, "action": {"action": "of another version"}}));
    fs::write(&file, json!(kept).to_string()).expect("a file");
    let daemon = Daemon::start(&place);
    let known = ask(&place, "/jobs", None).body;
    let known = known.as_array().expect("a list");
    let last = known.last().expect("a job");
    assert_eq!((known.len(), &last["state"]), (kept.len() - 1, &json!("failed")), "{known:#?}");
    assert!(last["ended_ms"].is_u64() && last["text"].as_str().is_some_and(|text| text.contains("the daemon ended")), "{last:#}");
    let audit = ask(&place, "/audit?limit=1000", None).body;
    let texts: Vec<&str> =
        audit["events"].as_array().expect("a list").iter().filter_map(|event| event["text"].as_str()).collect();
    let user = format!("(user {})", rustix::process::geteuid().as_raw());
    let id = &kept[1]["id"];
    let order = |event: &&Value| {
        event["array"] == "tank" && event["text"].as_str().is_some_and(|text| text.contains(&format!("ordered job {id}, ")))
    };
    let order = audit["events"].as_array().and_then(|events| events.iter().find(order)).and_then(|event| event["text"].as_str());
    let order = order.unwrap_or_else(|| panic!("the first job's order: {texts:#?}"));
    let title = kept[1]["title"].as_str().expect("a title");
    assert!([user.as_str(), title, "\"action\":\"create\"", "\"drives\":["].iter().all(|part| order.contains(part)), "{order}");
    let jobs = ask(&place, "/events?kind=job&array=lake", None).body;
    assert!(
        jobs["events"]
            .as_array()
            .is_some_and(|jobs| jobs.iter().any(|job| job["text"].as_str().is_some_and(|text| text.contains("Destroy")))),
        "{jobs:#}"
    );
    daemon.signal("-TERM");
    daemon.ended_well();
}

fn delete(place: &Place, path: &str) -> Answer {
    let socket = socket(place).display().to_string();
    curl(&["--unix-socket", &socket, "--request", "DELETE", &format!("http://localhost/api/v1{path}")])
}

/// The sentence of a job or of a refusal.
fn text(value: &Value) -> &str {
    value["text"].as_str().or(value["error"]["message"].as_str()).expect("a sentence")
}

/// The mark of a former member that the plan has seen is that of the drive that is opened, while it is still listed as failed
/// and after it was removed.
#[test]
fn a_former_member_is_brought_back_by_a_job() {
    let (place, drives) = machine("");
    let daemon = Daemon::start(&place);
    assert_eq!(do_it(&place, create(&drives[..3]))["state"], "done");
    for is_removed in [true, false] {
        assert_eq!(do_it(&place, json!({"action": "fail", "array": "tank", "drive": drives[1]}))["state"], "done");
        if is_removed {
            assert_eq!(do_it(&place, json!({"action": "remove", "array": "tank", "drive": drives[1]}))["state"], "done");
        }
        let add = json!({"action": "add", "array": "tank", "drive": drives[1]});
        assert!(plan(&place, add.clone())["plan"]["said"]["title"].to_string().contains("add-former-member"));
        let job = do_it(&place, add);
        assert_eq!(job["state"], "done", "{job:#}");
        place.wait_for("tank", "its member", |status| status["health"] == "optimal");
    }
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// Settings hold in the array and in the configuration, served or stopped; a pause that a client would not outlive is refused, or
/// confirmed by name.
#[test]
fn settings_are_planned_and_kept() {
    let (place, drives) = machine("");
    let _daemon = Daemon::start(&place);
    assert_eq!(do_it(&place, create(&drives[..3]))["state"], "done");
    let mut client = client_of_tank(&place);
    let set = |settings: Value| {
        let mut action = json!({"action": "set", "array": "tank"});
        action.as_object_mut().expect("an object").extend(settings.as_object().expect("an object").clone());
        action
    };
    let view = || ask(&place, "/arrays/tank", None).body["view"].clone();
    let config = || fs::read_to_string(place.config()).expect("a configuration");

    let offer = plan(&place, set(json!({"write": "back"})));
    assert_eq!((&offer["plan"]["confirm"], &offer["plan"]["role"]), (&json!("tank"), &json!("admin")), "{offer:#}");
    assert!(offer["plan"]["warnings"].to_string().contains("a power cut loses the writes"), "{offer:#}");
    // The same for programs, in the order of the texts.
    let said = &offer["plan"]["said"];
    assert_eq!((&said["title"]["code"], &said["title"]["values"]["settings"]["write"]), (&json!("set-array"), &json!("back")));
    let codes: Vec<&Value> = said["warnings"].as_array().expect("a list").iter().map(|of| &of["code"]).collect();
    assert_eq!(codes.len(), offer["plan"]["warnings"].as_array().expect("a list").len(), "{offer:#}");
    assert!(codes.contains(&&json!("back-costs")), "{offer:#}");
    let job = do_it(&place, set(json!({"write": "through"})));
    assert!(job["state"] == "done" && text(&job).contains("stored in the configuration"), "{job:#}");
    assert_eq!(view()["write"], "through");
    assert!(config().contains("write = \"through\""), "{}", config());

    // What would be refused in any case is refused before it is asked for.
    let refused = ask(&place, "/plans", Some(set(json!({"drive_caches": false}))));
    assert!(refused.kind() == (409, "refused") && text(&refused.body).contains("is a file, which has no cache"), "{refused:?}");

    let job = do_it(&place, set(json!({"bitmap": "none", "log": "none"})));
    assert!(job["state"] == "failed" && text(&job).contains("in use by"), "{job:#}");
    assert_eq!(job["ends"][0]["code"], "set-needs-pause", "{job:#}");
    assert!(view()["bitmap"].is_object(), "nothing has changed");
    let offer = plan(&place, set(json!({"bitmap": "none", "log": "none", "force": true})));
    let said = offer["plan"].to_string();
    assert!(
        said.contains("stopped for a moment") && said.contains("it is in use by") && offer["plan"]["confirm"] == "tank",
        "{offer:#}"
    );
    assert_eq!(offer["plan"]["writes"].as_array().map(Vec::len), Some(3), "{offer:#}");
    assert!(said.contains("without a write log"), "{offer:#}");
    let job = do_it(&place, set(json!({"bitmap": "none", "log": "none", "force": true})));
    assert_eq!(job["state"], "done", "{job:#}");
    assert_eq!((&view()["bitmap"], &view()["log"]), (&Value::Null, &Value::Null));
    assert!(client.write(0, &[1; 4096]).is_err(), "it was disconnected");

    // The same while it is stopped, and what makes no sense.
    let stopped = ended(&place, &ask(&place, "/actions", Some(json!({"action": "stop", "array": "tank"}))).body);
    assert_eq!(stopped["state"], "done", "{stopped:#}");
    let job = do_it(&place, set(json!({"bitmap": "internal:64K", "read_only": true})));
    assert!(job["state"] == "done" && text(&job).contains("was changed"), "{job:#}");
    assert!(config().contains("read-only = true"), "{}", config());
    let started = ended(&place, &ask(&place, "/actions", Some(json!({"action": "start", "array": "tank"}))).body);
    assert_eq!(started["state"], "done", "{started:#}");
    assert_eq!((&view()["bitmap"]["chunk_bytes"], &view()["read_only"]), (&json!(65536), &json!(true)));
    for (wrong, words) in
        [(json!({}), "no setting is named"), (json!({"bitmap": "some"}), "internal:CHUNK"), (json!({"log": "x"}), "auto")]
    {
        let answer = ask(&place, "/plans", Some(set(wrong)));
        assert_eq!(answer.kind(), (400, "invalid"), "{answer:?}");
        assert!(text(&answer.body).contains(words), "{answer:?}");
    }
    assert_eq!(ask(&place, "/actions", Some(set(json!({"write": "safe"})))).kind(), (428, "plan_needed"));
}

/// A client of the array `tank`, by the address that the daemon names.
fn client_of_tank(place: &Place) -> support::nbd::Client {
    let exports = ask(place, "/arrays/tank", None).body["view"]["exports"].clone();
    let uri = exports[0].as_str().expect("an address");
    support::nbd::Client::connect(Path::new(uri.split_once("?socket=").expect("a unix socket").1), "tank")
}

#[test]
fn the_pool_of_spares_is_shown_with_the_arrays_it_serves() {
    let (place, drives) = machine("");
    let _daemon = Daemon::start(&place);
    assert_eq!(do_it(&place, create(&drives[..3]))["state"], "done");
    place.ok(&["create", "old", "--level", "1", &drives[4], "missing"]);
    let pool = ask(&place, "/spares", None).body;
    assert_eq!((&pool["kind"], &pool["enclosure"], &pool["drives"]), (&json!("same"), &json!("prefer"), &json!([])), "{pool:#}");
    assert_eq!((&pool["offers"][0]["array"], &pool["offers"][0]["why_none"]), (&json!("tank"), &json!("the pool is empty")));

    // A blank drive joins it without a word; what another drive carries is lost, which a person confirms.
    let add = |drive: &String| json!({"action": "spare_add", "drives": [drive]});
    let offer = plan(&place, add(&drives[3]));
    assert_eq!((&offer["plan"]["confirm"], &offer["plan"]["role"]), (&Value::Null, &json!("operate")), "{offer:#}");
    assert_eq!(do_it(&place, add(&drives[3]))["state"], "done");
    let offer = plan(&place, add(&drives[4]));
    assert_eq!((&offer["plan"]["confirm"], &offer["plan"]["role"]), (&json!("pool"), &json!("admin")), "{offer:#}");
    assert!(offer["plan"]["loses"][0].as_str().is_some_and(|text| text.contains("\"old\"")), "{offer:#}");
    // An archive among the images has no signature: it was offered as a spare, and "nothing" was lost.
    let archive = place.path("drives").join("photos.tar");
    fs::write(&archive, vec![b'x'; 40_000_000]).expect("a file");
    let carries = "data without a known signature";
    let shown = ask(&place, "/drives", None).body;
    let found = shown.as_array().expect("a list").iter().find(|drive| drive["path"] == json!(archive)).expect("it is listed");
    assert_eq!((&found["free"], &found["carries"]), (&json!(false), &json!([carries])), "{found:#}");
    for action in
        [json!({"action": "spare_add", "drives": [archive]}), json!({"action": "add", "array": "tank", "drive": archive})]
    {
        let offer = plan(&place, action);
        let loses = offer["plan"]["loses"].to_string();
        assert!(offer["plan"]["confirm"] != Value::Null && loses.contains(carries), "{offer:#}");
    }
    let job = do_it(&place, add(&drives[4]));
    assert_eq!(job["state"], "done", "{job:#}");
    let pool = ask(&place, "/spares", None).body;
    assert!(pool["drives"].as_array().expect("a list").iter().all(|drive| drive["free"] == true), "{pool:#}");
    assert_eq!(pool["offers"][0]["drives"], json!([drives[3], drives[4]]), "{pool:#}");
    let page = ask(&place, "/drives", None).body;
    assert!(page.as_array().expect("a list").iter().any(|drive| drive["path"] == json!(drives[3]) && drive["pool"] == true));
    for (drive, words, code) in [
        (&drives[0], "in use by array", "drive-of-array"),
        (&drives[3], "is in the pool of spares", "drive-in-pool"),
        (&"/etc/passwd".into(), "GET /api/v1/drives", "drive-not-allowed"),
    ] {
        let refused = ask(&place, "/plans", Some(add(drive)));
        assert!(refused.kind() == (409, "refused") && text(&refused.body).contains(words), "{refused:?}");
        let said = &refused.body["error"]["said"];
        assert_eq!((&said["code"], &said["values"]["drive"]), (&json!(code), &json!(drive)), "{refused:?}");
    }

    // An array takes one; the other leaves the pool.
    assert_eq!(do_it(&place, json!({"action": "fail", "array": "tank", "drive": drives[0]}))["state"], "done");
    place.wait_for("tank", "the spare of the pool", |status| status["health"] == "optimal");
    let taken = ask(&place, "/spares", None).body;
    let states: Vec<&str> =
        taken["drives"].as_array().expect("a list").iter().filter_map(|drive| drive["state"].as_str()).collect();
    assert!(states.contains(&"taken by \"tank\"") && states.contains(&"free"), "{taken:#}");
    assert_eq!(do_it(&place, json!({"action": "spare_remove", "drives": [drives[3], drives[4]]}))["state"], "done");
    assert_eq!(ask(&place, "/spares", None).body["drives"], json!([]));
    let refused = ask(&place, "/plans", Some(json!({"action": "spare_remove", "drives": [drives[3]]})));
    assert!(refused.kind() == (409, "refused") && text(&refused.body).contains("not in the pool"), "{refused:?}");
}

/// While the file of the configuration is damaged, the configuration read before stays in force, so a failed drive can still be
/// replaced.
#[test]
fn a_damaged_configuration_hides_no_drive_and_stops_no_replacement() {
    let (place, drives) = machine("");
    let _daemon = Daemon::start(&place);
    assert_eq!(do_it(&place, create(&drives[..3]))["state"], "done");
    let good = fs::read_to_string(place.config()).expect("a configuration");
    fs::write(place.config(), format!("{good}\n[daemn]\n")).expect("a file");
    let before = ask(&place, "/drives", None);
    assert_eq!((before.status, before.body.as_array().map(Vec::len)), (200, Some(5)), "{before:?}");
    for path in ["/spares", "/foreign"] {
        assert_eq!(ask(&place, path, None).status, 200, "{path}");
    }
    assert_eq!(ask(&place, "/config/check", Some(json!({"text": "[daemn]\n", "tag": ""}))).body["good"], false);
    assert_eq!(do_it(&place, json!({"action": "fail", "array": "tank", "drive": drives[1]}))["state"], "done");
    let job = do_it(&place, json!({"action": "add", "array": "tank", "drive": drives[3]}));
    assert_eq!(job["state"], "done", "{job:#}");
    // An action that writes the file is refused, and the refusal names the fault.
    let refused = ask(&place, "/plans", Some(json!({"action": "spare_remove", "drives": [drives[4]]})));
    assert!(refused.status >= 400 && format!("{refused:?}").contains("daemn"), "{refused:?}");
}

#[test]
fn what_another_machine_left_is_listed_and_imported_under_a_free_name() {
    let (place, drives) = machine("");
    let _daemon = Daemon::start(&place);
    assert_eq!(do_it(&place, create(&drives[..3]))["state"], "done");
    assert_eq!(ask(&place, "/foreign", None).body, json!({"arrays": [], "firmware": []}));
    place.ok(&["create", "tank", "--level", "1", "--assume-clean", &drives[3], &drives[4]]);
    // mdadm puts its host before the name.
    drives[3..].iter().for_each(|image| member_name::rename(image, "elsewhere:tank"));
    let found = ask(&place, "/foreign", None).body;
    let array = &found["arrays"][0];
    assert_eq!(
        (&array["host"], &array["clash"], &array["starts"]),
        (&json!("elsewhere"), &json!(true), &json!(true)),
        "{found:#}"
    );
    let import = |name: Value| json!({"action": "import", "array": array["uuid"], "name": name});
    let refused = ask(&place, "/plans", Some(import(Value::Null)));
    assert!(
        refused.kind() == (409, "refused") && text(&refused.body).contains("another array here is called \"tank\""),
        "{refused:?}"
    );
    let offer = plan(&place, import(json!("theirs")));
    assert_eq!(offer["plan"]["writes"].as_array().map(Vec::len), Some(2), "{offer:#}");
    assert_eq!((&offer["plan"]["role"], &offer["plan"]["loses"]), (&json!("admin"), &json!([])), "{offer:#}");
    let job = do_it(&place, import(json!("theirs")));
    assert!(job["state"] == "done" && text(&job).contains("is called \"theirs\" now, on 2 drives"), "{job:#}");
    assert_eq!(ask(&place, "/arrays/theirs", None).body["state"], "served");
    assert_eq!(place.status("theirs")["full_name"], "theirs");
    assert_eq!(ask(&place, "/foreign", None).body["arrays"], json!([]));
    let uuid = array["uuid"].as_str().expect("text");
    let refused = ask(&place, "/plans", Some(json!({"action": "import", "array": uuid})));
    assert!(text(&refused.body).contains("belongs to Stria already"), "{refused:?}");
}

/// The name of an array over spans lies within the spans, under their parity.
#[test]
fn an_array_over_spans_is_renamed() {
    let (place, mut drives) = machine("");
    let sixth = place.path("drives").join("d5");
    fs::File::create(&sixth).and_then(|file| file.set_len(SIZE)).expect("an image");
    drives.push(sixth.display().to_string());
    let _daemon = Daemon::start(&place);
    let create = json!({"action": "create", "name": "tank", "level": "50", "drives": drives, "assume_clean": true});
    assert_eq!(do_it(&place, create)["state"], "done");
    let stopped = ended(&place, &ask(&place, "/actions", Some(json!({"action": "stop", "array": "tank"}))).body);
    assert_eq!(stopped["state"], "done", "{stopped:#}");
    let rename = json!({"action": "rename", "array": "tank", "name": "lake"});
    let offer = plan(&place, rename.clone());
    assert_eq!(offer["plan"]["writes"].as_array().map(Vec::len), Some(6), "{offer:#}");
    let job = do_it(&place, rename);
    assert!(job["state"] == "done" && text(&job).contains("on 6 drives"), "{job:#}");
    let started = ended(&place, &ask(&place, "/actions", Some(json!({"action": "start", "array": "lake"}))).body);
    assert_eq!(started["state"], "done", "{started:#}");
    let spans = ask(&place, "/arrays/lake", None).body["view"]["spans"].clone();
    assert_eq!((&spans[0]["name"], &spans[1]["name"]), (&json!("lake-span0"), &json!("lake-span1")), "{spans:#}");
    assert!(place.ok(&["scrub", "lake", "--wait"]).contains("0 sectors with mismatches"));
}

/// Two copies differ: the drives and the place are named before anything is repaired, the plan says what a repair loses, and its
/// end that it repaired.
#[test]
fn a_mismatch_without_a_culprit_names_its_drives_and_what_a_repair_loses() {
    use std::os::unix::fs::FileExt;
    let (place, drives) = machine("");
    let _daemon = Daemon::start(&place);
    let make = |name: &str, level: &str, drives: &[String]| {
        let action = json!({"action": "create", "name": name, "level": level, "drives": drives, "assume_clean": true});
        assert_eq!(do_it(&place, action)["state"], "done");
    };
    make("pair", "1", &drives[..2]);
    make("tank", "5", &drives[2..]);
    for drive in &drives[1..3] {
        let file = fs::OpenOptions::new().write(true).open(drive).expect("an image");
        file.write_all_at(&[0xff; 4096], 32 << 20).and_then(|()| file.sync_all()).expect("it writes");
    }
    for name in ["pair", "tank"] {
        assert_eq!(
            ended(&place, &ask(&place, "/actions", Some(json!({"action": "scrub", "array": name}))).body)["state"],
            "done"
        );
    }
    let state = ask(&place, "/state", None).body;
    let of = |name: &str| {
        let matters = state["summary"]["matters"].as_array().expect("a list");
        matters.iter().find(|matter| matter["array"] == name).cloned().expect("a matter")
    };
    let (pair, tank) = (of("pair"), of("tank"));
    assert_eq!(pair["drives"], json!(drives[..2]), "{pair:#}");
    let what = pair["what"].as_str().unwrap_or_default();
    let wanted = format!("the copies on {}, {} differ in 8 sectors, from ", drives[0], drives[1]);
    assert!(what.contains(&wanted), "{what}");
    assert!(
        tank["what"].as_str().is_some_and(|what| what.contains("data and parity that differ in 8 sectors, from ")),
        "{tank:#}"
    );
    let explained = support::unwrapped(&place.run(&["explain", "pair"]).stdout);
    assert!(explained.contains(&wanted) && explained.contains("first look at what"), "{explained}");
    let status = support::unwrapped(&place.run(&["status", "pair"]).stdout);
    assert!(status.contains("`stria explain pair` says what to do first") && !status.contains("--repair"), "{status}");

    let repair = |name: &str| json!({"action": "scrub", "array": name, "repair": true});
    let planned = &plan(&place, repair("pair"))["plan"];
    assert!(
        planned["loses"][0].as_str().is_some_and(|loses| loses.starts_with("one of two versions of 8 sectors")),
        "{planned:#}"
    );
    assert!(
        planned["writes"].as_array().is_some_and(|writes| writes.iter().all(|write| write["loses"].is_string())),
        "{planned:#}"
    );
    for name in ["pair", "tank"] {
        let job = do_it(&place, repair(name));
        assert!(text(&job).ends_with(": 8 sectors did not match, and were repaired"), "{job:#}");
    }
    let events = ask(&place, "/events", None).body.to_string();
    assert!(events.contains(&format!("the copies on {}, {} differed", drives[0], drives[1])), "{events}");
    assert_eq!(plan(&place, repair("pair"))["plan"]["loses"], json!([]), "nothing differs any more");
    assert_eq!(ask(&place, "/state", None).body["summary"]["matters"], json!([]));
}

/// A scrub and a trim end early. Other jobs, and those that have ended, say why they do not.
#[test]
fn jobs_are_cancelled_where_their_work_can_end() {
    let (place, drives) = machine("");
    let _daemon = Daemon::start(&place);
    assert_eq!(do_it(&place, create(&drives[..3]))["state"], "done");
    let act = |action: Value| ask(&place, "/actions", Some(action)).body;
    assert_eq!(ended(&place, &act(json!({"action": "speed", "array": "tank", "max_bytes_per_s": 4096})))["state"], "done");
    let job = act(json!({"action": "scrub", "array": "tank"}));
    let path = format!("/jobs/{}", job["id"]);
    let runs = |path: &str| {
        let end = Instant::now() + PATIENCE;
        while ask(&place, path, None).body["task"].is_null() {
            assert!(Instant::now() < end, "it does not run: {:?}", ask(&place, path, None));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // It can be cancelled once it runs.
    runs(&path);
    let cancelled = delete(&place, &path);
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let job = ended(&place, &job);
    assert!(job["state"] == "cancelled" && text(&job).contains("cancelled it"), "{job:#}");
    let again = delete(&place, &path);
    assert!(again.kind() == (409, "refused") && text(&again.body).contains("has ended already"), "{again:?}");
    assert_eq!(delete(&place, "/jobs/4711").kind(), (404, "not_found"));
    assert_eq!(delete(&place, "/jobs/last").kind(), (404, "not_found"));

    // A rebuild goes on: it restores redundancy. It is slow, as the bound on its speed still holds.
    assert_eq!(do_it(&place, json!({"action": "fail", "array": "tank", "drive": drives[0]}))["state"], "done");
    let offer = plan(&place, json!({"action": "add", "array": "tank", "drive": drives[3]}));
    let job = ask(&place, "/jobs", Some(json!({"token": offer["token"]}))).body;
    let refused = delete(&place, &format!("/jobs/{}", job["id"]));
    assert!(refused.kind() == (409, "refused") && text(&refused.body).contains("restores redundancy"), "{refused:?}");

    // What the engine refuses has its sentence as the end of the job, and in the event of that.
    runs(&format!("/jobs/{}", job["id"]));
    let job = ended(&place, &act(json!({"action": "scrub", "array": "tank"})));
    let ends = json!([{"code": "scrub-while", "values": {"task": "rebuild", "percent": job["ends"][0]["values"]["percent"]}}]);
    assert_eq!((&job["state"], &job["ends"]), (&json!("failed"), &ends), "{job:#}");
    // The event follows once the job's end is on disk.
    let end = Instant::now() + PATIENCE;
    let last = loop {
        let events = ask(&place, "/events?kind=job", None).body;
        let last = events["events"].as_array().and_then(|events| events.last()).cloned().expect("an event");
        if last["said"]["values"]["job"] == job["id"] || Instant::now() > end {
            break last;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!((&last["said"]["code"], &last["said"]["values"]["ends"]), (&json!("job-failed"), &ends), "{last:#}");
    // The alarm of the failed drive, and the matter of a member, say what is left.
    let alarm = || ask(&place, "/alarms", None).body[0].clone();
    let end = Instant::now() + PATIENCE;
    while alarm().is_null() {
        assert!(Instant::now() < end, "no alarm stands");
        std::thread::sleep(Duration::from_millis(100));
    }
    let said = alarm()["said"].clone();
    let values = &said["values"];
    let expected = (&json!("alarm-member-dropped"), &json!(drives[0]), &json!("failed on command"), &json!(0));
    assert_eq!((&said["code"], &values["drive"], &values["detail"], &values["then"]["losses_survived"]), expected, "{said:#}");

    // Whoever knows of it says so. The matter stays what it is.
    let matter = || ask(&place, "/summary", None).body["matters"][0].clone();
    let (urgency, wanted) = (matter()["urgency"].clone(), json!({"event": "Fail", "array": "tank", "component": drives[0]}));
    assert!(urgency != "well" && matter()["acknowledged"].is_null(), "{:#}", matter());
    let known = ask(&place, "/alarms/acknowledge", Some(wanted)).body["acknowledged"].clone();
    assert!(known["by"].as_str().is_some_and(|by| by.contains("(user ")) && known["at_s"].as_u64() > Some(0), "{known:#}");
    assert_eq!((&alarm()["acknowledged"], &matter()["acknowledged"], &matter()["urgency"]), (&known, &known, &urgency));
    let order = ask(&place, "/audit?limit=1", None).body["events"][0].clone();
    let values = json!({"alarm": "Fail", "array": "tank", "component": drives[0]});
    let expected = (&json!("tank"), &json!("order-taken"), &json!({"code": "order-acknowledge", "values": values}));
    assert_eq!((&order["array"], &order["said"]["code"], &order["said"]["values"]["order"]), expected, "{order:#}");
    let other = json!({"event": "Fail", "array": "tank", "component": drives[1]});
    let refused = ask(&place, "/alarms/acknowledge", Some(other));
    assert!(refused.kind() == (404, "not_found") && text(&refused.body).contains("is not open"), "{refused:?}");
    let back = json!({"event": "Fail", "array": "tank", "component": drives[0], "undo": true});
    assert!(ask(&place, "/alarms/acknowledge", Some(back)).body["acknowledged"].is_null());
    assert!(alarm()["acknowledged"].is_null() && matter()["acknowledged"].is_null());

    // A trim of sparse images of 4 TiB has thousands of parts.
    let large: Vec<String> = ["d5", "d6"].map(|name| place.path("drives").join(name).display().to_string()).to_vec();
    large.iter().for_each(|path| fs::File::create(path).and_then(|file| file.set_len(4 << 40)).expect("an image"));
    let create = json!({"action": "create", "name": "vast", "level": "0", "drives": large});
    assert_eq!(do_it(&place, create)["state"], "done");
    let offer = plan(&place, json!({"action": "trim", "array": "vast", "start_bytes": 0}));
    let job = ask(&place, "/jobs", Some(json!({"token": offer["token"], "confirm": "vast"}))).body;
    let cancelled = delete(&place, &format!("/jobs/{}", job["id"]));
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let job = ended(&place, &job);
    assert!(job["state"] == "cancelled" && text(&job).contains("was cancelled: the first"), "{job:#}");
}

/// A pause, and a measurement of what a sweep costs, hold a sweep in the midst; its job waits, and can be cancelled meanwhile.
#[test]
fn a_job_outlives_a_pause_of_its_sweep() {
    let (place, drives) = machine("");
    let _daemon = Daemon::start(&place);
    assert_eq!(do_it(&place, create(&drives[..3]))["state"], "done");
    let act = |action: Value| ask(&place, "/actions", Some(action)).body;
    let do_now = |action: Value| assert_eq!(ended(&place, &act(action))["state"], "done");
    let job = |job: &Value| ask(&place, &format!("/jobs/{}", job["id"]), None).body;
    let until = |what: &str, known: &Value, is_so: &dyn Fn(&Value) -> bool| {
        let end = Instant::now() + PATIENCE;
        while !is_so(&job(known)) {
            assert!(Instant::now() < end, "waited in vain for {what}: {:#}", job(known));
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let runs = |job: &Value| job["state"] == "running" && !job["task"].is_null();
    let is_held = |job: &Value| job["state"] == "running" && job["task"].is_null() && text(job).contains("paused");
    do_now(json!({"action": "speed", "array": "tank", "max_bytes_per_s": 4096}));
    let scrub = act(json!({"action": "scrub", "array": "tank"}));
    until("the scrub", &scrub, &runs);
    do_now(json!({"action": "pause", "array": "tank"}));
    until("the pause", &scrub, &is_held);
    do_now(json!({"action": "resume", "array": "tank"}));
    until("the scrub again", &scrub, &runs);
    // Nobody works, so there is no price; the sweep was held to learn that.
    let price = ask(&place, "/arrays/tank/price", Some(json!(null)));
    assert!(price.status == 409 && text(&price.body).contains("no client"), "{price:?}");
    until("the scrub after the measurement", &scrub, &runs);
    assert_eq!(ask(&place, "/arrays/tank", None).body["view"]["measuring"], false);
    do_now(json!({"action": "pause", "array": "tank"}));
    until("the second pause", &scrub, &is_held);
    assert_eq!(delete(&place, &format!("/jobs/{}", scrub["id"])).status, 200);
    assert_eq!(ended(&place, &scrub)["state"], "cancelled");
    let nothing = act(json!({"action": "cancel_scrub", "array": "tank"}));
    assert_eq!(ended(&place, &nothing)["state"], "failed", "no scrub is left");
    do_now(json!({"action": "resume", "array": "tank"}));

    // A rebuild that was ordered is followed over a pause to its end.
    assert_eq!(do_it(&place, json!({"action": "fail", "array": "tank", "drive": drives[0]}))["state"], "done");
    let offer = plan(&place, json!({"action": "add", "array": "tank", "drive": drives[3]}));
    let add = ask(&place, "/jobs", Some(json!({"token": offer["token"]}))).body;
    until("the rebuild", &add, &runs);
    do_now(json!({"action": "pause", "array": "tank"}));
    until("the pause of the rebuild", &add, &is_held);
    do_now(json!({"action": "speed", "array": "tank", "max_bytes_per_s": 0}));
    assert_eq!(ask(&place, "/arrays/tank", None).body["view"]["speed"]["max_bytes_per_s"], Value::Null, "0 lifts the bound");
    do_now(json!({"action": "resume", "array": "tank"}));
    assert_eq!(ended(&place, &add)["state"], "done");
}

#[test]
fn a_drive_without_a_light_says_so() {
    let (place, drives) = machine("");
    let _daemon = Daemon::start(&place);
    let locate = |drive: &str| ask(&place, "/actions", Some(json!({"action": "locate", "drive": drive, "on": true})));
    let job = ended(&place, &locate(&drives[0]).body);
    assert!(job["state"] == "failed" && text(&job).contains("a file has no light"), "{job:#}");
    let refused = locate("/etc/passwd");
    assert!(refused.kind() == (409, "refused") && text(&refused.body).contains("not a drive of this machine"), "{refused:?}");
}

/// Reads events of a stream until one is wanted.
fn listen(
    place: &Place,
    last: Option<&str>,
    mut is_wanted: impl FnMut(&str, &Value) -> bool,
) -> Vec<(String, Option<String>, Value)> {
    let mut stream = UnixStream::connect(socket(place)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let last = last.map_or_else(String::new, |last| format!("last-event-id: {last}\r\n"));
    write!(stream, "GET /api/v1/stream HTTP/1.1\r\nhost: localhost\r\n{last}\r\n").expect("it reads");
    let (mut events, mut kind, mut id) = (Vec::new(), String::new(), None);
    for line in BufReader::new(stream).lines() {
        let line = line.expect("text");
        match line.split_once(": ") {
            Some(("event", word)) => kind = word.to_owned(),
            Some(("id", text)) => id = Some(text.to_owned()),
            Some(("data", data)) => {
                let data: Value = serde_json::from_str(data).expect("JSON");
                let is_last = is_wanted(&kind, &data);
                events.push((std::mem::take(&mut kind), id.take(), data));
                if is_last {
                    break;
                }
            }
            _ => {}
        }
    }
    events
}

#[test]
fn a_stream_goes_on_where_it_broke_off() {
    let (place, drives) = machine("");
    let daemon = Daemon::start(&place);
    assert_eq!(do_it(&place, create(&drives[..3]))["state"], "done");
    // The stream begins with the state. A second state with rates, or a beat, follows.
    let mut count = 0;
    let first = listen(&place, None, |kind, data| {
        count += usize::from(kind == "state" || kind == "beat");
        assert!(kind == "event" || data["time_ms"].is_u64(), "{data}");
        count == 3
    });
    assert_eq!((first[0].0.as_str(), &first[0].2["arrays"][0]["name"]), ("state", &json!("tank")));
    let boot = first[0].2["boot"].as_str().expect("a run").to_owned();

    // Reads a stream while the array stops.
    let stopping = std::thread::scope(|scope| {
        let listener = scope.spawn(|| listen(&place, None, |kind, data| kind == "event" && data["kind"] == "stopped"));
        // The listener must be there before the event, so the first event is repeated until it has arrived.
        while !listener.is_finished() {
            let _ = ask(&place, "/actions", Some(json!({"action": "stop", "array": "tank"})));
            let _ = ask(&place, "/actions", Some(json!({"action": "start", "array": "tank"})));
        }
        listener.join().expect("no panic")
    });
    let id = stopping.last().and_then(|(_, id, _)| id.clone()).expect("an id");
    let last: u64 = id.strip_prefix(&format!("{boot}.")).and_then(|text| text.parse().ok()).expect("of this run");
    // Missed events come in order, from the one after the id.
    let missed = listen(&place, Some(&format!("{boot}.1")), |kind, data| kind == "event" && data["sequence"] == last);
    let sequences: Vec<u64> =
        missed.iter().filter(|(kind, ..)| kind == "event").filter_map(|(_, _, data)| data["sequence"].as_u64()).collect();
    assert_eq!(sequences, (2..=last).collect::<Vec<_>>());
    // An id of another run of the daemon cannot be resumed, and the stream says so.
    let other = listen(&place, Some("1234.7"), |kind, _| kind == "reset");
    assert_eq!(other.last().map(|(_, _, data)| &data["boot"]), Some(&json!(boot)));

    // Open streams do not delay the end.
    let _open = UnixStream::connect(socket(&place))
        .and_then(|mut stream| stream.write_all(b"GET /api/v1/stream HTTP/1.1\r\nhost: localhost\r\n\r\n").map(|()| stream));
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// The port of the API, from the events.
fn port(place: &Place) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let events = ask(place, "/events?kind=api", None).body;
        let text = events["events"][0]["text"].as_str().unwrap_or_default().to_owned();
        if let Some((_, port)) = text.rsplit_once(':') {
            return port.to_owned();
        }
        assert!(Instant::now() < end, "{events:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The summary, once `is_so` is true of it.
fn summary_when(place: &Place, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let summary = ask(place, "/summary", None).body;
        if is_so(&summary) {
            return summary;
        }
        assert!(Instant::now() < end, "{what}: {summary:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The first screen says what does not work, and TCP needs no restart.
#[test]
fn other_machines_come_once_the_files_are_good_and_the_port_is_free() {
    let (place, _) = machine("");
    let folder = place.path("tls");
    let [cert, key, ca] =
        ["server-cert.pem", "server-key.pem", "ca-cert.pem"].map(|name| folder.join(name).display().to_string());
    let text = fs::read_to_string(place.config()).expect("a configuration");
    let configure = |listen: &[String]| {
        let keys = format!("[api]\nlisten = {listen:?}\ntls-cert = {cert:?}\ntls-key = {key:?}\n");
        fs::write(place.config(), text.replace("[api]\n", &keys)).expect("a file");
    };
    let any = "127.0.0.1:0".to_owned();
    configure(std::slice::from_ref(&any));
    let daemon = Daemon::start(&place);
    let faulty = |summary: &Value| summary["matters"][0]["kind"] == "ConfigFault";
    let summary = summary_when(&place, "no certificate", faulty);
    let (sentence, matter) = (summary["sentence"].as_str().expect("a text"), &summary["matters"][0]);
    assert!(sentence.starts_with("the configuration: [api]: ") && sentence.contains(&cert), "{summary:#}");
    assert_eq!((&matter["array"], &matter["urgency"], &matter["drives"]), (&json!(""), &json!("critical"), &json!([])));
    assert_eq!(summary["told_by"], json!([]), "no channel is configured");
    // A bad file again, then good ones: no reload, no restart.
    fs::create_dir(&folder).expect("a folder");
    fs::write(&cert, "no certificate").expect("a file");
    let authority = Authority::with_both(&folder);
    assert_eq!(authority.file("server-cert.pem").display().to_string(), cert);
    let url = format!("https://localhost:{}/api/v1", port(&place));
    assert_eq!(curl(&["--cacert", &ca, &url]).kind(), (401, "unauthorized"));
    summary_when(&place, "its end", |summary| !faulty(summary));
    // Another address, whose port is taken until later.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    configure(&[any, address.clone()]);
    let told = place.ok(&["reload"]);
    assert!(told.contains("[api] applies when the daemon restarts, but for addresses"), "{told}");
    let summary = summary_when(&place, "no port", faulty);
    assert!(summary["sentence"].as_str().is_some_and(|text| text.contains(&address)), "{summary:#}");
    assert_eq!(curl(&["--cacert", &ca, &url]).status, 401, "the other address is served");
    drop(taken);
    summary_when(&place, "its end", |summary| !faulty(summary));
    let url = format!("https://{}/api/v1", address.replace("127.0.0.1", "localhost"));
    assert_eq!(curl(&["--cacert", &ca, &url]).status, 401);
    // They are renewed, by another authority.
    Authority::with_both(&folder);
    let end = Instant::now() + PATIENCE;
    let trusted =
        || std::process::Command::new("curl").args(["--silent", "--cacert", &ca, &url]).status().is_ok_and(|it| it.success());
    while !trusted() {
        assert!(Instant::now() < end, "the renewed files are not used");
        std::thread::sleep(Duration::from_millis(100));
    }
    fs::write(&cert, "no certificate").expect("a file");
    let summary = summary_when(&place, "a bad file", faulty);
    assert!(summary["sentence"].as_str().is_some_and(|text| text.contains("what was read before")), "{summary:#}");
    assert!(trusted());
    daemon.signal("-TERM");
    daemon.ended_well();
}

#[test]
fn other_machines_come_by_tls_and_show_who_they_are() {
    let (place, drives) = machine("");
    let folder = place.path("tls");
    let authority = Authority::with_both(&folder);
    authority.sign("stranger", ExtendedKeyUsagePurpose::ClientAuth);
    let file = |name: &str| authority.file(name).display().to_string();
    let text = fs::read_to_string(place.config()).expect("a configuration");
    let without = text.replace("[api]\n", "[api]\nlisten = [\"0.0.0.0:0\"]\n");
    fs::write(place.config(), &without).expect("a file");
    place.run(&["config", "check"]).refused(1, &["[api]", "TLS only", "tls-cert"]);
    let (cert, key, ca) = (file("server-cert.pem"), file("server-key.pem"), file("ca-cert.pem"));
    let keys = format!("[api]\nlisten = [\"127.0.0.1:0\"]\ntls-cert = {cert:?}\ntls-key = {key:?}\ntls-ca = {ca:?}\n");
    fs::write(place.config(), text.replace("[api]\n", &keys)).expect("a file");
    place.ok(&["config", "check"]);
    let daemon = Daemon::start(&place);
    assert_eq!(do_it(&place, create(&drives[..3]))["state"], "done");
    let base = format!("https://localhost:{}", port(&place));
    let at = |path: &str, arguments: &[&str]| {
        let url = format!("{base}{path}");
        curl(&[&["--cacert", &ca, &url], arguments].concat())
    };
    let token = |name: &str, role: &str| {
        let line = place.ok(&["token", "create", name, "--role", role]);
        assert_eq!(fs::metadata(place.path("tokens")).expect("a file").permissions().mode() & 0o777, 0o600);
        line.trim().to_owned()
    };

    // No user, then a viewer, an operator and an admin.
    assert_eq!(at("/api/v1", &[]).kind(), (401, "unauthorized"));
    let [viewer, operator, admin] = [("eve", "view"), ("olga", "operate"), ("ada", "admin")]
        .map(|(name, role)| format!("authorization: Bearer {}", token(name, role)));
    place.run(&["token", "create", "eve"]).refused(1, &["eve", "remove"]);
    let stop = json!({"action": "scrub", "array": "tank"}).to_string();
    let wipe = json!({"action": "wipe", "drives": [drives[4]]}).to_string();
    // An update of firmware reads any file of the machine with the daemon's rights: only an admin learns whether it is there.
    let image = place.path("secret").display().to_string();
    fs::write(&image, [7; 4096]).expect("a file");
    for (head, refusal) in [(&operator, "forbidden"), (&admin, "refused")] {
        let texts: Vec<String> = [image.as_str(), "/nowhere/image"]
            .map(|image| {
                let body = json!({"action": "firmware", "array": "tank", "drive": drives[0], "image": image}).to_string();
                let answer = at("/api/v1/plans", &["--header", head, "--json", &body]);
                assert_eq!(answer.kind().1, refusal, "{answer:?}");
                answer.body["error"]["message"].as_str().expect("a sentence").to_owned()
            })
            .to_vec();
        assert_eq!(texts[0], texts[1], "the drive is looked at first, and a file is none");
    }
    for (head, role, may_scrub, may_read) in
        [(&viewer, "view", 403, 403), (&operator, "operate", 202, 403), (&admin, "admin", 202, 200)]
    {
        let about = at("/api/v1", &["--header", head]).body;
        assert_eq!((&about["user"]["role"], &about["user"]["via"]), (&json!(role), &json!("token")), "{about:#}");
        let answer = at("/api/v1/actions", &["--header", head, "--json", &stop]);
        assert_eq!(answer.status, may_scrub, "{role}: {answer:?}");
        if may_scrub == 202 {
            ended(&place, &answer.body);
        }
        assert_eq!(at("/api/v1/config", &["--header", head]).status, may_read, "{role}");
    }
    // A viewer's orders leave one event, and nothing that he wrote.
    let long = place.path("long");
    fs::write(&long, json!({"action": "pause", "array": "x".repeat(200_000)}).to_string()).expect("a file");
    let long = ["--header", "content-type: application/json", "--data-binary", &format!("@{}", long.display())];
    for _ in 0..3 {
        assert_eq!(at("/api/v1/actions", &[&["--header", &viewer][..], &long].concat()).kind(), (403, "forbidden"));
        assert_eq!(at("/api/v1/actions", &[&["--header", &operator][..], &long].concat()).status, 404);
    }
    let audit = ask(&place, "/audit?limit=1000", None).body;
    let events = audit["events"].as_array().expect("a list");
    let of = |who: &str| {
        let is_of = |event: &&Value| event["text"].as_str().is_some_and(|text| text.contains(who) && text.contains("refused"));
        events.iter().filter(is_of).collect::<Vec<_>>()
    };
    let (viewers, operators) = (of("token eve"), of("token olga"));
    assert!(viewers.len() == 1 && !viewers[0].to_string().contains("xx"), "{viewers:#?}");
    // An event has its words twice: for people, and as values for programs.
    assert!(operators.len() >= 3 && operators.iter().all(|event| event.to_string().len() < 2600), "{operators:#?}");
    // An operator may ask for a plan, which says that only an admin carries it out. The plan is of no use to other users.
    let offer = at("/api/v1/plans", &["--header", &operator, "--json", &wipe]).body;
    assert_eq!(offer["plan"]["role"], "admin", "{offer:#}");
    let confirm = json!({"token": offer["token"], "confirm": offer["plan"]["confirm"]}).to_string();
    assert_eq!(at("/api/v1/jobs", &["--header", &admin, "--json", &confirm]).kind(), (409, "plan_changed"));
    assert_eq!(at("/api/v1/jobs", &["--header", &operator, "--json", &confirm]).kind(), (403, "forbidden"));

    // The refusal names the damaged line by its number. The fault is a matter until the line is repaired.
    let tokens = fs::read_to_string(place.path("tokens")).expect("a file");
    fs::write(place.path("tokens"), format!("{tokens}eve king 12\n")).expect("a file");
    let line = format!("tokens:{}:", tokens.lines().count() + 1);
    let refused = at("/api/v1", &["--header", &operator]);
    assert!(refused.kind() == (500, "failed") && refused.body.to_string().contains(&line), "{refused:?}");
    let is_faulty = |summary: &Value| summary["matters"].to_string().contains("[api] tokens");
    summary_when(&place, "the fault of the tokens", is_faulty);
    fs::write(place.path("tokens"), tokens).expect("a file");
    assert_eq!(at("/api/v1", &["--header", &operator]).status, 200);
    summary_when(&place, "its end", |summary| !is_faulty(summary));

    // Certificates: one of the authority and known; one that is unknown; one of another authority.
    let with = |name: &str| [file(&format!("{name}-cert.pem")), file(&format!("{name}-key.pem"))];
    let ask_with = |name: &str| {
        let [cert, key] = with(name);
        at("/api/v1", &["--cert", &cert, "--key", &key])
    };
    place.ok(&["token", "create", "robot", "--role", "operate", "--certificate", &file("client-cert.pem")]);
    let robot = ask_with("client");
    assert_eq!((&robot.body["user"]["name"], &robot.body["user"]["via"]), (&json!("robot"), &json!("certificate")), "{robot:?}");
    assert_eq!(ask_with("stranger").kind(), (401, "unauthorized"));
    let other = Authority::with_both(&place.path("other"));
    let (cert, key) = (other.file("client-cert.pem").display().to_string(), other.file("client-key.pem").display().to_string());
    assert_eq!(at("/api/v1", &["--cert", &cert, "--key", &key]).status, 0, "TLS itself refuses it");
    let plain = curl(&[&format!("http://localhost:{}/api/v1", port(&place))]);
    assert_eq!(plain.status, 0, "{plain:?}");

    // A session of a browser: the cookie alone changes nothing, and nor does another page.
    let login = json!({"token": operator.rsplit_once(' ').expect("a token").1}).to_string();
    let session = at("/api/v1/session", &["--json", &login]);
    assert_eq!((session.status, &session.body["role"]), (200, &json!("operate")), "{session:?}");
    let cookie_line = session.head.lines().find(|line| line.starts_with("set-cookie:")).expect("a cookie").to_owned();
    for word in ["httponly", "samesite=strict", "secure"] {
        assert!(cookie_line.contains(word), "{cookie_line}");
    }
    let cookie = format!("cookie: {}", cookie_line["set-cookie: ".len()..].split(';').next().expect("a value"));
    let csrf = format!("x-stria-csrf: {}", session.body["csrf"].as_str().expect("a value"));
    assert_eq!(at("/api/v1/session", &["--header", &cookie]).body["via"], "session");
    let pause = json!({"action": "pause", "array": "tank"}).to_string();
    assert_eq!(at("/api/v1/actions", &["--header", &cookie, "--json", &pause]).kind(), (403, "forbidden"));
    let foreign = at(
        "/api/v1/actions",
        &["--header", &cookie, "--header", &csrf, "--header", "origin: https://evil.example", "--json", &pause],
    );
    assert_eq!(foreign.kind(), (403, "forbidden"));
    assert_eq!(at("/api/v1/actions", &["--header", &cookie, "--header", &csrf, "--json", &pause]).status, 202);
    // A viewer logs in 400 times: most logins are refused, at most three have an event, and the operator's session lives on.
    let login = json!({"token": viewer.rsplit_once(' ').expect("a token").1}).to_string();
    let many = format!("{base}/api/v1/session?[1-400]");
    let output = Command::new("curl")
        .args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code} ", "--cacert", &ca, "--json", &login, &many])
        .output()
        .expect("curl");
    let statuses = String::from_utf8_lossy(&output.stdout).into_owned();
    let (taken, refused) = (statuses.matches("200").count(), statuses.matches("429").count());
    assert!(taken < 50 && taken + refused == 400, "{statuses}");
    let audit = ask(&place, "/audit?limit=1000", None).body;
    let of_eve = audit["events"].as_array().expect("a list").iter().filter(|event| {
        ["session of eve", "token eve began"].iter().any(|words| event["text"].as_str().is_some_and(|text| text.contains(words)))
    });
    assert!((1..=3).contains(&of_eve.count()), "{audit:#}");
    assert_eq!(at("/api/v1/session", &["--header", &cookie]).body["via"], "session", "it lives on");
    place.ok(&["token", "remove", "olga"]);
    assert_eq!(at("/api/v1/session", &["--header", &cookie]).status, 401, "its token is gone");

    // Silent and slow connections of one address give way to those that send.
    let address = base.trim_start_matches("https://").replace("localhost", "127.0.0.1");
    let _silent: Vec<TcpStream> = (0..80).filter_map(|_| TcpStream::connect(&address).ok()).collect();
    assert_eq!(at("/api/v1", &["--header", &admin]).status, 200);
    // Wrong tokens are counted; the other ways to connect stay open.
    let wrong = "authorization: Bearer stria_0";
    let statuses: Vec<u16> = (0..12).map(|_| at("/api/v1", &["--header", wrong]).status).collect();
    assert_eq!((statuses[0], statuses[11]), (401, 429), "{statuses:?}");
    assert_eq!(ask(&place, "", None).status, 200);
    let audit = ask(&place, "/audit", None).body;
    assert!(
        audit["events"]
            .as_array()
            .expect("a list")
            .iter()
            .any(|event| event["text"].as_str().is_some_and(|text| text.contains("127.0.0.1 was refused"))),
        "{audit:#}"
    );
    assert!(audit.to_string().contains("token ada") && !audit.to_string().contains("stria_"), "who, and no secret: {audit:#}");
    daemon.signal("-TERM");
    daemon.ended_well();
}

#[test]
fn hostile_requests_end_in_words() {
    let (place, _) = machine("");
    let daemon = Daemon::start(&place);
    let socket = socket(&place).display().to_string();
    let at = |path: &str, arguments: &[&str]| {
        let url = format!("http://localhost{path}");
        curl(&[&["--unix-socket", &socket, &url], arguments].concat())
    };
    let huge = place.path("huge");
    fs::write(&huge, vec![b'['; 1 << 20]).expect("a file");
    let huge = format!("@{}", huge.display());
    assert_eq!(at("/api/v1/plans", &["--header", "content-type: application/json", "--data-binary", &huge]).status, 413);
    assert_eq!(at("/api/v1/plans", &["--json", "{"]).kind(), (400, "invalid"));
    let deep = "[".repeat(20_000);
    assert_eq!(at("/api/v1/plans", &["--json", &deep]).kind(), (400, "invalid"));
    assert_eq!(at("/api/v1/plans", &["--data", "{}"]).kind(), (415, "invalid"));
    assert_eq!(at("/api/v1/plans", &["--json", "{}", "--header", "sec-fetch-site: cross-site"]).kind(), (403, "forbidden"));
    assert_eq!(at("/api/v1", &["--header", "host: evil.example"]).kind(), (421, "forbidden"), "no DNS rebinding");
    assert_eq!(at("/api/v1/arrays?x=1", &["--request", "DELETE"]).status, 405);
    assert_eq!(at("/api/v1/events?limit=x", &[]).kind(), (400, "invalid"));
    assert_eq!(at("/api/v1/events?colour=red", &[]).kind(), (400, "invalid"));
    assert_eq!(at("/api/v1/arrays/%2e%2e%2f", &[]).kind(), (404, "not_found"));
    assert_eq!(at("/api/v2", &[]).kind(), (404, "not_found"));
    assert_eq!(at("/../../../etc/passwd", &["--path-as-is"]).status, 404);

    // The page may not be framed or stored, nor run scripts of other origins.
    let page = at("/", &[]);
    assert!(page.status == 200 && page.head.contains("text/html"), "{page:?}");
    for line in ["frame-ancestors 'none'", "x-frame-options: deny", "cache-control: no-store", "x-content-type-options: nosniff"]
    {
        assert!(page.head.contains(line), "{line} is missing: {}", page.head);
    }
    assert!(page.head.contains("script-src 'self'") && !page.head.contains("unsafe"));

    // Requests whose head or body never ends: 60 of them, and the API answers.
    let slow = |text: &'static [u8]| {
        UnixStream::connect(&socket).and_then(|mut stream| stream.write_all(text).map(|()| stream)).expect("it listens")
    };
    let heads: Vec<UnixStream> = (0..30).map(|_| slow(b"GET /api/v1 HTTP/1.1\r\nhost: localhost\r\nx: ")).collect();
    let bodies: Vec<UnixStream> = (0..30)
        .map(|_| slow(b"POST /api/v1/plans HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"))
        .collect();
    let _more: Vec<UnixStream> = (0..60).map(|_| slow(b"G")).collect();
    assert_eq!(at("/api/v1", &[]).status, 200);
    for mut stream in heads.into_iter().chain(bodies) {
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        // The connection is closed: at once, for a new one, or when its time is up.
        let mut text = Vec::new();
        match stream.read_to_end(&mut text) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        }
    }
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// Only root can become another user.
#[test]
fn the_kernel_says_who_asks_on_the_socket() {
    let (place, _) = machine("group = \"65533\"");
    if rustix::process::geteuid().as_raw() != 0 {
        eprintln!("SKIPPED: only root can ask as another user");
        return;
    }
    let folder = tempfile::Builder::new().prefix("stria-").tempdir_in("/tmp").expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let control = folder.path().join("control.sock").display().to_string();
    let daemon = Daemon::start_with(&place, &[("STRIA_SOCKET", &control)]);
    let socket = folder.path().join("control.api");
    let mode = |path: &Path| fs::metadata(path).expect("a socket").permissions().mode() & 0o777;
    assert_eq!(mode(&socket), 0o660);
    let ask_as = |uid: u32, gid: u32, path: &str, body: Option<&str>| {
        let mut command = Command::new("curl");
        command
            .uid(uid)
            .gid(gid)
            .current_dir("/")
            .arg("--unix-socket")
            .arg(&socket)
            .arg(format!("http://localhost/api/v1{path}"));
        if let Some(body) = body {
            command.args(["--json", body]);
        }
        curl_command(&mut command).expect("curl")
    };
    let member = ask_as(65532, 65533, "", None);
    assert_eq!(member.body["user"]["role"], "operate", "{member:?}");
    assert_eq!(ask_as(65532, 65533, "/config", None).kind(), (403, "forbidden"));
    assert_eq!(ask_as(65532, 65532, "", None).status, 0, "the file's mode keeps others out");
    // Also where the mode of the file would permit it.
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).expect("a mode");
    let other = ask_as(65532, 65532, "", None);
    assert_eq!(other.kind(), (403, "forbidden"), "{other:?}");
    assert_eq!(ask_as(65532, 65532, "/actions", Some("{}")).kind(), (403, "forbidden"));
    assert_eq!(ask_as(0, 0, "", None).body["user"]["role"], "admin");
    daemon.signal("-TERM");
    daemon.ended_well();
}

/// The examples of docs/API.md, as a reader would type them.
#[test]
fn the_examples_of_the_document_work() {
    let (place, drives) = machine("");
    let daemon = Daemon::start(&place);
    assert_eq!(do_it(&place, create(&drives[..3]))["state"], "done");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/API.md")).expect("the document");
    let blocks: Vec<&str> = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 4);
    let socket = socket(&place).display().to_string();
    let mut script = blocks.concat().replace("/run/stria/stria.api", &socket).replace("/dev/sdb", &drives[0]);
    // The scrub must have ended before a member is failed.
    script = script.replace(
        "plan=$(",
        "until api http://localhost/api/v1/jobs | grep -v '\"state\":\"running\"'; do sleep 0.1; done\nplan=$(",
    );
    let script = format!("shopt -s expand_aliases\nset -e\n{script}");
    let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stderr));
    for word in ["event: state", "\"urgency\"", "stria_array_info", "\"action\":\"fail\""] {
        assert!(told.contains(word), "{word} is missing: {told}");
    }
    daemon.signal("-TERM");
    daemon.ended_well();
}

#[test]
fn an_order_is_recorded_although_its_client_leaves_before_the_answer() {
    let (place, _) = machine("");
    let _daemon = Daemon::start(&place);
    let body = ask(&place, "/routine/settings", None).body.to_string();
    // The order waits for the right to change the configuration.
    let folder = place.config().parent().expect("a folder").to_owned();
    let held = fs::File::open(folder).expect("a folder");
    held.lock().expect("it can be locked");
    let mut stream = UnixStream::connect(socket(&place)).expect("it listens");
    let head = "PUT /api/v1/routine/settings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).expect("it is taken");
    std::thread::sleep(Duration::from_millis(500));
    drop(stream);
    std::thread::sleep(Duration::from_millis(200));
    drop(held);
    let is_recorded = || {
        let audit = ask(&place, "/audit?limit=100", None).body;
        let events = audit["events"].as_array().expect("a list").clone();
        events.iter().any(|event| event["text"].as_str().is_some_and(|text| text.contains("change of the schedules")))
    };
    let start = Instant::now();
    while !is_recorded() {
        assert!(start.elapsed() < PATIENCE, "the order is not recorded");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn schedules_that_somebody_else_has_changed_are_read_again_first() {
    let (place, _) = machine("");
    let _daemon = Daemon::start(&place);
    let set = |settings: &Value| {
        let (socket, body) = (socket(&place).display().to_string(), settings.to_string());
        let url = "http://localhost/api/v1/routine/settings";
        curl(&["--unix-socket", &socket, "--request", "PUT", "--json", &body, url])
    };
    let read = || ask(&place, "/routine/settings", None).body;
    let (mut first, mut second) = (read(), read());
    first["hours"] = json!("22:00-06:00");
    assert_eq!(set(&first).status, 200);
    second["self_test"] = json!("weekly");
    assert_eq!(set(&second).kind(), (409, "plan_changed"));
    assert_eq!(read()["hours"], "22:00-06:00");
    let mut again = read();
    again["self_test"] = json!("weekly");
    assert_eq!(set(&again).status, 200);
    assert_eq!((&read()["hours"], &read()["self_test"]), (&json!("22:00-06:00"), &json!("weekly")));
    // All that makes no sense is told at once.
    let mut odd = read();
    (odd["scrub"], odd["hours"]) = (json!("at some time"), json!("whenever"));
    let refused = set(&odd);
    let told = refused.body["error"]["message"].as_str().unwrap_or_default();
    assert!(refused.kind() == (400, "invalid") && told.contains("at some time") && told.contains("whenever"), "{refused:?}");
}

/// A client that stopped reading kept its connection, and the daemon the answer, for ever.
#[test]
fn clients_that_do_not_read_are_cut_off_and_the_others_are_served_meanwhile() {
    let (place, _) = machine("");
    let daemon = Daemon::start(&place);
    let ask_much = b"GET /api/v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(200);
    let begun = Instant::now();
    let silent: Vec<UnixStream> = (0..24)
        .map(|_| {
            let mut stream = UnixStream::connect(socket(&place)).expect("it listens");
            stream.write_all(&ask_much).expect("the requests are small");
            stream
        })
        .collect();
    assert_eq!(ask(&place, "", None).status, 200);
    // Its end is seen by a write, which takes nothing from what waits to be read.
    let is_open = |mut stream: &UnixStream| stream.write_all(b"\r\n").is_ok();
    while silent.iter().any(is_open) {
        assert!(begun.elapsed() < PATIENCE, "they are open for ever");
        std::thread::sleep(Duration::from_millis(500));
    }
    assert!(begun.elapsed() > Duration::from_secs(10), "a client may be slow");
    assert_eq!(ask(&place, "", None).status, 200);
    daemon.signal("-TERM");
    daemon.ended_well();
}
