//! The write path's fused form: a full stripe's data moves from the client's buffers into place, and parity and checksums are
//! computed on the way, so that memory is read once.

use crate::addresses::{Room, written};
use crate::code::{Code, are_aligned, level_of};
use crate::crc32c;
use crate::kernel::{Job, Kernel, Purpose, chosen};

/// A checksum covers this many bytes of a strip.
pub const CHECKSUM_BLOCK_BYTES: usize = 4096;

impl Code {
    /// Copies `source` strip by strip to `target` and generates each given parity, in one pass.
    ///
    /// With `checksums`, also the CRC-32C of every 4 KiB of data: `checksums[i * blocks + b]` is that of block b of data strip i,
    /// for `blocks` = strip bytes / 4096; strips are then multiples of 4096. Other shapes as in `generate`.
    ///
    /// # Panics
    /// When counts or lengths are not as described.
    pub fn copy_and_generate(
        &self,
        source: &[&[u8]],
        target: &mut [&mut [u8]],
        parity: &mut [Option<&mut [u8]>],
        checksums: Option<&mut [u32]>,
    ) {
        self.copy_and_generate_by(chosen(), source, target, parity, checksums);
    }

    pub(crate) fn copy_and_generate_by(
        &self,
        kernel: &Kernel,
        source: &[&[u8]],
        target: &mut [&mut [u8]],
        parity: &mut [Option<&mut [u8]>],
        checksums: Option<&mut [u32]>,
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
        let Some(checksums) = checksums else {
            let job = Job { data: sources, copy: targets, output, bytes, stream, ..Job::EMPTY };
            // SAFETY: all lengths were asserted equal; targets and outputs are exclusive borrows.
            unsafe { kernel.syndromes(Purpose::COPY, level, &job) };
            return;
        };
        assert!(bytes.is_multiple_of(CHECKSUM_BLOCK_BYTES), "{bytes} bytes: not a multiple of {CHECKSUM_BLOCK_BYTES}");
        let blocks = bytes / CHECKSUM_BLOCK_BYTES;
        assert_eq!(checksums.len(), blocks * source.len(), "checksums against blocks of data");
        // A block of every strip at a time: what the checksum has read is still in the cache when the copy comes.
        for block in 0..blocks {
            let start = block * CHECKSUM_BLOCK_BYTES;
            for (i, strip) in source.iter().enumerate() {
                checksums[i * blocks + block] = crc32c(&strip[start..start + CHECKSUM_BLOCK_BYTES]);
            }
            let mut room = Room::uninit();
            let mut copy_room = Room::uninit();
            let job = Job {
                data: written(&mut room, sources.iter().map(|strip| strip.wrapping_add(start))),
                copy: written(&mut copy_room, targets.iter().map(|strip| strip.wrapping_add(start))),
                output: output.map(|strip| if strip.is_null() { strip } else { strip.wrapping_add(start) }),
                bytes: CHECKSUM_BLOCK_BYTES,
                ..Job::EMPTY
            };
            // SAFETY: as above; `start` and the block lie within the strips.
            unsafe { kernel.syndromes(Purpose::COPY, level, &job) };
        }
    }
}
