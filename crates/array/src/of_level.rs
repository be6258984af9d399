//! Which implementation a level has.

/// Evaluates an expression for the personality of an array, which it calls by the name that stands before the arrow.
macro_rules! of_level {
    ($core:expr, $personality:ident => $what:expr) => {
        match $core.geometry.level() {
            $crate::Level::Linear | $crate::Level::Raid0 => {
                type $personality = $crate::striped::Striped;
                $what
            }
            $crate::Level::Raid1 | $crate::Level::Raid10 => {
                type $personality = $crate::mirror::Mirror;
                $what
            }
            $crate::Level::Raid4 | $crate::Level::Raid5 | $crate::Level::Raid6 => {
                type $personality = $crate::parity::Parity;
                $what
            }
        }
    };
}
pub(crate) use of_level;
