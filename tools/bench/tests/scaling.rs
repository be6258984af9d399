//! A small scaling run and a comparison, from files to page.

use std::time::Duration;
use stria_array::Level;
use stria_bench::report::{Section, page};
use stria_bench::scaling::{Plan, ScalingError, scaling};
use stria_bench::{Basis, Environment, Limit, Load, Subject, Target, array_over, compare};
use stria_block::{BlockDevice, RamDevice};
use stria_host::ArrayLevel;

fn memory(device: &mut dyn BlockDevice) -> Target<'_> {
    Target { device, ring: None }
}

#[test]
fn every_level_that_fits_is_measured_and_the_files_are_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = Duration::from_millis(2);
    let plan = Plan { drive_counts: vec![1, 6], member_bytes: 8 << 20, run, rounds: 2, ..Plan::new(folder.path()) };
    let (mut last, mut calls) = (0, 0);
    let result = scaling(&plan, &mut |done: usize, total: usize, what: &str| {
        assert!(done >= last && done <= total && !what.is_empty(), "{done} of {total} after {last}");
        (last, calls) = (done, calls + 1);
        if done == total {
            assert_eq!(what, "done");
        }
    })
    .expect("it runs");
    assert!(calls > 100, "{calls}");
    let mut levels: Vec<(usize, &str)> = result.cells.iter().map(|cell| (cell.drives, &*cell.level)).collect();
    levels.dedup();
    levels.sort_unstable();
    levels.dedup();
    let six = ["0", "1", "10", "4", "5", "50", "6", "bare", "jbod"].map(|level| (6, level));
    assert_eq!(levels, [&[(1, "0"), (1, "bare"), (1, "jbod")][..], &six].concat());
    assert_eq!(result.cells.len(), 12 * 8);
    for cell in &result.cells {
        assert!(cell.iops.median > 0.0 && cell.iops.min <= cell.iops.median && cell.iops.median <= cell.iops.max, "{cell:?}");
        assert_eq!(cell.share.is_some(), cell.level != "bare", "{cell:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0, "files are left behind");
    assert_eq!(result.to_csv().lines().count(), 1 + 12 * 8);
    let commas = |line: &str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>();
    assert!(result.to_csv().lines().all(|line| commas(line) == 17), "{}", result.to_csv());
    let html = page("Scaling", &Environment::here(&result.members), &[Section::Scaling(&result)]);
    assert!(html.contains("RAID 50") && html.contains("Half of all 80 measurements"), "{:?}", result.verdict());
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = scaling(&Plan::new("/nowhere"), &mut |_: usize, _: usize, _: &str| {}).expect_err("no folder");
    assert!(matches!(error, ScalingError::Folder { .. }) && error.to_string().contains("/nowhere"), "{error}");
}

#[test]
fn an_array_is_compared_with_its_members_by_the_work_it_makes() {
    let members = || (0..4).map(|_| Box::new(RamDevice::new(8192)) as Box<dyn BlockDevice>).collect::<Vec<_>>();
    let (array, shape) = array_over(ArrayLevel::Single(Level::Raid5), 128, members()).expect("it fits");
    let mut subject =
        Subject { name: "RAID 5 of 4".into(), array, shape, members: members(), members_writable: true, ring: None };
    let limit = Limit::Operations(500);
    let loads = [100, 0, 70].map(|read_percent| Load { read_percent, queue_depth: 4, limit, ..Load::default() });
    let mut last = 0;
    let comparison = compare(&mut subject, &loads, 3, &mut |done, total, _| last = done * 100 / total).expect("it runs");
    assert_eq!((last, comparison.rows.len(), comparison.basis), (100, 3, Basis::CpuSecond));
    let [reads, writes, mixed] = &comparison.rows[..] else { panic!("three rows") };
    let work = writes.write_work.as_ref().expect("it writes");
    assert_eq!((work.all.reads, work.all.writes, &*work.law), (2.0, 2.0, "4/(2/R + 2/W): read-modify-write"));
    for row in [reads, writes, mixed] {
        let share = row.share_of_allowed.expect("members may be written");
        assert!(share > 0.0 && share.is_finite(), "{row:?}");
    }
    assert!(reads.share_of_member.is_some() && mixed.member.is_none());
    assert_eq!(subject.members.len(), 4, "members come back");
    assert_eq!(comparison.to_csv().lines().count(), 4);
    let html = page("Compared", &Environment::here("RAM"), &[Section::Comparison(&comparison)]);
    assert!(html.contains("4 KiB random 70 % read, QD 4"));

    subject.members_writable = false;
    let comparison = compare(&mut subject, &loads, 1, &mut |_, _, _| {}).expect("it runs");
    let known: Vec<bool> = comparison.rows.iter().map(|row| row.share_of_allowed.is_some()).collect();
    assert_eq!(known, [true, false, false], "writes have nothing to be held against");
}

#[test]
fn nested_levels_hold_what_is_written() {
    for (name, count) in [("50", 6), ("60", 8)] {
        let members = (0..count).map(|_| Box::new(RamDevice::new(4096)) as Box<dyn BlockDevice>).collect();
        let (mut array, shape) = array_over(name.parse().expect("a level"), 16, members).expect("it fits");
        assert_eq!((shape.level.to_string(), shape.members, shape.spans), (name.to_string(), count, 2));
        let mut ledger = stria_bench::Ledger::new(5, 0..array.limits().size_sectors, 4096);
        let load = Load { read_percent: 30, queue_depth: 16, limit: Limit::Operations(5000), ..Load::default() };
        load.run(memory(&mut array), Some(&mut ledger)).expect("memory does not fail");
        let check = Load::check(&ledger, 4);
        let outcome = check.run(memory(&mut array), Some(&mut ledger)).expect("all is there");
        assert_eq!(outcome.verified_blocks, ledger.known_blocks() as u64);
    }
}
