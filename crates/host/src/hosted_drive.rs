//! A drive below an array.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stria_drive::{DriveInfo, DriveWatch, FileDrive, Identity};
use stria_integrity::IntegrityDevice;
use stria_tree::MemberDrive;

/// A drive whose data is verified.
pub(crate) type Checked = IntegrityDevice<FileDrive>;

/// A drive that is a member, and how it answers.
#[derive(Clone)]
pub struct HostedDrive {
    /// The kind of drive.
    pub info: DriveInfo,
    /// The state of its answers.
    pub watch: DriveWatch,
    /// The device that verifies its data, if it has checksums.
    pub(crate) checked: Option<Checked>,
}

impl HostedDrive {
    /// A drive on a ring, without checksums.
    pub(crate) fn of(device: &FileDrive) -> Self {
        Self { info: device.info().clone(), watch: device.watch(), checked: None }
    }
}

impl MemberDrive for HostedDrive {
    type Identity = Identity;

    fn identity(&self) -> Identity {
        self.info.identity
    }

    fn name(&self) -> String {
        self.info.path.display().to_string()
    }

    fn is_cut_short(&self) -> bool {
        self.watch.look_at_size();
        self.cut_short().load(Ordering::SeqCst)
    }

    fn cut_short(&self) -> Arc<AtomicBool> {
        self.watch.drive().map_or_else(Arc::default, |drive| drive.cut_short())
    }

    /// Writes all checksums back. Those that cannot be written become unknown at the next start.
    fn close(&self) -> bool {
        self.checked.as_ref().is_none_or(|checked| {
            checked.close();
            checked.closed().is_some()
        })
    }
}

impl Deref for HostedDrive {
    type Target = DriveInfo;
    fn deref(&self) -> &DriveInfo {
        &self.info
    }
}
