//! A trace that is read while it is used.
//!
//! [`Source::open`] reads the file once: its content, and how far it is out of order. [`Source::each`] reads it again and holds
//! back only requests that a later line may precede, so memory is bounded by the disorder, not by the length; and disorder is
//! bounded, too.

use super::{Counter, Devices, Event, Format, Record, Stage, Take, Totals, Trace, TraceError, blktrace, iolog, text};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Requests that are held back: 256 MiB.
const HELD_MAX: usize = 4 << 20;

/// A trace.
pub struct Source {
    origin: Origin,
    devices: Vec<String>,
    totals: Totals,
    in_flight: Option<f64>,
    gap: Gap,
}

/// The longest time without a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// The time.
    pub ns: u64,
    /// The line of the request after it; 0 if the trace has no lines.
    pub line: u64,
}

impl Gap {
    /// Takes the request of a line. `latest_ns`: the time of the request before it, if there is one.
    fn add(&mut self, latest_ns: Option<u64>, time_ns: u64, line: u64) {
        let ns = latest_ns.map_or(0, |latest_ns| time_ns.saturating_sub(latest_ns));
        if ns > self.ns {
            *self = Self { ns, line };
        }
    }
}

enum Origin {
    File {
        path: PathBuf,
        format: Format,
        start_ns: u64,
        /// How much earlier than one before it a request may be.
        disorder_ns: u64,
        /// Issues are taken, as there are no queue events.
        issues: bool,
    },
    Memory(Vec<Record>),
}

impl From<Trace> for Source {
    fn from(trace: Trace) -> Self {
        let (mut gap, mut latest_ns) = (Gap::default(), None);
        for record in &trace.records {
            gap.add(latest_ns.replace(record.time_ns), record.time_ns, 0);
        }
        Self { totals: trace.totals(), devices: trace.devices, origin: Origin::Memory(trace.records), in_flight: None, gap }
    }
}

/// The number of requests in the device, from their issues and ends.
#[derive(Default)]
struct InFlight {
    count: u64,
    since_ns: u64,
    busy_ns: u64,
    area_ns: f64,
    ended: bool,
}

impl InFlight {
    /// Files of several CPUs are almost in order. A request that was issued before the trace began has only an end.
    fn change(&mut self, time_ns: u64, ends: bool) {
        let passed_ns = time_ns.saturating_sub(self.since_ns);
        if self.count > 0 {
            self.busy_ns = self.busy_ns.saturating_add(passed_ns);
            self.area_ns += self.count as f64 * passed_ns as f64;
        }
        self.since_ns = self.since_ns.max(time_ns);
        self.count = if ends { self.count.saturating_sub(1) } else { self.count + 1 };
        self.ended |= ends;
    }

    /// The mean while there is one.
    fn mean(&self) -> Option<f64> {
        (self.ended && self.busy_ns > 0).then(|| self.area_ns / self.busy_ns as f64)
    }
}

/// The sums of one kind of event of a file.
#[derive(Default)]
struct Census {
    counter: Counter,
    latest_ns: u64,
    disorder_ns: u64,
    gap: Gap,
}

impl Source {
    /// Reads a trace once through.
    ///
    /// # Errors
    /// When it is not of this format.
    pub fn open(path: &Path, format: Format) -> Result<Self, TraceError> {
        let mut devices = Devices::default();
        let (mut queued, mut issued) = (Census::default(), Census::default());
        let mut in_flight = InFlight::default();
        events(path, format, &mut devices, &mut |Event { record, stage, line }| {
            if stage != Stage::Queued && record.bytes > 0 {
                in_flight.change(record.time_ns, stage == Stage::Completed);
            }
            let census = match stage {
                Stage::Queued => &mut queued,
                Stage::Issued => &mut issued,
                Stage::Completed => return ControlFlow::Continue(()),
            };
            census.gap.add(census.counter.times.map(|_| census.latest_ns), record.time_ns, line);
            census.counter.add(&record);
            census.latest_ns = census.latest_ns.max(record.time_ns);
            census.disorder_ns = census.disorder_ns.max(census.latest_ns - record.time_ns);
            ControlFlow::Continue(())
        })?;
        let issues = queued.counter.times.is_none();
        let census = if issues { issued } else { queued };
        if census.counter.times.is_none() {
            return Err(TraceError::Empty { path: path.into() });
        }
        let (start_ns, disorder_ns) = (census.counter.start_ns(), census.disorder_ns);
        let origin = Origin::File { path: path.into(), format, start_ns, disorder_ns, issues };
        let totals = census.counter.totals();
        let mut source = Self { origin, devices: devices.names, totals, in_flight: in_flight.mean(), gap: census.gap };
        if disorder_ns > 0 || format == Format::Tencent {
            // Sequences, durations and gaps are visible only in order.
            let mut counter = Counter::default();
            let (mut gap, mut latest_ns) = (Gap::default(), None);
            source.each_line(&mut |(record, line)| {
                counter.add(&record);
                gap.add(latest_ns.replace(record.time_ns), record.time_ns, line);
                ControlFlow::Continue(())
            })?;
            (source.totals, source.gap) = (counter.totals(), gap);
        }
        Ok(source)
    }

    /// Names as the trace has them.
    pub fn devices(&self) -> &[String] {
        &self.devices
    }

    /// Its content.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The longest time between two requests.
    pub fn gap(&self) -> Gap {
        self.gap
    }

    /// The mean number of requests in the devices while there was one, where the trace has both issues and ends.
    pub fn in_flight(&self) -> Option<f64> {
        self.in_flight
    }

    /// Gives all requests in order of time, until `take` ends it.
    ///
    /// # Errors
    /// When the file cannot be read again.
    pub fn each(&self, take: &mut dyn FnMut(Record) -> ControlFlow<()>) -> Result<(), TraceError> {
        self.each_line(&mut |(record, _)| take(record))
    }

    /// The same, each with its line.
    fn each_line(&self, take: &mut dyn FnMut((Record, u64)) -> ControlFlow<()>) -> Result<(), TraceError> {
        let (path, format, start_ns, disorder_ns, issues) = match &self.origin {
            Origin::Memory(records) => {
                let _ = records.iter().try_for_each(|record| take((*record, 0)));
                return Ok(());
            }
            Origin::File { path, format, start_ns, disorder_ns, issues } => (path, *format, *start_ns, *disorder_ns, *issues),
        };
        let mut second = Second { records: Vec::new(), on: format == Format::Tencent };
        let mut too_much = false;
        let mut held: BinaryHeap<Reverse<Held>> = BinaryHeap::new();
        let (mut latest_ns, mut arrival) = (0, 0);
        let mut gone_on = ControlFlow::Continue(());
        events(path, format, &mut Devices::default(), &mut |event| {
            if event.stage != if issues { Stage::Issued } else { Stage::Queued } {
                return ControlFlow::Continue(());
            }
            // Less than 0: the file has changed since it was opened.
            let record = Record { time_ns: event.record.time_ns.saturating_sub(start_ns), ..event.record };
            latest_ns = latest_ns.max(record.time_ns);
            held.push(Reverse(Held { time_ns: record.time_ns, arrival, record, line: event.line }));
            arrival += 1;
            too_much = held.len() > HELD_MAX || second.records.len() > HELD_MAX;
            if too_much {
                return ControlFlow::Break(());
            }
            while held.peek().is_some_and(|Reverse(first)| latest_ns - first.time_ns >= disorder_ns) && gone_on.is_continue() {
                let Some(Reverse(first)) = held.pop() else { break };
                gone_on = second.pass((first.record, first.line), take);
            }
            gone_on
        })?;
        if too_much {
            let problem = format!(
                "it is so far out of order that more than {HELD_MAX} requests would have to be buffered: sort it by time"
            );
            return Err(TraceError::TooMuch { path: path.clone(), problem });
        }
        while let (Some(Reverse(first)), ControlFlow::Continue(())) = (held.pop(), gone_on) {
            gone_on = second.pass((first.record, first.line), take);
        }
        if gone_on.is_continue() {
            let _ = second.flush(take);
        }
        Ok(())
    }
}

/// All events of a file in its own order.
fn events(path: &Path, format: Format, devices: &mut Devices, take: Take<'_>) -> Result<(), TraceError> {
    match format {
        Format::Blktrace => blktrace::read(path, devices, take),
        Format::Iolog => iolog::read(path, devices, take),
        _ => text::read(path, format, devices, take),
    }
}

/// A request that a later line may precede; requests of one time keep their order.
struct Held {
    time_ns: u64,
    arrival: u64,
    record: Record,
    line: u64,
}

impl Ord for Held {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.time_ns, self.arrival).cmp(&(other.time_ns, other.arrival))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Held {}

/// Where times are in whole seconds: spreads the requests of one evenly over it.
struct Second {
    records: Vec<(Record, u64)>,
    on: bool,
}

impl Second {
    fn pass(&mut self, (record, line): (Record, u64), take: &mut dyn FnMut((Record, u64)) -> ControlFlow<()>) -> ControlFlow<()> {
        if !self.on {
            return take((record, line));
        }
        if self.records.last().is_some_and(|(last, _)| last.time_ns != record.time_ns) {
            self.flush(take)?;
        }
        self.records.push((record, line));
        ControlFlow::Continue(())
    }

    fn flush(&mut self, take: &mut dyn FnMut((Record, u64)) -> ControlFlow<()>) -> ControlFlow<()> {
        let step_ns = 1_000_000_000 / self.records.len().max(1) as u64;
        let spread = |(index, (record, line)): (usize, (Record, u64))| {
            (Record { time_ns: record.time_ns.saturating_add(index as u64 * step_ns), ..record }, line)
        };
        self.records.drain(..).enumerate().map(spread).try_for_each(take)
    }
}
