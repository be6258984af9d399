//! Modules of the engine stand in one order, and each uses only modules before it. A new arrow the other way fails here.

use std::collections::BTreeMap;
use stria_walls::{Order, word};

/// From the ground up: what is pure, and what everything is made of; state that owns itself; what tasks share; what levels owe,
/// and do; what is the same for all levels.
const ORDER: &str = "
    address level geometry partition lists segments task lock steer plan log_record config drop_cause status refusal recorder command action
    buffers clock stripes activity
    intent member consistent_ranges consistency space coalesce peers log metadata
    requests member_requests races mirror_writes straight_writes
    core window
    personality log_io parity_code mirror_io parity_io replay metadata_io no_space mirror_sweep parity_sweep mirror_write parity_write parity_zeroing
    striped mirror parity of_level
    hedge refill resync_on_read sweep split_read command_tasks engine lanes device
";

fn order() -> Order<'static> {
    Order::new("crates/array", ORDER)
}

#[test]
fn no_module_uses_one_above_it() {
    assert_eq!(order().faults(), Vec::<String>::new());
}

/// The bodies of `impl Core` in a file.
fn core_impls(code: &str) -> impl Iterator<Item = &str> {
    code.split("\nimpl Core {\n").skip(1).map(|rest| &rest[..rest.find("\n}").unwrap_or(rest.len())])
}

/// Names that follow `before` and are called.
fn calls<'a>(code: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
    let called = |rest: &'a str| Some(word(rest)).filter(|name| rest[name.len()..].starts_with('('));
    code.split(before).skip(1).filter_map(called)
}

/// What an `impl Core` adds to, a module below could call without naming the module: that is an arrow as well.
#[test]
fn no_module_calls_a_method_of_core_that_stands_above_it() {
    let order = order();
    let found = order.sources();
    let mut methods = BTreeMap::new();
    for (module, code) in &found {
        for name in core_impls(code).flat_map(|body| body.split("fn ").skip(1).map(word)) {
            methods.insert(name, module.as_str());
        }
    }
    assert!(methods.len() > 50, "Core has methods");
    let mut uphill = Vec::new();
    for (module, code) in &found {
        let own = core_impls(code).flat_map(|body| calls(body, "self."));
        for name in calls(code, "core.").chain(own) {
            if let Some(owner) = methods.get(name).filter(|owner| order.height(owner) > order.height(module)) {
                uphill.push(format!("{module} calls {name} of {owner}"));
            }
        }
    }
    assert_eq!(uphill, Vec::<String>::new());
}

/// A comparison with one level or family would silently treat a new one like the rest: a `match` names them all.
#[test]
fn what_depends_on_the_level_names_every_level() {
    const OF_LEVELS: &str = "level geometry plan striped mirror parity parity_code parity_io parity_sweep parity_write mirror_io mirror_sweep \
                             mirror_write";
    const COMPARISONS: [&str; 6] =
        ["level() ==", "level() !=", "family() ==", "family() !=", "level().parity_count() >", "level().parity_count() =="];
    let order = order();
    let mut found = Vec::new();
    for (module, code) in order.sources() {
        let is_of_levels = OF_LEVELS.split_whitespace().any(|name| name == module);
        let product = code.split("#[cfg(test)]").next().expect("at least itself");
        let compares = |line: &&str| COMPARISONS.iter().any(|comparison| line.contains(comparison));
        if !is_of_levels {
            found.extend(product.lines().filter(compares).map(|line| format!("{module}: {}", line.trim())));
        }
    }
    assert_eq!(found, Vec::<String>::new());
}
