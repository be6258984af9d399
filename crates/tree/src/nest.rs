//! Arrays on arrays: from drives to the arrays on them, level by level.
//!
//! The contents of an array are its clients' data. It is a member of another array only if its own superblock is marked so, or if
//! the administrator says so. Other arrays are not searched.
//!
//! Everything is read before anything is written. The result is plans: an array is bound from its plan, on every lane alike.

use crate::plan::{Plan, PlannedMember};
use stria_format::md::assemble::{AssembleError, AssembleErrorKind, Assembly, Obstacle, Options, Stranger, assemble};
use stria_format::md::superblock::SuperblockError;
use stria_format::md::{Candidate, uuid_text};

/// Knows the drives, and reads from arrays that are only planned.
pub trait Provider {
    /// A drive, as it was found.
    type Drive;
    /// A drive that can be bound on any lane: whatever may wait for the drive is done.
    type Ready: Clone;
    /// Why an array cannot be bound or read.
    type Error: From<AssembleError>;

    /// Sees all arrays of a level before the first of them is planned.
    fn begin_level(&mut self, assemblies: &mut [Assembly]) {
        let _ = assemblies;
    }

    /// Makes a member's drive ready to be bound.
    ///
    /// # Errors
    /// Why that is impossible.
    fn prepare(&mut self, drive: Self::Drive, candidate: &Candidate) -> Result<Self::Ready, Self::Error>;

    /// Reads from an array what lies on it: the superblock of the array above, or, without an identity, of any array. The array
    /// is bound for that alone, and not activated.
    ///
    /// # Errors
    /// Why it cannot be read at all; read errors are noted in the candidate.
    fn read(&mut self, array: &Plan<Self::Ready>, upper_uuid: Option<&[u8; 16]>) -> Result<Candidate, Self::Error>;

    /// An error of one array in words: that array does not start, and the search goes on. `None`: the search ends.
    fn refusal(error: &Self::Error) -> Option<String> {
        let _ = error;
        None
    }
}

/// The arrays on some drives. `E`: why a provider could not make one ready, or read it.
pub struct Nested<R, E> {
    /// Arrays that are not part of another.
    pub arrays: Vec<Plan<R>>,
    /// Every array that was found, spans before the arrays above them. One that cannot start says so.
    pub assemblies: Vec<Assembly>,
    /// Drives of no array.
    pub strangers: Vec<Stranger>,
    /// The provider's errors that kept an array from starting. Its assembly has the same in words.
    pub refused: Vec<E>,
}

impl<R, E> Nested<R, E> {
    /// An array cannot be made ready, or not be read: the others are found all the same.
    fn refuse<P: Provider<Error = E>>(&mut self, assembly: &mut Assembly, error: E) -> Result<(), E> {
        let Some(fault) = P::refusal(&error) else { return Err(error) };
        let kind = AssembleErrorKind::Unserved;
        assembly.outcome = Err(AssembleError { array: assembly.name.clone(), kind, reason: Obstacle::Unready { fault } });
        self.refused.push(error);
        Ok(())
    }
}

/// What a member consists of.
enum Source<D, R> {
    Drive(D),
    Array(Box<Plan<R>>),
}

/// Members with what they consist of, each to be taken once.
type Sources<P> = Vec<(Candidate, Option<Source<<P as Provider>::Drive, <P as Provider>::Ready>>)>;

fn plan<P: Provider>(
    provider: &mut P,
    assembly: &Assembly,
    sources: &mut Sources<P>,
) -> Result<Option<Plan<P::Ready>>, P::Error> {
    let Ok(start) = &assembly.outcome else { return Ok(None) };
    let mut members = Vec::new();
    for &drive in &start.drives {
        let (candidate, source) = &mut sources[drive];
        members.push(match source.take().expect("each drive is one member") {
            Source::Drive(drive) => PlannedMember::Drive(provider.prepare(drive, candidate)?),
            Source::Array(span) => PlannedMember::Array(span),
        });
    }
    Ok(Some(Plan::new(assembly.uuid, start.clone(), members)))
}

fn sources_of<P: Provider>(drives: Vec<(Candidate, P::Drive)>) -> Sources<P> {
    drives.into_iter().map(|(candidate, drive)| (candidate, Some(Source::Drive(drive)))).collect()
}

fn candidates<P: Provider>(sources: &Sources<P>) -> Vec<Candidate> {
    sources.iter().map(|(candidate, _)| candidate.clone()).collect()
}

/// Finds the arrays on drives. `force`: see [`Options::force`]. Another array is searched for on arrays without a mark
/// `unmarked_depth` levels deep.
///
/// # Errors
/// Those of the provider that concern more than one array.
pub fn nest<P: Provider>(
    provider: &mut P,
    drives: Vec<(Candidate, P::Drive)>,
    force: bool,
    unmarked_depth: u8,
) -> Result<Nested<P::Ready, P::Error>, P::Error> {
    let mut sources = sources_of::<P>(drives);
    let mut found = Nested { arrays: Vec::new(), assemblies: Vec::new(), strangers: Vec::new(), refused: Vec::new() };
    let mut depth = 0u8;
    while !sources.is_empty() {
        // Members that were away come back only by `add`.
        let how = Options { force, take_back: false, read_only: true };
        let (mut assemblies, outside) = assemble(&candidates::<P>(&sources), &how);
        found.strangers.extend(outside);
        provider.begin_level(&mut assemblies);
        let mut next: Sources<P> = Vec::new();
        for assembly in &mut assemblies {
            let array = match plan(provider, assembly, &mut sources) {
                Ok(Some(array)) => array,
                Ok(None) => continue,
                Err(error) => {
                    found.refuse::<P>(assembly, error)?;
                    continue;
                }
            };
            let above = match assembly.freshest.span_of {
                Some(upper_uuid) => provider.read(&array, Some(&upper_uuid)).map(Some),
                None if depth < unmarked_depth => {
                    provider.read(&array, None).map(|candidate| Some(candidate).filter(|candidate| candidate.found.is_ok()))
                }
                None => Ok(None),
            };
            match above {
                Err(error) => found.refuse::<P>(assembly, error)?,
                Ok(None) => found.arrays.push(array),
                Ok(Some(candidate)) => match &candidate.found {
                    Ok(_) => next.push((candidate, Some(Source::Array(Box::new(array))))),
                    Err(error) => assembly.outcome = Err(without_upper(assembly, error)),
                },
            }
        }
        found.assemblies.extend(assemblies);
        sources = next;
        depth = depth.saturating_add(1);
    }
    Ok(found)
}

/// Plans an array that was just written on these drives, by its identity. It has no content yet, so it starts with force.
///
/// # Errors
/// The array is not there or cannot start, or the provider failed.
pub fn plan_new<P: Provider>(
    provider: &mut P,
    drives: Vec<(Candidate, P::Drive)>,
    uuid: &[u8; 16],
) -> Result<Plan<P::Ready>, P::Error> {
    plan_one(provider, drives, uuid, true)
}

/// Plans an array that has content, by its identity, without what lies on it and without force.
///
/// # Errors
/// As [`plan_new`].
pub fn plan_known<P: Provider>(
    provider: &mut P,
    drives: Vec<(Candidate, P::Drive)>,
    uuid: &[u8; 16],
) -> Result<Plan<P::Ready>, P::Error> {
    plan_one(provider, drives, uuid, false)
}

fn plan_one<P: Provider>(
    provider: &mut P,
    drives: Vec<(Candidate, P::Drive)>,
    uuid: &[u8; 16],
    is_new: bool,
) -> Result<Plan<P::Ready>, P::Error> {
    let mut sources = sources_of::<P>(drives);
    let how = Options { force: is_new, take_back: false, read_only: true };
    let (mut assemblies, _) = assemble(&candidates::<P>(&sources), &how);
    provider.begin_level(&mut assemblies);
    let missing = || {
        let reason = match is_new {
            true => Obstacle::NotReadBack,
            false => Obstacle::Gone,
        };
        AssembleError { array: uuid_text(uuid), kind: AssembleErrorKind::Damaged, reason }
    };
    let assembly = assemblies.iter().find(|assembly| assembly.uuid == *uuid).ok_or_else(missing)?;
    if let Err(error) = &assembly.outcome {
        return Err(error.clone().into());
    }
    Ok(plan(provider, assembly, &mut sources)?.expect("it can start"))
}

/// Why a span does not start if nothing is left of the array above it.
fn without_upper(span: &Assembly, error: &SuperblockError) -> AssembleError {
    let upper = span.freshest.span_of.map_or_else(String::new, |uuid| uuid_text(&uuid));
    let reason = Obstacle::WithoutUpper { upper, fault: error.to_string() };
    AssembleError { array: span.name.clone(), kind: AssembleErrorKind::Damaged, reason }
}
