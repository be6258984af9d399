//! On-disk structures, each defined once as a table.
//!
//! [`on_disk!`](crate::fields::on_disk) turns a table of offset, name and type into a struct, its reader, its writer,
//! and the list of [`Field`]s that `examine --raw` prints, so that the four cannot disagree. The
//! fields must tile the structure; that is checked when the crate is compiled. All numbers are
//! little-endian.

/// One field of an on-disk structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in the structure.
    pub name: &'static str,
    /// Bytes from the start of the structure.
    pub offset: usize,
    /// Length in bytes.
    pub length: usize,
}

/// True if `fields` cover `0..size` without gap or overlap.
pub(crate) const fn tile(fields: &[Field], size: usize) -> bool {
    let (mut index, mut end) = (0, 0);
    while index < fields.len() {
        if fields[index].offset != end {
            return false;
        }
        end += fields[index].length;
        index += 1;
    }
    end == size
}

/// A value of fixed size on disk.
pub(crate) trait Value: Sized {
    /// Reads from exactly as many bytes as the value has.
    fn read(bytes: &[u8]) -> Self;
    /// Writes into exactly as many bytes as the value has.
    fn write(&self, bytes: &mut [u8]);
}

macro_rules! number {
    ($($type:ty)*) => { $(
        impl Value for $type {
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("the table gives every field its size"))
            }
            fn write(&self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )* };
}
number!(u8 u16 u32 u64 i16 i32 i64);

impl<const N: usize> Value for [u8; N] {
    fn read(bytes: &[u8]) -> Self {
        bytes.try_into().expect("the table gives every field its size")
    }
    fn write(&self, bytes: &mut [u8]) {
        bytes.copy_from_slice(self);
    }
}

/// Declares an on-disk structure: see the module head.
macro_rules! on_disk {
    ($(#[$meta:meta])* pub struct $name:ident [$size:literal] {
        $($(#[$field_meta:meta])* $offset:literal $field:ident: $type:ty,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($(#[$field_meta])* pub $field: $type,)* }

        impl $name {
            /// Size on disk.
            pub const SIZE_BYTES: usize = $size;

            /// Every field, in the order of their offsets.
            pub const FIELDS: &'static [$crate::fields::Field] = &[$($crate::fields::Field {
                name: stringify!($field), offset: $offset, length: size_of::<$type>(),
            },)*];

            /// Reads the bytes; nothing is checked.
            pub fn read(bytes: &[u8; $size]) -> Self {
                Self { $($field: $crate::fields::Value::read(&bytes[$offset..$offset + size_of::<$type>()]),)* }
            }

            /// The structure as on disk.
            pub fn write(&self) -> [u8; $size] {
                let mut bytes = [0; $size];
                $($crate::fields::Value::write(&self.$field, &mut bytes[$offset..$offset + size_of::<$type>()]);)*
                bytes
            }
        }

        const _: () = assert!($crate::fields::tile($name::FIELDS, $size), "fields do not tile the structure");
    };
}
pub(crate) use on_disk;

#[cfg(test)]
mod tests {
    use super::Field;
    use crate::md::{bitmap, checksums, log, ppl, span, superblock};

    /// The tables of a page: offset and name of each row.
    fn tables(page: &str) -> Vec<Vec<(usize, String)>> {
        let row = |line: &str| {
            let mut cells = line.strip_prefix("| 0x")?.split(" | ");
            let offset = usize::from_str_radix(cells.next()?, 16).ok()?;
            Some((offset, cells.next()?.to_owned()))
        };
        let mut tables = vec![Vec::new()];
        for line in page.lines() {
            match row(line) {
                Some(row) => tables.last_mut().expect("there is one").push(row),
                None => tables.push(Vec::new()),
            }
        }
        tables
    }

    #[test]
    fn the_page_of_what_is_on_disk_has_every_field() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ON_DISK.md")).expect("it is there");
        let tables = tables(&page);
        let structures: [(&str, &[Field]); 10] = [
            ("superblock", superblock::Header::FIELDS),
            ("bitmap", bitmap::Header::FIELDS),
            ("partial parity log", ppl::PplHeader::FIELDS),
            ("its entry", ppl::PplEntry::FIELDS),
            ("log head", log::LogHead::FIELDS),
            ("append", log::AppendHead::FIELDS),
            ("log entry", log::Entry::FIELDS),
            ("span", span::Mark::FIELDS),
            ("head of checksums", checksums::ChecksumHead::FIELDS),
            ("page of checksums", checksums::ChecksumPage::FIELDS),
        ];
        for (name, fields) in structures {
            let table: Vec<(usize, String)> = fields.iter().map(|field| (field.offset, field.name.to_owned())).collect();
            assert!(tables.contains(&table), "docs/ON_DISK.md has no table of the {name}: {table:x?}");
        }
    }
}
