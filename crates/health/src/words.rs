//! The reasons for a verdict, in sentences.

use stria_sentence::sentences;

sentences! {
    /// The reason for a verdict, for programs: `code` stays the same when its words change.
    pub enum HealthSentence {
        ExpectsToFail {} => "the drive itself expects to fail; replace it now",
        DriveReadOnly {} => "the drive has become read-only: it takes no more data; replace it now",
        DriveUnreliable {} => "the drive reports that it has become unreliable, by errors of its media or itself; replace it now",
        PowerLossProtectionFailed {} => "the drive's protection against power loss has failed: a power cut may lose what it has acknowledged; replace it",
        LongSelfTestFailed {} => "the drive's last long self-test failed; replace it",
        ShortSelfTestFailed {} => "the drive's last short self-test failed; replace it",
        WornOut { wear_percent: u16 } => "{wear_percent} % of the rated endurance is used: it may lose data or refuse writes; replace it",
        WornMuch { wear_percent: u16 } => "{wear_percent} % of the rated endurance is used; have a replacement ready before 100 %",
        SpareCapacityShort { spare_percent: u8, least_percent: u8 } => "{spare_percent} % of the spare capacity is left, less than the {least_percent} % it needs; replace it",
        SpareCapacityLow { spare_percent: u8, least_percent: u8 } => "{spare_percent} % of the spare capacity is left, and below {least_percent} % the drive is worn out",
        SpareCapacityUsedUp {} => "the spare capacity is used up; replace it",
        MediaErrorsMany { count: u64 } => "{count} media errors: the drive could not read data that was written to it; replace it",
        MediaErrors { count: u64 } => "{count} media errors: the drive could not read data that was written to it; a scrub repairs the affected data; replace the drive if the number grows",
        PendingSectors { count: u64 } => "{count} sectors cannot be read; a scrub rewrites them; replace the drive if they come back",
        ReallocatedMany { count: u64 } => "{count} sectors were replaced by spare ones: the media wears out; replace it",
        Reallocated { count: u64 } => "{count} sectors were replaced by spare ones; replace the drive if the number grows",
        AboveCriticalTemperature { temperature_c: i32, limit_c: i32 } => "{temperature_c} °C is above the drive's critical limit of {limit_c} °C: cool it now, or it stops or fails",
        TooWarm { temperature_c: i32, limit_c: i32 } => "{temperature_c} °C is above the limit of {limit_c} °C: it slows down and ages; check its cooling",
        LinkErrors { count: u64 } => "{count} transfers arrived damaged: check the cable or the slot, not the drive",
    }
}
