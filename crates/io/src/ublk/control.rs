//! `/dev/ublk-control`: devices come and go. Each call waits until the driver has answered, so none
//! is for a loop.

use super::device::path_of;
use super::encoding::{INFO_BYTES, Info, PARAMETER_BYTES, UblkParameters, command, control};
use crate::kernel_file;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use weft_base::lock::Lock;

/// The control device, opened.
pub struct UblkControl {
    file: File,
    ring: Lock<IoUring<squeue::Entry128, cqueue::Entry>>,
    features: u64,
}

/// One command.
struct Command<'a> {
    number: u32,
    device: u32,
    data: u64,
    /// Data that the driver reads or writes.
    payload: &'a mut [u8],
    /// The driver wants to know by which path the caller reaches the device.
    has_path: bool,
}

impl UblkControl {
    /// Opens it, and asks what the driver can do.
    pub fn open() -> io::Result<Self> {
        let file = kernel_file::open("/dev/ublk-control")?;
        let ring = Lock::new(IoUring::builder().build(4)?);
        let mut this = Self { file, ring, features: 0 };
        let mut features = [0; 8];
        match this.ask(Command::new(command::GET_FEATURES, u32::MAX, &mut features)) {
            Ok(()) => this.features = u64::from_ne_bytes(features),
            // Drivers before Linux 6.5 do not tell, and can nothing that we would ask for.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(e),
            Err(_) => {}
        }
        Ok(this)
    }

    /// Bits of what the driver can do (see [`super::flag`]).
    pub fn features(&self) -> u64 {
        self.features
    }

    fn ask(&self, command: Command<'_>) -> io::Result<()> {
        let (mut buffer, path_len) = command.buffer();
        let place = (buffer.as_mut_ptr() as u64, buffer.len() as u16);
        let bytes = control(command.device, place, command.data, path_len as u16);
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, command.number).cmd(bytes).build();
        let mut ring = self.ring.lock();
        // SAFETY: the buffer and the file outlive the command, for whose end is waited below.
        unsafe { ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::WouldBlock)?;
        let result = loop {
            match ring.submit_and_wait(1) {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => {
                    // The driver may have the buffer yet.
                    core::mem::forget(buffer);
                    return Err(e);
                }
                _ => {}
            }
            if let Some(entry) = ring.completion().next() {
                break entry.result();
            }
        };
        command.payload.copy_from_slice(&buffer[path_len..]);
        if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
    }

    /// Makes a device; `device` of `info` may be `u32::MAX` for any number. What it has become.
    pub fn add(&self, info: &Info) -> io::Result<Info> {
        let mut bytes = info.encode();
        self.ask(Command::new(command::ADD_DEV, info.device, &mut bytes))?;
        Ok(Info::decode(&bytes))
    }

    /// Returns the driver's information about a device.
    pub fn info(&self, device: u32) -> io::Result<Info> {
        let mut bytes = [0; INFO_BYTES];
        let command = Command::new(command::GET_DEV_INFO2, device, &mut bytes);
        self.ask(Command { has_path: true, ..command })?;
        Ok(Info::decode(&bytes))
    }

    fn bare(&self, number: u32, info: &Info, data: u64) -> io::Result<()> {
        self.ask(Command { data, ..Command::of(number, info, &mut []) })
    }

    /// Says what kind of disk a device is, before it starts.
    pub fn set_parameters(&self, info: &Info, parameters: &UblkParameters) -> io::Result<()> {
        self.ask(Command::of(command::SET_PARAMS, info, &mut parameters.encode()))
    }

    /// The bytes of a block and the sectors of a device.
    pub fn size(&self, info: &Info) -> io::Result<(u32, u64)> {
        let mut bytes = [0; PARAMETER_BYTES];
        bytes[..4].copy_from_slice(&(PARAMETER_BYTES as u32).to_ne_bytes());
        self.ask(Command::of(command::GET_PARAMS, info, &mut bytes))?;
        Ok(UblkParameters::decode_size(&bytes))
    }

    /// Makes the disk of a device appear, when all its queues are served by this process.
    pub fn start(&self, info: &Info) -> io::Result<()> {
        self.bare(command::START_DEV, info, std::process::id().into())
    }

    /// Takes the disk away. Its queues hear of it.
    pub fn stop(&self, info: &Info) -> io::Result<()> {
        self.bare(command::STOP_DEV, info, 0)
    }

    /// Removes a device; waits until nobody has it open.
    pub fn delete(&self, info: &Info) -> io::Result<()> {
        self.bare(command::DEL_DEV, info, 0)
    }

    /// Begins to take over a device whose server is gone.
    pub fn begin_recovery(&self, info: &Info) -> io::Result<()> {
        self.bare(command::START_USER_RECOVERY, info, 0)
    }

    /// All its queues are served by this process: it goes on.
    pub fn end_recovery(&self, info: &Info) -> io::Result<()> {
        self.bare(command::END_USER_RECOVERY, info, std::process::id().into())
    }

    /// A device has this many sectors now.
    pub fn resize(&self, info: &Info, sectors: u64) -> io::Result<()> {
        self.bare(command::UPDATE_SIZE, info, sectors)
    }
}

impl<'a> Command<'a> {
    fn new(number: u32, device: u32, payload: &'a mut [u8]) -> Self {
        Self { number, device, data: 0, payload, has_path: false }
    }

    /// A command for a device that is there.
    fn of(number: u32, info: &Info, payload: &'a mut [u8]) -> Self {
        Self { has_path: info.is_of_user(), ..Self::new(number, info.device, payload) }
    }

    /// Returns the buffer for the driver: in front of the payload the path with a zero, if it is
    /// requested, and the length of that.
    fn buffer(&self) -> (Vec<u8>, usize) {
        let path = format!("{}\0", path_of(self.device));
        let path = if self.has_path { path.as_bytes() } else { &[] };
        ([path, &*self.payload].concat(), path.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ublk::{State, flag};

    fn info(flags: u64) -> Info {
        Info {
            device: 12,
            queues: 1,
            depth: 8,
            state: State::Dead,
            request_bytes: 4096,
            flags,
            process: 1,
            label: 0,
            owner: (1000, 1000),
        }
    }

    #[test]
    fn a_command_for_a_device_of_a_user_names_its_path_in_front() {
        let mut payload = [7; 4];
        let of_user = info(flag::UNPRIVILEGED_DEV);
        let command = Command::of(command::SET_PARAMS, &of_user, &mut payload);
        let (buffer, path_len) = command.buffer();
        assert_eq!(buffer, b"/dev/ublkc12\0\x07\x07\x07\x07");
        assert_eq!(path_len, 13);
        let bytes = control(12, (0x1234, buffer.len() as u16), 0, path_len as u16);
        assert_eq!(bytes[6..8], 17u16.to_ne_bytes(), "the length of both");
        assert_eq!(bytes[8..16], 0x1234u64.to_ne_bytes());
        assert_eq!(bytes[24..26], 13u16.to_ne_bytes(), "the length of the path");
    }

    #[test]
    fn a_bare_command_for_a_device_of_a_user_has_its_path_alone() {
        let of_user = info(flag::UNPRIVILEGED_DEV);
        let (buffer, path_len) = Command::of(command::START_DEV, &of_user, &mut []).buffer();
        assert_eq!((buffer.as_slice(), path_len), (&b"/dev/ublkc12\0"[..], 13));
    }

    #[test]
    fn other_commands_have_no_path() {
        let mut payload = [7; 4];
        let (of_root, of_user) = (info(flag::USER_COPY), info(flag::UNPRIVILEGED_DEV));
        let (buffer, path_len) = Command::of(command::SET_PARAMS, &of_root, &mut payload).buffer();
        assert_eq!((buffer.as_slice(), path_len), (&[7; 4][..], 0));
        // The device is not there yet.
        let mut bytes = of_user.encode();
        let (buffer, path_len) = Command::new(command::ADD_DEV, 12, &mut bytes).buffer();
        assert_eq!((buffer.len(), path_len), (INFO_BYTES, 0));
    }
}
