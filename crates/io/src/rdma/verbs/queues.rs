//! Work posted to the two queues of a queue pair, and the memory of messages.

use super::device::Device;
use super::ffi::Sge;
use super::memory::{Piece, Use};
use std::collections::VecDeque;
use std::io;

/// Messages begin at multiples of this.
const LINE_BYTES: usize = 64;

fn line(bytes: u32) -> usize {
    (bytes as usize).max(1).next_multiple_of(LINE_BYTES)
}

/// Memory for a number of messages of the same size.
struct Messages {
    device: &'static Device,
    /// `None` if there is no message, and while it is dropped.
    memory: Option<Piece>,
    line: usize,
}

impl Messages {
    fn new(device: &'static Device, count: u16, bytes: u32) -> io::Result<Self> {
        let line = line(bytes);
        let memory = if count == 0 {
            None
        } else {
            Some(device.take(line * usize::from(count), Use::Messages)?)
        };
        Ok(Self { device, memory, line })
    }

    fn memory(&self) -> &Piece {
        self.memory.as_ref().expect("there are messages")
    }

    fn entry(&self, number: u16, bytes: u32) -> Sge {
        let memory = self.memory();
        Sge {
            address: memory.address() + (usize::from(number) * self.line) as u64,
            length: bytes,
            lkey: memory.lkey(),
        }
    }
}

impl Drop for Messages {
    /// The queue pair is destroyed.
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.device.give_back(memory);
        }
    }
}

/// Place of a receive.
#[derive(Clone, Copy, Default)]
enum Receive {
    #[default]
    Empty,
    Posted,
    /// With this many bytes.
    Held(u32),
}

/// The receives.
pub(super) struct Receives {
    messages: Messages,
    bytes: u32,
    receives: Vec<Receive>,
}

impl Receives {
    pub(super) fn new(device: &'static Device, count: u16, bytes: u32) -> io::Result<Self> {
        let messages = Messages::new(device, count, bytes)?;
        Ok(Self { messages, bytes, receives: vec![Receive::Empty; usize::from(count)] })
    }

    /// Posts a receive: returns the place of its memory.
    ///
    /// # Panics
    /// If it is posted already.
    pub(super) fn post(&mut self, buffer: u16) -> Sge {
        let receive = &mut self.receives[usize::from(buffer)];
        assert!(!matches!(receive, Receive::Posted), "a receive is posted once");
        *receive = Receive::Posted;
        self.messages.entry(buffer, self.bytes)
    }

    /// A receive has ended, with a message of this many bytes or without one; returns whether it
    /// was posted.
    pub(super) fn end(&mut self, buffer: u16, message: Option<u32>) -> bool {
        let Some(receive @ Receive::Posted) = self.receives.get_mut(usize::from(buffer)) else {
            return false;
        };
        *receive = message.map_or(Receive::Empty, |bytes| Receive::Held(bytes.min(self.bytes)));
        true
    }

    pub(super) fn message(&self, buffer: u16) -> &[u8] {
        match self.receives[usize::from(buffer)] {
            // SAFETY: it is not posted, so the device does not write to its line.
            Receive::Held(bytes) => unsafe {
                self.messages
                    .memory()
                    .slice(usize::from(buffer) * self.messages.line, bytes as usize)
            },
            Receive::Empty | Receive::Posted => &[],
        }
    }
}

/// Work in the send queue.
#[derive(Clone, Copy)]
pub(super) struct Posted {
    /// The user's number.
    pub(super) id: u64,
    /// The slot whose memory it uses.
    pub(super) slot: Option<u16>,
    /// The slot whose window it invalidates.
    pub(super) invalidates: Option<u16>,
    /// The message that it sends.
    pub(super) message: Option<u16>,
}

/// The send queue, whose work completes in order. It is known to the device by the number of its
/// place since the beginning.
pub(super) struct Sends {
    messages: Messages,
    bytes: u32,
    free: Vec<u16>,
    posted: VecDeque<Posted>,
    first: u64,
    entries: usize,
}

impl Sends {
    pub(super) fn new(device: &'static Device, entries: u16, bytes: u32) -> io::Result<Self> {
        let messages = Messages::new(device, entries, bytes)?;
        let posted = VecDeque::with_capacity(entries.into());
        Ok(Self {
            messages,
            bytes,
            free: (0..entries).rev().collect(),
            posted,
            first: 0,
            entries: entries.into(),
        })
    }

    /// The number of the next work; `None`: there is no room.
    pub(super) fn next(&self) -> Option<u64> {
        (self.posted.len() < self.entries).then_some(self.first + self.posted.len() as u64)
    }

    /// It was posted.
    pub(super) fn push(&mut self, posted: Posted) {
        self.posted.push_back(posted);
    }

    /// Puts a message into free memory.
    pub(super) fn message(&mut self, bytes: &[u8]) -> Option<(u16, Sge)> {
        let len = u32::try_from(bytes.len()).ok().filter(|&len| len <= self.bytes)?;
        let number = self.free.pop()?;
        let memory = self.messages.memory.as_mut().expect("there are messages");
        memory.copy_in(usize::from(number) * self.messages.line, bytes);
        Some((number, self.messages.entry(number, len)))
    }

    /// The memory of a message is free.
    pub(super) fn free(&mut self, message: u16) {
        self.free.push(message);
    }

    /// The oldest work, if its number is at most this one.
    pub(super) fn pop(&mut self, up_to: u64) -> Option<(u64, Posted)> {
        if self.first > up_to {
            return None;
        }
        let posted = self.posted.pop_front()?;
        self.first += 1;
        Some((self.first - 1, posted))
    }
}
