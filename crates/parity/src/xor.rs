//! XOR of two buffers of any length.

use crate::chosen::chosen;
use crate::code::GRANULARITY_BYTES;
use crate::kernel::{Job, Purpose};

/// Adds `source` to `target`, byte by byte; any length, any start.
///
/// # Panics
/// When the lengths differ.
pub fn xor_into(target: &mut [u8], source: &[u8]) {
    assert_eq!(target.len(), source.len(), "target and source differ in length");
    let bytes = target.len() / GRANULARITY_BYTES * GRANULARITY_BYTES;
    let (whole, rest) = target.split_at_mut(bytes);
    let pointer = whole.as_mut_ptr();
    let mut job = Job { data: &[source.as_ptr()], bytes, ..Job::EMPTY };
    // P's syndrome replaces P: P + D.
    (job.input[0], job.output[0], job.matrix[0][0]) = (pointer, pointer, 1);
    // SAFETY: both are valid for `bytes`; a step reads its part of the target before it writes it.
    unsafe { chosen().syndromes(Purpose::RECOVER, 1, &job) };
    rest.iter_mut().zip(&source[bytes..]).for_each(|(t, s)| *t ^= s);
}
