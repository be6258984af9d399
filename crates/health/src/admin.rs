//! Admin commands to an NVMe controller, by the ioctl of its block device.
//!
//! The only unsafe code of this crate: the kernel writes the answer to an address that the command names, which no safe interface can
//! express. No other program is needed, so this works where smartmontools are not installed. The numbers are those of the NVM Express
//! Base Specification 2.0 and of linux/nvme_ioctl.h.

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use std::ffi::c_void;
use std::os::fd::AsFd;

/// `struct nvme_passthru_cmd`.
const COMMAND_BYTES: usize = 72;
/// `NVME_IOCTL_ADMIN_CMD`: `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
const ADMIN_CMD: Opcode = rustix::ioctl::opcode::read_write::<[u8; COMMAND_BYTES]>(b'N', 0x41);
/// The time limit of a command in the kernel, so that the wait for a drive that hangs ends.
const TIMEOUT_MS: u32 = 10_000;

/// The size of the log: the state of a running test, and the results of the last 20.
pub const SELF_TEST_LOG_BYTES: usize = 564;

/// Commands that change nothing that a host has written.
#[derive(Clone, Copy)]
pub enum AdminCommand {
    /// Get Log Page: SMART / health information, of the controller.
    SmartLog,
    /// Identify: the controller.
    IdentifyController,
    /// Get Log Page: device self-test.
    SelfTestLog,
    /// Device Self-test, of the controller and all namespaces: the drive goes on serving while it runs.
    SelfTest {
        /// All of the media.
        long: bool,
    },
    /// Set Features: the volatile write cache, on or off, until the controller is reset.
    SetWriteCache(bool),
}

impl AdminCommand {
    /// The name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::SmartLog => "its SMART log",
            Self::IdentifyController => "its identity",
            Self::SelfTestLog => "its log of self-tests",
            Self::SelfTest { .. } => "a self-test",
            Self::SetWriteCache(_) => "the switch of its write cache",
        }
    }

    /// Opcode, namespace, length of the answer, and command words 10 and 11.
    fn words(self) -> (u8, u32, usize, u32, u32) {
        match self {
            // Word 10: the page, and its length in words less one.
            Self::SmartLog => (0x02, u32::MAX, 512, 0x02 | (512 / 4 - 1) << 16, 0),
            // Word 10: which structure. 1 is the controller.
            Self::IdentifyController => (0x06, 0, 4096, 1, 0),
            Self::SelfTestLog => (0x02, u32::MAX, SELF_TEST_LOG_BYTES, 0x06 | (SELF_TEST_LOG_BYTES as u32 / 4 - 1) << 16, 0),
            // Word 10: 1 is the short test, 2 the long one. It has no data.
            Self::SelfTest { long } => (0x14, u32::MAX, 0, if long { 2 } else { 1 }, 0),
            // Word 10: which feature. Word 11: its value.
            Self::SetWriteCache(on) => (0x09, 0, 0, 0x06, u32::from(on)),
        }
    }

    /// Sends it, and returns the answer.
    pub fn send(self, device: impl AsFd) -> Result<Vec<u8>, Errno> {
        let (opcode, namespace, length, word_10, word_11) = self.words();
        let mut answer = vec![0_u8; length];
        let mut command = [0_u8; COMMAND_BYTES];
        command[0] = opcode;
        let mut put = |at: usize, bytes: &[u8]| command[at..at + bytes.len()].copy_from_slice(bytes);
        put(4, &namespace.to_ne_bytes());
        if length > 0 {
            put(24, &(answer.as_mut_ptr() as u64).to_ne_bytes());
        }
        put(36, &(length as u32).to_ne_bytes());
        put(40, &word_10.to_ne_bytes());
        put(44, &word_11.to_ne_bytes());
        put(64, &TIMEOUT_MS.to_ne_bytes());
        // SAFETY: the ioctl reads and writes the 72 bytes of `command`, and writes at most `length` bytes at the address in it, which is
        // that of `answer`. Both outlive the call, which returns only once the command has ended.
        match unsafe { ioctl(device, Submit(&mut command)) }? {
            0 => Ok(answer),
            // NVMe's own status: the controller does not know the command, or refuses it.
            _ => Err(Errno::OPNOTSUPP),
        }
    }
}

/// The ioctl. Its result is the command's NVMe status.
struct Submit<'a>(&'a mut [u8; COMMAND_BYTES]);

// SAFETY: the opcode says that the kernel reads and writes `COMMAND_BYTES` bytes at the pointer, which are borrowed for that long.
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
