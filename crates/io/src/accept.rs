//! A driver that accepts connections and passes each to a callback. Errors of `accept` do not end
//! it: connections that died in the queue are skipped, and if the system has no descriptor or
//! memory left it pauses and tries again.

use crate::event_loop::{Activity, Driver, DriverId, Handle, Registrar, TimerSlot};
use crate::limits::{ACCEPT_BACKOFF_MS_MAX, ACCEPT_BACKOFF_MS_MIN, ACCEPTS_PER_TURN};
use crate::rdma::{QueuePair, QueuePairListener};
use crate::stream::{Listener, Stream};
use crate::time::Time;
use core::time::Duration;
use std::io::{self, ErrorKind};

const BACKOFF_MIN: Duration = Duration::from_millis(ACCEPT_BACKOFF_MS_MIN);
const BACKOFF_MAX: Duration = Duration::from_millis(ACCEPT_BACKOFF_MS_MAX);

/// Acceptor of connections of some kind.
pub trait Accept: 'static {
    /// A connection.
    type Accepted;

    /// The next connection, or `WouldBlock`.
    ///
    /// # Errors
    /// There is none.
    fn accept(&mut self) -> io::Result<Self::Accepted>;

    /// Makes the loop wake the driver of `registrar` when there is one.
    ///
    /// # Errors
    /// The poller does not take it.
    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()>;
}

macro_rules! accept {
    ($listener:ty, $accepted:ty) => {
        impl Accept for Box<$listener> {
            type Accepted = Box<$accepted>;

            fn accept(&mut self) -> io::Result<Box<$accepted>> {
                (**self).accept()
            }

            fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
                (**self).register(registrar)
            }
        }
    };
}

accept!(dyn Listener, dyn Stream);
accept!(dyn QueuePairListener, dyn QueuePair);

/// Accepts connections on one listener.
pub struct Acceptor<L, A, T> {
    listener: L,
    accepted: A,
    trouble: T,
    id: DriverId,
    paused_until: Time,
    /// Length of the next pause.
    backoff: Duration,
    timer: TimerSlot,
}

impl<L, A, T> Acceptor<L, A, T>
where
    L: Accept,
    A: FnMut(&Handle, L::Accepted) + 'static,
    T: FnMut(&Handle, &io::Error, Duration) + 'static,
{
    /// Starts to accept on the loop of `on`; [`Handle::remove`] ends it and closes the listener.
    ///
    /// * `accepted` receives each connection, not yet registered with a loop, so it may move to
    ///   another.
    /// * `trouble` receives the reason why connections cannot be accepted at present, and the
    ///   length of the pause, for the log.
    ///
    /// Fails if the listener cannot be registered with the loop.
    pub fn spawn(on: &Handle, listener: L, accepted: A, trouble: T) -> io::Result<DriverId> {
        on.try_spawn(|id| {
            let mut listener = listener;
            on.registrar(id, |r| listener.register(r))?;
            let (paused_until, timer) = (Time::ZERO, TimerSlot::default());
            Ok(Self { listener, accepted, trouble, id, paused_until, backoff: BACKOFF_MIN, timer })
        })
    }

    fn pause(&mut self, on: &Handle, why: &io::Error) {
        (self.trouble)(on, why, self.backoff);
        self.paused_until = on.now() + self.backoff;
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        self.timer.arm(on, self.id, self.paused_until);
    }

    /// Accepts until no connection waits, an error occurs, or the turn's limit is reached.
    fn batch(&mut self, on: &Handle) -> Activity {
        let mut count = 0;
        let mut skipped = None;
        for _ in 0..ACCEPTS_PER_TURN {
            match self.listener.accept() {
                Ok(connection) => {
                    count += 1;
                    on.counters().accepts.add(1);
                    self.backoff = BACKOFF_MIN;
                    (self.accepted)(on, connection);
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Activity::busy_if(count > 0),
                Err(e) if is_of_one_connection(&e) => skipped = Some(e),
                Err(e) => {
                    self.pause(on, &e);
                    return Activity::busy_if(count > 0);
                }
            }
        }
        // All were dead connections: an endless queue of these must not keep the loop awake.
        if let Some(error) = skipped.filter(|_| count == 0) {
            self.pause(on, &error);
        }
        Activity::busy_if(count > 0)
    }
}

impl<L, A, T> Driver for Acceptor<L, A, T>
where
    L: Accept,
    A: FnMut(&Handle, L::Accepted) + 'static,
    T: FnMut(&Handle, &io::Error, Duration) + 'static,
{
    fn receive(&mut self, on: &Handle) -> Activity {
        if on.now() < self.paused_until {
            self.timer.arm(on, self.id, self.paused_until);
            return Activity::Idle;
        }
        self.batch(on)
    }

    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

/// Returns whether an error of `accept` concerns the accepted connection and not the listener.
/// Linux reports network errors of the new connection in this way.
fn is_of_one_connection(error: &io::Error) -> bool {
    #[cfg(unix)]
    let by_code = matches!(
        error.raw_os_error(),
        Some(libc::EPROTO | libc::ENOPROTOOPT | libc::EHOSTDOWN | libc::EOPNOTSUPP | libc::EPERM)
    );
    #[cfg(not(unix))]
    let by_code = false;
    by_code
        || matches!(
            error.kind(),
            ErrorKind::Interrupted
                | ErrorKind::ConnectionAborted
                | ErrorKind::ConnectionReset
                | ErrorKind::HostUnreachable
                | ErrorKind::NetworkUnreachable
                | ErrorKind::NetworkDown
                | ErrorKind::TimedOut
        )
}
