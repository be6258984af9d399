//! A read-only array changes no byte of its members: it refuses commands that would, and a scrub only reads.

mod support;
use stria_array::Synced;
use stria_array::*;
use stria_block::FaultKind;
use support::*;

fn bytes_of(world: &World) -> Vec<Vec<u8>> {
    world.rams.iter().map(|ram| ram.0.borrow().memory().to_vec()).collect()
}

fn set_read_only(world: &mut World, read_only: bool) {
    world.lanes.iter().for_each(|lane| lane.with_engine(|engine| engine.set_read_only(read_only)));
}

#[test]
fn commands_are_refused_and_a_scrub_only_reads() {
    for lanes in [1, 2] {
        each_on(
            |_, _| lanes,
            "read-only",
            2..7,
            |world| {
                world.traffic(5);
                world.run_until("calm", |status| status.in_flight == 0 && status.clean);
                let spare = MemberId(world.geometry.slot_count());
                set_read_only(world, true);
                let before = bytes_of(world);
                let member = MemberId(0);
                for command in [Command::Fail(member), Command::Remove(member), Command::Replace { member, spare }] {
                    let Refusal(sentence) = world.carry_out(command).expect_err("an array that is read-only keeps its members");
                    assert!(sentence.contains("read-only"), "{sentence}");
                }
                if !world.geometry.level().is_redundant() {
                    return;
                }
                let repair = Command::Scrub { repair: true, from_sector: 0 };
                let Refusal(sentence) = world.carry_out(repair).expect_err("a repair writes");
                assert!(sentence.contains("read-only") && sentence.contains("--repair"), "{sentence}");
                assert_eq!(world.scrub(false), 0);
                // Sectors that cannot be read stay as they are, and cost no member its slot.
                world.faults[0].borrow_mut().bad.push((0..2, FaultKind::Read));
                world.scrub(false);
                world.check_all("read-only, with unreadable sectors");
                assert!(!world.faults[0].borrow().bad.is_empty(), "nothing was rewritten");
                assert_eq!(world.status().health, Health::Optimal);
                assert!(before == bytes_of(world), "bytes of a member changed");
                // Once the array may be written, the next scrub corrects them.
                set_read_only(world, false);
                if world.geometry.array_sector_of(0, MemberSector::ZERO, 1).0.is_some()
                    || world.geometry.level().parity_count() > 0
                {
                    world.scrub(false);
                    assert!(world.faults[0].borrow().bad.is_empty(), "rewritten");
                }
            },
        );
    }
}

#[test]
fn a_scrub_is_refused_where_a_crash_left_work() {
    let geometry = Geometry::new(Level::Raid5, Level::Raid5.default_layout(), 8, &[1024; 4]).expect("a geometry");
    let array = on_ram(&ArrayConfig { read_only: true, synced: Synced::up_to(0), ..ArrayConfig::optimal("test", geometry) });
    let scrub = Command::Scrub { repair: false, from_sector: 0 };
    let Refusal(sentence) = carry_out(&mut [array], &mut 0, &mut Vec::new(), scrub).expect_err("a resync is due");
    assert!(sentence.contains("not yet in step") && sentence.contains("without --read-only"), "{sentence}");
}
