//! Completions: the queue, and the channel that announces them.
//!
//! The queue is polled without the system. When it is found empty it is *armed*: the next
//! completion puts one event into the channel, which wakes the driver. What completed between the
//! last look and the arming puts none, so the queue is looked at once more.

use super::cm::dont_block;
use super::device::Device;
use super::ffi::{CompChannel, Cq, Wc};
use super::library::{check, check_object};
use core::ffi::c_int;
use core::ptr::{NonNull, null_mut};
use std::io;
use std::os::fd::RawFd;

/// Completions taken at a time.
const BATCH: usize = 16;

/// The completions of a queue pair.
pub(super) struct Completions {
    device: &'static Device,
    channel: NonNull<CompChannel>,
    /// `None` while it is made.
    queue: Option<NonNull<Cq>>,
    batch: [Wc; BATCH],
    taken: usize,
    filled: usize,
    /// An event was asked for and has not been taken from the channel.
    armed: bool,
    /// Something has completed since, so that an event is in the channel or on its way.
    announced: bool,
}

// SAFETY: both objects may be used by any thread.
unsafe impl Send for Completions {}

impl Completions {
    pub(super) fn new(device: &'static Device, entries: u32) -> io::Result<Self> {
        // SAFETY: the context stays open.
        let channel = check_object(unsafe {
            (device.library.ibv_create_comp_channel)(device.context.as_ptr())
        })?;
        let mut new = Self {
            device,
            channel,
            queue: None,
            batch: [Wc::default(); BATCH],
            taken: 0,
            filled: 0,
            armed: false,
            announced: false,
        };
        dont_block(new.fd())?;
        let (context, vector) = (device.context.as_ptr(), device.completion_vector());
        // SAFETY: the context stays open, and the channel lives longer than the queue.
        let queue = unsafe {
            (device.library.ibv_create_cq)(
                context,
                entries as c_int,
                null_mut(),
                channel.as_ptr(),
                vector,
            )
        };
        new.queue = Some(check_object(queue)?);
        Ok(new)
    }

    pub(super) fn fd(&self) -> RawFd {
        // SAFETY: the channel lives as long as `self`.
        unsafe { (*self.channel.as_ptr()).fd }
    }

    pub(super) fn queue(&self) -> NonNull<Cq> {
        self.queue.expect("it is made with the rest")
    }

    /// The next completion. After `None` the channel's descriptor announces the next one.
    #[inline]
    pub(super) fn next(&mut self) -> io::Result<Option<Wc>> {
        loop {
            if self.taken < self.filled {
                self.taken += 1;
                return Ok(Some(self.batch[self.taken - 1]));
            }
            if self.fill()? {
                continue;
            }
            if self.armed && !self.announced {
                return Ok(None);
            }
            if self.armed && !self.take_event()? {
                return Ok(None);
            }
            self.arm()?;
        }
    }

    /// Takes what has completed; whether there was something.
    fn fill(&mut self) -> io::Result<bool> {
        let queue = self.queue();
        let poll = self.ops().poll_cq.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the queue lives, and there is room for so many.
        let count = unsafe { poll(queue.as_ptr(), BATCH as c_int, self.batch.as_mut_ptr()) };
        (self.taken, self.filled) = (
            0,
            usize::try_from(count)
                .map_err(|_| io::Error::other("the completion queue has failed"))?,
        );
        self.announced |= self.armed && self.filled > 0;
        Ok(self.filled > 0)
    }

    #[inline]
    fn ops(&self) -> &super::ffi::ContextOps {
        // SAFETY: the context stays open, and its functions are not replaced.
        unsafe { &(*self.device.context.as_ptr()).ops }
    }

    fn arm(&mut self) -> io::Result<()> {
        let notify = self.ops().req_notify_cq.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the queue lives.
        check(unsafe { notify(self.queue().as_ptr(), 0) })?;
        (self.armed, self.announced) = (true, false);
        Ok(())
    }

    /// Takes the event from the channel; whether it was there.
    fn take_event(&mut self) -> io::Result<bool> {
        let (mut queue, mut context) = (null_mut(), null_mut());
        // SAFETY: the channel lives, and there is room for the answer.
        match check(unsafe {
            (self.device.library.ibv_get_cq_event)(
                self.channel.as_ptr(),
                &raw mut queue,
                &raw mut context,
            )
        }) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
            Ok(()) => {}
        }
        // SAFETY: it is the one queue of the channel. Events that were not acknowledged would hold
        // up its end.
        unsafe { (self.device.library.ibv_ack_cq_events)(queue, 1) };
        (self.armed, self.announced) = (false, false);
        Ok(true)
    }
}

impl Drop for Completions {
    fn drop(&mut self) {
        // SAFETY: the queue pair is destroyed before this is dropped, all events were acknowledged,
        // and the channel goes last.
        unsafe {
            if let Some(queue) = self.queue {
                (self.device.library.ibv_destroy_cq)(queue.as_ptr());
            }
            (self.device.library.ibv_destroy_comp_channel)(self.channel.as_ptr());
        }
    }
}
