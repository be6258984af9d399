//! The fused form of the write path: a full stripe's data moves from the client's buffers to its target, and parity and
//! checksums are computed on the way, so that memory is read once.

use crate::addresses::{Room, written};
use crate::code::{Code, are_aligned, level_of};
use crate::crc32c;
use crate::kernel::{Job, Kernel, Purpose};

/// A checksum covers this many bytes of a strip.
pub const CHECKSUM_BLOCK_BYTES: usize = 4096;

/// Up to so many strips are copied in the pass that computes parity. With more, lines of sources and targets compete for the
/// few ways of one set of the first level cache, and a piece of each after the other is quicker.
const FUSED_STRIPS_MAX: usize = 4;
/// How much of each: 22 of them, twice, fit into the second level cache, and it is long enough for the processor to predict the
/// reads.
const PIECE_BYTES: usize = 16 << 10;

impl Code {
    pub(crate) fn copy_and_generate_by(
        &self,
        kernel: &Kernel,
        source: &[&[u8]],
        target: &mut [&mut [u8]],
        parity: &mut [Option<&mut [u8]>],
        mut checksums: Option<&mut [u32]>,
    ) {
        let bytes = self.assert_data(source);
        assert_eq!(target.len(), source.len(), "targets and sources differ in count");
        assert!(target.iter().all(|strip| strip.len() == bytes), "targets and sources differ in length");
        let output = self.outputs(parity, bytes);
        let mut room = Room::uninit();
        let mut copy_room = Room::uninit();
        let sources = written(&mut room, source.iter().map(|strip| strip.as_ptr()));
        let targets = written(&mut copy_room, target.iter_mut().map(|strip| strip.as_mut_ptr()));
        let stream = are_aligned(&output) && targets.iter().all(|target| target.addr().is_multiple_of(64));
        let level = level_of(&output).unwrap_or(1);
        let blocks = bytes.div_ceil(CHECKSUM_BLOCK_BYTES);
        if let Some(checksums) = &checksums {
            assert!(bytes.is_multiple_of(CHECKSUM_BLOCK_BYTES), "{bytes} bytes: not a multiple of {CHECKSUM_BLOCK_BYTES}");
            assert_eq!(checksums.len(), blocks * source.len(), "checksums against blocks of data");
        } else if source.len() <= FUSED_STRIPS_MAX {
            let job = Job { data: sources, copy: targets, output, bytes, stream, ..Job::EMPTY };
            // SAFETY: all lengths were asserted equal; targets and outputs are exclusive borrows.
            unsafe { kernel.syndromes(Purpose::COPY, level, &job) };
            return;
        }
        // A piece of every strip at a time: what was read of it is still in the second level cache for the next step.
        for start in (0..bytes).step_by(PIECE_BYTES) {
            let end = bytes.min(start + PIECE_BYTES);
            for (i, (strip, target)) in source.iter().zip(target.iter_mut()).enumerate() {
                let (strip, target) = (&strip[start..end], &mut target[start..end]);
                match &mut checksums {
                    Some(checksums) => {
                        let sums = &mut checksums[i * blocks + start / CHECKSUM_BLOCK_BYTES..];
                        let pieces = strip.chunks(CHECKSUM_BLOCK_BYTES).zip(target.chunks_mut(CHECKSUM_BLOCK_BYTES));
                        for ((strip, target), sum) in pieces.zip(sums) {
                            *sum = crc32c(strip);
                            target.copy_from_slice(strip);
                        }
                    }
                    None => target.copy_from_slice(strip),
                }
            }
            let mut room = Room::uninit();
            let job = Job {
                data: written(&mut room, sources.iter().map(|strip| strip.wrapping_add(start))),
                output: output.map(|strip| if strip.is_null() { strip } else { strip.wrapping_add(start) }),
                bytes: end - start,
                ..Job::EMPTY
            };
            // SAFETY: as above; the block lies within the strips.
            unsafe { kernel.syndromes(Purpose::GENERATE, level, &job) };
        }
    }
}
