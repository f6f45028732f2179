//! One queue of a device: a ring of its own on a loop, with one command of the driver for each
//! request that may come.
//!
//! The driver answers a command when there is a request, which is in the descriptor of the same
//! number. The next command for it brings the result. When the disk is taken away, or the driver
//! wants the queue to pause, it answers with an error, and no request comes by that command again.

use super::device::UblkDevice;
use super::encoding::{COMMIT_AND_FETCH_REQ, DESCRIPTOR_BYTES, FETCH_REQ, UblkRequest, request};
use crate::command_ring::CommandRing;
use crate::event_loop::{DriverId, Handle};
use crate::mapping::KernelMapping;
use io_uring::{opcode, squeue, types};
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// Answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UblkEvent {
    /// A request, by its number.
    Request(u16, UblkRequest),
    /// No request comes by this number.
    Over(u16),
}

/// A queue on a loop.
pub struct UblkQueue {
    /// Dropped first: the system has the addresses of the memory below until then.
    ring: CommandRing<squeue::Entry>,
    device: Arc<UblkDevice>,
    number: u16,
    descriptors: KernelMapping,
    /// Memory through which data goes, a piece for each request, if it is not copied by calls.
    pieces: Option<KernelMapping>,
    /// Numbers of requests that were answered.
    answered: Vec<(u16, i32)>,
}

impl UblkQueue {
    /// Serves a queue of a device on a loop, for a driver that is woken when there is something.
    pub fn open(
        device: &Arc<UblkDevice>,
        number: u16,
        on: &Handle,
        driver: DriverId,
    ) -> io::Result<Self> {
        let info = *device.info();
        let depth = usize::from(info.depth);
        let ring = CommandRing::open(u32::from(info.depth), on, driver)?;
        let pieces = match device.copies() {
            true => None,
            false => Some(KernelMapping::new(depth * info.request_bytes as usize)?),
        };
        let mut queue = Self {
            descriptors: device.descriptors(number)?,
            device: Arc::clone(device),
            ring,
            number,
            pieces,
            answered: Vec::with_capacity(depth),
        };
        for tag in 0..info.depth {
            queue.push(FETCH_REQ, tag, 0)?;
        }
        queue.submit(on)?;
        Ok(queue)
    }

    /// The longest data of a request, bytes.
    pub fn request_bytes(&self) -> usize {
        self.device.info().request_bytes as usize
    }

    fn push(&mut self, number: u32, tag: u16, result: i32) -> io::Result<()> {
        let at = usize::from(tag) * self.request_bytes();
        let address = self.pieces.as_ref().map_or(0, |pieces| pieces.address(at));
        let command = request(self.number, tag, result, address);
        let entry = opcode::UringCmd16::new(types::Fd(self.device.file.as_raw_fd()), number)
            .cmd(command)
            .build()
            .user_data(tag.into());
        // SAFETY: the file and the memory that the command names are the queue's until the ring is
        // gone.
        unsafe { self.ring.push(&entry) }
    }

    /// Ends a request: bytes that were transferred, or a negative error number. It is said by the
    /// next [`UblkQueue::submit`].
    pub fn answer(&mut self, tag: u16, result: i32) {
        self.answered.push((tag, result));
    }

    /// Submits what is queued; returns whether there was something.
    pub fn submit(&mut self, on: &Handle) -> io::Result<bool> {
        while let Some((tag, result)) = self.answered.pop() {
            // There is an entry for each request, so this does not fail.
            self.push(COMMIT_AND_FETCH_REQ, tag, result)?;
        }
        self.ring.submit(on)
    }

    /// Takes what has come.
    pub fn take(&mut self, on: &Handle, taken: &mut Vec<UblkEvent>) -> io::Result<()> {
        let (depth, descriptors) = (self.device.info().depth, &self.descriptors);
        taken.extend(self.ring.answers(on)?.filter_map(|(name, result)| {
            let tag = u16::try_from(name).ok().filter(|tag| *tag < depth)?;
            if result != 0 {
                return Some(UblkEvent::Over(tag));
            }
            let mut bytes = [0; DESCRIPTOR_BYTES];
            descriptors.read(usize::from(tag) * DESCRIPTOR_BYTES, &mut bytes);
            Some(UblkEvent::Request(tag, UblkRequest::decode(&bytes)))
        }));
        Ok(())
    }

    /// Copies data of a write.
    pub fn read_data(&self, tag: u16, at: usize, into: &mut [u8]) -> io::Result<()> {
        self.check(at, into.len())?;
        match &self.pieces {
            None => self.device.read((self.number, tag), at, into),
            Some(pieces) => {
                pieces.read(usize::from(tag) * self.request_bytes() + at, into);
                Ok(())
            }
        }
    }

    /// Gives data to a read.
    pub fn write_data(&self, tag: u16, at: usize, from: &[u8]) -> io::Result<()> {
        self.check(at, from.len())?;
        match &self.pieces {
            None => self.device.write((self.number, tag), at, from),
            Some(pieces) => {
                pieces.write(usize::from(tag) * self.request_bytes() + at, from);
                Ok(())
            }
        }
    }

    /// A request has no more data than it may have, whatever it says.
    fn check(&self, at: usize, len: usize) -> io::Result<()> {
        let fits = at.checked_add(len).is_some_and(|end| end <= self.request_bytes());
        if fits { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) }
    }
}
