//! ISA-L twice: the one that the crate `erasure-isa-l` bundles, linked, and Debian's, by `dlopen`, so that names do not collide.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::{BYTES_MAX, Contender, contender, lost};
use crate::pool::{STRIPS_MAX, Stripe};

#[derive(Clone, Copy)]
struct Isal {
    xor_gen: unsafe extern "C" fn(c_int, c_int, *mut *mut u8) -> c_int,
    pq_gen: unsafe extern "C" fn(c_int, c_int, *mut *mut u8) -> c_int,
    gf_gen_rs_matrix: unsafe extern "C" fn(*mut u8, c_int, c_int),
    gf_invert_matrix: unsafe extern "C" fn(*mut u8, *mut u8, c_int) -> c_int,
    ec_init_tables: unsafe extern "C" fn(c_int, c_int, *mut u8, *mut u8),
    ec_encode_data: unsafe extern "C" fn(c_int, c_int, c_int, *mut u8, *mut *mut u8, *mut *mut u8),
    ec_encode_data_update: unsafe extern "C" fn(c_int, c_int, c_int, c_int, *mut u8, *mut u8, *mut *mut u8),
    crc32_iscsi: unsafe extern "C" fn(*mut u8, c_int, u32) -> u32,
}

unsafe extern "C" {
    fn dlopen(name: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

#[cfg(feature = "isal")]
mod linked {
    use super::*;
    use erasure_isa_l as _;
    unsafe extern "C" {
        fn xor_gen(strips: c_int, bytes: c_int, v: *mut *mut u8) -> c_int;
        fn pq_gen(strips: c_int, bytes: c_int, v: *mut *mut u8) -> c_int;
        fn gf_gen_rs_matrix(a: *mut u8, m: c_int, k: c_int);
        fn gf_invert_matrix(a: *mut u8, b: *mut u8, k: c_int) -> c_int;
        fn ec_init_tables(k: c_int, rows: c_int, a: *mut u8, tables: *mut u8);
        fn ec_encode_data(bytes: c_int, k: c_int, rows: c_int, tables: *mut u8, from: *mut *mut u8, to: *mut *mut u8);
        fn ec_encode_data_update(b: c_int, k: c_int, rows: c_int, i: c_int, tables: *mut u8, from: *mut u8, to: *mut *mut u8);
        fn crc32_iscsi(bytes: *mut u8, length: c_int, before: u32) -> u32;
    }
    pub fn isal() -> Isal {
        Isal {
            xor_gen,
            pq_gen,
            gf_gen_rs_matrix,
            gf_invert_matrix,
            ec_init_tables,
            ec_encode_data,
            ec_encode_data_update,
            crc32_iscsi,
        }
    }
}

fn debian() -> Option<Isal> {
    // SAFETY: the types are those of isa-l's headers.
    unsafe {
        let library = dlopen(c"libisal.so.2".as_ptr(), 2);
        let symbol = |name: &CStr| dlsym(library, name.as_ptr());
        (!library.is_null()).then(|| Isal {
            xor_gen: std::mem::transmute(symbol(c"xor_gen")),
            pq_gen: std::mem::transmute(symbol(c"pq_gen")),
            gf_gen_rs_matrix: std::mem::transmute(symbol(c"gf_gen_rs_matrix")),
            gf_invert_matrix: std::mem::transmute(symbol(c"gf_invert_matrix")),
            ec_init_tables: std::mem::transmute(symbol(c"ec_init_tables")),
            ec_encode_data: std::mem::transmute(symbol(c"ec_encode_data")),
            ec_encode_data_update: std::mem::transmute(symbol(c"ec_encode_data_update")),
            crc32_iscsi: std::mem::transmute(symbol(c"crc32_iscsi")),
        })
    }
}

/// Copies half of the strips onto the other half, with P and Q, and with checksums of every 4 KiB if there is space for them.
fn copy(isal: Isal, n: usize, s: &Stripe, sums: &mut [u32]) {
    let half = n / 2;
    for i in 0..half {
        let blocks = s.bytes / 4096;
        for (b, sum) in sums.iter_mut().skip(i * blocks).take(blocks).enumerate() {
            // SAFETY: the block lies within the strip.
            *sum = unsafe { !(isal.crc32_iscsi)(s.strips[i].add(b * 4096), 4096, !0) };
        }
        s.write(half + i).copy_from_slice(s.read(i));
    }
    let mut v = [std::ptr::null_mut(); STRIPS_MAX];
    v[..half].copy_from_slice(&s.strips[..half]);
    v[half..half + 2].copy_from_slice(&s.strips[n..n + 2]);
    // SAFETY: as many strips as told.
    unsafe { (isal.pq_gen)(half as c_int + 2, s.bytes as c_int, v.as_mut_ptr()) };
}

pub fn of(op: &str, n: usize) -> Vec<Contender> {
    let mut all = vec![];
    #[cfg(feature = "isal")]
    all.extend(contenders("isal-bundled", linked::isal(), op, n));
    if let Some(isal) = debian() {
        all.extend(contenders("isal-debian", isal, op, n));
    }
    all
}

/// The tables of `rows` combinations of n strips.
fn tables(isal: Isal, n: usize, rows: &mut [u8]) -> Vec<u8> {
    let count = rows.len() / n;
    let mut tables = vec![0; 32 * n * count];
    // SAFETY: 32 bytes for every coefficient, as ec_init_tables wants.
    unsafe { (isal.ec_init_tables)(n as c_int, count as c_int, rows.as_mut_ptr(), tables.as_mut_ptr()) };
    tables
}

fn contenders(name: &str, isal: Isal, op: &str, n: usize) -> Vec<Contender> {
    let k = n as c_int;
    let mut matrix = vec![0; (n + 3) * n];
    // SAFETY: (n + 3) × n bytes, as gf_gen_rs_matrix wants.
    unsafe { (isal.gf_gen_rs_matrix)(matrix.as_mut_ptr(), k + 3, k) };
    // SAFETY (all calls): as many strips as told, each of as many bytes.
    match op {
        "P" => vec![contender(&format!("{name} xor_gen"), move |s| {
            let mut v = s.strips;
            unsafe { (isal.xor_gen)(k + 1, s.bytes as c_int, v.as_mut_ptr()) };
        })],
        "PQ" | "PQR" => {
            let rows = op.len();
            let mut tables = tables(isal, n, &mut matrix[n * n..(n + rows) * n]);
            let mut all = vec![contender(&format!("{name} ec_encode"), move |s| {
                let mut v = s.strips;
                let (from, to) = v.split_at_mut(n);
                unsafe {
                    let (bytes, rows) = (s.bytes as c_int, rows as c_int);
                    (isal.ec_encode_data)(bytes, k, rows, tables.as_mut_ptr(), from.as_mut_ptr(), to.as_mut_ptr());
                }
            })];
            if rows == 2 {
                all.push(contender(&format!("{name} pq_gen"), move |s| {
                    let mut v = s.strips;
                    unsafe { (isal.pq_gen)(k + 2, s.bytes as c_int, v.as_mut_ptr()) };
                }));
            }
            all
        }
        "update" => {
            let mut tables = tables(isal, n, &mut matrix[n * n..(n + 2) * n]);
            let mut change: Vec<u64> = vec![0; BYTES_MAX / 8 + 8];
            vec![contender(&format!("{name} ec_update"), move |s| {
                // Its input is the change, not the data before and after.
                let start = change.as_mut_ptr().cast::<u8>();
                let change = start.wrapping_add(start.align_offset(64));
                let mut v = [s.strips[1], s.strips[n + 3], change];
                let mut to = [s.strips[n], s.strips[n + 1]];
                unsafe {
                    (isal.xor_gen)(3, s.bytes as c_int, v.as_mut_ptr());
                    (isal.ec_encode_data_update)(s.bytes as c_int, k, 2, 1, tables.as_mut_ptr(), change, to.as_mut_ptr());
                }
            })]
        }
        "add" => {
            let mut tables = tables(isal, n, &mut matrix[n * n..(n + 2) * n]);
            vec![contender(&format!("{name} ec_update"), move |s| {
                let mut to = [s.strips[n], s.strips[n + 1]];
                unsafe {
                    (isal.ec_encode_data_update)(
                        s.bytes as c_int,
                        k,
                        2,
                        1,
                        tables.as_mut_ptr(),
                        s.strips[n + 3],
                        to.as_mut_ptr(),
                    );
                }
            })]
        }
        "copy" => vec![contender(&format!("{name} memcpy + pq_gen"), move |s| copy(isal, n, s, &mut []))],
        "copycrc" => {
            let sums = super::sums(n / 2);
            let own = sums.clone();
            let copies = contender(&format!("{name} crc + memcpy + pq_gen"), move |s| copy(isal, n, s, &mut own.borrow_mut()));
            vec![Contender { sums: Some(sums), ..copies }]
        }
        "recover1" => vec![contender(&format!("{name} xor_gen"), move |s| {
            let mut v = s.strips;
            v[lost(n)[0]] = s.strips[n];
            v[n] = s.strips[lost(n)[0]];
            unsafe { (isal.xor_gen)(k + 1, s.bytes as c_int, v.as_mut_ptr()) };
        })],
        "recover2" => {
            let gone = lost(n);
            let sources: Vec<usize> = (0..n + 2).filter(|i| !gone.contains(i)).collect();
            let mut present: Vec<u8> = sources.iter().flat_map(|&i| matrix[i * n..(i + 1) * n].to_vec()).collect();
            let mut inverse = vec![0; n * n];
            let singular = unsafe { (isal.gf_invert_matrix)(present.as_mut_ptr(), inverse.as_mut_ptr(), k) };
            assert_eq!(singular, 0);
            let mut rows: Vec<u8> = gone.iter().flat_map(|&i| inverse[i * n..(i + 1) * n].to_vec()).collect();
            let mut tables = tables(isal, n, &mut rows);
            vec![contender(&format!("{name} ec_encode"), move |s| {
                let mut from = [std::ptr::null_mut(); STRIPS_MAX];
                sources.iter().zip(&mut from).for_each(|(&i, from)| *from = s.strips[i]);
                let mut to = gone.map(|i| s.strips[i]);
                unsafe {
                    (isal.ec_encode_data)(s.bytes as c_int, k, 2, tables.as_mut_ptr(), from.as_mut_ptr(), to.as_mut_ptr());
                }
            })]
        }
        _ => vec![],
    }
}
