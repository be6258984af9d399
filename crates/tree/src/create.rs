//! New arrays: one, or a RAID 0 over spans. [`NewTree::plan`] decides which drives make which span and what is written where;
//! [`TreeCreation::carry_out`] has it written in the right order.

use stria_array::Level;
use stria_format::md::create::CreateError;
use stria_format::md::{BitmapChoice, Create, CreateMember, Creation, LogChoice};

/// An array to make.
#[derive(Clone, Debug)]
pub struct NewTree {
    /// The array with all of its drives. Where there are spans, level, layout and strip are theirs, and each gets as many of the
    /// members as the others.
    pub array: Create,
    /// The spans; empty: the drives make one array.
    pub spans: Vec<SpanIdentity>,
    /// The strip of the array above spans. `None`: a whole stripe of a span if that is a power of two up to 1 MiB, so that large
    /// writes fill stripes; else the strip of the spans.
    pub upper_strip_sectors: Option<u64>,
}

/// Random numbers for a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanIdentity {
    /// Its identity as an array.
    pub array: [u8; 16],
    /// Its identity as a member of the array above.
    pub member: [u8; 16],
}

/// An array of drives, as it is to be made.
#[derive(Clone, Debug)]
pub struct ArrayCreation {
    /// Its identity.
    pub uuid: [u8; 16],
    /// Its drives: members (the missing ones counted), then spares. Each by its index among those of the whole tree, which are in
    /// the same order.
    pub drives: Vec<usize>,
    /// The bytes that are written to them.
    pub creation: Creation,
}

/// All arrays of a tree, as they are to be made.
#[derive(Clone, Debug)]
pub struct TreeCreation {
    /// The arrays of drives: the spans, or the only array.
    pub arrays: Vec<ArrayCreation>,
    /// The array above the spans. Its drives are these.
    pub upper: Option<Creation>,
}

/// Writes a new tree to drives of some kind.
pub trait Maker {
    /// Why something could not be written.
    type Error;

    /// Erases what these drives carry, and writes an array's metadata to them, durably.
    ///
    /// # Errors
    /// The error of the drive. Nothing more is written.
    fn write_drives(&mut self, array: &ArrayCreation) -> Result<(), Self::Error>;

    /// Starts a span whose drives were written, writes its part of the array above, and stops it. `index`: its number there.
    ///
    /// # Errors
    /// As [`Maker::write_drives`].
    fn write_span(&mut self, span: &ArrayCreation, upper: &Creation, index: usize) -> Result<(), Self::Error>;
}

/// The name of a span of the array called `upper`.
pub fn span_name(upper: &str, index: usize) -> String {
    format!("{upper}-span{index}")
}

impl NewTree {
    /// Plans the array. Nothing is changed.
    ///
    /// # Errors
    /// The reason why it is impossible.
    pub fn plan(&self) -> Result<TreeCreation, CreateError> {
        let (member_count, drive_count) = (self.array.members.len(), self.array.members.len() + self.array.spares.len());
        if self.spans.is_empty() {
            let (uuid, drives) = (self.array.uuid, (0..drive_count).collect());
            return Ok(TreeCreation { arrays: vec![ArrayCreation { uuid, drives, creation: self.array.plan()? }], upper: None });
        }
        let span_count = self.spans.len();
        if span_count < 2 || !member_count.is_multiple_of(span_count) {
            return Err(CreateError::UnequalSpans { drive_count: member_count, span_count });
        }
        let arrays = (0..span_count).map(|index| self.plan_span(index)).collect::<Result<Vec<_>, _>>()?;
        let upper = self.plan_upper(&arrays)?;
        Ok(TreeCreation { arrays, upper: Some(upper) })
    }

    /// A span: its share of the members, in order, and of the spares, in turn.
    fn plan_span(&self, index: usize) -> Result<ArrayCreation, CreateError> {
        let (all, span_count) = (&self.array, self.spans.len());
        let width = all.members.len() / span_count;
        let members = index * width..(index + 1) * width;
        let spares = (index..all.spares.len()).step_by(span_count);
        let span = Create {
            name: span_name(&all.name, index),
            uuid: self.spans[index].array,
            members: all.members[members.clone()].to_vec(),
            spares: spares.clone().map(|spare| all.spares[spare].clone()).collect(),
            span_of: Some(all.uuid),
            ..all.clone()
        };
        let drives = members.chain(spares.map(|spare| all.members.len() + spare)).collect();
        Ok(ArrayCreation { uuid: span.uuid, drives, creation: span.plan()? })
    }

    fn plan_upper(&self, spans: &[ArrayCreation]) -> Result<Creation, CreateError> {
        let all = &self.array;
        let width_sectors = spans[0].creation.geometry.data_count() as u64 * all.strip_sectors;
        let fills_stripes = width_sectors.is_power_of_two() && width_sectors <= UPPER_STRIP_SECTORS_MAX;
        let chosen = if fills_stripes { width_sectors } else { all.strip_sectors };
        let of_drives = all.members.iter().flatten().map(|member| member.logical_block_bytes).max().unwrap_or(512);
        let logical_block_bytes = if all.checksums { 4096 } else { of_drives };
        let member = |(index, span): (usize, &ArrayCreation)| CreateMember {
            name: span_name(&all.name, index),
            size_sectors: span.creation.geometry.capacity_sectors(),
            logical_block_bytes,
            device_uuid: self.spans[index].member,
        };
        let upper = Create {
            level: Level::Raid0,
            layout: Level::Raid0.default_layout(),
            strip_sectors: self.upper_strip_sectors.unwrap_or(chosen),
            members: spans.iter().enumerate().map(|span| Some(member(span))).collect(),
            spares: Vec::new(),
            data_offset_sectors: None,
            member_sectors_max: None,
            bitmap: BitmapChoice::None,
            log: LogChoice::None,
            checksums: false,
            span_of: None,
            ..all.clone()
        };
        upper.plan()
    }
}

/// 1 MiB.
const UPPER_STRIP_SECTORS_MAX: u64 = 2048;

impl TreeCreation {
    /// Writes it all: every array of drives, and then the array above through them, so that their parity covers it.
    ///
    /// # Errors
    /// The first error of the maker.
    pub fn carry_out<M: Maker>(&self, maker: &mut M) -> Result<(), M::Error> {
        for array in &self.arrays {
            maker.write_drives(array)?;
        }
        for (index, span) in self.arrays.iter().enumerate() {
            if let Some(upper) = &self.upper {
                maker.write_span(span, upper, index)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_tree(members: usize, spares: usize, spans: u8) -> NewTree {
        let member = |index: usize| CreateMember {
            name: format!("drive{index}"),
            size_sectors: 1 << 16,
            logical_block_bytes: 512,
            device_uuid: [index as u8; 16],
        };
        let array = Create {
            name: "tank".into(),
            homehost: None,
            uuid: [0xaa; 16],
            level: Level::Raid5,
            layout: Level::Raid5.default_layout(),
            strip_sectors: 32,
            members: (0..members).map(|index| Some(member(index))).collect(),
            spares: (members..members + spares).map(member).collect(),
            data_offset_sectors: None,
            member_sectors_max: None,
            bitmap: BitmapChoice::None,
            log: LogChoice::Auto,
            checksums: false,
            assume_clean: false,
            span_of: None,
            unix_seconds: 1_700_000_000,
        };
        let identity = |index: u8| SpanIdentity { array: [0x10 + index; 16], member: [0x20 + index; 16] };
        NewTree { array, spans: (0..spans).map(identity).collect(), upper_strip_sectors: None }
    }

    #[test]
    fn members_go_to_spans_in_order_and_spares_in_turn() {
        let tree = new_tree(6, 3, 2).plan().expect("equal spans");
        let drives: Vec<&[usize]> = tree.arrays.iter().map(|array| &array.drives[..]).collect();
        assert_eq!(drives, [&[0, 1, 2, 6, 8][..], &[3, 4, 5, 7]]);
        let marks: Vec<_> = tree.arrays[1].creation.superblocks.iter().flatten().map(|superblock| superblock.span_of).collect();
        assert_eq!(marks, [Some([0xaa; 16]); 4], "every member of a span names the array above");
        let upper = tree.upper.expect("there are spans");
        assert_eq!(upper.geometry.strip_sectors(), 64, "a whole stripe of a span");
        let ids: Vec<_> = upper.superblocks.iter().flatten().map(|superblock| superblock.header.device_uuid[0]).collect();
        assert_eq!(ids, [0x20, 0x21]);
    }

    #[test]
    fn a_stripe_that_is_no_power_of_two_leaves_the_strip() {
        let tree = new_tree(8, 0, 2).plan().expect("equal spans");
        assert_eq!(tree.upper.expect("there are spans").geometry.strip_sectors(), 32, "three data strips a stripe");
    }

    #[test]
    fn spans_that_are_unequal_or_alone_are_refused() {
        for (members, spans) in [(7, 2), (6, 1), (8, 3)] {
            let error = new_tree(members, 0, spans).plan().expect_err("no equal spans").to_string();
            assert!(error.contains("--spans"), "{error}");
        }
    }

    /// The order in which a tree is written.
    #[derive(Default)]
    struct Order(Vec<String>);

    impl Maker for Order {
        type Error = ();

        fn write_drives(&mut self, array: &ArrayCreation) -> Result<(), ()> {
            self.0.push(format!("drives {:?}", array.drives));
            Ok(())
        }

        fn write_span(&mut self, span: &ArrayCreation, _: &Creation, index: usize) -> Result<(), ()> {
            self.0.push(format!("span {index} of {:?}", span.drives));
            Ok(())
        }
    }

    #[test]
    fn all_drives_are_written_before_the_first_span_starts() {
        let mut order = Order::default();
        new_tree(6, 0, 2).plan().expect("equal spans").carry_out(&mut order).expect("it writes");
        assert_eq!(order.0, ["drives [0, 1, 2]", "drives [3, 4, 5]", "span 0 of [0, 1, 2]", "span 1 of [3, 4, 5]"]);
        let mut order = Order::default();
        new_tree(3, 1, 0).plan().expect("one array").carry_out(&mut order).expect("it writes");
        assert_eq!(order.0, ["drives [0, 1, 2, 3]"]);
    }
}
