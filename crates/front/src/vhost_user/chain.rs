//! Descriptor chains in guest memory.
//!
//! A chain is read once, into addresses and lengths; nothing of it is read again. The driver may change it meanwhile, make it
//! loop, or point anywhere: every address is checked by [`Map`] when bytes are copied, and a chain has at most
//! [`DESCRIPTORS_MAX`] descriptors and 4 GiB.
//! Source: virtio 1.2, 2.7.5 (descriptors), 2.7.5.3 (indirect ones).

use smallvec::SmallVec;
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// A virtual machine's memory, or another one that is shared with its VMM.
pub(super) type Map = GuestMemoryMmap<()>;

/// 1024: as many as QEMU takes, and far more than the announced segments need.
pub(super) const DESCRIPTORS_MAX: usize = 1024;

/// Size of a descriptor: address u64, length u32, flags u16, next u16, all little-endian.
const DESCRIPTOR_BYTES: u64 = 16;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Pieces of guest memory in the order of a request's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranges {
    pieces: SmallVec<[(u64, u32); 4]>,
    len: usize,
}

/// Some of the named memory is not mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unmapped;

/// Copies bytes out of memory. One look for the region is enough unless they cross into the next one, which `read_slice` expects
/// always.
fn read(map: &Map, at: GuestAddress, into: &mut [u8]) -> Result<(), Unmapped> {
    match map.get_slice(at, into.len()) {
        Ok(slice) => slice.read_slice(into, 0).map_err(|_| Unmapped),
        Err(_) => map.read_slice(into, at).map_err(|_| Unmapped),
    }
}

/// Copies bytes into memory.
pub(super) fn write(map: &Map, at: GuestAddress, from: &[u8]) -> Result<(), Unmapped> {
    match map.get_slice(at, from.len()) {
        Ok(slice) => slice.write_slice(from, 0).map_err(|_| Unmapped),
        Err(_) => map.write_slice(from, at).map_err(|_| Unmapped),
    }
}

impl Ranges {
    fn push(&mut self, start: u64, len: u32) {
        if len > 0 {
            self.pieces.push((start, len));
            self.len += len as usize;
        }
    }

    /// Bytes in all pieces.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Memory that it takes besides its own size.
    pub fn spilled_bytes(&self) -> usize {
        if self.pieces.spilled() { self.pieces.capacity() * size_of::<(u64, u32)>() } else { 0 }
    }

    /// Takes the last byte off. Returns its address.
    pub fn pop(&mut self) -> Option<GuestAddress> {
        let (start, len) = self.pieces.last_mut()?;
        *len -= 1;
        let last = start.checked_add(u64::from(*len))?;
        if *len == 0 {
            self.pieces.pop();
        }
        self.len -= 1;
        Some(GuestAddress(last))
    }

    /// Fills `into` with the bytes from `skip` on.
    pub fn read(&self, map: &Map, skip: usize, into: &mut [u8]) -> Result<(), Unmapped> {
        let mut filled = 0;
        self.each(skip, into.len(), |at, len| {
            let part = &mut into[filled..filled + len];
            filled += len;
            read(map, at, part)
        })
    }

    /// Writes `from` to the bytes from `skip` on.
    pub fn write(&self, map: &Map, skip: usize, from: &[u8]) -> Result<(), Unmapped> {
        let mut written = 0;
        self.each(skip, from.len(), |at, len| {
            let part = &from[written..written + len];
            written += len;
            write(map, at, part)
        })
    }

    /// Passes the pieces of `len` bytes from `skip` on.
    fn each(
        &self,
        mut skip: usize,
        mut len: usize,
        mut pass: impl FnMut(GuestAddress, usize) -> Result<(), Unmapped>,
    ) -> Result<(), Unmapped> {
        for &(start, piece) in &self.pieces {
            let piece = piece as usize;
            let (before, part) = (skip.min(piece), len.min(piece - skip.min(piece)));
            skip -= before;
            len -= part;
            if part > 0 {
                pass(GuestAddress(start.checked_add(before as u64).ok_or(Unmapped)?), part)?;
            }
        }
        if len == 0 { Ok(()) } else { Err(Unmapped) }
    }
}

/// The memory that a chain names: first the part that the device may read, then the part that it may write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    pub readable: Ranges,
    pub writable: Ranges,
}

/// The chain breaks the rules: it leaves memory or its table, has no end, or has readable memory behind writable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl Chain {
    /// Reads the chain that begins at descriptor `head` of the table at `table`, which has `size` descriptors.
    pub fn read(map: &Map, mut table: u64, size: u16, head: u16) -> Result<Self, Malformed> {
        let mut chain = Self::default();
        let (mut size, mut next, mut is_indirect) = (u32::from(size), head, false);
        for _ in 0..DESCRIPTORS_MAX {
            if u32::from(next) >= size {
                return Err(Malformed);
            }
            let at = table.checked_add(u64::from(next) * DESCRIPTOR_BYTES).ok_or(Malformed)?;
            let mut bytes = [0; DESCRIPTOR_BYTES as usize];
            read(map, GuestAddress(at), &mut bytes).map_err(|_| Malformed)?;
            let [a0, a1, a2, a3, a4, a5, a6, a7, l0, l1, l2, l3, f0, f1, n0, n1] = bytes;
            let start = u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]);
            let len = u32::from_le_bytes([l0, l1, l2, l3]);
            let (flags, following) = (u16::from_le_bytes([f0, f1]), u16::from_le_bytes([n0, n1]));
            if flags & INDIRECT != 0 {
                // A table of its own, with nothing behind it and no table within it.
                if is_indirect || flags & NEXT != 0 || len == 0 || !u64::from(len).is_multiple_of(DESCRIPTOR_BYTES) {
                    return Err(Malformed);
                }
                (table, size, next, is_indirect) = (start, len / DESCRIPTOR_BYTES as u32, 0, true);
                continue;
            }
            match flags & WRITE != 0 {
                true => chain.writable.push(start, len),
                false if chain.writable.len() > 0 => return Err(Malformed),
                false => chain.readable.push(start, len),
            }
            if chain.readable.len() + chain.writable.len() > u32::MAX as usize {
                return Err(Malformed);
            }
            if flags & NEXT == 0 {
                return Ok(chain);
            }
            next = following;
        }
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> Map {
        Map::from_ranges(&[(GuestAddress(0), 0x1000), (GuestAddress(0x1000), 0x1000), (GuestAddress(0x10000), 0x1000)])
            .expect("memory")
    }

    fn put(map: &Map, table: u64, index: u64, (start, len, flags, next): (u64, u32, u16, u16)) {
        let bytes = [&start.to_le_bytes()[..], &len.to_le_bytes(), &flags.to_le_bytes(), &next.to_le_bytes()].concat();
        map.write_slice(&bytes, GuestAddress(table + index * 16)).expect("it is there");
    }

    #[test]
    fn bytes_cross_pieces_and_regions() {
        let map = map();
        put(&map, 0, 0, (0xffe, 4, NEXT, 1));
        put(&map, 0, 1, (0x10000, 0, NEXT, 2));
        put(&map, 0, 2, (0x10010, 3, NEXT, 3));
        put(&map, 0, 3, (0x10020, 2, WRITE, 9));
        let mut chain = Chain::read(&map, 0, 4, 0).expect("a chain");
        assert_eq!((chain.readable.len(), chain.writable.len()), (7, 2));
        map.write_slice(&[1, 2, 3, 4], GuestAddress(0xffe)).expect("memory");
        map.write_slice(&[5, 6, 7], GuestAddress(0x10010)).expect("memory");
        let mut bytes = [0; 5];
        chain.readable.read(&map, 1, &mut bytes).expect("all of it is there");
        assert_eq!(bytes, [2, 3, 4, 5, 6]);
        assert_eq!(chain.readable.read(&map, 3, &mut bytes), Err(Unmapped));
        assert_eq!(chain.writable.pop(), Some(GuestAddress(0x10021)));
        assert_eq!(chain.writable.write(&map, 0, &[8, 9]), Err(Unmapped));
        chain.writable.write(&map, 0, &[8]).expect("it is there");
        assert_eq!(map.read_obj::<u8>(GuestAddress(0x10020)).expect("memory"), 8);
    }

    #[test]
    fn a_table_of_its_own_is_followed_once() {
        let map = map();
        put(&map, 0, 0, (0x10000, 32, INDIRECT, 0));
        put(&map, 0x10000, 0, (0x100, 16, NEXT, 1));
        put(&map, 0x10000, 1, (0x200, 1, WRITE, 0));
        let chain = Chain::read(&map, 0, 1, 0).expect("a chain");
        assert_eq!((chain.readable.len(), chain.writable.len()), (16, 1));
        put(&map, 0x10000, 1, (0, 16, INDIRECT, 0));
        assert_eq!(Chain::read(&map, 0, 1, 0), Err(Malformed), "a table in a table");
        for odd in [(0x10000, 31, INDIRECT, 0), (0x10000, 0, INDIRECT, 0), (0x10000, 32, INDIRECT | NEXT, 0)] {
            put(&map, 0, 0, odd);
            assert_eq!(Chain::read(&map, 0, 1, 0), Err(Malformed), "{odd:?}");
        }
    }

    #[test]
    fn hostile_chains_end() {
        let map = map();
        let cases: [(&str, &[(u64, u32, u16, u16)]); 6] = [
            ("a loop", &[(0, 1, NEXT, 1), (0, 1, NEXT, 0)]),
            ("out of the table", &[(0, 1, NEXT, 2)]),
            ("readable behind writable", &[(0, 1, NEXT | WRITE, 1), (0, 1, 0, 0)]),
            ("over 4 GiB", &[(0, u32::MAX, NEXT, 1), (0, u32::MAX, 0, 0)]),
            ("a table out of memory", &[(u64::MAX - 8, 32, INDIRECT, 0)]),
            ("a table in a hole", &[(0x5000, 32, INDIRECT, 0)]),
        ];
        for (what, descriptors) in cases {
            descriptors.iter().enumerate().for_each(|(index, &descriptor)| put(&map, 0, index as u64, descriptor));
            assert_eq!(Chain::read(&map, 0, 2, 0), Err(Malformed), "{what}");
        }
        assert_eq!(Chain::read(&map, u64::MAX - 3, 2, 0), Err(Malformed), "the table itself");
        assert_eq!(Chain::read(&map, 0, 2, 2), Err(Malformed), "a head out of the table");
        // Memory that is not there is found when it is used.
        put(&map, 0, 0, (u64::MAX, 2, WRITE, 0));
        let mut chain = Chain::read(&map, 0, 1, 0).expect("a chain");
        assert_eq!(chain.writable.write(&map, 0, &[0, 0]), Err(Unmapped));
        assert_eq!(chain.writable.pop(), None);
    }
}
