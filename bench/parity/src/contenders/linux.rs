//! The kernel's RAID-6 library; the routine is the one that its own boot-time benchmark picks.

use std::ffi::{CStr, c_char, c_int};
use std::sync::Once;

use super::{Contender, contender, lost};

unsafe extern "C" {
    fn linux_init() -> *const c_char;
    fn linux_pq(n: c_int, bytes: usize, v: *mut *mut u8);
    fn linux_update(n: c_int, i: c_int, bytes: usize, v: *mut *mut u8, after: *mut u8);
    fn linux_recover_two(n: c_int, a: c_int, b: c_int, bytes: usize, v: *mut *mut u8);
}

pub fn of(op: &str) -> Vec<Contender> {
    static ONCE: Once = Once::new();
    // SAFETY (here and below): as many strips as told, each of as many bytes.
    ONCE.call_once(|| println!("linux raid6 routine: {}", unsafe { CStr::from_ptr(linux_init()) }.to_string_lossy()));
    match op {
        "PQ" => vec![contender("linux raid6", |s| {
            let mut v = s.strips;
            unsafe { linux_pq(s.data as c_int, s.bytes, v.as_mut_ptr()) };
        })],
        "update" => vec![contender("linux raid6", |s| {
            let mut v = s.strips;
            unsafe { linux_update(s.data as c_int, 1, s.bytes, v.as_mut_ptr(), s.strips[s.data + 3]) };
        })],
        "recover2" => vec![contender("linux raid6", |s| {
            let mut v = s.strips;
            let [a, b] = lost(s.data).map(|i| i as c_int);
            unsafe { linux_recover_two(s.data as c_int, a, b, s.bytes, v.as_mut_ptr()) };
        })],
        _ => vec![],
    }
}
