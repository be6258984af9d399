//! Times our parity beside its peers: one core, many short samples, interleaved, medians and interquartile ranges.
//!
//! GB/s (1e9 bytes) of data processed: data strips × strip bytes for generating and recovering, the bytes of the one
//! changed strip for updates and additions. hot: one stripe over and over. cold: stripes in shuffled order out of 1 GiB on huge pages, so that
//! every load comes from memory. Every contender's result is checked once per cell before it is timed.
//!
//! Filters, each a list with commas: --op P,PQ,PQR,update,add,recover1,recover2,copy,copycrc,roof --data 4,8,16,22 --bytes 4096,16384,65536,1048576
//! --temperature hot,cold --who NAME,…; --samples N --ms M (per sample) --out FOLDER. Data strips: an
//! even number from 4 to 28, of a multiple of 4096 bytes up to 1 MiB.

mod contenders;
mod pool;
mod report;

use pool::{Pool, Stripe};

pub struct Cell {
    pub who: String,
    pub op: &'static str,
    pub data: usize,
    pub bytes: usize,
    pub temperature: &'static str,
    /// Sorted, GB/s.
    pub samples: Vec<f64>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |name: &str| arguments.iter().position(|a| a == name).map(|i| arguments[i + 1].clone());
    let list = |name: &str, default: &str| -> Vec<String> {
        argument(name).as_deref().unwrap_or(default).split(',').map(String::from).collect()
    };
    let ops = list("--op", "roof,P,PQ,PQR,update,add,recover1,recover2,copy,copycrc");
    let whos = list("--who", "");
    let temperatures = list("--temperature", "hot,cold");
    let sizes: Vec<usize> = list("--bytes", "4096,16384,65536,1048576").iter().map(|s| s.parse().unwrap()).collect();
    let counts: Vec<usize> = list("--data", "8,4,16,22").iter().map(|s| s.parse().unwrap()).collect();
    if let Some(bytes) = sizes.iter().find(|bytes| !(4096..=contenders::BYTES_MAX).contains(*bytes) || **bytes % 4096 != 0) {
        refuse(&format!("--bytes {bytes}: a strip has a multiple of 4096 bytes, and at most {}", contenders::BYTES_MAX));
    }
    if let Some(data) = counts.iter().find(|data| !(4..=pool::DATA_MAX).contains(*data) || **data % 2 != 0) {
        refuse(&format!("--data {data}: use an even number of data strips from 4 to {}", pool::DATA_MAX));
    }
    let samples: usize = argument("--samples").map_or(31, |s| s.parse().unwrap());
    let seconds = argument("--ms").map_or(0.5, |s| s.parse().unwrap()) / 1e3;

    let mut pool = Pool::new();
    let mut cells = Vec::new();
    for &data in &counts {
        for &bytes in &sizes {
            pool.cut(data, bytes);
            for op in contenders::OPS.iter().filter(|op| ops.iter().any(|o| o == *op)) {
                let mut who: Vec<_> = contenders::of(op, data, bytes);
                who.retain(|c| whos == [""] || whos.contains(&c.who));
                for contender in &mut who {
                    contenders::verify(op, contender, &pool.stripe(0));
                }
                for temperature in ["hot", "cold"].into_iter().filter(|t| temperatures.iter().any(|o| o == t)) {
                    let mut results = vec![Vec::new(); who.len()];
                    for _ in 0..samples {
                        for (contender, results) in who.iter_mut().zip(&mut results) {
                            let per_call = contenders::bytes_processed(op, data, bytes);
                            results.push(sample(&mut pool, temperature, seconds, &mut contender.call) * per_call / 1e9);
                        }
                    }
                    for (contender, mut samples) in who.iter().zip(results) {
                        samples.sort_by(f64::total_cmp);
                        let cell = Cell { who: contender.who.clone(), op, data, bytes, temperature, samples };
                        report::line(&cell);
                        cells.push(cell);
                    }
                }
            }
        }
    }
    if let Some(folder) = argument("--out") {
        report::write(&folder, &cells).expect("report written");
    }
}

fn refuse(problem: &str) -> ! {
    eprintln!("{problem}");
    std::process::exit(2);
}

/// Calls per second of this thread's processor time, so that a busy machine's other work counts only where it costs cache and
/// bandwidth.
fn sample(pool: &mut Pool, temperature: &str, seconds: f64, call: &mut dyn FnMut(&Stripe)) -> f64 {
    let hot = pool.stripe(0);
    let batch = ((2 << 20) / pool.stripe_bytes()).max(1);
    if temperature == "hot" {
        (0..batch.div_ceil(8).max(2)).for_each(|_| call(&hot));
    }
    let start = processor_seconds();
    let mut calls = 0;
    loop {
        for _ in 0..batch {
            if temperature == "hot" { call(&hot) } else { call(&pool.next()) }
        }
        calls += batch;
        let elapsed = processor_seconds() - start;
        if elapsed >= seconds {
            return calls as f64 / elapsed;
        }
    }
}

fn processor_seconds() -> f64 {
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
    }
    const THREAD: i32 = 3;
    let mut time = [0; 2];
    // SAFETY: a timespec is two 64-bit integers where this runs.
    unsafe { clock_gettime(THREAD, &mut time) };
    time[0] as f64 + time[1] as f64 * 1e-9
}
