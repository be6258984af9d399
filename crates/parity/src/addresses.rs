//! A list of strip addresses on the stack, as long as a stripe may be.

use std::mem::MaybeUninit;

const COUNT_MAX: usize = 255;

/// Space for the longest list. A bare local on purpose: with a count beside it in one struct, the compiler clears all of it,
/// which costs a stripe of 4 KiB strips a third of P's speed.
pub(crate) type Room<Address> = MaybeUninit<[Address; COUNT_MAX]>;

/// Writes the addresses into `room` and returns them.
pub(crate) fn written<Address>(room: &mut Room<Address>, addresses: impl Iterator<Item = Address>) -> &mut [Address] {
    let start = room.as_mut_ptr().cast::<Address>();
    let mut count = 0;
    for address in addresses {
        assert!(count < COUNT_MAX, "more strips than a code has");
        // SAFETY: within the array, as just asserted.
        unsafe { start.add(count).write(address) };
        count += 1;
    }
    // SAFETY: the loop wrote this many.
    unsafe { std::slice::from_raw_parts_mut(start, count) }
}
