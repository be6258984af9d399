//! The implementation of each family of levels.

/// Evaluates an expression for the personality of an array, which it calls by the name that stands before the arrow.
macro_rules! of_level {
    ($core:expr, $personality:ident => $what:expr) => {
        match $core.geometry.level().family() {
            $crate::Family::Striped => {
                type $personality = $crate::striped::Striped;
                $what
            }
            $crate::Family::Mirror => {
                type $personality = $crate::mirror::Mirror;
                $what
            }
            $crate::Family::Parity => {
                type $personality = $crate::parity::Parity;
                $what
            }
        }
    };
}
pub(crate) use of_level;
