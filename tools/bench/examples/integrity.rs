//! The cost of checksums: arrays with and without the layer that verifies, in turn.
//!
//! `cargo run --release -p stria-bench --example integrity [RUN_MS [ROUNDS [FOLDER]]]`. Members are RAM, which costs nothing, so
//! that the figure is the layer's own CPU time in the worst case; or files in a folder, where the drive's time hides it. Figures
//! are medians of the rounds. The ratio is the median of the rounds' ratios, with the least and the greatest.

use std::path::PathBuf;
use std::time::Duration;
use stria_array::Level;
use stria_bench::{Limit, Load, Order, Target, array_over};
use stria_block::{BlockDevice, Completion, Limits, Nanos, RamDevice, Request};
use stria_drive::{Access, Ring};
use stria_host::ArrayLevel;
use stria_integrity::{Header, IntegrityDevice, Region};

const MEMBER_SECTORS: u64 = 64 << 11;

type Device = Box<dyn BlockDevice>;

/// The data of a drive with checksums, without the region behind.
struct Verified(IntegrityDevice<Device>, Limits);

/// The place of members: memory, or files in a folder.
struct Place {
    files: Option<(Ring, PathBuf)>,
}

impl Place {
    fn device(&self, name: &str, sectors: u64) -> Device {
        let Some((ring, folder)) = &self.files else { return Box::new(RamDevice::new(sectors)) };
        let path = folder.join(format!("{name}.stria-integrity"));
        let file = std::fs::File::create(&path).expect("the folder can be written");
        file.set_len(sectors * 512).expect("the folder has room");
        let drive = stria_drive::open(&path, ring, Access::Exclusive).expect("it is a drive's file");
        std::fs::remove_file(&path).expect("it was just made");
        Box::new(drive)
    }

    fn ring(&self) -> Option<&Ring> {
        self.files.as_ref().map(|(ring, _)| ring)
    }
}

impl BlockDevice for Verified {
    fn limits(&self) -> &Limits {
        &self.1
    }
    fn submit(&mut self, request: Request) {
        self.0.submit(request);
    }
    fn poll(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.0.poll(now, completions);
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.0.next_wake()
    }
}

fn member(place: &Place, name: &str, verified: bool) -> Device {
    if !verified {
        return place.device(name, MEMBER_SECTORS);
    }
    let region = Region::behind(0..MEMBER_SECTORS);
    let device = place.device(name, region.end_sector());
    let header = Header::new(&region, [[0; 16]; 2], 1);
    let device = IntegrityDevice::new(device, name, header, false);
    let limits = Limits { size_sectors: MEMBER_SECTORS, ..device.limits().clone() };
    Box::new(Verified(device, limits))
}

fn array(place: &Place, level: Level, count: usize, verified: bool) -> Device {
    let members = (0..count).map(|index| member(place, &format!("{index}{verified}"), verified)).collect();
    let mut array = array_over(ArrayLevel::Single(level), 128, members).expect("the geometry fits").0;
    let fill = Load {
        block_bytes: 1 << 20,
        read_percent: 0,
        order: Order::Sequential,
        limit: Limit::Operations(array.limits().size_sectors / 2048),
        ..Load::default()
    };
    fill.run(Target { device: &mut array, ring: place.ring() }, None).expect("a drive takes what it has room for");
    array
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().map_or(default, |given| given.parse().expect("a number"));
    let run = Duration::from_millis(number(200));
    let rounds = number(5);
    let on_files = |folder: String| (Ring::new().expect("the system has io_uring"), PathBuf::from(folder));
    let place = Place { files: arguments.next().map(on_files) };
    println!("{:<40} {:>10} {:>10} {:>19} {:>16}", "", "IOPS", "verified", "ratio", "CPU ns per I/O");
    for (level, count) in [(Level::Raid0, 4), (Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 6)] {
        let mut arrays = [array(&place, level, count, false), array(&place, level, count, true)];
        for (what, block_bytes, order) in
            [("4K random", 4 << 10, Order::Random), ("128K sequential", 128 << 10, Order::Sequential)]
        {
            for (kind, read_percent) in [("read", 100), ("write", 0)] {
                for queue_depth in [1, 32] {
                    let mut figures: [[Vec<f64>; 2]; 2] = Default::default();
                    for _ in 0..rounds {
                        for (array, figures) in arrays.iter_mut().zip(&mut figures) {
                            let (warm_up, limit) = (run / 4, Limit::Time(run));
                            let load = Load { block_bytes, read_percent, queue_depth, order, warm_up, limit, ..Load::default() };
                            let outcome = load.run(Target { device: array, ring: place.ring() }, None).expect("no member fails");
                            figures[0].push(outcome.iops());
                            figures[1].push(outcome.cpu_ns_per_io());
                        }
                    }
                    let mut ratios: Vec<f64> =
                        figures[1][0].iter().zip(&figures[0][0]).map(|(with, without)| with / without).collect();
                    ratios.sort_by(f64::total_cmp);
                    let ratios = [ratios[ratios.len() / 2], ratios[0], ratios[ratios.len() - 1]];
                    let [plain, verified] = figures.map(|figures| figures.map(median));
                    let line = format!("raid{level} of {count}, {what} {kind} QD {queue_depth}");
                    println!(
                        "{line:<40} {:>10.0} {:>10.0} {:>5.2} ({:.2} to {:.2}) {:>7.0} {:>8.0}",
                        plain[0], verified[0], ratios[0], ratios[1], ratios[2], plain[1], verified[1]
                    );
                }
            }
        }
    }
}
