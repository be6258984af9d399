//! Admin commands to an NVMe controller, by the ioctl of its block device.
//!
//! The only unsafe code of this crate: the kernel writes the answer to an address that the command names, which no safe interface
//! can express. No other program is needed, so this works where smartmontools are not installed. The numbers are those of the NVM
//! Express Base Specification 2.0 and of linux/nvme_ioctl.h.

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use std::ffi::c_void;
use std::fs::File;
use std::io;

/// `struct nvme_passthru_cmd`.
pub const COMMAND_BYTES: usize = 72;
/// `NVME_IOCTL_ADMIN_CMD`: `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
const ADMIN_CMD: Opcode = rustix::ioctl::opcode::read_write::<[u8; COMMAND_BYTES]>(b'N', 0x41);
/// The time limit of a command in the kernel, so that the wait for a drive that hangs ends.
const TIMEOUT_MS: u32 = 10_000;
/// The same, of a command that writes firmware into flash memory. The time that the drive announces for its activation is added.
const FIRMWARE_MS: u32 = 120_000;
/// The same, of a Format, which may write every block.
const FORMAT_MS: u32 = 24 * 3600 * 1000;

/// The size of the log: the state of a running test, and the results of the last 20.
pub const SELF_TEST_LOG_BYTES: usize = 564;

/// Takes admin commands: the kernel, by the block device of an NVMe drive. Tests have a controller of their own here.
pub trait Controller {
    /// Carries out a command, without the address and the length of its data, which are those of `data`. Returns its NVMe status.
    ///
    /// # Errors
    /// When the command did not reach the controller.
    fn submit(&self, command: &mut [u8; COMMAND_BYTES], data: &mut [u8]) -> Result<u16, Errno>;
}

/// What becomes of a new firmware image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitAction {
    /// It takes its slot, and runs from the next reset on.
    AtReset,
    /// It takes its slot, and runs at once. Without an image that was sent before, the one in the slot runs.
    AtOnce,
}

/// The commands that this crate sends.
#[derive(Clone, Copy, Debug)]
pub enum AdminCommand {
    /// Get Log Page: SMART / health information, of the controller.
    SmartLog,
    /// Identify: the controller.
    IdentifyController,
    /// Identify: this namespace.
    IdentifyNamespace(u32),
    /// Identify: the numbers of all namespaces that the subsystem has, whether or not this controller reaches them.
    AllocatedNamespaces,
    /// Get Log Page: device self-test.
    SelfTestLog,
    /// Get Log Page: firmware slots.
    FirmwareLog,
    /// Get Log Page: sanitize status.
    SanitizeLog,
    /// Device Self-test, of the controller and all namespaces: the drive goes on serving while it runs.
    SelfTest {
        /// All of the media.
        long: bool,
    },
    /// Set Features: the volatile write cache, on or off, until the controller is reset.
    SetWriteCache(bool),
    /// Firmware Commit.
    FirmwareCommit {
        /// 0: the controller chooses.
        slot: u8,
        /// What becomes of the image.
        action: CommitAction,
        /// The time that the drive announces for an activation.
        activation_ms: u32,
    },
    /// Format NVM: all data of the namespace is erased. `settings`: the format's bits, which stay as they are.
    Format {
        /// The namespace.
        namespace: u32,
        /// Word 10 without the kind of erasure.
        settings: u32,
        /// By the loss of its key, instead of a write to every block.
        cryptographic: bool,
    },
    /// Sanitize: all data of all namespaces is erased, in the background. By the loss of its key, or block by block.
    Sanitize {
        /// By the loss of its key.
        cryptographic: bool,
    },
}

impl AdminCommand {
    /// The name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::SmartLog => "its SMART log",
            Self::IdentifyController => "its identity",
            Self::IdentifyNamespace(_) => "the identity of its namespace",
            Self::AllocatedNamespaces => "the list of its namespaces",
            Self::SelfTestLog => "its log of self-tests",
            Self::FirmwareLog => "its log of firmware slots",
            Self::SanitizeLog => "its sanitize log",
            Self::SelfTest { .. } => "a self-test",
            Self::SetWriteCache(_) => "the switch of its write cache",
            Self::FirmwareCommit { .. } => "Firmware Commit",
            Self::Format { .. } => "Format NVM",
            Self::Sanitize { .. } => "Sanitize",
        }
    }

    /// Opcode, namespace, length of the answer, and command words 10 and 11.
    fn words(self) -> (u8, u32, usize, u32, u32) {
        // Word 10 of Get Log Page: the page, and its length in words less one.
        let log = |page: u32, length: usize| (0x02, u32::MAX, length, page | (length as u32 / 4 - 1) << 16, 0);
        match self {
            Self::SmartLog => log(0x02, 512),
            Self::FirmwareLog => log(0x03, 512),
            Self::SelfTestLog => log(0x06, SELF_TEST_LOG_BYTES),
            Self::SanitizeLog => log(0x81, 512),
            // Word 10: which structure. 0 is the namespace, 1 the controller, 0x10 the list of namespaces above the given number.
            Self::IdentifyController => (0x06, 0, 4096, 1, 0),
            Self::IdentifyNamespace(namespace) => (0x06, namespace, 4096, 0, 0),
            Self::AllocatedNamespaces => (0x06, 0, 4096, 0x10, 0),
            // Word 10: 1 is the short test, 2 the long one. It has no data.
            Self::SelfTest { long } => (0x14, u32::MAX, 0, if long { 2 } else { 1 }, 0),
            // Word 10: which feature. Word 11: its value.
            Self::SetWriteCache(on) => (0x09, 0, 0, 0x06, u32::from(on)),
            // Word 10: the slot in bits 2:0, the action in bits 5:3.
            Self::FirmwareCommit { slot, action, .. } => {
                let action = match action {
                    CommitAction::AtReset => 1,
                    CommitAction::AtOnce => 3,
                };
                (0x10, 0, 0, u32::from(slot) | action << 3, 0)
            }
            // Word 10: the kind of erasure in bits 11:9. 1 writes every block, 2 changes the key.
            Self::Format { namespace, settings, cryptographic } => {
                (0x80, namespace, 0, settings | if cryptographic { 2 } else { 1 } << 9, 0)
            }
            // Word 10: 2 erases blocks, 4 changes the key.
            Self::Sanitize { cryptographic } => (0x84, 0, 0, if cryptographic { 4 } else { 2 }, 0),
        }
    }

    fn patience_ms(self) -> u32 {
        match self {
            Self::FirmwareCommit { activation_ms, .. } => FIRMWARE_MS + activation_ms,
            Self::Format { .. } => FORMAT_MS,
            _ => TIMEOUT_MS,
        }
    }

    /// Sends it, and returns the answer.
    ///
    /// # Errors
    /// When it does not reach the controller, or the controller does not know it or refuses it: the words have the status.
    pub fn send(self, controller: &impl Controller) -> io::Result<Vec<u8>> {
        match self.ask(controller)? {
            (0, answer) => Ok(answer),
            (status, _) => Err(io::Error::other(meaning(status))),
        }
    }

    /// Sends it, and returns its NVMe status and the answer.
    ///
    /// # Errors
    /// When it does not reach the controller.
    pub fn ask(self, controller: &impl Controller) -> Result<(u16, Vec<u8>), Errno> {
        let (opcode, namespace, length, word_10, word_11) = self.words();
        let mut answer = vec![0_u8; length];
        let status = controller.submit(&mut command(opcode, namespace, word_10, word_11, self.patience_ms()), &mut answer)?;
        Ok((status, answer))
    }
}

/// Firmware Image Download: a part of an image goes into the controller's memory. Returns the NVMe status.
///
/// # Errors
/// When the command did not reach the controller.
pub fn firmware_download(controller: &impl Controller, offset_bytes: usize, part: &[u8]) -> Result<u16, Errno> {
    assert!(!part.is_empty() && part.len().is_multiple_of(4) && offset_bytes.is_multiple_of(4), "NVMe counts in words");
    // Word 10: the length in words less one. Word 11: the offset in words.
    let (length, offset) = (part.len() as u32 / 4 - 1, offset_bytes as u32 / 4);
    controller.submit(&mut command(0x11, 0, length, offset, FIRMWARE_MS), &mut part.to_vec())
}

/// Get Features: whether the volatile write cache is on.
///
/// # Errors
/// When the command does not reach the controller, or it has no such feature.
pub fn write_cache(controller: &impl Controller) -> Result<bool, Errno> {
    // Word 10: which feature.
    let mut command = command(0x0a, 0, 0x06, 0, TIMEOUT_MS);
    match controller.submit(&mut command, &mut [])? {
        // The kernel leaves the first word of the completion in `result`.
        0 => Ok(command[68..72].try_into().map(u32::from_ne_bytes).is_ok_and(|result| result & 1 != 0)),
        _ => Err(Errno::OPNOTSUPP),
    }
}

/// The NVMe status of a command in words: the type of status in bits 10:8, the code below.
pub fn meaning(status: u16) -> String {
    let words = match status {
        0x001 => "it does not know the command",
        0x002 => "a field of the command is invalid",
        0x006 => "it has an internal error",
        0x106 => "there is no such firmware slot",
        0x107 => "the image is not valid for this drive",
        0x109 => "it has no such log",
        0x113 => "the drive prohibits this image, for instance an older one",
        0x114 => "the parts of the image overlap",
        0x11d => "a self-test runs already",
        _ => return format!("NVMe status {status:#05x}"),
    };
    format!("{words}, NVMe status {status:#05x}")
}

fn command(opcode: u8, namespace: u32, word_10: u32, word_11: u32, patience_ms: u32) -> [u8; COMMAND_BYTES] {
    let mut command = [0_u8; COMMAND_BYTES];
    command[0] = opcode;
    for (at, value) in [(4, namespace), (40, word_10), (44, word_11), (64, patience_ms)] {
        command[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    command
}

impl Controller for File {
    fn submit(&self, command: &mut [u8; COMMAND_BYTES], data: &mut [u8]) -> Result<u16, Errno> {
        if !data.is_empty() {
            command[24..32].copy_from_slice(&(data.as_mut_ptr() as u64).to_ne_bytes());
        }
        command[36..40].copy_from_slice(&(data.len() as u32).to_ne_bytes());
        // SAFETY: the ioctl reads and writes the 72 bytes of `command`, and reads or writes at most `data.len()` bytes at the
        // address in it, which is that of `data`. Both are borrowed for the call, which returns only once the command has ended.
        let status = unsafe { ioctl(self, Submit(command)) }?;
        // The bits above are no part of the status: more, and do not retry.
        Ok((status & 0x7ff) as u16)
    }
}

/// The ioctl. Its result is the command's NVMe status.
struct Submit<'a>(&'a mut [u8; COMMAND_BYTES]);

// SAFETY: the opcode says that the kernel reads and writes `COMMAND_BYTES` bytes at the pointer, which are borrowed for that
// long.
unsafe impl Ioctl for Submit<'_> {
    type Output = IoctlOutput;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        ADMIN_CMD
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(result: IoctlOutput, _: *mut c_void) -> rustix::io::Result<IoctlOutput> {
        Ok(result)
    }
}
