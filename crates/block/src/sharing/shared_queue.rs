//! A queue that several drivers on one loop share.

use super::queue::{Core, Dispatcher, Member};
use super::sharer::Sharer;
use crate::device::{BlockDevice, BlockQueue};
use crate::error::Error;
use crate::slots::Slots;
use core::cell::RefCell;
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use weft_io::{DriverId, Handle};

/// A queue of a device for any number of drivers on its loop. It is closed when the last of them
/// has dropped its end and the device has released everything.
///
/// Operations for which the queue has no room wait with their sharer. Waiting sharers get room in
/// turn, one operation each.
#[derive(Clone)]
pub struct SharedQueue(pub(super) Rc<RefCell<Core>>);

impl SharedQueue {
    /// Opens a queue of `device` on the loop of `on`, for sharers to join.
    ///
    /// # Errors
    /// Those of [`BlockDevice::open_queue`].
    pub fn open(device: &dyn BlockDevice, on: &Handle) -> Result<Self, Error> {
        Self::open_with(on, |dispatcher| device.open_queue(on, dispatcher))
    }

    /// Like [`SharedQueue::open`], for a queue that `open` opens for the given owner.
    pub(super) fn open_with(
        on: &Handle,
        open: impl FnOnce(DriverId) -> Result<Box<dyn BlockQueue>, Error>,
    ) -> Result<Self, Error> {
        let mut shared = None;
        on.try_spawn(|dispatcher| {
            let mut queue = open(dispatcher)?;
            let in_place = queue.in_place().is_some();
            let core = Core {
                queue: Some(queue),
                on: on.clone(),
                dispatcher,
                sharers: Slots::default(),
                joined: 0,
                origins: Slots::default(),
                turns: VecDeque::new(),
                offered: VecDeque::new(),
                done: Vec::new(),
                gone: false,
                in_place,
            };
            let core = Rc::new(RefCell::new(core));
            shared = Some(Self(Rc::clone(&core)));
            Ok::<_, Error>(Dispatcher(core))
        })?;
        Ok(shared.expect("made together with the dispatcher"))
    }

    /// An end of the queue for the driver `owner`, which is woken for its own operations.
    pub fn join(&self, owner: DriverId) -> Box<dyn BlockQueue> {
        let mut core = self.0.borrow_mut();
        core.joined += 1;
        let name = core.sharers.insert(Member {
            owner,
            waiting: VecDeque::new(),
            done: Vec::new(),
            changes: VecDeque::new(),
            in_flight: 0,
            in_queue: 0,
            refused: false,
            left: false,
        });
        Box::new(Sharer::new(Rc::clone(&self.0), name, core.in_place))
    }

    /// Returns whether more sharers may join.
    pub(super) fn is_open(&self) -> bool {
        let core = self.0.borrow();
        core.queue.is_some() && !core.gone
    }

    pub(super) fn downgrade(&self) -> Weak<RefCell<Core>> {
        Rc::downgrade(&self.0)
    }
}
