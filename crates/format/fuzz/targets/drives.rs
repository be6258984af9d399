//! Members of an array, altered as coverage suggests, with every checksum right: see `tests/mutants.rs`.

#![no_main]

#[path = "../../tests/mutants/mod.rs"]
mod mutants;

use mutants::alter::{Target, by_bytes, targets};
use mutants::life::{Tally, life};
use mutants::scenes::{Scene, all};
use std::sync::LazyLock;
use stria_chance::Chance;

static SCENES: LazyLock<Vec<(Scene, Vec<Target>)>> = LazyLock::new(|| {
    all().into_iter().map(|scene| (targets(&scene.drives), scene)).map(|(targets, scene)| (scene, targets)).collect()
});

// Two bytes for the scene and its use, then those of the changes.
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let &[scene, state, ref changes @ ..] = bytes else { return };
    let (scene, targets) = &SCENES[scene as usize % SCENES.len()];
    let mutant = by_bytes(scene, targets, changes);
    life(scene, &mutant, &mut Chance::from_state(state.into()), &mut Tally::default());
});
