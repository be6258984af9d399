//! The storage traces of PCMark 8, by their published totals: a desktop's applications.
//!
//! Their makers published operations by kind and order, and megabytes. The sizes of requests follow: if requests at random have
//! 4 KiB, the bytes that are left make requests in order of 127 KiB in the traces that write most.

/// The published totals of one application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Application {
    pub name: &'static str,
    pub sequential_reads: u64,
    pub random_reads: u64,
    pub sequential_writes: u64,
    pub random_writes: u64,
    /// 10^6 bytes.
    pub read_mb: u64,
    /// 10^6 bytes.
    pub written_mb: u64,
}

const fn application(name: &'static str, reads: [u64; 2], writes: [u64; 2], megabytes: [u64; 2]) -> Application {
    Application {
        name,
        sequential_reads: reads[0],
        random_reads: reads[1],
        sequential_writes: writes[0],
        random_writes: writes[1],
        read_mb: megabytes[0],
        written_mb: megabytes[1],
    }
}

/// All of them.
pub const APPLICATIONS: [Application; 10] = [
    application("photoshop-light", [1508, 17525], [18342, 1743], [313, 2336]),
    application("photoshop-heavy", [4277, 18655], [44742, 2065], [468, 5640]),
    application("illustrator", [1036, 21923], [682, 532], [373, 89]),
    application("indesign", [2359, 22207], [4874, 927], [401, 624]),
    application("after-effects", [1772, 17793], [86, 500], [311, 16]),
    application("word", [152, 4302], [748, 205], [107, 95]),
    application("excel", [72, 3148], [119, 87], [73, 15]),
    application("powerpoint", [56, 3441], [147, 107], [83, 21]),
    application("world-of-warcraft", [1415, 14927], [10, 659], [390, 5]),
    application("battlefield-3", [5782, 43487], [218, 431], [887, 28]),
];

/// Bytes of a request at random.
pub const SMALL_BYTES: u64 = 4096;

/// The speeds of a drive or an array that decide how long an application waits for it.
#[derive(Clone, Copy, Debug)]
pub struct Speeds {
    /// Requests a second of [`SMALL_BYTES`] at random, one under way: reads and writes.
    pub small: [f64; 2],
    /// Bytes a second in order: reads and writes.
    pub large: [f64; 2],
}

impl Application {
    /// The application of this name.
    pub fn named(name: &str) -> Option<Self> {
        APPLICATIONS.into_iter().find(|application| application.name == name)
    }

    /// Seconds that it spends on small reads and writes, and on large ones.
    pub fn seconds(&self, speeds: &Speeds) -> [f64; 4] {
        let large = |megabytes: u64, random: u64| (megabytes * 1_000_000).saturating_sub(random * SMALL_BYTES) as f64;
        [
            self.random_reads as f64 / speeds.small[0],
            self.random_writes as f64 / speeds.small[1],
            large(self.read_mb, self.random_reads) / speeds.large[0],
            large(self.written_mb, self.random_writes) / speeds.large[1],
        ]
    }
}

/// Mean gain of all applications over a drive.
pub fn mean_speed_up(drive: &Speeds, array: &Speeds) -> f64 {
    let seconds = |application: &Application, speeds: &Speeds| application.seconds(speeds).iter().sum::<f64>();
    let gains = APPLICATIONS.iter().map(|application| seconds(application, drive) / seconds(application, array));
    gains.sum::<f64>() / APPLICATIONS.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device of twice all speeds is twice as fast; one of twice the speed in order alone is between.
    #[test]
    fn speed_ups_are_those_of_what_gets_faster() {
        let one = Speeds { small: [10_000.0; 2], large: [5e8, 2e8] };
        let twice = Speeds { small: [20_000.0; 2], large: [1e9, 4e8] };
        assert!((mean_speed_up(&one, &twice) - 2.0).abs() < 1e-9);
        let gain = mean_speed_up(&one, &Speeds { small: one.small, ..twice });
        assert!(gain > 1.2 && gain < 1.8, "{gain}");
    }

    /// The traces that write most do so in order, in requests of 128 KiB: small requests of 4 KiB leave that much to the others.
    #[test]
    fn the_totals_imply_the_sizes() {
        for name in ["photoshop-light", "photoshop-heavy", "indesign"] {
            let of = Application::named(name).expect("it is there");
            let each = (of.written_mb * 1_000_000 - of.random_writes * SMALL_BYTES) / of.sequential_writes;
            assert!((125_000..132_000).contains(&each), "{name}: {each} bytes");
        }
    }
}
