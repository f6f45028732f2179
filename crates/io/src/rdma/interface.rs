//! The interface of queue pairs and their listeners.

use super::work::{Exposure, QueuePairEvent, RemoteMemory};
use crate::event_loop::{Handle, Registrar};
use crate::segment::Segments;
use std::io;

/// Limits of a device for a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Entries of a send queue.
    pub send_queue: u16,
    /// Receives.
    pub receives: u16,
    /// RDMA READs that this end may have outstanding. On the accepting side no more than the other
    /// end answers.
    pub reads: u8,
    /// Bytes of a message.
    pub message_bytes: u32,
    /// True if there are type 2 memory windows.
    pub has_windows: bool,
    /// Pieces of memory that one transfer takes.
    pub pieces: u8,
}

/// Requested properties of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePairConfig {
    /// Entries of the send queue: every send, read, write, invalidation and bind takes one until it
    /// has ended. One that is not signaled does so when a later one has.
    pub send_queue: u16,
    /// Receives: buffers `0..receives`.
    pub receives: u16,
    /// Bytes of each.
    pub receive_bytes: u32,
    /// Bytes of this end's messages, without the data of a slot behind them.
    pub message_bytes: u32,
    /// Slots `0..slots`.
    pub slots: u16,
    /// RDMA READs that this end has outstanding at most; 0 if it never reads. The send queue holds
    /// back those that are too many.
    pub reads: u8,
    /// Access of the other end to slots, if any.
    pub exposure: Option<Exposure>,
    /// Pieces of lent memory that a slot takes at most; 0 if none is lent. Devices with little room
    /// for each entry of the send queue may take fewer.
    pub lent_pieces: u8,
}

/// Memory that was not lent.
#[derive(Debug)]
pub struct NotLent {
    /// It comes back.
    pub memory: Segments,
    /// Error of the system, if it refuses, the first time for a device.
    pub why: Option<io::Error>,
}

/// Data sent behind a message: the first bytes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotData {
    /// The slot.
    pub slot: u16,
    /// The first byte in it.
    pub offset: u32,
    /// Bytes.
    pub bytes: u32,
}

/// One end of a connection. See the [module](super) for its life.
///
/// It may move to another thread while it is not registered with a loop. Nothing that is posted has
/// to have ended for that, but memory that was lent must be back: on another thread it cannot be
/// had, and is never freed.
///
/// Posting never fails at once: work that the queue pair does not take ends with an event like all
/// other. Numbers of slots and buffers out of range are errors of the caller, and panic.
pub trait QueuePair: Send {
    /// Returns the limits for [`QueuePair::create`], from [`QueuePairEvent::Resolved`] on.
    fn device_limits(&self) -> DeviceLimits;

    /// Makes the queues and their memory.
    ///
    /// # Errors
    /// In a sentence that says what is missing.
    fn create(&mut self, config: &QueuePairConfig) -> io::Result<()>;

    /// Asks for the connection, or accepts it, with this private data.
    /// [`QueuePairEvent::Established`] follows, or another end.
    ///
    /// # Errors
    /// It is over already.
    fn open(&mut self, private_data: &[u8]) -> io::Result<()>;

    /// Does not accept the connection. What is left to do with the queue pair is to drop it.
    fn reject(&mut self, private_data: &[u8]);

    /// Returns the data of the other end's request, accept or rejection, perhaps with zeros behind
    /// it.
    fn private_data(&self) -> &[u8];

    /// Why the connection failed or ended, as far as this end knows, in a sentence.
    fn trouble(&self) -> Option<String>;

    /// The other end's address, for messages.
    fn peer(&self) -> String;

    /// This end's address, for messages.
    fn local(&self) -> String;

    /// Makes the loop wake the driver of `registrar` when there may be an event, once per change
    /// (edge-triggered): the driver then calls [`QueuePair::poll`] until it returns nothing.
    ///
    /// # Errors
    /// The poller does not take it.
    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;

    /// Undoes [`QueuePair::register`].
    ///
    /// # Errors
    /// It was not registered.
    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;

    /// The next event. After `None` the driver is woken for the next one, and not before.
    ///
    /// # Errors
    /// The system failed, and the queue pair must be destroyed.
    fn poll(&mut self, on: &Handle) -> io::Result<Option<QueuePairEvent>>;

    /// Returns whether [`QueuePair::poll`] has an event of which the driver is not told, because it
    /// is of this end alone: work that was not posted.
    fn has_own_event(&self) -> bool {
        false
    }

    /// Posts a receive.
    fn post_receive(&mut self, buffer: u16);

    /// The last message in a buffer that is not posted; nothing if there is none.
    fn received(&self, buffer: u16) -> &[u8];

    /// Copies data out of the last message in a buffer that is not posted.
    ///
    /// # Panics
    /// If the message is not as long.
    fn copy_received(&self, buffer: u16, offset: u32, into: &mut [u8]) {
        into.copy_from_slice(&self.received(buffer)[offset as usize..][..into.len()]);
    }

    /// Gives a slot memory of the queue pair's own, of at least `bytes` bytes with unspecified
    /// content. Its content so far is lost.
    ///
    /// # Errors
    /// The memory cannot be had or registered; or posted work or the other end still uses that of
    /// the slot, or other memory was lent to it.
    fn prepare(&mut self, slot: u16, bytes: u32) -> io::Result<()>;

    /// Copies into a slot's own memory. It may be exposed.
    ///
    /// # Panics
    /// If it is not as large.
    fn copy_in(&mut self, slot: u16, offset: u32, bytes: &[u8]);

    /// Copies out of it.
    ///
    /// # Panics
    /// If it is not as large.
    fn copy_out(&self, slot: u16, offset: u32, bytes: &mut [u8]);

    /// Frees a slot's own memory, when nothing uses it.
    fn release(&mut self, slot: u16);

    /// Puts memory of the user's into a slot, to send and write from without a copy, in place of
    /// the slot's own. It comes back with [`QueuePair::take_back`]; what is left in a queue pair
    /// that is dropped is freed with it.
    ///
    /// # Errors
    /// It comes back at once, as the device cannot reach it, it is in too many pieces, or the slot
    /// is in use: prepare the slot, and copy.
    fn lend(&mut self, slot: u16, memory: Segments) -> Result<(), NotLent> {
        let _ = slot;
        Err(NotLent { memory, why: None })
    }

    /// Returns the lent memory if nothing touches it: the posted work has ended, or the queue pair
    /// is destroyed.
    fn take_back(&mut self, slot: u16) -> Option<Segments> {
        let _ = slot;
        None
    }

    /// Lets the other end read from the first `bytes` of a slot, or write to them, by what is
    /// returned. With [`Exposure::Window`] a bind is posted as `id`, unsignaled.
    ///
    /// # Errors
    /// In a sentence why that is impossible; nothing is posted then.
    fn expose(
        &mut self,
        id: u64,
        slot: u16,
        bytes: u32,
        writable: bool,
    ) -> io::Result<RemoteMemory>;

    /// Ends the access to a slot that was given without a window, at once. One that
    /// [`QueuePairEvent::Received`] reported as invalidated has ended by itself.
    fn conceal(&mut self, slot: u16);

    /// Posts the invalidation of a slot's window, signaled as `id`.
    fn invalidate(&mut self, id: u64, slot: u16);

    /// Posts a SEND, signaled as `id`, of a message and the data behind it. `invalidate` is the key
    /// of the other end that it invalidates.
    fn send(&mut self, id: u64, message: &[u8], data: Option<SlotData>, invalidate: Option<u32>);

    /// Posts an RDMA READ into a slot, signaled as `id`.
    fn read(&mut self, id: u64, into: SlotData, from: RemoteMemory);

    /// Posts an RDMA WRITE from a slot as `id`.
    fn write(&mut self, id: u64, from: SlotData, to: RemoteMemory, signaled: bool);

    /// Ends the connection, and flushes what is posted. Does nothing the second time.
    fn disconnect(&mut self);

    /// Ends everything at once. No event follows, and the device does not touch memory again.
    fn destroy(&mut self);
}

/// Waits for connections. Registered like a queue pair.
pub trait QueuePairListener: Send {
    /// The next connection that is asked for, registered with no loop, or
    /// [`io::ErrorKind::WouldBlock`]. One that is dropped is rejected.
    fn accept(&mut self) -> io::Result<Box<dyn QueuePair>>;

    /// The local address, for messages and to find the port chosen for port 0.
    fn local(&self) -> String;

    /// Like [`QueuePair::register`].
    ///
    /// # Errors
    /// The poller does not take it.
    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;

    /// Like [`QueuePair::deregister`].
    ///
    /// # Errors
    /// It was not registered.
    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;
}
