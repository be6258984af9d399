//! Write amplification of the page map against closed forms. Every map is overwritten until its counts no longer drift, and
//! then counted over as many overwrites again.

use stria_plan::chance::Chance;
use stria_plan::queueing::{amplification_greedy, amplification_limit, trimmed_use_share};
use stria_plan::ssd::map::{PageMap, Policy, Shape};
use stria_plan::ssd::{jump, sampled::SampledMap};

/// 256 Ki pages: 1 GiB of 4 KiB, in 512 to 1024 blocks of the sizes below.
const PAGES: u32 = 1 << 18;

fn overwritten(map: &mut PageMap, times: u32, seed: u64) -> f64 {
    let mut chance = Chance::new(seed, 0);
    let pages = map.shape().logical_pages;
    let mut overwrite = |map: &mut PageMap| {
        for _ in 0..u64::from(pages) * u64::from(times) {
            map.write(chance.below(u64::from(pages)) as u32);
        }
    };
    (0..pages).for_each(|page| _ = map.write(page));
    overwrite(map);
    let before = map.counts();
    overwrite(map);
    map.counts().amplification_since(&before)
}

fn near(found: f64, expected: f64, share: f64, what: &str) {
    assert!((found / expected - 1.0).abs() <= share, "{what}: {found:.4} instead of {expected:.4}");
}

#[test]
fn greedy_collection_amplifies_as_the_closed_form_says() {
    for (spare, times) in [(0.07, 8), (0.15, 6), (0.28, 4), (0.5, 3), (1.0, 3)] {
        for block_pages in [64, 256] {
            let shape = Shape::with_spare(PAGES, block_pages, spare);
            let found = overwritten(&mut PageMap::new(shape, Policy::Greedy), times, 1);
            near(found, amplification_greedy(shape.alpha(), block_pages), 0.01, &format!("spare {spare}, {block_pages} pages"));
        }
    }
}

#[test]
fn greedy_collection_of_large_blocks_comes_to_the_law_of_xiang_and_kurkoski() {
    let shape = Shape::with_spare(PAGES * 2, 1024, 0.28);
    let found = overwritten(&mut PageMap::new(shape, Policy::Greedy), 4, 2);
    near(found, amplification_limit(shape.alpha()), 0.01, "1024 pages");
}

#[test]
fn collection_of_the_oldest_block_follows_the_law_for_blocks_of_any_size() {
    for block_pages in [32, 256] {
        let shape = Shape::with_spare(PAGES, block_pages, 0.28);
        let found = overwritten(&mut PageMap::new(shape, Policy::Fifo), 4, 3);
        near(found, amplification_limit(shape.alpha()), 0.01, &format!("{block_pages} pages"));
    }
}

/// Cost-benefit collection separates nothing here, so it can only lose to greedy where all pages are alike.
#[test]
fn cost_benefit_lies_between_greedy_and_oldest_on_uniform_writes_and_wins_on_hot_and_cold() {
    let shape = Shape::with_spare(PAGES / 4, 64, 0.15);
    let uniform = overwritten(&mut PageMap::new(shape, Policy::CostBenefit), 6, 4);
    assert!(uniform >= 0.99 * amplification_greedy(shape.alpha(), 64));
    assert!(uniform <= 1.02 * amplification_limit(shape.alpha()));

    let hot_and_cold = |policy: Policy| {
        let mut map = PageMap::new(shape, policy);
        let mut chance = Chance::new(5, 0);
        let pages = u64::from(shape.logical_pages);
        (0..shape.logical_pages).for_each(|page| _ = map.write(page));
        let mut before = map.counts();
        for step in 0..pages * 20 {
            if step == pages * 10 {
                before = map.counts();
            }
            // Nine of ten writes go to a tenth of the pages.
            let page = if chance.below(10) > 0 { chance.below(pages / 10) } else { chance.below(pages) };
            map.write(page as u32);
        }
        map.counts().amplification_since(&before)
    };
    let (greedy, cost_benefit) = (hot_and_cold(Policy::Greedy), hot_and_cold(Policy::CostBenefit));
    assert!(cost_benefit < greedy, "cost-benefit {cost_benefit:.3}, greedy {greedy:.3}");
}

#[test]
fn sequential_overwrites_copy_nothing() {
    for policy in [Policy::Greedy, Policy::CostBenefit, Policy::Fifo] {
        let mut map = PageMap::new(Shape::with_spare(PAGES, 256, 0.07), policy);
        for _ in 0..3 {
            (0..PAGES).for_each(|page| assert_eq!(map.write(page), 0));
        }
        assert_eq!(map.counts().copied, 0);
        assert_eq!(map.counts().programmed, 3 * u64::from(PAGES));
    }
}

/// Random writes and trims keep a share of the pages in use, whose law gives the spare area that is left for collection.
#[test]
fn trims_at_random_widen_the_spare_area() {
    for trim_share in [0.1, 0.2, 0.3] {
        let shape = Shape::with_spare(PAGES, 256, 0.07);
        let mut map = PageMap::new(shape, Policy::Greedy);
        let mut chance = Chance::new(6, 0);
        let mut in_use: Vec<u32> = (0..PAGES).collect();
        let mut index: Vec<u32> = in_use.clone();
        (0..PAGES).for_each(|page| _ = map.write(page));
        let mut before = map.counts();
        for step in 0..u64::from(PAGES) * 16 {
            if step == u64::from(PAGES) * 8 {
                before = map.counts();
            }
            if chance.unit() < trim_share {
                let at = chance.below(in_use.len() as u64) as usize;
                let page = in_use.swap_remove(at);
                if let Some(&moved) = in_use.get(at) {
                    index[moved as usize] = at as u32;
                }
                index[page as usize] = u32::MAX;
                map.trim(page);
            } else {
                let page = chance.below(u64::from(PAGES)) as u32;
                if index[page as usize] == u32::MAX {
                    index[page as usize] = in_use.len() as u32;
                    in_use.push(page);
                }
                map.write(page);
            }
        }
        let used = in_use.len() as f64 / f64::from(PAGES);
        near(used, trimmed_use_share(trim_share), 0.01, "share in use");
        let law = amplification_greedy(shape.alpha() / trimmed_use_share(trim_share), 256);
        near(map.counts().amplification_since(&before), law, 0.01, &format!("trim share {trim_share}"));
    }
}

/// The jump makes the state that overwriting leads to: as many blocks with each count of live pages, and the same
/// amplification from the first write on.
#[test]
fn the_jump_makes_the_state_that_overwriting_leads_to() {
    for spare in [0.07, 0.28] {
        let shape = Shape::with_spare(PAGES, 256, spare);
        let mut done = PageMap::new(shape, Policy::Greedy);
        overwritten(&mut done, 5, 7);
        let mut jumped = jump::overwritten(shape, 8);
        assert_eq!(jumped.mapped_pages(), u64::from(PAGES));

        // The distance of Kolmogorov and Smirnov between the two distributions of live pages.
        let (a, b) = (done.live_histogram(), jumped.live_histogram());
        let (all_a, all_b) = (a.iter().sum::<u64>() as f64, b.iter().sum::<u64>() as f64);
        let (mut sum_a, mut sum_b, mut distance) = (0, 0, 0f64);
        for (a, b) in a.iter().zip(&b) {
            (sum_a, sum_b) = (sum_a + a, sum_b + b);
            distance = distance.max((sum_a as f64 / all_a - sum_b as f64 / all_b).abs());
        }
        // Kolmogorov and Smirnov: two samples of as many blocks of one distribution differ by less in 95 of 100 cases.
        let critical = 1.36 * (2.0 / all_a).sqrt();
        assert!(distance < critical, "spare {spare}: the distributions differ by {distance:.4}");

        let mut chance = Chance::new(9, 0);
        let before = jumped.counts();
        (0..PAGES).for_each(|_| _ = jumped.write(chance.below(u64::from(PAGES)) as u32));
        let found = jumped.counts().amplification_since(&before);
        near(found, amplification_greedy(shape.alpha(), 256), 0.015, &format!("after the jump, spare {spare}"));
    }
}

/// A drive that collects the oldest block comes to its own law, not to that of greedy collection.
#[test]
fn the_jump_keeps_the_policy_of_the_drive() {
    let mut map = SampledMap::new(u64::from(PAGES) * 16, 0.2, 16, Policy::Fifo, u64::from(PAGES) / 4);
    map.jump_to_used(13);
    let shape = map.tracked().shape();
    let (oldest, greedy) = (amplification_limit(shape.alpha()), amplification_greedy(shape.alpha(), 16));
    assert!(oldest > 1.1 * greedy, "the laws differ: {oldest:.3}, {greedy:.3}");
    let mut chance = Chance::new(14, 0);
    let before = map.counts();
    (0..PAGES * 8).for_each(|_| _ = map.write(chance.below(u64::from(PAGES) * 16), 1));
    near(map.counts().amplification_since(&before), oldest, 0.02, "after the jump");
}

/// Right after the jump a sampled drive copies as the closed form says, from the first thousands of writes on, also where fewer
/// pages are copied than written.
#[test]
fn a_sampled_drive_copies_evenly() {
    for spare in [0.1, 0.4, 0.8] {
        let mut map = SampledMap::new(u64::from(PAGES) * 64, spare, 256, Policy::Greedy, u64::from(PAGES));
        map.jump_to_used(11);
        let shape = map.tracked().shape();
        let mut chance = Chance::new(12, 0);
        let mut before = map.counts();
        for _ in 0..5 {
            (0..5_000).for_each(|_| _ = map.write(chance.below(u64::from(PAGES) * 64), 1));
            let found = map.counts().amplification_since(&before);
            // Copies are owed block by block and spread over 32.
            near(found, amplification_greedy(shape.alpha(), 256), 0.03, &format!("spare {spare}"));
            before = map.counts();
        }
    }
}

/// A sampled drive amplifies as the whole one does, and what it owes is paid: it never copies in advance or for nothing.
#[test]
fn a_sampled_drive_amplifies_as_the_whole_one() {
    let pages = u64::from(PAGES) * 4;
    let mut found = Vec::new();
    for tracked in [pages, pages / 16] {
        let mut map = SampledMap::new(pages, 0.2, 256, Policy::Greedy, tracked);
        assert_eq!(map.every(), pages / tracked);
        let mut chance = Chance::new(10, 0);
        for first in (0..pages).step_by(64) {
            map.write(first, 64);
        }
        assert_eq!(map.counts().copied, 0);
        let mut before = map.counts();
        for step in 0..pages * 4 {
            if step == pages * 2 {
                before = map.counts();
            }
            map.write(chance.below(pages), 1);
        }
        assert_eq!(map.counts().copied + map.owed_pages(), map.tracked().counts().copied * map.every());
        found.push(map.counts().amplification_since(&before));
    }
    near(found[1], found[0], 0.01, "sampled");
}
