//! temporary
use stria_sim::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let from: u64 = a[1].parse().unwrap();
    let count: u64 = a[2].parse().unwrap();
    let family = a.get(3).filter(|f| *f != "all").cloned();
    let mutant = a.get(4).and_then(|n| Mutant::ALL.into_iter().find(|m| format!("{m:?}") == *n));
    if a.get(5).is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let mut fails = std::collections::BTreeMap::<String, (u64, Vec<u64>)>::new();
    let t = std::time::Instant::now();
    let mut reqs = 0;
    let mut creqs = 0;
    let mut crashes = 0;
    let mut met = std::collections::BTreeMap::<String, u64>::new();
    for seed in from..from + count {
        let h = History::draw(seed, family.as_deref());
        match campaign::try_history(&h, Rules { mutant, ..Rules::default() }) {
            Ok(t) => {
                reqs += t.requests;
                creqs += t.client_requests;
                crashes += t.crashes;
                for (k, v) in t.met {
                    *met.entry(k).or_default() += v;
                }
            }
            Err(f) => {
                if count == 1 {
                    let (s, f) =
                        shrink::shrink(&h, f.clone(), Rules { mutant, ..Rules::default() }, std::time::Duration::from_secs(20));
                    println!(
                        "{}
depth {} step {}: {}",
                        s.setup, s.depth, f.step, f.what
                    );
                    for st in &s.steps {
                        println!("  {st:?}");
                    }
                }
                let key: String = format!(
                    "{}: {}",
                    h.setup.family(),
                    f.what.chars().filter(|c| !c.is_ascii_digit()).take(110).collect::<String>()
                );
                let e = fails.entry(key).or_default();
                e.0 += 1;
                if e.1.len() < 3 {
                    e.1.push(seed);
                    println!("seed {seed} step {} of {}: {} [{}]", f.step, h.steps.len(), f.what, h.setup);
                }
            }
        }
    }
    let s = t.elapsed().as_secs_f64();
    println!(
        "{count} in {s:.2}s = {:.0}/s, {:.0} io/s, {} client, {crashes} crashes {met:?}",
        count as f64 / s,
        reqs as f64 / s,
        creqs
    );
    for (k, v) in fails {
        println!("{:5} {k} {:?}", v.0, v.1);
    }
}
