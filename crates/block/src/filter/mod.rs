//! Devices in front of another one, which change one thing and pass everything else on.
//!
//! A filter implements [`Filter`], and its queues [`QueueFilter`]; it is a [`BlockDevice`] and a
//! [`BlockQueue`] by that. What it does not override is answered by the device behind it, also what
//! a later version of the contract adds: a lint demands that the two implementations below name
//! every method.

mod relay;

use crate::device::{
    BlockDevice, BlockQueue, Device, DeviceChange, Features, Geometry, Identity, InPlace, Presence,
    SizeAnswer,
};
use crate::offload::{Offload, OffloadSource};
use crate::op::{Completion, Op};
use crate::outcome::error::Error;
use crate::path::{AccessState, PathStatus};
use crate::stats::Totals;
use core::ops::Range;
use core::time::Duration;
pub(crate) use relay::Relay;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::{DriverId, Handle, Segments};

/// A device in front of another one. The methods with a default are those that some filter
/// overrides.
pub trait Filter: Send + Sync {
    /// The device behind it.
    fn inner(&self) -> &dyn BlockDevice;

    /// Opens a queue: one of the device behind it, usually in a [`QueueFilter`]. See
    /// [`BlockDevice::open_queue`].
    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error>;

    /// See [`BlockDevice::url`].
    fn url(&self) -> &str {
        self.inner().url()
    }

    /// See [`BlockDevice::geometry`].
    fn geometry(&self) -> Geometry {
        self.inner().geometry()
    }

    /// See [`BlockDevice::features`].
    fn features(&self) -> Features {
        self.inner().features()
    }

    /// See [`BlockDevice::presence`].
    fn presence(&self) -> Presence {
        self.inner().presence()
    }

    /// See [`BlockDevice::late_writes_bound`].
    fn late_writes_bound(&self) -> Option<Duration> {
        self.inner().late_writes_bound()
    }

    /// See [`BlockDevice::counted`].
    fn counted(&self) -> Vec<(String, Totals)> {
        self.inner().counted()
    }

    /// See [`BlockDevice::served`]. The default is that of a filter which others must not read
    /// past.
    fn served(&self) -> Option<OffloadSource> {
        None
    }

    /// See [`BlockDevice::offload`]. The default is that of a filter which others must not write
    /// past.
    fn offload(&self, _from: &OffloadSource) -> Option<Arc<dyn Offload>> {
        None
    }

    /// See [`BlockDevice::max_queues`].
    fn max_queues(&self) -> usize {
        self.inner().max_queues()
    }
}

/// A queue in front of another one.
pub trait QueueFilter {
    /// The queue behind it.
    fn inner(&self) -> &dyn BlockQueue;

    /// The queue behind it.
    fn inner_mut(&mut self) -> &mut dyn BlockQueue;

    /// See [`BlockQueue::in_place`]. There is no default: a filter that looks at operations must
    /// not let them pass it here.
    fn in_place(&mut self) -> Option<&mut dyn InPlace>;

    /// See [`BlockQueue::submit`].
    #[inline]
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        self.inner_mut().submit(ops);
    }

    /// See [`BlockQueue::reap`].
    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        self.inner_mut().reap(done);
    }

    /// See [`BlockQueue::cancel`].
    fn cancel(&mut self, user: u64) {
        self.inner_mut().cancel(user);
    }

    /// See [`BlockQueue::in_flight`].
    #[inline]
    fn in_flight(&self) -> usize {
        self.inner().in_flight()
    }

    /// See [`BlockQueue::overdue`].
    #[inline]
    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        self.inner_mut().overdue(given_back)
    }

    /// See [`BlockQueue::holds_back`].
    fn holds_back(&self) -> bool {
        self.inner().holds_back()
    }

    /// See [`BlockQueue::change`].
    #[inline]
    fn change(&mut self) -> Option<DeviceChange> {
        self.inner_mut().change()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<F: Filter> BlockDevice for F {
    fn url(&self) -> &str {
        Filter::url(self)
    }

    fn geometry(&self) -> Geometry {
        Filter::geometry(self)
    }

    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        self.inner().renew_size()
    }

    fn features(&self) -> Features {
        Filter::features(self)
    }

    fn members(&self) -> Vec<Device> {
        self.inner().members()
    }

    fn identity(&self) -> Identity {
        self.inner().identity()
    }

    fn used_blocks(&self) -> Option<u64> {
        self.inner().used_blocks()
    }

    fn presence(&self) -> Presence {
        Filter::presence(self)
    }

    fn access_state(&self) -> AccessState {
        self.inner().access_state()
    }

    fn cache_epoch(&self) -> Option<u64> {
        self.inner().cache_epoch()
    }

    fn late_writes_bound(&self) -> Option<Duration> {
        Filter::late_writes_bound(self)
    }

    fn trouble(&self) -> Option<String> {
        self.inner().trouble()
    }

    fn losses(&self) -> u64 {
        self.inner().losses()
    }

    fn paths(&self) -> Vec<PathStatus> {
        self.inner().paths()
    }

    fn counted(&self) -> Vec<(String, Totals)> {
        Filter::counted(self)
    }

    fn next_data(&self, lba: u64) -> Option<Range<u64>> {
        self.inner().next_data(lba)
    }

    fn data_runs(&self) -> Option<Vec<Range<u64>>> {
        self.inner().data_runs()
    }

    fn served(&self) -> Option<OffloadSource> {
        Filter::served(self)
    }

    fn offload(&self, from: &OffloadSource) -> Option<Arc<dyn Offload>> {
        Filter::offload(self, from)
    }

    fn max_queues(&self) -> usize {
        Filter::max_queues(self)
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Filter::open_queue(self, on, owner)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<Q: QueueFilter> BlockQueue for Q {
    #[inline]
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        QueueFilter::submit(self, ops);
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        QueueFilter::reap(self, done);
    }

    fn cancel(&mut self, user: u64) {
        QueueFilter::cancel(self, user);
    }

    #[inline]
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        QueueFilter::in_place(self)
    }

    #[inline]
    fn in_flight(&self) -> usize {
        QueueFilter::in_flight(self)
    }

    #[inline]
    fn overdue(&mut self, given_back: &mut Vec<Segments>) -> usize {
        QueueFilter::overdue(self, given_back)
    }

    fn holds_back(&self) -> bool {
        QueueFilter::holds_back(self)
    }

    #[inline]
    fn change(&mut self) -> Option<DeviceChange> {
        QueueFilter::change(self)
    }
}
