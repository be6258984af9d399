//! XOR of two buffers of any length.

/// Adds `source` to `target`, byte by byte; any length, any start.
///
/// # Panics
/// When the lengths differ.
pub fn xor_into(target: &mut [u8], source: &[u8]) {
    assert_eq!(target.len(), source.len(), "target and source differ in length");
    target.iter_mut().zip(source).for_each(|(t, s)| *t ^= s);
}
