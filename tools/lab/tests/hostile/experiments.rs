//! Untrusted experiments.

use stria_lab::experiment::Experiment;

const HEAD: &str = "name = \"a\"\ntitle = \"A\"\nquestion = \"?\"\n";

fn refused(body: &str) -> String {
    Experiment::parse("a.toml", &format!("{HEAD}{body}")).expect_err(body).to_string()
}

fn with_load(more: &str) -> String {
    format!("[[section]]\nname = \"s\"\ntest = \"sweep\"\nload = [{{ pattern = \"random\"{more} }}]\n")
}

#[test]
fn no_experiment_names_a_program_or_a_file() {
    for option in [
        "ioengine = \"exec\", program = \"/bin/sh\"",
        "ioengine = \"external:/tmp/x.so\"",
        "opendir = \"/etc\"",
        "read_iolog = \"/etc/passwd\"",
        "write_iolog = \"/tmp/x\"",
        "iomem = \"mmapshared:/etc/passwd\"",
        "filename_format = \"/etc/$jobname\"",
        "verify = \"md5\", verify_state_save = 1",
        "rate = \"1m\\nexec_prerun=id\"",
        "rate = \"1m\\n[job]\\nfilename=/etc/passwd\"",
        "buffer_pattern = \"'/etc/passwd'\"",
    ] {
        let words = refused(&with_load(&format!(", fio = {{ {option} }}")));
        assert!(words.contains("section \"s\": load 1: fio.") && words.contains("LAB.md"), "{words}");
    }
    // Nor by a key that becomes a line of a job.
    for (key, value) in [
        ("block_split", "4K/100\\nexec_prerun=id"),
        ("block_split", "4K/nan"),
        ("block_split", "4K/inf:4K/50"),
        ("block_split", "3/100"),
        ("zones", "50/5:50/95\\nfilename=/etc/passwd"),
        ("zones", "nan/nan"),
        ("zones", "100/50"),
        ("zones", "1e2/100"),
    ] {
        refused(&with_load(&format!(", mix = \"m\", {key} = \"{value}\"")));
    }
    refused(&with_load(", mix = \"m\\u001b[2J\", zones = \"100/100\""));
    refused("[[section]]\nname = \"a\\nb\"\ntest = \"iops\"\n");
    refused("[[section]]\nname = \"..\\u0000\"\ntest = \"iops\"\n");
}

#[test]
fn what_an_experiment_asks_for_is_bounded_before_it_is_reckoned() {
    let list = |count: u32| (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    let many = format!(", queue_depth = [{}], threads = [{}]", list(1000), list(1000));
    assert!(refused(&with_load(&many)).contains("at most 10000"));
    let copies = "[[section]]\nname = \"c\"\ntest = \"file-copy\"\ncopy = [{ name = \"x\", total = \"1G\", sizes = \"";
    let parts = vec!["4K/1"; 100].join(":");
    assert!(refused(&format!("{copies}{parts}\" }}]\n")).contains("at most 64"));
    // Once a plan of 700 KB listed the sizes of 20,000 sets of a million files, until the memory was full.
    let set = "{ name = \"x\", sizes = \"1/100\", total = \"1G\" }";
    let sets = format!("[[section]]\nname = \"c\"\ntest = \"file-copy\"\ncopy = [{}]\n", [set; 5].join(", "));
    assert!(refused(&sets).contains("up to 5000000 files together"));
    let levels = vec!["\"5\""; 100].join(", ");
    let arrays = format!("arrays = {{ levels = [{levels}], members = [{}], bare = true }}\n{}", list(100), with_load(""));
    assert!(refused(&arrays).contains("at most 4096"));
    assert!(refused(&format!("# {}\n{}", "x".repeat(2 << 20), with_load(""))).contains("larger than"));
    assert!(refused(&"[[section]]\nname = \"s\"\ntest = \"iops\"\n".repeat(300)).contains("sections"));
    for deep in [format!("x = {}1{}", "[".repeat(200_000), "]".repeat(200_000)), "a.".repeat(100_000)] {
        refused(&deep);
    }
    for number in ["1e308", "nan", "inf", "-1", "18446744073709551616", "0"] {
        refused(&format!(
            "[[section]]\nname = \"s\"\ntest = \"sweep\"\nseconds = {number}\nload = [{{ pattern = \"random\" }}]\n"
        ));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    for file in [pipe.as_path(), std::path::Path::new("/dev/zero"), folder.path()] {
        let words = Experiment::find(file.to_str().expect("text")).expect_err("no file").to_string();
        assert!(words.contains("not a plain file"), "{words}");
    }
    std::fs::write(pipe.with_extension("toml"), [0xff, 0xfe, b'a']).expect("a file");
    assert!(Experiment::find(pipe.with_extension("toml").to_str().expect("text")).is_err());
}

#[test]
fn a_key_that_would_be_ignored_is_refused_with_where_it_belongs() {
    for (test, key, home) in [
        ("file-copy", "state = \"fresh\"\ncopy = [{ name = \"x\", sizes = \"4K/100\", total = \"1M\" }]", "sweep"),
        ("iops", "state = \"used\"", "sweep, replay"),
        ("iops", "idle = 5", "states"),
        ("iops", "passes = 5", "sweep"),
        ("sweep", "queue_depth = 5\nload = [{ pattern = \"random\" }]", "iops"),
        ("sweep", "file_system = \"xfs\"\nload = [{ pattern = \"random\" }]", "file-copy"),
        ("sweep", "read_percent = 5\nload = [{ pattern = \"random\" }]", "dirth"),
        ("states", "state = \"used\"\nload = [{ pattern = \"random\" }]", "replay"),
    ] {
        let words = refused(&format!("[[section]]\nname = \"s\"\ntest = \"{test}\"\n{key}\n"));
        assert!(words.contains("does nothing in the test") && words.contains(home), "{words}");
    }
}

/// The name of a section broke the line of the message, and 1e308 had 309 digits.
#[test]
fn a_refusal_is_one_line_of_a_bounded_length() {
    for section in [
        "name = \"s\\nstria: all is well\\u001b[31m\"\ntest = \"sweep\"\n",
        "name = \"s\\n/\"\ntest = \"sweep\"\n",
        "name = \"s\\n\"\ntest = \"iops\"\npasses = 2\n",
        "name = \"s\"\ntest = \"states\"\nidle = 1e308\n",
    ] {
        let words = refused(&format!("[[section]]\n{section}load = [{{ pattern = \"random\" }}]\n"));
        assert!(words.lines().count() == 1 && words.len() < 200 && !words.contains('\u{1b}'), "{words}");
    }
}
