//! Commands that nobody waits for: those that a target finds in a connection that its host has
//! ended, and those that a host leaves behind.
//!
//! A host that ends a connection takes the commands without an answer for lost, and sends them
//! again elsewhere. A process that stood still (stopped, or starved of its processor or disk) finds
//! the old ones in its socket when it goes on. Executed then, an old write undoes a newer one that
//! was acknowledged in the meantime. The standards bind the host: it has to wait until the old
//! controller can execute nothing more. Not every host does. So a target does what it can: it
//! executes nothing that it reads from a connection whose other end it knows to be closed.
//!
//! That costs no well-behaved host anything: a host that ends an association or a session in order
//! has had its answers before. (NBD is different: a client may send its last requests and
//! disconnect without waiting for answers, and there is no other server at which they could be
//! repeated.)

use super::{ConnectionEnd, ConnectionState, StreamPump};
use weft_io::Handle;
use weft_proto::stream::StreamEngine;

impl<E: StreamEngine> StreamPump<E> {
    /// Has the connection end as soon as its peer is known to have closed or reset it: what the
    /// peer has sent and was not executed is thrown away.
    #[must_use]
    pub fn heeding(mut self) -> Self {
        self.heeds_end = true;
        self
    }

    /// Whether the peer has ended the connection.
    #[inline]
    pub(super) fn has_peer_left(&self, on: &Handle) -> bool {
        self.driver.is_some_and(|driver| on.has_peer_left(driver))
    }

    /// What was held back is thrown away if the peer has ended the connection since.
    #[inline]
    pub(super) fn look_at_peer(&mut self, on: &Handle) {
        if self.heeds_end
            && matches!(self.state, ConnectionState::Paused | ConnectionState::Resumed)
            && self.has_peer_left(on)
        {
            self.leave_unexecuted(0);
        }
    }

    /// Ends the connection with `received` bytes that are not looked at.
    #[cold]
    pub(super) fn leave_unexecuted(&mut self, received: usize) {
        let bytes = self.carry.len() + received;
        tracing::debug!(
            "{}: the peer ended the connection before {bytes} bytes were executed: they are thrown away",
            self.peer()
        );
        self.carry.clear();
        self.finish(ConnectionEnd::Peer);
    }

    /// Has the connection reset, not closed in order, if it is dropped while `owes_answers` says
    /// that the peer does. Otherwise the system would go on sending commands that nobody waits for,
    /// for minutes if a network is away, and the peer would take them for meant. For sources.
    #[must_use]
    pub fn resetting(mut self, owes_answers: fn(&E) -> bool) -> Self {
        self.owes_answers = Some(owes_answers);
        self
    }
}

impl<E> StreamPump<E> {
    /// Has the stream reset when it is dropped, if the peer owes answers.
    pub(super) fn reset_if_owed(&mut self) {
        if self.owes_answers.is_some_and(|owes| owes(&self.engine)) {
            self.stream.reset_when_dropped();
        }
    }
}

impl<E> Drop for StreamPump<E> {
    fn drop(&mut self) {
        // What is closed in order was told to be by the layer above, and not by an engine that has
        // given up.
        if self.engine_gave_up || !matches!(self.state, ConnectionState::Closing { .. }) {
            self.reset_if_owed();
        }
    }
}
