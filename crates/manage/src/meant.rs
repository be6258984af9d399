//! The array that a command means, found on drives.

use crate::config::{Uuid, images};
use crate::view::there_are;
use crate::words::error::{ErrorSentence, Told};
use std::path::{Path, PathBuf};
use stria_block::shown;
use stria_format::md::Assembly;
use stria_host::{Found, OpenOptions, block_devices, find, find_readable, short_name};

/// The arrays on these drives, or on all block devices and the image files of the configuration `config` if none is named; and
/// the drives.
pub fn look(drives: &[PathBuf], config: &Path) -> Result<(Vec<Assembly>, Vec<PathBuf>), Told> {
    let options = OpenOptions { read_only: true, force: true, ..OpenOptions::default() };
    let found = find_on(drives, config, options)?;
    let members = drives_of(&found.assemblies);
    Ok((found.assemblies, members))
}

/// What lies on these drives, or else on all that [`look`] looks at.
pub fn find_on(drives: &[PathBuf], config: &Path, options: OpenOptions) -> Result<Found, Told> {
    if !drives.is_empty() {
        return Ok(find(drives, options)?);
    }
    let mut everywhere = block_devices();
    everywhere.extend(images(config));
    everywhere.sort();
    everywhere.dedup();
    Ok(find_readable(&everywhere, options)?.0)
}

/// The drives of arrays that are here.
pub fn drives_of<'a>(assemblies: impl IntoIterator<Item = &'a Assembly>) -> Vec<PathBuf> {
    let drives = assemblies.into_iter().flat_map(|assembly| &assembly.drives);
    drives.map(|drive| PathBuf::from(&drive.name)).filter(|path| path.exists()).collect()
}

/// The arrays of the tree: the array, and its spans.
pub fn tree<'a>(assemblies: &'a [Assembly], array: &Assembly) -> Vec<&'a Assembly> {
    let uuid = array.uuid;
    assemblies.iter().filter(|one| one.uuid == uuid || one.freshest.span_of == Some(uuid)).collect()
}

/// The drives of these arrays, each once. An array of spans has no drives of its own.
pub fn drives(arrays: &[&Assembly]) -> Vec<PathBuf> {
    let names = arrays.iter().flat_map(|array| &array.drives).map(|drive| PathBuf::from(&drive.name));
    let mut paths: Vec<PathBuf> = names.filter(|path| path.is_absolute()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The refusal after an array was created and cannot be read back.
pub fn cannot_be_read_back(name: &str) -> ErrorSentence {
    ErrorSentence::NotReadBack { array: name.to_owned() }
}

/// The one array that is meant, by name, UUID, or because there is no other.
pub fn chosen<'a>(assemblies: &'a [Assembly], names: &[String]) -> Result<&'a Assembly, Told> {
    let is_named =
        |one: &Assembly, name: &String| one.name == *name || short_name(&one.name) == name || name.parse() == Ok(Uuid(one.uuid));
    let fits =
        |one: &&Assembly| names.iter().any(|name| is_named(one, name)) || (names.is_empty() && one.freshest.span_of.is_none());
    let found: Vec<&Assembly> = assemblies.iter().filter(fits).collect();
    let list = |arrays: &[&Assembly]| {
        let each = arrays.iter().map(|one| format!("{} ({})", shown(&one.name), Uuid(one.uuid)));
        each.collect::<Vec<_>>().join(", ")
    };
    match &found[..] {
        [one] => match one.freshest.span_of {
            None => Ok(one),
            Some(upper) => Err(Told::usage(ErrorSentence::IsSpan { span: one.name.clone(), array: Uuid(upper).to_string() })),
        },
        [] if names.is_empty() => Err(ErrorSentence::NoArrayOnDrives {}.into()),
        [] => {
            let known: Vec<String> = assemblies.iter().map(|one| list(&[one])).collect();
            let (array, there_are) = (names.join(", "), there_are(&known));
            Err(ErrorSentence::NoSuchArrayOnDrives { array, there_are }.into())
        }
        several => Err(Told::usage(ErrorSentence::SeveralMatch { list: list(several) })),
    }
}
