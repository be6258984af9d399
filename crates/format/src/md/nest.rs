//! Arrays on arrays: from drives to the arrays on them, level by level.
//!
//! What an array carries is its clients' data. It is a member of another array only if its own superblock is marked so, or if
//! the administrator says so. Other arrays are not searched.
//!
//! Which array lies on which is decided here. Drives, bound arrays and how these are read are the caller's ([`Provider`]), so the
//! host and the simulator open arrays by the same code.

use super::assemble::{AssembleError, AssembleErrorKind, Assembly, Options, Stranger, assemble};
use super::member::Candidate;
use super::superblock::SuperblockError;
use super::uuid_text;

/// What a member is made of.
pub enum Source<D, A> {
    /// A drive.
    Drive(D),
    /// An array: a span.
    Array(A),
}

/// Knows drives and arrays that run.
pub trait Provider {
    /// A drive.
    type Drive;
    /// An array that runs.
    type Array;
    /// Why an array cannot be bound or read.
    type Error: From<AssembleError>;

    /// Looks at all arrays of a level before the first of them is bound.
    fn begin_level(&mut self, assemblies: &mut [Assembly]) {
        let _ = assemblies;
    }

    /// Binds an array that can start to its members, by handle. Nothing is written before it is activated.
    ///
    /// # Errors
    /// Why that is impossible.
    fn bind(
        &mut self,
        assembly: &Assembly,
        members: Vec<(&Candidate, Source<Self::Drive, Self::Array>)>,
    ) -> Result<Self::Array, Self::Error>;

    /// Reads from an array what lies on it: the superblock of the array above, or, without an identity, of any array.
    ///
    /// # Errors
    /// Why it cannot be read at all; read errors are noted in the candidate.
    fn read(&mut self, array: &mut Self::Array, upper_uuid: Option<&[u8; 16]>) -> Result<Candidate, Self::Error>;
}

/// What lies on some drives.
pub struct Nested<A> {
    /// Arrays that are not part of another.
    pub arrays: Vec<A>,
    /// Every array that was found, spans before the arrays above them. One that cannot start says so.
    pub assemblies: Vec<Assembly>,
    /// Drives of no array.
    pub strangers: Vec<Stranger>,
}

/// Members with what they are made of, each to be taken once.
type Sources<P> = Vec<(Candidate, Option<Source<<P as Provider>::Drive, <P as Provider>::Array>>)>;

fn bind<P: Provider>(provider: &mut P, assembly: &Assembly, sources: &mut Sources<P>) -> Result<Option<P::Array>, P::Error> {
    let Ok(start) = &assembly.outcome else { return Ok(None) };
    let taken: Vec<_> = start.drives.iter().map(|&drive| sources[drive].1.take().expect("each drive is one member")).collect();
    let members = start.drives.iter().map(|&drive| &sources[drive].0).zip(taken).collect();
    provider.bind(assembly, members).map(Some)
}

fn candidates<P: Provider>(sources: &Sources<P>) -> Vec<Candidate> {
    sources.iter().map(|(candidate, _)| candidate.clone()).collect()
}

/// Finds and binds the arrays on drives. `force`: see [`Options::force`]. Another array is searched for on arrays without a mark
/// `unmarked_depth` levels deep.
///
/// # Errors
/// The provider's.
pub fn nest<P: Provider>(
    provider: &mut P,
    drives: Vec<(Candidate, P::Drive)>,
    force: bool,
    unmarked_depth: u8,
) -> Result<Nested<P::Array>, P::Error> {
    let mut sources: Sources<P> = drives.into_iter().map(|(candidate, drive)| (candidate, Some(Source::Drive(drive)))).collect();
    let mut found = Nested { arrays: Vec::new(), assemblies: Vec::new(), strangers: Vec::new() };
    let mut depth = 0u8;
    while !sources.is_empty() {
        // Members that were away come back only by `add`.
        let how = Options { force, take_back: false, read_only: true };
        let (mut assemblies, outside) = assemble(&candidates::<P>(&sources), &how);
        found.strangers.extend(outside);
        provider.begin_level(&mut assemblies);
        let mut next: Sources<P> = Vec::new();
        for assembly in &mut assemblies {
            let Some(mut array) = bind(provider, assembly, &mut sources)? else { continue };
            let above = match assembly.freshest.span_of {
                Some(upper_uuid) => Some(provider.read(&mut array, Some(&upper_uuid))?),
                None if depth < unmarked_depth => {
                    Some(provider.read(&mut array, None)?).filter(|candidate| candidate.found.is_ok())
                }
                None => None,
            };
            match above {
                None => found.arrays.push(array),
                Some(candidate) => match &candidate.found {
                    Ok(_) => next.push((candidate, Some(Source::Array(array)))),
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

/// Binds an array that was just written on these drives, by its identity. It has no content yet.
///
/// # Errors
/// When it is not there or cannot start, or the provider's.
pub fn bind_new<P: Provider>(
    provider: &mut P,
    drives: Vec<(Candidate, P::Drive)>,
    uuid: &[u8; 16],
) -> Result<P::Array, P::Error> {
    let mut sources: Sources<P> = drives.into_iter().map(|(candidate, drive)| (candidate, Some(Source::Drive(drive)))).collect();
    let how = Options { force: true, take_back: false, read_only: true };
    let (mut assemblies, _) = assemble(&candidates::<P>(&sources), &how);
    provider.begin_level(&mut assemblies);
    let missing = || {
        let reason = "what was just written cannot be read back".into();
        AssembleError { array: uuid_text(uuid), kind: AssembleErrorKind::Damaged, reason }
    };
    let assembly = assemblies.iter().find(|assembly| assembly.uuid == *uuid).ok_or_else(missing)?;
    if let Err(error) = &assembly.outcome {
        return Err(error.clone().into());
    }
    Ok(bind(provider, assembly, &mut sources)?.expect("it can start"))
}

/// Why a span does not start if nothing is left of the array above it.
fn without_upper(span: &Assembly, error: &SuperblockError) -> AssembleError {
    let upper = span.freshest.span_of.map_or_else(String::new, |uuid| uuid_text(&uuid));
    let reason = format!(
        "it is a span of array {upper}, whose superblock is not on it ({error}): either `create` was broken off, and has to be done \
         again, or the first blocks of the span are lost"
    );
    AssembleError { array: span.name.clone(), kind: AssembleErrorKind::Damaged, reason }
}
