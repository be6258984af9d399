//! SnapRAID's raid library, Cauchy mode; its third parity is another code than ours, of the same work.

use std::ffi::c_int;
use std::sync::Once;

use super::{Contender, contender, lost};

unsafe extern "C" {
    fn peer_snapraid_init();
    fn peer_snapraid_generate(n: c_int, parities: c_int, bytes: usize, v: *mut *mut u8);
    fn peer_snapraid_recover(count: c_int, lost: *mut c_int, n: c_int, bytes: usize, v: *mut *mut u8);
}

pub fn of(op: &str) -> Vec<Contender> {
    static ONCE: Once = Once::new();
    // SAFETY (here and below): as many strips as told, each of as many bytes.
    ONCE.call_once(|| unsafe { peer_snapraid_init() });
    match op {
        "P" | "PQ" | "PQR" => {
            let count = op.len();
            let mut all = contender("snapraid", move |s| {
                let mut v = s.strips;
                unsafe { peer_snapraid_generate(s.data as c_int, count as c_int, s.bytes, v.as_mut_ptr()) };
            });
            all.same_code = count < 3;
            vec![all]
        }
        "recover1" | "recover2" => {
            let count = if op == "recover1" { 1 } else { 2 };
            vec![contender("snapraid", move |s| {
                let mut v = s.strips;
                let mut gone = lost(s.data).map(|i| i as c_int);
                unsafe { peer_snapraid_recover(count, gone.as_mut_ptr(), s.data as c_int, s.bytes, v.as_mut_ptr()) };
            })]
        }
        _ => vec![],
    }
}
