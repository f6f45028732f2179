//! FUSE over io_uring (Linux 6.14, `filesystems/fuse/fuse-io-uring` of the kernel's documentation):
//! the kernel writes requests into memory of this process and takes their answers from there, and
//! one system call carries many of them.
//!
//! The kernel has a queue for each processor, and uses none of them before each has a slot. A slot
//! has memory for one request and its data. The requests that no answer is expected to, and
//! notifications, still go by [`FuseChannel`].

use super::answer::header;
use super::channel::FuseChannel;
use super::wire::{FuseRequest, HEADER_BYTES, LEAD_BYTES, NAME_OPCODE};
use crate::command_ring::CommandRing;
use crate::event_loop::{DriverId, Handle};
use crate::mapping::KernelMapping;
use io_uring::{opcode, squeue, types};
use rustix::io::Errno;
use smallvec::SmallVec;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `FUSE_IO_URING_CMD_REGISTER` and `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`.
const REGISTER: u32 = 1;
/// See above.
const COMMIT_AND_FETCH: u32 = 2;

/// `fuse_uring_req_header`: the header of a request or of its answer, the part of a request that
/// depends on its operation, and `fuse_uring_ent_in_out`. Each slot has that much for it.
const OPERATION_AT: usize = 128;
/// See above.
const ENTRY_AT: usize = 256;
/// See above.
const COMMIT_AT: usize = ENTRY_AT + 8;
/// See above.
const PAYLOAD_BYTES_AT: usize = ENTRY_AT + 16;
/// See above.
const SLOT_HEADER_BYTES: usize = 288;
/// The distance of two headers.
const HEADERS_APART: usize = 512;

/// `FUSE_MIN_READ_BUFFER`: the kernel accepts no slot with less room for data.
const PAYLOAD_BYTES_MIN: usize = 8192;

/// The offset of `len` in a submission queue entry, which [`opcode::UringCmd80`] leaves zero.
const ENTRY_LEN_AT: usize = 24;
const _: () = assert!(size_of::<squeue::Entry128>() == 128);

/// An event of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuseEvent {
    /// A request, in the slot with this number.
    Request(u16, FuseRequest),
    /// A slot gets no further request.
    Over,
}

/// The slots of some of the kernel's queues, on one loop.
pub struct FuseRing {
    /// Dropped first: the kernel has the addresses of the memory below until then.
    ring: CommandRing<squeue::Entry128>,
    file: File,
    memory: KernelMapping,
    /// By number: the queue.
    queues: Vec<u16>,
    /// Maximum data of a request.
    payload_bytes: usize,
    answered: Vec<u16>,
    /// Answers of the kernel that came while the slots were registered.
    early: Vec<(u64, i32)>,
}

impl FuseRing {
    /// Gives the kernel `depth` slots for each of its `queues`, for requests with `payload_bytes`
    /// of data at most. The driver is woken when there is a request.
    ///
    /// # Errors
    /// Those of the system, also if it refuses only one of the slots.
    pub fn open(
        channel: &FuseChannel,
        (queues, depth): (&[u16], u16),
        payload_bytes: u32,
        (on, driver): (&Handle, DriverId),
    ) -> io::Result<Self> {
        let slots = queues.len() * usize::from(depth);
        let payload_bytes = (payload_bytes as usize).max(PAYLOAD_BYTES_MIN);
        let queues = queues.iter().flat_map(|queue| (0..depth).map(|_| *queue)).collect();
        let mut ring = Self {
            ring: CommandRing::open(slots as u32, on, driver)?,
            file: channel.file()?,
            memory: KernelMapping::new(slots * (HEADERS_APART + payload_bytes))?,
            queues,
            payload_bytes,
            answered: Vec::with_capacity(slots),
            early: Vec::new(),
        };
        // Where the memory of each slot is, twice an address and a length: the kernel reads it when
        // the slot is registered.
        let places: Vec<[u64; 4]> = (0..slots as u16).map(|slot| ring.place(slot)).collect();
        for (slot, place) in (0..).zip(&places) {
            ring.push(slot, REGISTER, 0, Some(place))?;
        }
        ring.ring.submit(on)?;
        // The kernel may have a request already.
        ring.early = ring.ring.answers(on)?.collect();
        match ring.early.iter().find(|(_, result)| *result != 0) {
            Some((_, result)) => Err(io::Error::from_raw_os_error(-result)),
            None => Ok(ring),
        }
    }

    fn place(&self, slot: u16) -> [u64; 4] {
        let header = self.memory.address(usize::from(slot) * HEADERS_APART);
        let data = self.memory.address(self.data_at(slot));
        [header, SLOT_HEADER_BYTES as u64, data, self.payload_bytes as u64]
    }

    /// The place of the data of a slot in the memory, behind all headers.
    fn data_at(&self, slot: u16) -> usize {
        self.queues.len() * HEADERS_APART + usize::from(slot) * self.payload_bytes
    }

    fn push(
        &mut self,
        slot: u16,
        number: u32,
        commit: u64,
        place: Option<&[u64; 4]>,
    ) -> io::Result<()> {
        let fd = types::Fd(self.file.as_raw_fd());
        let command = command(commit, self.queues[usize::from(slot)]);
        let entry = opcode::UringCmd80::new(fd, number).cmd(command);
        let address = place.map(|place| place.as_ptr() as u64);
        let mut entry = entry.addr(address).build().user_data(slot.into());
        if place.is_some() {
            // SAFETY: an entry is 128 bytes of plain numbers (`io_uring_sqe`), and this one is
            // ours.
            unsafe {
                let len = (&raw mut entry).cast::<u8>().add(ENTRY_LEN_AT).cast::<u32>();
                len.write(2);
            }
        }
        // SAFETY: the file and the memory are the ring's until it is gone. The kernel reads `place`
        // while the command is submitted, as long as the caller has it.
        unsafe { self.ring.push(&entry) }
    }

    /// Takes what has come.
    pub fn take(&mut self, on: &Handle, taken: &mut Vec<FuseEvent>) -> io::Result<()> {
        let (slots, mut unknown) = (self.queues.len(), Vec::new());
        let mut answers: SmallVec<[(u64, i32); 32]> = self.early.drain(..).collect();
        answers.extend(self.ring.answers(on)?);
        for (name, result) in answers {
            let Some(slot) = u16::try_from(name).ok().filter(|slot| usize::from(*slot) < slots)
            else {
                continue;
            };
            match self.request(slot).filter(|_| result == 0) {
                Some(request) => taken.push(FuseEvent::Request(slot, request)),
                None if result == 0 => unknown.push(slot),
                None => taken.push(FuseEvent::Over),
            }
        }
        for slot in unknown {
            self.answer(slot, 0, Err::<core::iter::Empty<&[u8]>, _>(Errno::IO.raw_os_error()));
        }
        Ok(())
    }

    /// The request in a slot. `None`: it is cut off, or has less data than it says.
    fn request(&self, slot: u16) -> Option<FuseRequest> {
        let at = usize::from(slot) * HEADERS_APART;
        let mut lead = [0; LEAD_BYTES];
        let (head, body) = lead.split_at_mut(HEADER_BYTES);
        self.memory.read(at, head);
        let opcode = u32::from_ne_bytes(head[4..8].try_into().ok()?);
        // A name is data, and all else that is of interest depends on the operation.
        match opcode {
            NAME_OPCODE => self.memory.read(self.data_at(slot), body),
            _ => self.memory.read(at + OPERATION_AT, body),
        }
        let request = FuseRequest::decode(&lead)?;
        (request.data_bytes() <= self.payload(slot).min(self.payload_bytes)).then_some(request)
    }

    /// Bytes of data that came with a request.
    fn payload(&self, slot: u16) -> usize {
        let mut bytes = [0; 4];
        self.memory.read(usize::from(slot) * HEADERS_APART + PAYLOAD_BYTES_AT, &mut bytes);
        u32::from_ne_bytes(bytes) as usize
    }

    /// Copies data of a write from the byte `at` on.
    ///
    /// # Panics
    /// If a request cannot have that much.
    pub fn read_data(&self, slot: u16, at: usize, into: &mut [u8]) {
        assert!(at + into.len() <= self.payload_bytes, "within the slot");
        self.memory.read(self.data_at(slot) + at, into);
    }

    /// Answers a request: with data, in pieces, or with a positive error number. The kernel hears
    /// of it by the next [`FuseRing::submit`].
    pub fn answer<'a>(
        &mut self,
        slot: u16,
        unique: u64,
        answer: Result<impl Iterator<Item = &'a [u8]>, i32>,
    ) {
        let (mut bytes, mut error) = (0, 0);
        match answer {
            Err(number) => error = -number,
            Ok(pieces) => {
                for piece in pieces {
                    if bytes + piece.len() > self.payload_bytes {
                        (bytes, error) = (0, -Errno::IO.raw_os_error());
                        break;
                    }
                    self.memory.write(self.data_at(slot) + bytes, piece);
                    bytes += piece.len();
                }
            }
        }
        let at = usize::from(slot) * HEADERS_APART;
        self.memory.write(at, &header(unique, error, bytes));
        self.memory.write(at + PAYLOAD_BYTES_AT, &(bytes as u32).to_ne_bytes());
        self.answered.push(slot);
    }

    /// Submits the answers; returns whether there were some.
    pub fn submit(&mut self, on: &Handle) -> io::Result<bool> {
        while let Some(slot) = self.answered.pop() {
            let mut commit = [0; 8];
            self.memory.read(usize::from(slot) * HEADERS_APART + COMMIT_AT, &mut commit);
            // There is an entry for each slot, so this does not fail.
            self.push(slot, COMMIT_AND_FETCH, u64::from_ne_bytes(commit), None)?;
        }
        self.ring.submit(on)
    }
}

/// `fuse_uring_cmd_req`.
fn command(commit: u64, queue: u16) -> [u8; 80] {
    let mut bytes = [0; 80];
    bytes[8..16].copy_from_slice(&commit.to_ne_bytes());
    bytes[16..18].copy_from_slice(&queue.to_ne_bytes());
    bytes
}

/// The number of the kernel's queues: that of the processors that this machine can have.
pub fn queues() -> io::Result<u16> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
    count(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The count of a list like `0-3,8`.
fn count(list: &str) -> Option<u16> {
    let mut sum = 0_u16;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        sum = sum.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted() {
        let counts = ["0\n", "0-1\n", "0-3,8", "0,2,4-5"].map(count);
        assert_eq!(counts, [Some(1), Some(2), Some(5), Some(4)]);
        assert_eq!(["", "x", "3-1", "0-99999"].map(count), [None; 4]);
    }

    #[test]
    fn a_command_names_its_request_and_its_queue() {
        let bytes = command(0x0102_0304_0506_0708, 9);
        assert_eq!(bytes[8..16], 0x0102_0304_0506_0708_u64.to_ne_bytes());
        assert_eq!(bytes[16..18], 9_u16.to_ne_bytes());
        assert!(bytes[..8].iter().chain(&bytes[18..]).all(|byte| *byte == 0));
    }
}
