//! Reads from metadata of firmware RAID, which may end anywhere.

use super::FirmwareError;

/// Metadata, or a part of them.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    format: &'static str,
    order: Order,
    /// What an error says of them: "they end", "a part ends".
    ends: &'static str,
}

/// The order of the bytes of a number.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// The least significant byte first.
    Little,
    /// The most significant byte first.
    Big,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], format: &'static str, order: Order, ends: &'static str) -> Self {
        Self { bytes, format, order, ends }
    }

    pub fn get(&self, at: usize, length: usize) -> Result<&'a [u8], FirmwareError> {
        let bytes = at.checked_add(length).and_then(|end| self.bytes.get(at..end));
        bytes.ok_or_else(|| FirmwareError::Damaged(self.format, format!("{} before byte {at}", self.ends)))
    }

    /// A number of `length` bytes, at most 8.
    fn number(&self, at: usize, length: usize) -> Result<u64, FirmwareError> {
        let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        let bytes = self.get(at, length)?.iter();
        Ok(match self.order {
            Order::Little => bytes.rev().fold(0, add),
            Order::Big => bytes.fold(0, add),
        })
    }

    pub fn u8(&self, at: usize) -> Result<u8, FirmwareError> {
        Ok(self.get(at, 1)?[0])
    }

    pub fn u16(&self, at: usize) -> Result<u16, FirmwareError> {
        Ok(self.number(at, 2)? as u16)
    }

    pub fn u32(&self, at: usize) -> Result<u32, FirmwareError> {
        Ok(self.number(at, 4)? as u32)
    }

    pub fn u64(&self, at: usize) -> Result<u64, FirmwareError> {
        self.number(at, 8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_the_order_of_the_format_and_not_beyond_the_end() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        let big = Reader::new(&bytes, "DDF", Order::Big, "a part ends");
        let little = Reader::new(&bytes, "IMSM", Order::Little, "they end");
        assert_eq!((big.u8(1), big.u16(1), big.u32(1)), (Ok(2), Ok(0x0203), Ok(0x0203_0405)));
        assert_eq!((little.u8(1), little.u16(1), little.u32(1)), (Ok(2), Ok(0x0302), Ok(0x0504_0302)));
        assert_eq!((big.u64(1), little.u64(1)), (Ok(0x0203_0405_0607_0809), Ok(0x0908_0706_0504_0302)));
        for (reader, text) in [
            (big, "its DDF metadata are damaged: a part ends before byte 2"),
            (little, "its IMSM metadata are damaged: they end before byte 2"),
        ] {
            assert_eq!(reader.u64(2).map_err(|error| error.to_string()), Err(text.into()));
            assert!(reader.get(usize::MAX, 1).is_err());
        }
    }
}
