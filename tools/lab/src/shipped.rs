//! The experiments that come with the program: those of published reviews of arrays, SNIA's tests, and the life of an array.

/// File name and text.
pub const EXPERIMENTS: &[(&str, &str)] = &[
    ("quick.toml", include_str!("../experiments/quick.toml")),
    ("scaling.toml", include_str!("../experiments/scaling.toml")),
    ("queue-depth.toml", include_str!("../experiments/queue-depth.toml")),
    ("access-suite.toml", include_str!("../experiments/access-suite.toml")),
    ("block-mix.toml", include_str!("../experiments/block-mix.toml")),
    ("threads.toml", include_str!("../experiments/threads.toml")),
    ("many-drives.toml", include_str!("../experiments/many-drives.toml")),
    ("read-share.toml", include_str!("../experiments/read-share.toml")),
    ("trim.toml", include_str!("../experiments/trim.toml")),
    ("depth-threads.toml", include_str!("../experiments/depth-threads.toml")),
    ("places.toml", include_str!("../experiments/places.toml")),
    ("sustained.toml", include_str!("../experiments/sustained.toml")),
    ("app-traces.toml", include_str!("../experiments/app-traces.toml")),
    ("file-copy.toml", include_str!("../experiments/file-copy.toml")),
    ("applications.toml", include_str!("../experiments/applications.toml")),
    ("spread.toml", include_str!("../experiments/spread.toml")),
    ("io-modes.toml", include_str!("../experiments/io-modes.toml")),
    ("compressible.toml", include_str!("../experiments/compressible.toml")),
    ("raid-life.toml", include_str!("../experiments/raid-life.toml")),
    ("snia.toml", include_str!("../experiments/snia.toml")),
    ("snia-iops.toml", include_str!("../experiments/snia-iops.toml")),
    ("snia-throughput.toml", include_str!("../experiments/snia-throughput.toml")),
    ("snia-latency.toml", include_str!("../experiments/snia-latency.toml")),
    ("snia-wsat.toml", include_str!("../experiments/snia-wsat.toml")),
    ("snia-hir.toml", include_str!("../experiments/snia-hir.toml")),
    ("snia-xsr.toml", include_str!("../experiments/snia-xsr.toml")),
    ("snia-dirth.toml", include_str!("../experiments/snia-dirth.toml")),
    ("snia-composite.toml", include_str!("../experiments/snia-composite.toml")),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;

    #[test]
    fn every_shipped_experiment_is_sound_and_named_as_its_file() {
        for (file, text) in EXPERIMENTS {
            let experiment = Experiment::parse(file, text).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(format!("{}.toml", experiment.name), *file);
        }
    }
}
