//! One path, as the queue of one loop uses it.

use super::counters::Counters;
use super::path_group::{Live, PathGroup};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use weft_block::{AccessState, BlockQueue, Error, ErrorKind, Op, Presence};
use weft_connection::limits::PATH_PAUSE_MS;
use weft_io::{DriverId, Handle, Time};

/// See the module.
pub(super) struct Route {
    /// That of the path's device when it was last looked at.
    pub(super) generation: u64,
    pub(super) open: Option<Open>,
    pub(super) counters: Arc<Counters>,
    /// Operations for its queue; empty between calls.
    pub(super) offered: VecDeque<Op>,
    /// Operations that its queue has.
    pub(super) in_flight: u32,
    /// No operation is sent before: it has just refused one, or its queue could not be opened.
    pub(super) paused_until: Option<Time>,
    /// Its queue could not be opened yet: there is none to be had at present.
    pub(super) wants_queue: bool,
}

/// The queue of an open path.
pub(super) struct Open {
    pub(super) queue: Box<dyn BlockQueue>,
    pub(super) live: Live,
    pub(super) access: AccessState,
    pub(super) is_away: bool,
}

impl Route {
    pub(super) fn new(group: &PathGroup, path: usize) -> Self {
        Self {
            generation: 0,
            open: None,
            counters: group.counters(path),
            offered: VecDeque::new(),
            in_flight: 0,
            paused_until: None,
            wants_queue: false,
        }
    }

    /// Opens a queue of the path's device.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn open(&mut self, live: &Live, on: &Handle, owner: DriverId) -> Result<(), Error> {
        self.wants_queue = false;
        match live.fitted.open_queue(on, owner) {
            Ok(queue) => {
                let access = live.device.access_state();
                let is_away = live.device.presence() == Presence::Away;
                self.open = Some(Open { queue, live: live.clone(), access, is_away });
                Ok(())
            }
            Err(e) => {
                // A queue that was closed just now is free in a moment.
                self.wants_queue = e.kind() == ErrorKind::NoResources;
                self.pause(on);
                Err(e)
            }
        }
    }

    /// Sends nothing for a moment.
    pub(super) fn pause(&mut self, on: &Handle) {
        self.paused_until = Some(on.now() + Duration::from_millis(PATH_PAUSE_MS));
    }

    /// The access state, if operations may be sent.
    #[inline]
    pub(super) fn usable(&self, now: Time) -> Option<AccessState> {
        let open = self.open.as_ref()?;
        let works = matches!(open.access, AccessState::Optimized | AccessState::NonOptimized);
        (works && !open.is_away && self.paused_until.is_none_or(|until| until <= now))
            .then_some(open.access)
    }
}
