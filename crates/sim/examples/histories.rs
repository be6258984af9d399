use stria_sim::campaign::try_history;
use stria_sim::{History, Rules};
fn main() {
    let a: Vec<String> = std::env::args().skip(1).collect();
    std::panic::set_hook(Box::new(|_| {}));
    let (from, count): (u64, u64) = (a[1].parse().unwrap(), a[2].parse().unwrap());
    let mut failures = 0;
    for seed in from..from + count {
        if let Err(f) = try_history(&History::draw(seed, Some(&a[0])), Rules::default()) {
            println!("seed {seed}, {}, step {}: {}", a[0], f.step, f.what);
            failures += 1;
        }
    }
    println!("level {}: {count} histories from {from}, {failures} failed", a[0]);
}
