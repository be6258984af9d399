//! The coordinator's part: one metadata update of what several lanes want durable.
//!
//! Superblocks and bitmap pages belong to the whole array, so the coordinator makes all metadata updates, one at a time. A lane
//! is answered when an update holds what it wants:
//! - *State*: clean if all lanes are; the least resync position and recovery offset (R43). A member that one lane drops is
//!   dropped by all, at once. No update is made until the state of each lane says so, since by then it has done what it owed to
//!   that member (R42). In the same way a member is in sync once all lanes report it so.
//! - *Write-intent bits*: set while any lane needs them (R94).
//! - *Bad blocks*: what any lane has added, without what any has removed.
//! - *Log reset*: once. A lane that asks later is answered at once.

use crate::{ArrayState, IntentConfig, MemberId, MemberProgress, MemberSector, MetadataUpdate, SlotState, Synced};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use stria_block::ranges::{merged, without};

/// A demand on a lane that comes from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// A member was dropped.
    Drop(MemberId),
    /// Its state was not written: it must ask again.
    AskAgain,
}

#[derive(Clone, Debug)]
struct Lane {
    /// The lane's state in the last update that holds it.
    recorded: ArrayState,
    state: Option<ArrayState>,
    intent: Option<(Vec<u64>, Vec<u64>)>,
    bad: Option<(MemberId, Vec<Range<MemberSector>>)>,
    /// As the lane last reported.
    bad_known: BTreeMap<MemberId, Vec<Range<MemberSector>>>,
    reset: bool,
}

impl Lane {
    fn newest(&self) -> &ArrayState {
        self.state.as_ref().unwrap_or(&self.recorded)
    }
}

/// Lanes that an update answers, and their states in it.
type Answers = Vec<(usize, Option<ArrayState>)>;

/// Merges what lanes want. Pure.
#[derive(Clone, Debug)]
pub(crate) struct Coordinator {
    lanes: Vec<Lane>,
    dropped: BTreeSet<MemberId>,
    /// Lanes that need a chunk's bit, one bit each.
    needed: BTreeMap<u64, u64>,
    bad: BTreeMap<MemberId, Vec<Range<MemberSector>>>,
    log_reset: bool,
    /// Lanes that the running update answers, and their states in it.
    answers: Option<Answers>,
}

impl Coordinator {
    /// `state`: as every lane finds it. `replays`: which lanes have log records of the last run. `bad`: by member.
    pub fn new(
        state: &ArrayState,
        replays: &[bool],
        intent: Option<&IntentConfig>,
        bad: BTreeMap<MemberId, Vec<Range<MemberSector>>>,
    ) -> Self {
        let lane = |&replays: &bool| Lane {
            recorded: ArrayState { clean: state.clean && !replays, ..state.clone() },
            state: None,
            intent: None,
            bad: None,
            bad_known: bad.clone(),
            reset: false,
        };
        let all = u64::MAX >> (64 - replays.len());
        Self {
            lanes: replays.iter().map(lane).collect(),
            dropped: BTreeSet::new(),
            needed: intent.iter().flat_map(|intent| intent.dirty.iter().map(|&chunk| (chunk, all))).collect(),
            bad,
            log_reset: false,
            answers: None,
        }
    }

    /// A member was added, with bad blocks of its own.
    pub fn admit(&mut self, member: MemberId, blocks: &[Range<MemberSector>]) {
        self.lanes.iter_mut().for_each(|lane| drop(lane.bad_known.insert(member, blocks.to_vec())));
        self.bad.insert(member, blocks.to_vec());
    }

    /// True if some lane has bad blocks of a member, as far as it has reported.
    pub fn has_bad_blocks(&self, member: MemberId) -> bool {
        let asks = |lane: &Lane| lane.bad.as_ref().is_some_and(|(of, blocks)| *of == member && !blocks.is_empty());
        self.bad.get(&member).is_some_and(|blocks| !blocks.is_empty()) || self.lanes.iter().any(asks)
    }

    /// A lane wants a metadata update. Returns the instructions for other lanes, in the order in which they must be sent.
    pub fn ask(&mut self, lane: usize, update: MetadataUpdate) -> Vec<(usize, Instruction)> {
        match update {
            MetadataUpdate::State(state) => return self.ask_state(lane, state),
            MetadataUpdate::Intent { set, clear } => self.lanes[lane].intent = Some((set, clear)),
            MetadataUpdate::BadBlocks { member, blocks } => self.lanes[lane].bad = Some((member, blocks)),
            MetadataUpdate::ResetLog => self.lanes[lane].reset = true,
        }
        Vec::new()
    }

    fn ask_state(&mut self, lane: usize, state: ArrayState) -> Vec<(usize, Instruction)> {
        let new: Vec<MemberId> = dropped(&state).collect();
        self.lanes[lane].state = Some(state);
        self.drop_members(lane, &new)
    }

    /// A lane has dropped members. Returns the instructions for other lanes, in the order in which they must be sent.
    pub fn drop_members(&mut self, lane: usize, members: &[MemberId]) -> Vec<(usize, Instruction)> {
        let new: Vec<MemberId> = members.iter().copied().filter(|&member| self.dropped.insert(member)).collect();
        let mut instructions = Vec::new();
        for other in (0..self.lanes.len()).filter(|&other| other != lane) {
            instructions.extend(new.iter().map(|&member| (other, Instruction::Drop(member))));
        }
        // The state of a lane that does not know of a drop yet is neither written nor waited for: the lane asks again once it
        // knows.
        for index in 0..self.lanes.len() {
            let running = self.answers.iter().flatten().any(|(answered, state)| *answered == index && state.is_some());
            if !running && self.lanes[index].state.as_ref().is_some_and(|state| !self.knows_drops(state)) {
                self.lanes[index].state = None;
                instructions.push((index, Instruction::AskAgain));
            }
        }
        instructions
    }

    fn knows_drops(&self, state: &ArrayState) -> bool {
        self.dropped.iter().all(|member| dropped(state).any(|known| known == *member))
    }

    /// The next update to make, if one can be made. Report its end with [`Coordinator::recorded`].
    pub fn next(&mut self) -> Option<MetadataUpdate> {
        if self.answers.is_some() {
            return None;
        }
        let (answers, update) = self.reset().or_else(|| self.state()).or_else(|| self.bad_blocks()).or_else(|| self.intent())?;
        self.answers = Some(answers);
        Some(update)
    }

    /// Lanes that ask for a log reset that has been done.
    pub fn done_already(&mut self) -> Vec<usize> {
        let log_reset = self.log_reset;
        (0..self.lanes.len()).filter(|&lane| log_reset && std::mem::take(&mut self.lanes[lane].reset)).collect()
    }

    fn reset(&mut self) -> Option<(Answers, MetadataUpdate)> {
        if self.log_reset || !self.lanes.iter().any(|lane| lane.reset) {
            return None;
        }
        let asking = (0..self.lanes.len()).filter(|&lane| std::mem::take(&mut self.lanes[lane].reset));
        Some((asking.map(|lane| (lane, None)).collect(), MetadataUpdate::ResetLog))
    }

    fn state(&mut self) -> Option<(Answers, MetadataUpdate)> {
        // R42: not before every lane has dropped what any has.
        if !self.lanes.iter().all(|lane| self.knows_drops(lane.newest())) {
            return None;
        }
        // A lane that calls a member in sync before all do is answered together with them.
        let in_sync_on_all = |member| self.lanes.iter().all(|lane| in_sync_members(lane.newest()).any(|known| known == member));
        let may_be_answered = |state: &ArrayState| in_sync_members(state).all(in_sync_on_all);
        let asking: Vec<usize> =
            (0..self.lanes.len()).filter(|&index| self.lanes[index].state.as_ref().is_some_and(may_be_answered)).collect();
        if asking.is_empty() {
            return None;
        }
        let joined = join(&self.lanes.iter().map(Lane::newest).collect::<Vec<_>>());
        let answers = asking.into_iter().map(|index| (index, self.lanes[index].state.take())).collect();
        Some((answers, MetadataUpdate::State(joined)))
    }

    fn intent(&mut self) -> Option<(Answers, MetadataUpdate)> {
        let asks: Vec<(usize, (Vec<u64>, Vec<u64>))> =
            self.lanes.iter_mut().enumerate().filter_map(|(index, lane)| Some((index, lane.intent.take()?))).collect();
        if asks.is_empty() {
            return None;
        }
        let (mut set, mut clear) = (BTreeSet::new(), Vec::new());
        for (lane, (chunks, _)) in &asks {
            for &chunk in chunks {
                *self.needed.entry(chunk).or_default() |= 1 << lane;
                set.insert(chunk);
            }
        }
        for (lane, (_, chunks)) in &asks {
            for &chunk in chunks {
                let Some(lanes) = self.needed.get_mut(&chunk) else { continue };
                *lanes &= !(1 << lane);
                if *lanes == 0 {
                    self.needed.remove(&chunk);
                    clear.push(chunk);
                }
            }
        }
        let answers = asks.iter().map(|(lane, _)| (*lane, None)).collect();
        Some((answers, MetadataUpdate::Intent { set: set.into_iter().collect(), clear }))
    }

    fn bad_blocks(&mut self) -> Option<(Answers, MetadataUpdate)> {
        let (index, lane) = self.lanes.iter_mut().enumerate().find(|(_, lane)| lane.bad.is_some())?;
        let (member, blocks) = lane.bad.take().expect("just seen");
        let before = lane.bad_known.insert(member, blocks.clone()).unwrap_or_default();
        let (healed, new) = (without(&before, &blocks), without(&blocks, &before));
        let all = self.bad.entry(member).or_default();
        *all = merged(without(all, &healed).into_iter().chain(new));
        Some((vec![(index, None)], MetadataUpdate::BadBlocks { member, blocks: all.clone() }))
    }

    /// The update has ended. Returns the lanes that it answers.
    pub fn recorded(&mut self) -> Vec<usize> {
        let answers = self.answers.take().expect("a metadata update ran");
        let mut lanes = Vec::new();
        for (lane, state) in answers {
            if let Some(state) = state {
                self.lanes[lane].recorded = state;
            }
            lanes.push(lane);
        }
        lanes
    }

    /// A state could not be written. Returns the lanes whose states wait for those of others: they must be told as well, since a
    /// lane that cannot flush calls no member in sync, and so would keep them waiting (R71).
    pub fn state_is_refused(&mut self) -> Vec<usize> {
        (0..self.lanes.len()).filter(|&lane| self.lanes[lane].state.take().is_some()).collect()
    }

    /// A new log session has begun.
    pub fn log_is_reset(&mut self) {
        self.log_reset = true;
    }
}

fn dropped(state: &ArrayState) -> impl Iterator<Item = MemberId> {
    state.failed.iter().map(|(member, _)| *member)
}

fn places(state: &ArrayState) -> impl Iterator<Item = &MemberProgress> {
    state.slots.iter().flat_map(|slot| [&slot.member, &slot.replacement]).flatten()
}

fn in_sync_members(state: &ArrayState) -> impl Iterator<Item = MemberId> {
    places(state).filter(|place| place.recovered == Synced::All).map(|place| place.member)
}

/// The state of all lanes together. Slots are as the first lane, the coordinator, knows them.
fn join(states: &[&ArrayState]) -> ArrayState {
    let first = states[0];
    let place = |slot: usize, place: &MemberProgress| {
        let mut joined = place.clone();
        for state in states {
            let SlotState { member, replacement } = &state.slots[slot];
            let same = [member, replacement].into_iter().flatten().find(|other| other.member == place.member);
            // A lane that does not know of the member yet has rebuilt nothing.
            joined.recovered = joined.recovered.min(same.map_or(Synced::up_to(0), |same| same.recovered));
            joined.by_bitmap |= same.is_some_and(|same| same.by_bitmap);
        }
        joined
    };
    let slots = first.slots.iter().enumerate().map(|(index, slot)| SlotState {
        member: slot.member.as_ref().map(|member| place(index, member)),
        replacement: slot.replacement.as_ref().map(|replacement| place(index, replacement)),
    });
    ArrayState {
        clean: states.iter().all(|state| state.clean),
        synced: states.iter().map(|state| state.synced).min().expect("there are lanes"),
        slots: slots.collect(),
        spares: first.spares.clone(),
        failed: first.failed.clone(),
        optimal: states.iter().all(|state| state.optimal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::MemberSpace;

    fn place(member: usize, recovered: Synced<MemberSpace>) -> Option<MemberProgress> {
        Some(MemberProgress { member: MemberId(member), recovered, by_bitmap: false })
    }

    /// Three members, the last of them filled so far.
    fn state(clean: bool, filled: Synced<MemberSpace>, failed: &[usize]) -> ArrayState {
        let holds = |member: usize| !failed.contains(&member);
        let slot = |index: usize| SlotState {
            member: place(index, if index == 2 { filled } else { Synced::All }).filter(|_| holds(index)),
            replacement: None,
        };
        ArrayState {
            clean,
            synced: Synced::All,
            slots: (0..3).map(slot).collect(),
            spares: Vec::new(),
            failed: failed.iter().map(|&member| (MemberId(member), Some(member))).collect(),
            optimal: failed.is_empty() && filled == Synced::All,
        }
    }

    fn coordinator(replays: &[bool], dirty: Vec<u64>, filled: Synced<MemberSpace>) -> Coordinator {
        let intent = IntentConfig { chunk_sectors: 8, dirty };
        Coordinator::new(&state(true, filled, &[]), replays, Some(&intent), BTreeMap::new())
    }

    fn next_state(coordinator: &mut Coordinator) -> Option<ArrayState> {
        match coordinator.next()? {
            MetadataUpdate::State(state) => Some(state),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn clean_and_filled_is_what_all_lanes_say() {
        let mut coordinator = coordinator(&[false; 2], Vec::new(), Synced::up_to(0));
        assert_eq!(coordinator.ask(1, MetadataUpdate::State(state(false, Synced::up_to(100), &[]))), []);
        let record = next_state(&mut coordinator).expect("it can be made");
        assert_eq!((record.clean, record.slots[2].member.as_ref().unwrap().recovered), (false, Synced::up_to(0)));
        assert!(next_state(&mut coordinator).is_none(), "one at a time");
        assert_eq!(coordinator.recorded(), [1]);
        coordinator.ask(0, MetadataUpdate::State(state(true, Synced::up_to(60), &[])));
        let record = next_state(&mut coordinator).expect("it can be made");
        assert_eq!((record.clean, record.slots[2].member.as_ref().unwrap().recovered), (false, Synced::up_to(60)));
        assert_eq!(coordinator.recorded(), [0]);
    }

    #[test]
    fn a_drop_is_recorded_when_every_lane_has_settled_it() {
        let mut coordinator = coordinator(&[false; 3], Vec::new(), Synced::All);
        coordinator.ask(2, MetadataUpdate::State(state(false, Synced::All, &[])));
        // Lane 2 asked before it could know: it is told, and asks again.
        let instructions = coordinator.ask(1, MetadataUpdate::State(state(false, Synced::All, &[0])));
        let drop = Instruction::Drop(MemberId(0));
        assert_eq!(instructions, [(0, drop.clone()), (2, drop), (2, Instruction::AskAgain)]);
        assert!(next_state(&mut coordinator).is_none(), "others still count on it");
        coordinator.ask(0, MetadataUpdate::State(state(true, Synced::All, &[0])));
        assert!(next_state(&mut coordinator).is_none());
        coordinator.ask(2, MetadataUpdate::State(state(false, Synced::All, &[0])));
        let record = next_state(&mut coordinator).expect("all have said so");
        assert_eq!(record.slots[0].member, None);
        assert_eq!(coordinator.recorded(), [0, 1, 2]);
    }

    #[test]
    fn two_lanes_that_drop_one_each_end_with_both_dropped() {
        let mut coordinator = coordinator(&[false; 2], Vec::new(), Synced::All);
        coordinator.ask(0, MetadataUpdate::State(state(false, Synced::All, &[0])));
        let instructions = coordinator.ask(1, MetadataUpdate::State(state(false, Synced::All, &[1])));
        // Both have been told of the other's, and what they asked for is void.
        let mut again = instructions
            .iter()
            .filter(|(_, instruction)| *instruction == Instruction::AskAgain)
            .map(|(lane, _)| *lane)
            .collect::<Vec<_>>();
        again.sort_unstable();
        assert_eq!(again, [0, 1]);
        assert!(instructions.contains(&(0, Instruction::Drop(MemberId(1)))));
        coordinator.ask(0, MetadataUpdate::State(state(false, Synced::All, &[0, 1])));
        coordinator.ask(1, MetadataUpdate::State(state(false, Synced::All, &[1, 0])));
        assert_eq!(next_state(&mut coordinator).map(|state| state.failed.len()), Some(2));
    }

    #[test]
    fn a_lane_that_calls_a_member_in_sync_first_waits_for_the_others() {
        let mut coordinator = coordinator(&[false; 2], Vec::new(), Synced::up_to(500));
        coordinator.ask(0, MetadataUpdate::State(state(false, Synced::All, &[])));
        assert!(next_state(&mut coordinator).is_none());
        coordinator.ask(1, MetadataUpdate::State(state(false, Synced::up_to(500), &[])));
        let record = next_state(&mut coordinator).expect("lane 1 need not wait");
        assert_eq!(record.slots[2].member.as_ref().unwrap().recovered, Synced::up_to(500));
        assert_eq!(coordinator.recorded(), [1]);
        coordinator.ask(1, MetadataUpdate::State(state(false, Synced::All, &[])));
        let record = next_state(&mut coordinator).expect("now all say so");
        assert_eq!(record.slots[2].member.as_ref().unwrap().recovered, Synced::All);
        assert_eq!(coordinator.recorded(), [0, 1]);
    }

    #[test]
    fn a_state_that_is_refused_is_so_for_lanes_that_wait_for_others() {
        let mut coordinator = coordinator(&[false; 3], Vec::new(), Synced::up_to(500));
        coordinator.ask(1, MetadataUpdate::State(state(false, Synced::All, &[])));
        coordinator.ask(0, MetadataUpdate::State(state(false, Synced::up_to(500), &[])));
        assert!(next_state(&mut coordinator).is_some());
        assert_eq!(coordinator.recorded(), [0]);
        assert_eq!(coordinator.state_is_refused(), [1]);
        assert!(next_state(&mut coordinator).is_none(), "it asks again");
    }

    #[test]
    fn a_bit_is_set_while_any_lane_needs_it() {
        let mut coordinator = coordinator(&[false; 2], vec![7], Synced::All);
        coordinator.ask(0, MetadataUpdate::Intent { set: vec![3], clear: vec![7] });
        let first = coordinator.next();
        assert!(matches!(&first, Some(MetadataUpdate::Intent { set, clear }) if *set == [3] && clear.is_empty()), "{first:?}");
        assert_eq!(coordinator.recorded(), [0]);
        coordinator.ask(0, MetadataUpdate::Intent { set: vec![], clear: vec![3] });
        coordinator.ask(1, MetadataUpdate::Intent { set: vec![3], clear: vec![7] });
        let both = coordinator.next();
        assert!(matches!(&both, Some(MetadataUpdate::Intent { set, clear }) if *set == [3] && *clear == [7]), "{both:?}");
        assert_eq!(coordinator.recorded(), [0, 1]);
    }

    #[test]
    fn logs_begin_anew_once() {
        let mut coordinator = coordinator(&[false; 2], Vec::new(), Synced::All);
        coordinator.ask(0, MetadataUpdate::ResetLog);
        assert!(matches!(coordinator.next(), Some(MetadataUpdate::ResetLog)));
        coordinator.log_is_reset();
        assert_eq!(coordinator.recorded(), [0]);
        coordinator.ask(1, MetadataUpdate::ResetLog);
        assert_eq!(coordinator.done_already(), [1]);
        assert!(coordinator.next().is_none());
    }

    #[test]
    fn bad_blocks_of_all_lanes_are_kept_and_those_that_one_has_healed_are_not() {
        let found = BTreeMap::from([(MemberId(0), [0..8, 100..108, 200..208].map(MemberSector::span).to_vec())]);
        let mut coordinator = Coordinator::new(&state(true, Synced::All, &[]), &[false; 2], None, found);
        let mut ask = |lane: usize, blocks: Vec<Range<u64>>| {
            let blocks = blocks.into_iter().map(MemberSector::span).collect();
            coordinator.ask(lane, MetadataUpdate::BadBlocks { member: MemberId(0), blocks });
            let Some(MetadataUpdate::BadBlocks { blocks, .. }) = coordinator.next() else { panic!("it can be recorded") };
            assert_eq!(coordinator.recorded(), [lane]);
            blocks.into_iter().map(|range| range.start.get()..range.end.get()).collect::<Vec<_>>()
        };
        assert_eq!(ask(0, vec![0..8, 100..116, 200..208]), [0..8, 100..116, 200..208]);
        assert_eq!(ask(1, vec![4..8, 100..108, 200..208]), [4..8, 100..116, 200..208], "half of the first was written by lane 1");
        assert_eq!(ask(0, vec![0..8, 200..208]), [4..8, 200..208], "lane 0 has healed what it knew of the second");
    }

    #[test]
    fn bad_blocks_that_no_list_names_yet_are_known() {
        let mut coordinator = coordinator(&[false; 2], Vec::new(), Synced::All);
        let members = [MemberId(0), MemberId(1)];
        assert_eq!(members.map(|member| coordinator.has_bad_blocks(member)), [false, false]);
        let update = MetadataUpdate::BadBlocks { member: MemberId(1), blocks: vec![MemberSector::span(0..8)] };
        coordinator.ask(1, update);
        assert_eq!(members.map(|member| coordinator.has_bad_blocks(member)), [false, true], "before an update");
        coordinator.next().expect("it can be recorded");
        assert_eq!(members.map(|member| coordinator.has_bad_blocks(member)), [false, true]);
    }
}
