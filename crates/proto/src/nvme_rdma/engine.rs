//! Interface of both ends of a queue pair to the pump that owns it.

use core::time::Duration;

use super::link::{Phase, QueuePairState};
use super::violation::Violation;
use super::work::{ReceiveBuffer, Received, Work, WorkError, WorkId, WorkOutcome};

/// One end of a queue pair: it requests work, and receives its outcome.
pub trait QueuePairEngine: LinkEnd {
    /// The connection stands, and the other end has sent this private data with its word. Something
    /// may be sent from now on, unless there is something wrong with the data
    /// ([`Self::violation`]). To a controller commands may have come before.
    fn established(&mut self, private_data: &[u8]);

    /// A message has come.
    fn received(&mut self, received: &Received<'_>);

    /// A receive has failed, or was flushed (`None`).
    fn receive_ended(&mut self, buffer: ReceiveBuffer, error: Option<WorkError>) {
        self.link_mut().receive_ended(buffer, error);
        self.settle();
    }

    /// Work has ended.
    fn completed(&mut self, id: WorkId, ended: WorkOutcome);

    /// The next thing to do, if there is one now. After [`Work::Place`] the pump calls
    /// [`placed`](super::TargetQueuePair::placed) before it asks again.
    fn next_work(&mut self) -> Option<Work>;

    /// Returns whether [`next_work`](Self::next_work) may have something: it is only to be asked
    /// after something has happened.
    fn has_unsent(&self) -> bool;

    /// Work that waited for memory is no longer done, because the queue pair is over.
    #[cold]
    fn give_up(&mut self, held: Work) {
        if let Some(id) = held.id() {
            self.completed(id, WorkOutcome::Flushed);
        }
    }

    /// Sends what there is and then disconnects; takes nothing more. Commands that are not answered
    /// by then stay unanswered.
    fn close(&mut self) {
        self.link_mut().begin_close();
        self.settle();
    }

    /// The connection is over: the other end has disconnected, or the device says so.
    fn disconnected(&mut self) {
        self.link_mut().end();
        self.settle();
    }

    /// The queue pair is destroyed: posted work no longer completes.
    fn destroyed(&mut self);

    /// Returns whether it refuses further commands.
    #[inline]
    fn is_closed(&self) -> bool {
        matches!(self.link().phase, Phase::Closing | Phase::Closed)
    }

    /// Returns whether it has ended: nobody touches the memory of any command.
    #[inline]
    fn has_ended(&self) -> bool {
        self.link().has_ended()
    }

    /// Why this end ended the queue pair, if it did.
    fn violation(&self) -> Option<Violation> {
        self.link().violation()
    }

    /// Passes in the time, which counts from an epoch of the caller's choice and never decreases.
    /// The first call marks the start of the connection. There may be work and events afterwards.
    #[inline]
    fn tick(&mut self, now: Duration) {
        self.link_mut().tick(now);
        self.settle();
    }

    /// The latest time of the next [`tick`](Self::tick); `None`: never. It may change with every
    /// other call.
    #[inline]
    fn deadline(&self) -> Option<Duration> {
        self.link().deadline()
    }
}

/// The state that both ends have, for the methods above.
pub trait LinkEnd {
    /// Returns the state of the queue pair.
    fn link(&self) -> &QueuePairState;

    /// The same, to change it.
    fn link_mut(&mut self) -> &mut QueuePairState;

    /// Ends a queue pair that is closing once there is nothing left to send. Unsent work of one
    /// that has ended is dropped.
    fn settle(&mut self);
}
