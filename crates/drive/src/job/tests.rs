use super::*;
use crate::Access;
use stria_block::{ErrorKind, Segments};

fn job(operation: Operation, sectors: u64) -> Job {
    let path = std::env::temp_dir().join(format!("stria-job-{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    let drive = SyncDrive::open(&path, Access::Exclusive).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(drive.alignment().1, 512, "this test's file system does direct I/O of sectors");
    Job::new(Request { tag: 0, start_sector: 0, sectors, operation }, Step::Transfer, 0, drive, Pieces::new())
}

fn listed(job: &mut Job) -> Vec<usize> {
    job.entry(&(0..0));
    job.pieces.iter().map(|piece| piece.len).collect()
}

#[test]
fn transfer_cut_short_goes_on_at_a_whole_block() {
    let into = Segments::from_vec(vec![Buffer::zeroed(1024), Buffer::zeroed(2048)]);
    let mut job = job(Operation::Read { into }, 6);
    assert_eq!(listed(&mut job), [1024, 2048]);
    assert_eq!(job.advance(1024 + 512 + 100), Ok(false));
    assert_eq!(listed(&mut job), [1536]);
    assert_eq!(job.advance(1536), Ok(true));
}

#[test]
fn nothing_read_is_the_end_of_the_file_and_nothing_written_is_tried_again() {
    let into = Segments::from_vec(vec![Buffer::zeroed(1024)]);
    let mut read = job(Operation::Read { into }, 2);
    read.entry(&(0..0));
    assert_eq!(read.advance(100).unwrap_err().kind, ErrorKind::Gone);
    let from = Segments::from_vec(vec![Buffer::zeroed(1024).freeze()]);
    let mut write = job(Operation::Write { from, fua: false }, 2);
    write.entry(&(0..0));
    assert!((0..RETRIES_MAX).all(|_| write.advance(0) == Ok(false)));
    assert!(write.advance(0).is_err(), "but not for ever");
}

#[test]
fn again_is_tried_again_but_not_for_ever() {
    let mut job = job(Operation::Read { into: Segments::from_vec(vec![Buffer::zeroed(512)]) }, 1);
    let again = -Errno::AGAIN.raw_os_error();
    assert!((0..RETRIES_MAX).all(|_| job.advance(again) == Ok(false)));
    assert_eq!(job.advance(again).unwrap_err().kind, ErrorKind::Other);
}

#[test]
fn memory_off_the_alignment_is_bounced_both_ways() {
    let odd = |len: usize| {
        let mut buffer = Buffer::zeroed(4 + len);
        buffer.split_to(4);
        buffer
    };
    let mut lead = odd(300);
    lead.fill(1);
    let mut rest = odd(724);
    rest.fill(2);
    let from = Segments::from_vec(vec![lead.freeze(), rest.freeze()]);
    let mut write = job(Operation::Write { from, fua: false }, 2);
    assert_eq!(listed(&mut write), [1024]);
    let bounce = write.bounce.as_ref().unwrap();
    assert!(bounce[..300].iter().all(|&byte| byte == 1) && bounce[300..].iter().all(|&byte| byte == 2));
    assert_eq!(write.advance(512), Ok(false));
    assert_eq!(listed(&mut write), [512]);
    assert!(write.bounce.as_ref().unwrap().iter().all(|&byte| byte == 2), "from where it ended");

    let mut read = job(Operation::Read { into: Segments::from_vec(vec![odd(300), odd(724)]) }, 2);
    assert_eq!(listed(&mut read), [1024]);
    read.bounce.as_mut().unwrap().fill(3);
    assert_eq!(read.advance(1024), Ok(true));
    let Operation::Read { into } = &read.request.operation else { panic!() };
    assert!(into.iter().all(|buffer| buffer.iter().all(|&byte| byte == 3)));
}
