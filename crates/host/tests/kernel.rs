//! Goal: Stria and the real Linux md read and write the same bytes on the same drives.
//! Method: an array is created by the kernel or by Stria. Stria reads it, writes to it, goes through one story (clean stop, loss,
//! interrupted rebuild, crash), and hands the images back. The kernel must find every byte and no mismatch, and finish what was
//! left to do. Many arrays share one guest, on loop devices. A sample always runs, all with `--ignored`.

use harness::{End, Guest};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use stria_array::{Health, Level, Synced};
use stria_block::{BlockDevice, bytes};
use stria_drive::Ring;
use stria_format::md::{BitmapChoice, Change, LogChoice};
use stria_host::*;
use stria_testkit::oracle as harness;

const MEMBER_BYTES: u64 = 10 << 20;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Maker {
    Kernel,
    Stria,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Story {
    /// Write, stop.
    Clean,
    /// Write, lose as many members as the level allows, write, stop.
    Degraded,
    /// Lose one, rebuild on a spare, write, stop.
    Rebuilt,
    /// Lose one, stop in the middle of the rebuild.
    MidRebuild,
    /// Write, and end without a stop.
    Crash,
    /// Created with one member missing, which the kernel adds.
    Missing,
    /// Write, stop, take the bitmap away, write, stop, add it and the log anew, write, stop.
    Changed,
}

#[derive(Clone, Debug)]
struct Case {
    maker: Maker,
    story: Story,
    level: &'static str,
    layout: &'static str,
    strip_kib: u64,
    count: usize,
    unequal: bool,
    /// The number of members, from the first, that have blocks of 4096 bytes.
    large_block_count: usize,
}

impl Case {
    fn name(&self) -> String {
        let Self { maker, story, level, layout, strip_kib, count, unequal, large_block_count } = self;
        let unequal = if *unequal { "-unequal" } else { "" };
        let blocks = if *large_block_count > 0 { format!("-{large_block_count}x4kn") } else { String::new() };
        format!("{maker:?}-{story:?}-{level}-{layout}-{strip_kib}k-{count}{unequal}{blocks}").to_lowercase()
    }

    fn level(&self) -> ArrayLevel {
        self.level.parse().expect("a level")
    }

    fn single(&self) -> Level {
        match self.level() {
            ArrayLevel::Single(level) | ArrayLevel::Striped(level) => level,
        }
    }

    /// mdadm marks no spans.
    fn options(&self) -> OpenOptions {
        let unmarked = self.maker == Maker::Kernel && matches!(self.level(), ArrayLevel::Striped(_));
        OpenOptions { nested: u8::from(unmarked), ..OpenOptions::default() }
    }

    fn spares(&self) -> usize {
        usize::from(matches!(self.story, Story::Rebuilt | Story::MidRebuild))
    }

    /// The images of the array while Stria runs it.
    fn used(&self) -> usize {
        self.count + self.spares() - usize::from(self.story == Story::Missing)
    }

    fn paths(&self, share: &Path) -> Vec<PathBuf> {
        (0..self.count + self.spares()).map(|index| share.join(self.name()).join(format!("{index}.img"))).collect()
    }

    fn make_images(&self, share: &Path) {
        fs::create_dir_all(share.join(self.name())).expect("folder");
        for (index, path) in self.paths(share).iter().enumerate() {
            let extra = if self.unequal { (index as u64 % 3) << 20 } else { 0 };
            File::create(path).and_then(|file| file.set_len(MEMBER_BYTES + extra)).expect("image");
        }
    }

    /// Shell: the kernel makes the array and writes a pattern over all of it.
    fn kernel_makes(&self) -> String {
        let (name, count) = (self.name(), self.count);
        let level = if self.level == "jbod" { "linear" } else { self.level };
        let chunk = if self.level == "1" { String::new() } else { format!("--chunk={}", self.strip_kib) };
        let layout = if self.layout == "default" { String::new() } else { format!("--layout={}", self.layout) };
        let redundant = self.single().is_redundant();
        let bitmap = if redundant { "--bitmap=internal --bitmap-chunk=64K --assume-clean" } else { "" };
        let force = if count == 1 { "--force" } else { "" };
        let spares = if self.spares() > 0 { format!("--spare-devices={}", self.spares()) } else { String::new() };
        let one = |md: &str, level: &str, count: usize, drives: &str| {
            format!(
                "mdadm --create /dev/{md} --quiet --run --metadata=1.2 --level={level} {chunk} {layout} {bitmap} {force} \
                 --raid-devices={count} {spares} {drives} 2>/dev/null\n"
            )
        };
        let make = match self.level() {
            ArrayLevel::Single(_) => one("md0", level, count, "$loops"),
            ArrayLevel::Striped(level) => {
                let [first, second] =
                    [("md1", "$first"), ("md2", "$second")].map(|(md, drives)| one(md, &level.to_string(), count / 2, drives));
                let above = "mdadm --create /dev/md0 --quiet --run --level=0 --chunk=128 --raid-devices=2 /dev/md1 /dev/md2 2>/dev/null\n";
                format!("halves {count}\n{first}{second}{above}")
            }
        };
        format!(
            "attach {name} {} {}\n{make}settle\n\
             seq 100000000 | head -c $(blockdev --getsize64 /dev/md0) | dd of=/dev/md0 bs=1M iflag=fullblock conv=fsync status=none\n\
             dd if=/dev/md0 of=$SHARE/{name}/whole bs=1M status=none\n{STOP}detach\n",
            count + self.spares(),
            self.large_block_count
        )
    }

    /// Shell: the kernel takes the array over, finishes what is to be done, checks it and reads all of it.
    fn kernel_takes(&self) -> String {
        let name = self.name();
        let mut script = format!("attach {name} {} {}\n", self.count + self.spares(), self.large_block_count);
        if let ArrayLevel::Striped(_) = self.level() {
            let _ = write!(
                script,
                "halves {}\nmdadm --quiet --assemble --run /dev/md1 $first\nmdadm --quiet --assemble --run /dev/md2 $second\n\
                 for m in md1 md2; do echo 900000 > /sys/block/$m/md/sync_speed_max; mdadm --wait /dev/$m >/dev/null 2>&1 || true; done\n\
                 mdadm --quiet --assemble --run /dev/md0 /dev/md1 /dev/md2\n",
                self.count
            );
        } else if self.story == Story::Missing {
            script += "rest=${loops% *}; last=${loops##* }\nmdadm --quiet --assemble --run /dev/md0 $rest\n\
                       test $(cat /sys/block/md0/md/degraded) = 1\n\
                       echo 900000 > /sys/block/md0/md/sync_speed_max; mdadm --quiet --manage /dev/md0 --add $last; settle\n";
        } else {
            script += "mdadm --quiet --assemble --run /dev/md0 $loops || mdadm --assemble --verbose --run /dev/md0 $loops\n";
            if self.single().is_redundant() {
                script += "echo 900000 > /sys/block/md0/md/sync_speed_max; settle\n";
            }
        }
        let _ = writeln!(script, "mdadm --detail /dev/md0 > $SHARE/{name}/detail");
        let _ = writeln!(script, "dd if=/dev/md0 of=$SHARE/{name}/whole bs=1M status=none");
        for md in if matches!(self.level(), ArrayLevel::Striped(_)) { &["md1", "md2"][..] } else { &["md0"] } {
            if self.single().is_redundant() {
                let _ = writeln!(
                    script,
                    "echo check > /sys/block/{md}/md/sync_action; mdadm --wait /dev/{md} >/dev/null 2>&1 || true\n\
                     cat /sys/block/{md}/md/mismatch_cnt >> $SHARE/{name}/mismatch; cat /sys/block/{md}/md/degraded >> $SHARE/{name}/degraded"
                );
            }
        }
        script += STOP;
        script += "detach\n";
        script
    }

    fn stria_makes(&self, paths: &[PathBuf]) {
        let layout = match (self.level(), self.layout) {
            (_, "default") => None,
            (ArrayLevel::Single(level) | ArrayLevel::Striped(level), layout) => {
                Some(level.parse_layout(layout).expect("a layout"))
            }
        };
        let mut spec = CreateSpec {
            layout,
            strip_sectors: (self.level != "1").then_some(self.strip_kib * 2),
            spares: paths[self.count..].to_vec(),
            bitmap: BitmapChoice::Internal { chunk_bytes: Some(65536) },
            ..CreateSpec::new("tank", self.level(), &paths[..self.count])
        };
        spec.drives.iter_mut().skip(self.used()).for_each(|missing| *missing = None);
        create(&spec).unwrap_or_else(|error| panic!("{}: {error}", self.name()));
    }

    /// Stria reads the array, overwrites parts of it, and leaves it as the story demands. Returns the expected content of the
    /// array.
    fn stria_lives(&self, share: &Path, paths: &[PathBuf]) -> Vec<u8> {
        let name = self.name();
        let ring = Ring::new().expect("a ring");
        let paths = &paths[..self.used()];
        let (mut array, _) = open(paths, &ring, self.options()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let size = array.limits().size_sectors;
        let mut model = read_all(&mut array, size);
        if self.maker == Maker::Kernel {
            let kernel = fs::read(share.join(&name).join("whole")).expect("the kernel's copy");
            assert!(model == kernel, "{name}: we read other bytes than the kernel wrote");
        }
        wait_quiet(&mut array);
        let mut seed = self.count as u64 * 7919 + self.strip_kib;
        write_some(&mut array, &mut model, &mut seed);
        match self.story {
            Story::Clean | Story::Crash | Story::Missing | Story::Changed => {}
            Story::Degraded => {
                let losses = array.spans().next().unwrap_or(&array).geometry().losses_survived().min(2);
                for path in paths.iter().take(losses) {
                    array.fail(path).unwrap_or_else(|error| panic!("{name}: {error}"));
                }
                write_some(&mut array, &mut model, &mut seed);
                assert!(read_all(&mut array, size) == model, "{name}: degraded reads are wrong");
            }
            Story::Rebuilt => {
                array.fail(&paths[1]).expect("redundant");
                write_some(&mut array, &mut model, &mut seed);
                wait_quiet(&mut array);
                assert_eq!(array.status().health, Health::Optimal, "{name}");
                write_some(&mut array, &mut model, &mut seed);
            }
            Story::MidRebuild => {
                array.with_engine(|engine| engine.set_speed(None, Some(4096)));
                array.fail(&paths[1]).expect("redundant");
                let begun = |array: &HostedArray| array.status().sweep.is_some_and(|sweep| sweep.done_sectors > 2048);
                array.sync_io(|io| io.run_until(|array, _| begun(array)));
                write_some(&mut array, &mut model, &mut seed);
            }
        }
        assert!(read_all(&mut array, size) == model, "{name}: our own reads are wrong");
        if self.story == Story::Crash {
            // The last writes are durable; the array is not stopped.
            return model;
        }
        array.sync_io(|io| io.stop()).expect("stops");
        if self.story == Story::Changed {
            drop(array);
            let bitmap = BitmapChoice::Internal { chunk_bytes: Some(65536) };
            let parity = self.single().parity_count() > 0;
            let logs = |choice| parity.then_some(Change::Log(choice));
            let first: Vec<Change> = [Change::Bitmap(BitmapChoice::None)].into_iter().chain(logs(LogChoice::None)).collect();
            let then: Vec<Change> = [Change::Bitmap(bitmap)].into_iter().chain(logs(LogChoice::Auto)).collect();
            for changes in [first, then] {
                let changed = change(paths, &changes, false).unwrap_or_else(|error| panic!("{name}, {changes:?}: {error}"));
                assert!(changed, "{name}, {changes:?}: nothing was to be done");
                let (mut array, _) = open(paths, &ring, self.options()).unwrap_or_else(|error| panic!("{name}: {error}"));
                assert!(read_all(&mut array, size) == model, "{name}: other bytes after {changes:?}");
                write_some(&mut array, &mut model, &mut seed);
                array.sync_io(|io| io.stop()).expect("stops");
            }
        }
        model
    }
}

fn read_all(array: &mut HostedArray, size: u64) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes(size));
    let mut next = 0;
    array.sync_io(|io| {
        while next < size {
            let sectors = (size - next).min(2048 + 24);
            all.extend(io.read(next, sectors).expect("readable"));
            next += sectors;
        }
    });
    all
}

fn wait_quiet(array: &mut HostedArray) {
    array.sync_io(|io| {
        io.run_until(|array, _| {
            array.tree().iter().all(|array| {
                let status = array.status();
                let to_do = array.geometry().level().is_redundant() && status.synced != Synced::All;
                let filling = status.health == Health::Degraded
                    && status.members.iter().any(|member| member.state == stria_array::MemberState::Rebuilding);
                status.sweep.is_none() && !to_do && !filling
            })
        })
    });
}

fn chance(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    *seed >> 33
}

fn write_some(array: &mut HostedArray, model: &mut [u8], seed: &mut u64) {
    let block = u64::from(array.limits().logical_block_bytes) / 512;
    let size = model.len() as u64 / 512;
    for round in 0..24 {
        let most = if round % 6 == 0 { 1500 } else { 40 };
        let sectors = (1 + chance(seed) % most).next_multiple_of(block).min(size);
        let start = chance(seed) % (size - sectors + 1) / block * block;
        let data: Vec<u8> = (0..bytes(sectors)).map(|_| chance(seed) as u8).collect();
        model[bytes(start)..][..data.len()].copy_from_slice(&data);
        array.sync_io(|io| io.write(start, &data)).expect("writable");
    }
}

const STOP: &str = "for m in md0 md1 md2; do mdadm --quiet --stop /dev/$m 2>/dev/null || true; done\n";

const SHELL: &str = r#"
settle() { mdadm --wait /dev/md0 >/dev/null 2>&1 || true; sleep 0.2; }
attach() { # CASE COUNT LARGE: so many with blocks of 4096 bytes
  loops=; k=0
  while [ $k -lt $2 ]; do
    [ -b /dev/loop$k ] || mknod /dev/loop$k b 7 $k
    size=512; if [ $k -lt $3 ]; then size=4096; fi
    losetup --sector-size $size /dev/loop$k $SHARE/$1/$k.img; test $(cat /sys/block/loop$k/queue/logical_block_size) = $size; loops="$loops /dev/loop$k"; k=$((k+1))
  done
}
halves() { # COUNT: the loops of two spans
  first=; second=; k=0
  for d in $loops; do if [ $k -lt $(($1 / 2)) ]; then first="$first $d"; else second="$second $d"; fi; k=$((k+1)); done
}
detach() { sync; for d in $loops; do losetup -d $d; done; sleep 0.2; }
"#;

/// Images as we see them: those with large blocks through loop devices, detached with this.
struct Drives(Vec<PathBuf>);

impl Drives {
    fn new(case: &Case, share: &Path) -> Self {
        let attached = case.paths(share).into_iter().enumerate().map(|(index, path)| match index < case.large_block_count {
            false => path,
            true => loop_device(&path).expect("tried before"),
        });
        Self(attached.collect())
    }
}

impl Drop for Drives {
    fn drop(&mut self) {
        for device in self.0.iter().filter(|path| path.starts_with("/dev")) {
            let _ = Command::new("losetup").arg("--detach").arg(device).status();
        }
    }
}

fn loop_device(image: &Path) -> Result<PathBuf, String> {
    let output = Command::new("losetup").args(["--find", "--show", "--sector-size", "4096"]).arg(image).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() { Ok(text(&output.stdout).into()) } else { Err(text(&output.stderr)) }
}

fn prove(name: &str, cases: &[Case]) {
    if !harness::wanted() {
        return;
    }
    // The images are in the shared folder; a guest needs at least one disk.
    let guest = Guest::new(name, &[1 << 20]);
    let share = guest.share();
    cases.iter().for_each(|case| case.make_images(&share));
    let kernel_made: String = cases.iter().filter(|case| case.maker == Maker::Kernel).map(Case::kernel_makes).collect();
    guest.run(End::Stop, &format!("{SHELL}{kernel_made}"));
    let models: Vec<Vec<u8>> = cases
        .iter()
        .map(|case| {
            let drives = Drives::new(case, &share);
            if case.maker == Maker::Stria {
                case.stria_makes(&drives.0);
            }
            case.stria_lives(&share, &drives.0)
        })
        .collect();
    let taken: String = cases.iter().map(Case::kernel_takes).collect();
    guest.run(End::Stop, &format!("{SHELL}{taken}"));
    for (case, model) in cases.iter().zip(models) {
        let name = case.name();
        let told = |what: &str| fs::read_to_string(share.join(&name).join(what)).unwrap_or_default();
        let whole = fs::read(share.join(&name).join("whole")).expect("the kernel's copy");
        assert_eq!(whole.len(), model.len(), "{name}: sizes differ\n{}", told("detail"));
        let wrong = whole.iter().zip(&model).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{name}: the kernel reads other bytes than we wrote\n{}", told("detail"));
        if case.single().is_redundant() && case.story != Story::Degraded {
            let mismatch = told("mismatch");
            assert!(!mismatch.is_empty() && mismatch.lines().all(|line| line == "0"), "{name}: mismatch_cnt {mismatch}");
            assert!(told("degraded").lines().all(|line| line == "0"), "{name}: degraded\n{}", told("detail"));
        }
        // The array is still the same after the kernel ran it.
        let drives = Drives::new(case, &share);
        let found = find(&drives.0, case.options()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let arrays: Vec<&str> = found.arrays.iter().map(|array| &*array.name).collect();
        assert_eq!(arrays.len(), 1, "{name}: {arrays:?}");
        eprintln!("agrees: {name}");
    }
}

fn case(maker: Maker, story: Story, level: &'static str, layout: &'static str, strip_kib: u64, count: usize) -> Case {
    Case { maker, story, level, layout, strip_kib, count, unequal: false, large_block_count: 0 }
}

#[test]
fn a_sample_of_arrays_goes_back_and_forth_between_kernel_and_us() {
    use Maker::*;
    use Story::*;
    let unequal = |case: Case| Case { unequal: true, ..case };
    prove(
        "sample",
        &[
            unequal(case(Kernel, Clean, "jbod", "default", 64, 3)),
            unequal(case(Stria, Clean, "0", "default", 16, 5)),
            unequal(case(Kernel, Clean, "0", "alternate", 64, 4)),
            case(Kernel, Clean, "5", "left-symmetric", 64, 3),
            case(Stria, Clean, "6", "left-symmetric", 16, 5),
            case(Kernel, Degraded, "6", "right-asymmetric", 64, 6),
            case(Stria, Degraded, "5", "default", 4, 4),
            case(Kernel, Degraded, "1", "default", 0, 3),
            case(Kernel, Clean, "10", "f2", 1024, 3),
            case(Stria, Rebuilt, "10", "n2", 64, 5),
            case(Kernel, Rebuilt, "6", "ddf-N-continue", 32, 5),
            case(Stria, MidRebuild, "5", "default", 64, 4),
            case(Kernel, MidRebuild, "1", "default", 0, 2),
            case(Stria, Crash, "5", "default", 64, 3),
            case(Kernel, Crash, "10", "o2", 128, 4),
            case(Kernel, Clean, "50", "default", 64, 6),
            case(Stria, Degraded, "60", "default", 32, 8),
            case(Stria, Missing, "5", "default", 64, 4),
            case(Stria, Missing, "1", "default", 0, 2),
            case(Stria, Missing, "10", "n2", 64, 4),
            case(Stria, Changed, "6", "default", 64, 5),
            case(Kernel, Changed, "5", "default", 64, 3),
            case(Kernel, Changed, "1", "default", 0, 2),
            case(Stria, Changed, "50", "default", 64, 6),
        ],
    );
}

#[test]
fn members_with_large_blocks_go_back_and_forth_between_kernel_and_us() {
    use Maker::*;
    use Story::*;
    let probe = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("large-blocks-{}", std::process::id()));
    File::create(&probe).and_then(|file| file.set_len(1 << 20)).expect("a file");
    let device = loop_device(&probe);
    fs::remove_file(&probe).expect("its name goes");
    match device {
        Ok(device) => drop(Drives(vec![device])),
        Err(why) => return eprintln!("SKIPPED: no loop device with blocks of 4096 bytes, which root may make: {why}"),
    }
    let large = |large_block_count: usize, case: Case| Case { large_block_count, ..case };
    prove(
        "large-blocks",
        &[
            large(3, Case { unequal: true, ..case(Kernel, Clean, "jbod", "default", 64, 3) }),
            large(3, Case { unequal: true, ..case(Stria, Clean, "0", "default", 4, 3) }),
            large(3, case(Kernel, Rebuilt, "5", "left-symmetric", 4, 3)),
            large(5, case(Stria, Degraded, "6", "right-asymmetric", 16, 5)),
            large(3, case(Stria, Crash, "10", "f2", 1024, 3)),
            large(4, case(Kernel, MidRebuild, "10", "n2", 64, 4)),
            large(6, case(Stria, Clean, "50", "default", 4, 6)),
            // One large block among small ones makes the array's blocks large.
            large(1, case(Kernel, Clean, "1", "default", 0, 2)),
            large(2, case(Stria, MidRebuild, "5", "default", 64, 4)),
            large(1, case(Kernel, Crash, "6", "ddf-N-continue", 64, 5)),
        ],
    );
}

#[test]
fn spans_keep_their_mark_while_linux_runs_them() {
    if !harness::wanted() {
        return;
    }
    let guest = Guest::new("marks", &[1 << 20]);
    let share = guest.share();
    let case = case(Maker::Stria, Story::Clean, "50", "default", 64, 6);
    let paths = case.paths(&share);
    case.make_images(&share);
    case.stria_makes(&paths);
    let mut model = case.stria_lives(&share, &paths);
    let is_marked = |path: &PathBuf| {
        examine(std::slice::from_ref(path))
            .remove(0)
            .expect("readable")
            .candidate
            .found
            .expect("a member")
            .superblock
            .span_of
            .is_some()
    };
    assert!(paths.iter().all(is_marked));
    // mdadm fails, wipes and adds a drive of the first span, and knows nothing of marks.
    let name = case.name();
    guest.run(
        End::Stop,
        &format!(
            "{SHELL}attach {name} 6 0\nhalves 6\n\
             mdadm --quiet --assemble --run /dev/md1 $first\nmdadm --quiet --assemble --run /dev/md2 $second\n\
             mdadm --quiet --assemble --run /dev/md0 /dev/md1 /dev/md2\n\
             mdadm --quiet /dev/md1 --fail /dev/loop0 --remove /dev/loop0\n\
             dd if=/dev/zero of=/dev/loop0 bs=1M count=2 conv=fsync status=none\nmdadm --quiet /dev/md1 --add /dev/loop0\n\
             printf KERNEL | dd of=/dev/md0 bs=1 seek=1048576 conv=notrunc,fsync status=none\n\
             for m in md1 md2; do echo 900000 > /sys/block/$m/md/sync_speed_max; mdadm --wait /dev/$m >/dev/null 2>&1 || true; done\n\
             {STOP}detach\n"
        ),
    );
    model[1 << 20..][..6].copy_from_slice(b"KERNEL");
    assert_eq!(paths.iter().map(is_marked).collect::<Vec<_>>(), [false, true, true, true, true, true]);
    let ring = Ring::new().expect("a ring");
    let (mut array, _) = open(&paths, &ring, OpenOptions::default()).expect("by the marks that are left");
    assert_eq!((array.name(), array.status().health), ("tank", Health::Optimal));
    let size = array.limits().size_sectors;
    assert!(read_all(&mut array, size) == model, "we read other bytes than the kernel wrote");
    let mut seed = 7;
    write_some(&mut array, &mut model, &mut seed);
    array.sync_io(|io| io.stop()).expect("stops");
    assert!(paths.iter().all(is_marked), "the new member has its mark");
    guest.run(End::Stop, &format!("{SHELL}{}", case.kernel_takes()));
    assert!(fs::read(share.join(&name).join("whole")).expect("the kernel's copy") == model, "the kernel reads other bytes");
}

/// Level, layout, strip in KiB, member count: the shapes of the whole matrix, which has a test for each story.
fn shapes() -> Vec<(&'static str, &'static str, u64, usize)> {
    let mut shapes = vec![("4", "default", 32, 3), ("4", "default", 64, 5)];
    for layout in ["left-symmetric", "right-symmetric", "left-asymmetric", "right-asymmetric", "parity-first", "parity-last"] {
        shapes.push(("5", layout, 64, 4));
        shapes.push(("6", layout, 16, 5));
    }
    for layout in [
        "ddf-zero-restart",
        "ddf-N-restart",
        "ddf-N-continue",
        "left-symmetric-6",
        "right-symmetric-6",
        "left-asymmetric-6",
        "right-asymmetric-6",
        "parity-first-6",
    ] {
        shapes.push(("6", layout, 64, 6));
    }
    for (layout, counts) in [("n2", [2, 5]), ("n3", [3, 4]), ("f2", [2, 5]), ("f3", [3, 4]), ("o2", [3, 4]), ("o3", [3, 5])] {
        shapes.extend(counts.map(|count| ("10", layout, 64, count)));
    }
    shapes.extend([
        ("1", "default", 0, 2),
        ("1", "default", 0, 4),
        ("5", "default", 4, 2),
        ("5", "default", 512, 3),
        ("6", "default", 1024, 4),
        ("6", "default", 4, 9),
        // Nine strips on each member: no whole rows.
        ("10", "f2", 1024, 3),
        ("10", "o2", 1024, 4),
    ]);
    shapes
}

/// mdadm cannot name parity-last RAID 4, and it would first rebuild a RAID 5 of two. The other shapes are common.
fn every_shape(story: Story) {
    for maker in [Maker::Kernel, Maker::Stria] {
        let cases: Vec<Case> =
            shapes().into_iter().map(|(level, layout, strip, count)| case(maker, story, level, layout, strip, count)).collect();
        for (index, cases) in cases.chunks(12).enumerate() {
            prove(&format!("all-{story:?}-{maker:?}-{index}"), cases);
        }
    }
}

#[test]
#[ignore = "minutes: make oracle"]
fn every_shape_goes_back_and_forth_clean() {
    every_shape(Story::Clean);
}

#[test]
#[ignore = "minutes: make oracle"]
fn every_shape_goes_back_and_forth_degraded() {
    every_shape(Story::Degraded);
}

#[test]
#[ignore = "minutes: make oracle"]
fn every_shape_goes_back_and_forth_rebuilt() {
    every_shape(Story::Rebuilt);
}

#[test]
#[ignore = "minutes: make oracle"]
fn every_shape_goes_back_and_forth_in_the_middle_of_a_rebuild() {
    every_shape(Story::MidRebuild);
}

#[test]
#[ignore = "minutes: make oracle"]
fn every_shape_goes_back_and_forth_after_a_crash() {
    every_shape(Story::Crash);
}

#[test]
#[ignore = "minutes: make oracle"]
fn striped_and_joined_arrays_go_back_and_forth() {
    use Maker::*;
    use Story::*;
    let mut striped = Vec::new();
    for (maker, story) in
        [(Stria, Clean), (Stria, Degraded), (Stria, Crash), (Kernel, Clean), (Kernel, Degraded), (Kernel, Crash)]
    {
        striped.push(case(maker, story, "50", "default", 64, 8));
        striped.push(case(maker, story, "60", "left-symmetric-6", 16, 8));
    }
    for count in [1, 2, 3, 7] {
        for (level, strip) in [("jbod", 64), ("0", 4), ("0", 1024)] {
            for maker in [Kernel, Stria] {
                striped.push(Case { unequal: strip != 1024, ..case(maker, Clean, level, "default", strip, count) });
            }
        }
    }
    for (index, cases) in striped.chunks(12).enumerate() {
        prove(&format!("all-striped-{index}"), cases);
    }
}
