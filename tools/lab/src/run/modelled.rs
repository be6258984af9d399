//! A measurement on models: no fio, no drives, and no time of this machine.

use super::measure::{Own, point};
use super::{Broken, Runner};
use crate::experiment::PLACE_PERCENT;
use crate::fio::Work;
use crate::modelled::{Machine, impossible};
use crate::result::{NoteKind, now_ms};
use crate::select;
use crate::stage::Load;
use crate::target::Target;
use std::sync::atomic::Ordering;

impl Runner<'_> {
    pub(super) fn measure_model(
        &mut self,
        model: &Machine,
        load: &Load,
        work: Work,
        step: u32,
        round: u32,
        target: &Target,
    ) -> Result<(), Broken> {
        if let Some(why) = impossible(load) {
            let words = format!("{} is left out: {why}", select::load(&point(load, target)));
            return Ok(self.note(NoteKind::Fallback, None, words)?);
        }
        let begun_ms = now_ms();
        let span_bytes = target.info.span_bytes;
        let mut extra = std::mem::take(&mut self.extra);
        let measured = match work {
            Work::Fill { fills, block_bytes, pattern, .. } => model.fill(fills, span_bytes, block_bytes, pattern),
            Work::Load(load) => {
                extra.insert(select::OUTSTANDING.into(), f64::from(model.outstanding(load)));
                if let Some((part, of)) = load.part {
                    extra.insert(PLACE_PERCENT.into(), (f64::from(part) + 0.5) * 100.0 / f64::from(of));
                }
                model.measure(load, span_bytes, target.info.offset_bytes)
            }
            Work::Trim | Work::Replay { .. } => return Err(Broken::Section("a model cannot do this work".into())),
        };
        if self.stop.load(Ordering::Relaxed) {
            return Err(Broken::Interrupted);
        }
        let raw = measured.clone();
        let (point, preparation, members) = (point(load, target), load.preparation, Vec::new());
        self.keep(Own { point, step, round, begun_ms, measured, members, extra, preparation }, &raw)
    }
}
