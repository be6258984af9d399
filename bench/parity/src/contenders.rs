//! The contenders of each operation. A contender works on the strips of a `Stripe` in place: data, P, Q, R, and at `data + 3` a
//! strip of new data.

use std::cell::RefCell;
use std::rc::Rc;

use stria_parity::{Code, Strip, reference};

use crate::pool::Stripe;

mod isal;
#[cfg(peer_linux)]
mod linux;
mod roof;
#[cfg(feature = "crates")]
mod rust;
#[cfg(peer_snapraid)]
mod snapraid;

/// `add`: adds one strip to P and Q, as `update` does for a strip of zeros. `copy` and `copycrc`: half the data strips are copied
/// onto the other half, with P and Q of what was copied; `copycrc` also computes the CRC-32C of every 4 KiB.
pub const OPS: [&str; 10] = ["roof", "P", "PQ", "PQR", "update", "add", "recover1", "recover2", "copy", "copycrc"];

/// The longest strip: contenders keep memory of their own for it.
pub const BYTES_MAX: usize = 1 << 20;
/// A checksum covers so many bytes.
const BLOCK_BYTES: usize = 4096;

/// The checksums of `copycrc`, strip by strip, which outlive a call so that they can be compared.
pub type Sums = Rc<RefCell<Vec<u32>>>;

fn sums(strips: usize) -> Sums {
    Rc::new(RefCell::new(vec![0; strips * BYTES_MAX / BLOCK_BYTES]))
}

pub struct Contender {
    pub who: String,
    pub call: Box<dyn FnMut(&Stripe)>,
    /// True if it computes the same code as ours, so that the results can be compared. Others are only timed.
    pub same_code: bool,
    /// What it computes besides, of CRC-32C.
    pub sums: Option<Sums>,
}

pub fn contender(who: &str, call: impl FnMut(&Stripe) + 'static) -> Contender {
    Contender { who: who.into(), call: Box::new(call), same_code: true, sums: None }
}

/// The data strips that `recover1` (the first) and `recover2` lose.
pub fn lost(data: usize) -> [usize; 2] {
    [1, data / 2 + 1]
}

pub fn bytes_processed(op: &str, data: usize, bytes: usize) -> f64 {
    let strips = match op {
        "update" | "add" => 1,
        "copy" | "copycrc" => data / 2,
        _ => data,
    };
    (strips * bytes) as f64
}

pub fn of(op: &str, data: usize, bytes: usize) -> Vec<Contender> {
    let mut all = if op == "roof" { roof::of() } else { vec![stria(op, data)] };
    all.extend(isal::of(op, data));
    #[cfg(peer_linux)]
    all.extend(linux::of(op));
    #[cfg(peer_snapraid)]
    all.extend(snapraid::of(op));
    #[cfg(feature = "crates")]
    all.extend(rust::of(op, data, bytes));
    let _ = bytes;
    all
}

fn stria(op: &str, n: usize) -> Contender {
    match op {
        "P" | "PQ" | "PQR" => {
            let code = Code::new(n, op.len());
            let mut data = Vec::with_capacity(n);
            contender("stria", move |s| {
                data.clear();
                data.extend((0..n).map(|i| s.read(i)));
                let mut parity = [Some(s.write(n)), Some(s.write(n + 1)), Some(s.write(n + 2))];
                code.generate(&data, &mut parity[..code.parity_count()]);
            })
        }
        "update" => {
            let code = Code::new(n, 2);
            contender("stria", move |s| {
                code.update(1, s.read(1), s.read(n + 3), &mut [Some(s.write(n)), Some(s.write(n + 1))]);
            })
        }
        "add" => {
            let code = Code::new(n, 2);
            contender("stria", move |s| code.add(1, s.read(n + 3), &mut [Some(s.write(n)), Some(s.write(n + 1))]))
        }
        "copy" | "copycrc" => {
            let half = n / 2;
            let code = Code::new(half, 2);
            let sums = (op == "copycrc").then(|| sums(half));
            let own = sums.clone();
            let copies = contender("stria", move |s| {
                let source: [_; 16] = std::array::from_fn(|i| s.read(i.min(half - 1)));
                let mut target: Vec<_> = (half..n).map(|i| s.write(i)).collect();
                let mut parity = [Some(s.write(n)), Some(s.write(n + 1))];
                let mut sums = own.as_ref().map(|sums| sums.borrow_mut());
                let sums = sums.as_mut().map(|sums| &mut sums[..half * s.bytes / BLOCK_BYTES]);
                code.copy_and_generate(&source[..half], &mut target, &mut parity, sums);
            });
            Contender { sums, ..copies }
        }
        _ => {
            let count = if op == "recover1" { 1 } else { 2 };
            let code = Code::new(n, count);
            let mut strips = Vec::with_capacity(n + count);
            let gone = lost(n);
            contender("stria", move |s| {
                strips.clear();
                strips.extend(
                    (0..n + count)
                        .map(|i| if gone[..count].contains(&i) { Strip::Lost(s.write(i)) } else { Strip::Present(s.read(i)) }),
                );
                code.recover(&mut strips).unwrap();
            })
        }
    }
}

/// The plain one, bit by bit (RFC 3720, appendix B.4).
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

/// Runs the contender once and compares with the reference; the stripe is put back as it was.
pub fn verify(op: &str, contender: &mut Contender, s: &Stripe) {
    let n = s.data;
    let kept: Vec<Vec<u8>> = (0..n + 4).map(|i| s.read(i).to_vec()).collect();
    let data: Vec<&[u8]> = kept[..n].iter().map(Vec::as_slice).collect();
    let parity: Vec<Vec<u8>> = (0..3).map(|j| reference::parity(j, &data)).collect();
    let gone = lost(n);
    if op.starts_with("recover") || op == "update" || op == "add" {
        (0..3).for_each(|j| s.write(n + j).copy_from_slice(&parity[j]));
    }
    match op {
        "recover1" => s.write(gone[0]).fill(0),
        "recover2" => gone.iter().for_each(|&i| s.write(i).fill(0)),
        _ => {}
    }
    (contender.call)(s);
    if contender.same_code && op != "roof" && !op.starts_with("copy") {
        let mut expected = data.clone();
        let sum: Vec<u8> = kept[1].iter().zip(&kept[n + 3]).map(|(a, b)| a ^ b).collect();
        match op {
            "update" => expected[1] = &kept[n + 3],
            "add" => expected[1] = &sum,
            _ => {}
        }
        let count = if op.starts_with('P') { op.len() } else { 2 };
        for j in 0..count {
            assert!(s.read(n + j) == reference::parity(j, &expected), "{} {op}: parity {j} is wrong", contender.who);
        }
        (0..n).for_each(|i| assert!(s.read(i) == data[i], "{} {op}: data strip {i} is wrong", contender.who));
    }
    if op.starts_with("copy") {
        let half = n / 2;
        for j in 0..2 {
            assert!(s.read(n + j) == reference::parity(j, &data[..half]), "{} {op}: parity {j} is wrong", contender.who);
        }
        (0..half).for_each(|i| assert!(s.read(half + i) == data[i], "{} {op}: strip {i} is wrong", contender.who));
        if op == "copycrc" {
            let sums = contender.sums.as_ref().expect("it computes checksums").borrow();
            let blocks = data[..half].iter().flat_map(|strip| strip.chunks_exact(BLOCK_BYTES));
            for (block, (sum, bytes)) in sums.iter().zip(blocks).enumerate() {
                assert!(*sum == crc32c(bytes), "{} {op}: the checksum of block {block} is wrong", contender.who);
            }
        }
    }
    (0..n + 4).for_each(|i| s.write(i).copy_from_slice(&kept[i]));
}
