//! An application's look-alike, replayed on a target by the lab's own threads.

use super::measure::{Own, point};
use super::raid::check_members;
use super::{Broken, Runner};
use crate::others::Others;
use crate::replay::{Options, Pace, play};
use crate::result::{ArrayState, Measured, NoteKind, Pattern, now_ms};
use crate::stage::{AppTrace, Load};
use crate::state::Watch;
use crate::target::Target;
use crate::trace::Source;
use std::time::{Duration, Instant};

impl Runner<'_> {
    /// One request after the other within the span, as the benchmarks do with the imitated traces.
    pub(super) fn replay(&mut self, what: &AppTrace, step: u32, round: u32, target: &Target) -> Result<(), Broken> {
        let name = what.application.name;
        let [place] = &target.places[..] else {
            let words = format!("{name} is not replayed: {} is more than one drive", target.info.name);
            return Ok(self.note(NoteKind::Fallback, None, words)?);
        };
        if !self.request.hosts.is_empty() {
            let words = format!("{name} is not replayed: traces are replayed from this machine only");
            return Ok(self.note(NoteKind::Fallback, None, words)?);
        }
        check_members(target, ArrayState::Optimal).map_err(Broken::Section)?;
        let source = Source::from(what.trace());
        let totals = *source.totals();
        let options = Options { pace: Pace::Closed, depth: 1, room_bytes: Some(target.info.span_bytes), ..Options::default() };
        let mut watch = Watch::new(&target.drives(), target.array.as_ref(), Duration::ZERO);
        let others = Others::since_now(std::slice::from_ref(place));
        let (begun_ms, begun, done_before) = (now_ms(), Instant::now(), self.moment.done_seconds);
        let (moment, progress) = (&mut self.moment, &mut *self.progress);
        let mut tell = |_| {
            moment.done_seconds = done_before + begun.elapsed().as_secs_f64();
            progress.at(moment);
            watch.look(begun.elapsed(), target.array.as_ref(), false);
        };
        let replayed = play(&source, place, &options, self.stop, &mut tell);
        self.moment.done_seconds = done_before;
        let outcome = replayed.map_err(|error| Broken::Section(format!("replay of {name}: {error}")))?;
        if outcome.cut_short {
            return Err(Broken::Interrupted);
        }
        let checked = check_members(target, ArrayState::Optimal);
        let moved = (totals.requests() - totals.flushes).max(1);
        let load = Load {
            variant: crate::select::REPLAYED.into(),
            drive_state: what.drive_state,
            ..Load::new(
                Pattern::Random,
                (totals.read_bytes + totals.written_bytes) / moved,
                (totals.reads * 100 / (totals.reads + totals.writes).max(1)) as u8,
                outcome.seconds,
            )
        };
        let mut point = point(&load, target);
        point.mix = name.into();
        let mut extra = std::mem::take(&mut self.extra);
        others.note(&mut extra);
        extra.insert("busy_mb_per_s".into(), outcome.busy_mb_per_s());
        let measured = Measured {
            seconds: outcome.seconds,
            read: outcome.read.clone(),
            write: outcome.write.clone(),
            total: outcome.total.clone(),
            errors: outcome.errors,
            failed: outcome.failed().or(checked.clone().err()),
            ..Measured::default()
        };
        let members = watch.finish(target.array.as_ref());
        self.keep(Own { point, step, round, begun_ms, measured, members, extra, preparation: false }, &outcome)?;
        checked.map_err(Broken::Section)
    }
}
