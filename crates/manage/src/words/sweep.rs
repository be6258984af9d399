//! The sentences of why a sweep cannot go on.

use crate::words::error::{Cause, ErrorSentence, Words};
use crate::words::io;
use stria_array::SweepFault;

/// The sentence of a fault; `None`: it has text alone, which the drive gave.
pub fn said_of(fault: &SweepFault) -> Option<ErrorSentence> {
    use ErrorSentence as Say;
    Some(match fault {
        SweepFault::Io(error) => return io::said_of(error),
        SweepFault::ArrayStops => Say::SweepArrayStops {},
        SweepFault::ArrayFailed => Say::SweepArrayFailed {},
        SweepFault::TargetFailed { drive } => Say::SweepTargetFailed { drive: drive.clone() },
        SweepFault::NoCopy { start_sector } => Say::SweepNoCopy { sector: start_sector.to_string() },
        SweepFault::NoCopyOfRow { row, slot } => Say::SweepNoCopyOfRow { row: row.to_string(), slot: *slot },
        SweepFault::BadBlocksFull { reason } => {
            Say::SweepBadBlocksFull { reason: reason.to_string(), cause: Cause::from(said_of(reason)) }
        }
        SweepFault::Unreconstructible { row } => Say::SweepUnreconstructible { row: row.to_string() },
        SweepFault::LogCannotBegin { reason } => {
            let (reason, cause) = Words::from(reason).parts();
            Say::SweepLogCannotBegin { reason, cause }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stria_block::{ErrorKind, IoError};

    /// Programs get the sentence, and logs the engine's own text: both say the same.
    #[test]
    fn a_fault_of_a_sweep_and_its_sentence_have_the_same_words() {
        let faults = [
            SweepFault::ArrayStops,
            SweepFault::ArrayFailed,
            SweepFault::TargetFailed { drive: "/dev/sdb".into() },
            SweepFault::NoCopy { start_sector: 1 << 40 },
            SweepFault::NoCopyOfRow { row: 4096, slot: 3 },
            SweepFault::Unreconstructible { row: 4096 },
            SweepFault::BadBlocksFull { reason: Box::new(SweepFault::Unreconstructible { row: 8 }) },
            SweepFault::LogCannotBegin { reason: IoError::new(ErrorKind::Other, "it rains") },
        ];
        for fault in faults {
            assert_eq!(said_of(&fault).map(|said| said.to_string()), Some(fault.to_string()));
        }
        let of_drive = SweepFault::Io(IoError::new(ErrorKind::Other, "it rains"));
        assert_eq!(said_of(&of_drive), None, "a drive's words are nobody's sentence");
    }
}
