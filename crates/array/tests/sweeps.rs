//! Goal: a sweep loses nothing that a member still holds, whatever fails beside it.
//! Method: members of noise are filled and compared while others cannot be read or are pulled.

mod support;
use stria_array::*;
use stria_block::*;
use support::*;

const SECTORS: u64 = 16384;
const STRIP: u64 = 16;
const PAGE: u64 = 8;

fn config(level: Level, members: usize) -> ArrayConfig {
    let geometry = Geometry::new(level, level.default_layout(), STRIP, &vec![SECTORS; members]).expect("good");
    ArrayConfig::optimal("test", geometry)
}

/// Empties slot 1, and has slot `replaced` replaced by another member. The handles then are those of the slots that are left, in their order.
fn replacing(mut config: ArrayConfig, replaced: usize) -> (ArrayConfig, MemberId, MemberId) {
    config.slots[1].member = None;
    let members = config.slots.iter_mut().filter_map(|slot| slot.member.as_mut());
    let count = members.zip(0..).map(|(member, id)| member.id = MemberId(id)).count();
    let source = config.slots[replaced].member.as_ref().expect("it is there").id;
    let replacement = MemberConfig { recovered: Synced::up_to(0), ..MemberConfig::in_sync(MemberId(count), SECTORS) };
    config.slots[replaced].replacement = Some(replacement);
    (config, source, MemberId(count))
}

fn fill_with_noise(world: &mut World, member: MemberId) {
    let noise = world.pattern(SECTORS);
    world.rams[member.0].0.borrow_mut().memory_mut().copy_from_slice(&noise);
}

fn content(world: &World, member: MemberId) -> Vec<u8> {
    world.rams[member.0].0.borrow().memory().to_vec()
}

fn state(world: &World, member: MemberId) -> (MemberState, u64) {
    let status = world.status();
    (status.members[member.0].state, status.members[member.0].bad_sectors)
}

fn unreadable(rows: std::ops::Range<u64>) -> FaultPlan {
    FaultPlan { bad: vec![(rows, FaultKind::Read)], gone: false }
}

#[test]
fn a_replacement_is_copied_where_another_slot_is_unreadable() {
    for level in [Level::Raid4, Level::Raid5] {
        let (config, source, copy) = replacing(config(level, 4), 2);
        let mut world = World::of(&config, 1, 1);
        fill_with_noise(&mut world, source);
        let other = config.slots[3].member.as_ref().expect("it is there").id;
        *world.faults[other.0].borrow_mut() = unreadable(5 * PAGE..7 * PAGE);
        world.run_until("copied", |status| status.slots[2] == Some(copy) && status.sweep.is_none());
        assert_eq!(state(&world, copy), (MemberState::InSync, 0), "{level}");
        assert!(content(&world, copy) == content(&world, source), "{level}: the copy is one");
    }
}
