//! The bitmap of the array, of those that its members hold, and the bits of it that count.

use super::{AssembleError, AssembleErrorKind, Found, Obstacle, Options, Sorter, StartWarning, Verdict};
use crate::md::bitmap::{self, Bitmap, choose_chunk_bytes};
use crate::md::superblock::{CLEAN, WRITE_MOSTLY, feature};
use stria_array::{Geometry, IntentConfig};

impl Sorter<'_> {
    /// The bitmap of the array: the union of those of all filled members (R28).
    pub(super) fn bitmap(
        &self,
        found: &[Found],
        geometry: &Geometry,
        options: &Options,
        warnings: &mut Vec<StartWarning>,
    ) -> Result<Option<Bitmap>, AssembleError> {
        if !self.freshest.has(feature::BITMAP_OFFSET) || geometry.sync_sectors() == 0 {
            return Ok(None);
        }
        let header = &self.freshest.header;
        let mut united: Option<Bitmap> = None;
        let mut damage = String::new();
        for found in found.iter().filter(|found| self.is_filled(found)) {
            let space_sectors = found.bitmap_space_sectors();
            let suits = |bitmap: &Bitmap| bitmap.suits(geometry.sync_sectors(), space_sectors);
            match &found.member.bitmap {
                Some(Ok(bitmap)) if suits(bitmap).is_err() => {
                    damage = format!("{}: {}", found.candidate.name, suits(bitmap).expect_err("just seen"));
                }
                Some(Ok(bitmap)) => match &mut united {
                    None => united = Some(bitmap.clone()),
                    Some(united) => {
                        let newer = bitmap.header.events > united.header.events;
                        united.unite(bitmap);
                        if newer {
                            united.header = bitmap.header.clone();
                        }
                    }
                },
                Some(Err(error)) => damage = format!("{}: {error}", found.candidate.name),
                None => {}
            }
        }
        let mut bitmap = match united {
            Some(bitmap) => bitmap,
            None if options.force => {
                warnings.push(StartWarning::BitmapMadeAnew);
                let chunk = choose_chunk_bytes(None, header.size, geometry.sync_sectors()).unwrap_or(64 << 20);
                let mut bitmap = Bitmap::new(header.set_uuid, geometry.sync_sectors(), chunk);
                bitmap.header.events = header.events;
                bitmap.header.events_cleared = header.events;
                bitmap
            }
            None => {
                return Err(self.error(AssembleErrorKind::Damaged, Obstacle::NoBitmapReadable { fault: damage }));
            }
        };
        let outdated = bitmap.header.events < header.events || bitmap.is_ahead_of(header.events);
        if bitmap.header.state & bitmap::state::STALE != 0 || outdated {
            bitmap.fill(true);
            bitmap.header.state &= !bitmap::state::STALE;
            bitmap.header.events_cleared = header.events;
        }
        let spaces = found.iter().filter(|found| self.is_filled(found)).map(Found::bitmap_space_sectors);
        let space_sectors = spaces.min().unwrap_or(0);
        match bitmap.resize(geometry.sync_sectors(), space_sectors) {
            Ok(()) => Ok(Some(bitmap)),
            Err(error) => Err(self.error(AssembleErrorKind::Damaged, Obstacle::BitmapDoesNotFit { fault: error.to_string() })),
        }
    }

    /// The write-intent bits that count from the resync position on. The others are cleared in `bitmap`.
    pub(super) fn intent(&self, bitmap: &mut Bitmap, resync_sector: u64) -> IntentConfig {
        let fills = self.verdicts.values().any(|verdict| matches!(verdict, Verdict::Rebuilding { by_bitmap: true, .. }));
        // All stay for a member that is away, or that is rebuilt by them.
        let start = if fills || !self.not_in_sync().is_empty() { 0 } else { resync_sector };
        let chunk_sectors = bitmap.chunk_sectors();
        let stale: Vec<u64> =
            bitmap.set_chunks().filter(|chunk| chunk.saturating_add(1).saturating_mul(chunk_sectors) < start).collect();
        if !stale.is_empty() {
            // The bits no longer show what a member missed that has been away since before this update.
            bitmap.header.events_cleared = self.freshest.header.events;
        }
        for chunk in stale {
            bitmap.put(chunk, false);
        }
        IntentConfig { chunk_sectors, dirty: bitmap.set_chunks().collect() }
    }

    /// Linux acknowledges a write before a write-mostly member has it, where the bitmap allows that many behind. After a crash it
    /// resyncs from another member; Stria from the first.
    pub(super) fn refuse_write_behind(
        &self,
        found: &[Found],
        bitmap: Option<&Bitmap>,
        resync_sector: u64,
    ) -> Result<(), AssembleError> {
        let is_due = |bitmap: &&Bitmap| resync_sector != CLEAN && bitmap.set_chunks().next().is_some();
        if bitmap.filter(is_due).is_none_or(|bitmap| bitmap.header.write_behind == 0) {
            return Ok(());
        }
        let is_other = |verdict: &Verdict| matches!(verdict, Verdict::InSync { slot } if *slot > 0);
        if !self.verdicts.values().any(is_other) {
            return Ok(());
        }
        let slow = found.iter().filter(|found| found.superblock().header.devflags & WRITE_MOSTLY != 0);
        let first = |found: &&Found| matches!(self.verdicts[&found.drive], Verdict::InSync { slot: 0 });
        match slow.into_iter().find(first) {
            Some(found) => {
                let reason = Obstacle::WriteBehind { drive: found.candidate.name.clone() };
                Err(self.error(AssembleErrorKind::Unserved, reason))
            }
            None => Ok(()),
        }
    }
}
