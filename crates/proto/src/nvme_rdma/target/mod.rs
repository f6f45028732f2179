//! The controller's end of a queue pair.
//!
//! The life of a command, identified by its [`Tag`] from [`RdmaTargetEvent::Command`] on:
//!
//! 1. The layer above checks it, and calls [`fetch`](TargetQueuePair::fetch) if it needs data from
//!    the host, at any time. A receive with data in its capsule is not posted again before that
//!    data was fetched or is not wanted: a layer without memory holds up the host.
//! 2. The data is copied ([`Work::Place`]) or read from the host's memory.
//!    [`RdmaTargetEvent::DataArrived`] or, if the queue pair failed in the meantime,
//!    [`RdmaTargetEvent::DataFailed`] reports the end of that.
//! 3. The layer above calls [`complete`](TargetQueuePair::complete) with a completion and a number
//!    of bytes for the host, which must stay in the tag's memory until
//!    [`RdmaTargetEvent::Released`]. The layer above then calls [`sent`](TargetQueuePair::sent).
//!
//! Commands that end without a response are ended by [`abandon`](TargetQueuePair::abandon) or
//! [`drop_pending`](TargetQueuePair::drop_pending). When the queue pair ends every fetch and every
//! answer still ends with its event, exactly once.

mod capsule;
mod command;
mod engine;
mod receive;
mod slot;
mod transmit;

use core::time::Duration;
use std::collections::VecDeque;

use self::capsule::WaitingCapsules;
use self::slot::{CommandSlot, CommandState, PendingEvent};
use super::cm::{CmAccept, CmRequest};
use super::link::{QueuePairLimits, QueuePairState};
#[cfg(doc)]
use super::work::Work;
use crate::limits::{HANDSHAKE_S, QUEUE_ENTRIES_MAX, TRANSFER_MAX_BYTES};
use crate::nvme::sqe::Sqe;
use crate::slab::Slab;
use crate::stream::{StartLimit, Tag};

/// Configuration of a [`TargetQueuePair`]. Values out of range are brought into it.
#[derive(Clone, Copy, Debug)]
pub struct RdmaTargetConfig {
    /// Receives that are kept posted (CRQSIZE): as many as the host's submission queue has entries
    /// ([`CmRequest::entries`]).
    pub receives: u16,
    /// Receives that the host keeps posted (HRQSIZE).
    pub host_receives: u16,
    /// Data that commands may carry in their capsule, in bytes: 16 × IOCCSZ − 64. A receive has
    /// that much room behind the command.
    pub in_capsule_bytes: u32,
    /// Data of one command, in bytes (MDTS).
    pub max_data_bytes: u32,
    /// Commands outstanding before [`TargetQueuePair::set_queue_entries`]; 1 suffices for Connect.
    pub queue_entries: u16,
    /// Of the queue pair and its device.
    pub limits: QueuePairLimits,
    /// From the first tick until the layer above accepts a Connect, which it says by
    /// [`TargetQueuePair::set_queue_entries`]. Slower hosts lose their connection.
    pub connect_limit: Duration,
    /// Time limits of sending before an orderly end, and of flushing.
    pub close_limit: Duration,
}

impl RdmaTargetConfig {
    /// For a host's request.
    pub fn for_request(request: &CmRequest) -> Self {
        Self { receives: request.entries(), host_receives: request.receives, ..Self::default() }
    }
}

impl Default for RdmaTargetConfig {
    fn default() -> Self {
        Self {
            receives: 128,
            host_receives: 128,
            in_capsule_bytes: 0,
            max_data_bytes: TRANSFER_MAX_BYTES,
            queue_entries: 1,
            limits: QueuePairLimits::default(),
            connect_limit: Duration::from_secs(HANDSHAKE_S),
            close_limit: Duration::from_secs(HANDSHAKE_S),
        }
    }
}

/// Events for the layer above a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RdmaTargetEvent {
    /// A command. Its capsule carries `in_capsule_bytes` of data.
    Command {
        /// Names the command from now on; the command itself is [`TargetQueuePair::sqe`].
        tag: Tag,
        /// Bytes of data in the capsule.
        in_capsule_bytes: u32,
    },
    /// All data that was fetched is in the tag's memory.
    DataArrived {
        /// Its tag.
        tag: Tag,
    },
    /// The queue pair failed before. No more of it will arrive.
    DataFailed {
        /// Its tag.
        tag: Tag,
    },
    /// The memory of a command that was given up while data arrived is no longer written to.
    Dropped {
        /// Its tag, which no longer names a command.
        tag: Tag,
    },
    /// An answer was sent, or never will be: the memory of the command is no longer read.
    Released {
        /// Its tag, which names the command until [`TargetQueuePair::sent`].
        tag: Tag,
    },
}

/// The controller's end of a queue pair.
pub struct TargetQueuePair {
    config: RdmaTargetConfig,
    link: QueuePairState,
    slots: Slab<CommandSlot>,
    /// The command of the last event.
    current: Tag,
    /// Commands with data to be copied from their capsule; with data to be read; with an answer to
    /// be sent.
    placing: VecDeque<Tag>,
    reading: VecDeque<Tag>,
    answering: VecDeque<Tag>,
    /// Entries that were taken from `answering`.
    taken: u64,
    /// The command whose last data was posted and whose response is next.
    responding: Option<Tag>,
    events: VecDeque<Tag>,
    /// Commands that came before a slot was free.
    waiting: WaitingCapsules,
    /// Commands that the host knows to be outstanding.
    outstanding: u16,
    /// RDMA READs that are posted, and SENDs.
    reads: u16,
    sends: u16,
    /// For the host's Connect, until one is accepted.
    start: Option<StartLimit>,
    /// The remaining work of a queue pair that has ended is settled.
    settled: bool,
}

impl TargetQueuePair {
    /// A queue pair whose first work is posting receives, which precedes the accept.
    pub fn new(config: RdmaTargetConfig) -> Self {
        let mut slots = Slab::new(1);
        slots.grow(config.queue_entries.min(QUEUE_ENTRIES_MAX));
        let mut new = Self {
            link: QueuePairState::new(
                config.receives,
                config.limits.send_queue,
                config.close_limit,
            ),
            slots,
            current: Tag(0),
            placing: VecDeque::new(),
            reading: VecDeque::new(),
            answering: VecDeque::new(),
            taken: 0,
            responding: None,
            events: VecDeque::new(),
            waiting: WaitingCapsules::default(),
            outstanding: 0,
            reads: 0,
            sends: 0,
            start: Some(StartLimit::new(config.connect_limit)),
            settled: false,
            config,
        };
        new.reserve();
        new
    }

    /// Everything that there can be of each command has its place.
    fn reserve(&mut self) {
        let entries = self.slots.capacity();
        for queue in [&mut self.placing, &mut self.reading, &mut self.answering, &mut self.events] {
            queue.reserve_exact(entries - queue.len());
        }
        self.waiting.reserve(entries);
    }

    /// The private data of the accept.
    pub fn accept(&self) -> CmAccept {
        CmAccept { receives: self.link.receives.count() }
    }

    /// Makes room for the commands of a queue of `entries` (after Connect); at most
    /// [`QUEUE_ENTRIES_MAX`], and never fewer than before.
    pub fn set_queue_entries(&mut self, entries: u16) {
        self.start = None;
        self.slots.grow(entries.min(QUEUE_ENTRIES_MAX));
        self.reserve();
    }

    /// Returns the command of the last [`RdmaTargetEvent::Command`], until the next event.
    ///
    /// # Panics
    /// If there was none.
    #[inline]
    pub fn sqe(&self) -> &Sqe {
        &self.slots.peek(self.current).expect("an event announced a command").sqe
    }

    /// The next event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<RdmaTargetEvent> {
        let tag = self.events.pop_front()?;
        let slot = self.slots.at(tag)?;
        let event = match slot.news.take()? {
            PendingEvent::Command => {
                self.current = tag;
                RdmaTargetEvent::Command { tag, in_capsule_bytes: slot.in_capsule_bytes }
            }
            PendingEvent::Arrived => {
                slot.state = CommandState::Held;
                RdmaTargetEvent::DataArrived { tag }
            }
            PendingEvent::Failed => {
                slot.state = CommandState::Held;
                RdmaTargetEvent::DataFailed { tag }
            }
            PendingEvent::Dropped => {
                self.outstanding = self.outstanding.saturating_sub(1);
                self.free(tag);
                RdmaTargetEvent::Dropped { tag }
            }
            PendingEvent::Released => RdmaTargetEvent::Released { tag },
        };
        Some(event)
    }

    /// The layer above is to hear of a command.
    #[inline]
    fn tell(&mut self, tag: Tag, news: PendingEvent) {
        let Some(slot) = self.slots.at(tag) else { return };
        debug_assert_eq!(slot.news, None, "two events of one command");
        slot.news = Some(news);
        self.events.push_back(tag);
    }

    /// A slot is free: the next command that waits for one has it.
    #[inline]
    fn free(&mut self, tag: Tag) {
        self.slots.give_back(tag);
        self.take_waiting();
    }
}
