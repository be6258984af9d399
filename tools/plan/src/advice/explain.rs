//! The origin of each figure of an answer, with its spread.

use super::trial::{PartFigures, Trial};
use super::wear::RATED_YEARS;
use super::wish::{State, Wish};
use crate::amount;
use crate::array::Level;
use crate::profile::Origin;
use crate::reliability::simulated::READ_BYTES_PER_HOUR;

/// A figure and its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// Its name in the table.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// `model`, `law`, `simulation`, `measured` or `said`.
    pub origin: &'static str,
    /// How it is computed.
    pub how: String,
}

/// A time in words.
pub fn time(ns: f64) -> String {
    match ns {
        ..1e6 => format!("{:.0} us", ns / 1e3),
        ..1e9 => format!("{:.1} ms", ns / 1e6),
        _ => format!("{:.1} s", ns / 1e9),
    }
}

/// A probability a year.
pub fn risk(share: f64) -> String {
    match share {
        0.01.. => format!("{} %", amount::number(share * 100.0)),
        1e-9.. => format!("1 in {}", amount::rough(1.0 / share)),
        _ => "below 1 in 1e9".to_owned(),
    }
}

/// Bytes of a terabyte, or a part of a byte.
pub fn bytes(count: f64) -> String {
    match count {
        1e3.. => amount::space(count),
        1.0.. => format!("{count:.0} bytes"),
        _ => format!("{} bytes", amount::rough(count)),
    }
}

/// Hours in words.
pub fn hours(count: f64) -> String {
    match count {
        48.0.. => format!("{:.1} days", count / 24.0),
        1.0.. => format!("{count:.1} h"),
        _ => format!("{} min", amount::number(count * 60.0)),
    }
}

/// The figures of an array, one by one, in the order of the table. `single`: the speed of one drive.
pub fn explain(wish: &Wish, trial: &Trial, single: &[PartFigures]) -> Vec<Explained> {
    let mut figures = Figures(Vec::new());
    if let Some(source) = &wish.purpose.measured {
        figures.add("PURPOSE", wish.purpose.about.clone(), "measured", source.clone());
    }
    figures.speed(wish, trial, single);
    figures.calibration(wish, trial);
    figures.redundancy(wish, trial);
    figures.space(trial);
    figures.risk(wish, trial);
    figures.wear(wish, trial);
    figures.price(wish, trial);
    figures.0
}

/// The source of a drive's parameter, in words.
fn source(wish: &Wish, name: &str) -> &'static str {
    let found = wish.drive.parameters.iter().find(|parameter| parameter.name == name);
    found.map_or("assumed, as the profile does not say", |parameter| match parameter.origin {
        Origin::Memory => "from memory",
        _ => "of the profile",
    })
}

struct Figures(Vec<Explained>);

impl Figures {
    fn add(&mut self, name: &'static str, value: String, origin: &'static str, how: String) {
        self.0.push(Explained { name, value, origin, how });
    }

    /// The speed of the purpose, and of each of its loads.
    fn speed(&mut self, wish: &Wish, trial: &Trial, single: &[PartFigures]) {
        let state = match wish.state {
            State::Fresh => "fresh drives",
            State::Used => "drives after random overwrites of everything",
            State::Deleted => "drives that were used and then deleted, as fresh where trims reach them",
        };
        self.add(
            "SPEED",
            format!("{:.2}x, standard error {:.1} %", trial.speed, 100.0 * trial.speed_spread),
            "model",
            format!("the time of the purpose on one drive over that on the array; {state}, in virtual time"),
        );
        for (part, (array, one)) in wish.purpose.parts.iter().zip(trial.parts.iter().zip(single)) {
            let p99 = |name: &str, value: Option<u64>| value.map(|ns| format!(", p99 of {name} {}", time(ns as f64)));
            self.add(
                "LOAD",
                format!("{:.0} IOPS, {:.0} MB/s", array.iops, array.bytes_per_s / 1e6),
                "model",
                format!(
                    "{}, {:.0} % of the time on one drive, which reaches {:.0} IOPS; mean {}{}{}",
                    part.name,
                    100.0 * part.time_share,
                    one.iops,
                    time(array.mean_ns),
                    p99("reads", array.read_p99_ns).unwrap_or_default(),
                    p99("writes", array.write_p99_ns).unwrap_or_default()
                ),
            );
        }
    }

    fn calibration(&mut self, wish: &Wish, trial: &Trial) {
        if let Some(calibration) = &wish.calibration {
            for part in &trial.parts {
                let value = part.calibration.map_or("none".to_owned(), |factor| format!("x {factor:.2}"));
                self.add(
                    "CALIBRATION",
                    value,
                    "measured",
                    format!("of {}: measured over modelled rates, {}", part.name, calibration.source),
                );
            }
        }
    }

    /// Without a drive, and until it is replaced.
    fn redundancy(&mut self, wish: &Wish, trial: &Trial) {
        match trial.degraded_speed {
            Some(speed) => {
                self.add("DEGRADED", format!("{speed:.2}x"), "model", "the same loads with the first drive missing".to_owned())
            }
            None if trial.survives > 0 => {
                self.add(
                    "DEGRADED",
                    "-".to_owned(),
                    "model",
                    format!("how {} serves without a drive is not modelled", wish.platform.name),
                );
            }
            None => {}
        }
        if trial.survives > 0 {
            let waits = if trial.candidate.spares > 0 { 0.0 } else { wish.replace_hours };
            let (origin, how) = match trial.rebuild_hours {
                Some(_) => ("model", "the engine fills a spare while clients are idle"),
                None => ("said", "no rebuild is modelled on this platform: 100 MB/s"),
            };
            let then =
                if waits > 0.0 { format!("; {} pass before, until a drive is there", hours(waits)) } else { String::new() };
            let idle = trial.rebuild_hours.unwrap_or(trial.repair_hours - waits);
            self.add("REBUILD", hours(idle), origin, format!("{how}{then}"));
            if let Some(busy) = &trial.busy_rebuild {
                let p99 = busy.p99_ns().map_or(String::new(), |ns| format!(", the longest p99 is {}", time(ns as f64)));
                self.add(
                    "BUSY REBUILD",
                    hours(busy.hours),
                    "model",
                    format!(
                        "the same while clients work as fast as they can: it leaves them their latency, but fills 20 MiB a second at least; the purpose's \
                         speed is {:.2}x meanwhile{p99}",
                        busy.speed
                    ),
                );
            }
        }
    }

    fn space(&mut self, trial: &Trial) {
        let (level, members) = (trial.candidate.level, trial.candidate.members);
        self.add(
            "USABLE",
            amount::space(trial.usable_bytes as f64),
            "law",
            format!("{} of {members} drives' worth of data", (10.0 * level.data_share(members) * members as f64).round() / 10.0),
        );
    }

    /// Data that a year may cost: by simulation, and beside it by a law.
    fn risk(&mut self, wish: &Wish, trial: &Trial) {
        let Some(found) = &trial.risk else { return };
        let (level, members) = (trial.candidate.level, trial.candidate.members);
        let spread =
            if found.loss.spread > 0.0 { format!(", standard error {:.1} %", 100.0 * found.loss.spread) } else { String::new() };
        self.add(
            "LOSS A YEAR",
            format!("{}{spread}", risk(found.loss.loss)),
            "simulation",
            format!(
                "histories of failures, repairs beside busy clients, and scrubs every {:.0} days; sectors become unreadable with {:.2} GB read an hour; the whole array: {}",
                wish.scrub_hours / 24.0,
                READ_BYTES_PER_HOUR / 1e9,
                risk(found.loss.array_loss)
            ),
        );
        self.add(
            "LOSS BY FORMULA",
            risk(found.loss_by_law),
            "law",
            format!(
                "drives that fail once in {:.1} million hours ({}), independently; {} until repaired, clients being busy; one bit in {:.0e} unreadable ({}), found by the \
                 rebuild alone",
                trial.frailty.mtbf_hours / 1e6,
                source(wish, "mtbf_hours"),
                hours(trial.repair_hours),
                1.0 / trial.frailty.unreadable_per_bit,
                source(wish, "unreadable_per_bit")
            ),
        );
        self.add(
            "NOMDL",
            format!("{} of a TB and year", bytes(found.loss.bytes_per_tb)),
            "simulation",
            "bytes that are expected to be lost: all of the array if too many drives fail, else 4 KiB for a sector".to_owned(),
        );
        let spares = if level == Level::Single { String::new() } else { format!(" of {members}") };
        self.add(
            "FAILURES",
            format!("{:.2} drives a year{spares}", found.failures),
            "law",
            "1 - e^(-8766 h / MTBF) of each".to_owned(),
        );
    }

    fn wear(&mut self, wish: &Wish, trial: &Trial) {
        if let (Some(wear), Some(tbw)) = (&trial.wear, wish.drive.config.facts.tbw_tb) {
            self.add(
                "WEAR",
                format!("{} a day for {RATED_YEARS:.0} years", amount::space(wear.tb_per_day * 1e12)),
                "law",
                format!(
                    "{tbw:.0} TB may be written to each drive ({}); drives take {:.2} bytes for each byte of clients, the most worn one {:.2} (model)",
                    source(wish, "tbw_tb"),
                    wear.written_share,
                    wear.worn_share
                ),
            );
            if let (Some(used), Some(client)) = (&wear.used, wish.written_tb_per_day) {
                self.add(
                    "YEARS LEFT",
                    amount::number(used.years),
                    "law",
                    format!(
                        "clients write {} a day, so each drive takes {} a year, {} of itself a day",
                        amount::space(client * 1e12),
                        amount::space(used.tbw_per_year * 1e12),
                        amount::number(used.drive_writes_per_day)
                    ),
                );
            }
        }
    }

    fn price(&mut self, wish: &Wish, trial: &Trial) {
        if let (Some(price), Some(each)) = (trial.price, wish.price) {
            let how = format!("{} drives at {}", trial.candidate.drives(), amount::money(each));
            self.add("PRICE", amount::money(price), "said", how);
        }
    }
}
