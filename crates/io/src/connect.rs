//! Connecting to one of several addresses within a time limit.
//!
//! The addresses are tried in order. If one has not answered after [`CONNECT_STAGGER_MS`], the next
//! is tried in parallel; if one fails, the next is tried at once. The first established connection
//! is used (after RFC 8305 §5). So a dead first address costs a fraction of a second and not the
//! whole time limit.

use crate::event_loop::{Activity, Driver, DriverId, Handle, TimerSlot};
use crate::limits::{CONNECT_ADDRESSES_MAX, CONNECT_STAGGER_MS};
use crate::stream::Stream;
use crate::time::Time;
use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// An address to which connecting failed.
#[derive(Debug)]
pub struct AddressFailure {
    /// The address.
    pub to: SocketAddr,
    /// The system's error.
    pub error: io::Error,
}

/// Why connecting failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectFailure {
    /// The list of addresses was empty.
    #[error("there is no address to connect to")]
    NoAddress,
    /// Every address failed; in the order of failure. There is at least one.
    #[error("cannot connect to {}", List(.0))]
    Failed(Vec<AddressFailure>),
    /// The time limit passed before some address had answered.
    #[error("no answer from {} within {limit:?}", Silent(silent))]
    TimedOut {
        /// The time limit.
        limit: Duration,
        /// Addresses that did not answer or were not tried.
        silent: Vec<SocketAddr>,
        /// Addresses that failed before that.
        failed: Vec<AddressFailure>,
    },
}

impl ConnectFailure {
    /// The error kind of the first address that failed.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::NoAddress => io::ErrorKind::InvalidInput,
            Self::Failed(failures) => {
                failures.first().map_or(io::ErrorKind::Other, |f| f.error.kind())
            }
            Self::TimedOut { .. } => io::ErrorKind::TimedOut,
        }
    }
}

struct List<'a>(&'a [AddressFailure]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, AddressFailure { to, error }) in self.0.iter().enumerate() {
            write!(f, "{}{to} ({error})", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

struct Silent<'a>(&'a [SocketAddr]);

impl fmt::Display for Silent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, to) in self.0.iter().enumerate() {
            write!(f, "{}{to}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// The result of connecting: a stream that is not registered with a loop.
pub type Connected = Result<Box<dyn Stream>, ConnectFailure>;

/// Connects to the first address of `to` that answers. Calls `done` once, on the loop of `on`, at
/// the latest after `limit`. Addresses beyond [`CONNECT_ADDRESSES_MAX`] are not tried.
/// [`Handle::remove`] of the returned driver gives up without calling `done`.
pub fn connect(
    on: &Handle,
    to: &[SocketAddr],
    limit: Duration,
    done: impl FnOnce(&Handle, Connected) + 'static,
) -> DriverId {
    let pending = to.iter().copied().take(CONNECT_ADDRESSES_MAX).collect();
    on.spawn(|id| Connector {
        id,
        pending,
        attempts: Vec::new(),
        failed: Vec::new(),
        limit,
        deadline: on.clock() + limit,
        next_at: Time::ZERO,
        timer: TimerSlot::default(),
        done: Some(Box::new(done)),
    })
}

type Done = Box<dyn FnOnce(&Handle, Connected)>;

struct Connector {
    id: DriverId,
    /// Not tried yet.
    pending: VecDeque<SocketAddr>,
    /// In progress.
    attempts: Vec<(SocketAddr, Box<dyn Stream>)>,
    failed: Vec<AddressFailure>,
    limit: Duration,
    deadline: Time,
    /// When to try the next address in parallel.
    next_at: Time,
    timer: TimerSlot,
    done: Option<Done>,
}

impl Connector {
    /// The first attempt that stands. Those that failed are noted, and make way for the next
    /// address.
    fn standing(&mut self, on: &Handle) -> Option<Box<dyn Stream>> {
        let mut at = 0;
        while let Some((_, stream)) = self.attempts.get_mut(at) {
            let result = match stream.connected() {
                Ok(true) => on.registrar(self.id, |r| stream.deregister(r)).map(|()| true),
                other => other,
            };
            match result {
                Ok(true) => return Some(self.attempts.swap_remove(at).1),
                Ok(false) => at += 1,
                Err(error) => {
                    let (to, _) = self.attempts.remove(at);
                    self.failed.push(AddressFailure { to, error });
                    self.next_at = Time::ZERO;
                }
            }
        }
        None
    }

    fn try_next(&mut self, on: &Handle) {
        while (self.attempts.is_empty() || on.now() >= self.next_at)
            && let Some(to) = self.pending.pop_front()
        {
            let started = on.connect(to).and_then(|mut stream| {
                on.registrar(self.id, |r| stream.register(r))?;
                Ok(stream)
            });
            match started {
                Ok(stream) => {
                    self.attempts.push((to, stream));
                    self.next_at = on.now() + Duration::from_millis(CONNECT_STAGGER_MS);
                }
                Err(error) => self.failed.push(AddressFailure { to, error }),
            }
        }
    }

    fn outcome(&mut self, on: &Handle) -> Option<Connected> {
        if let Some(stream) = self.standing(on) {
            return Some(Ok(stream));
        }
        if on.now() < self.deadline {
            self.try_next(on);
        }
        let failed = |this: &mut Self| core::mem::take(&mut this.failed);
        if self.attempts.is_empty() && self.pending.is_empty() {
            let error = if self.failed.is_empty() {
                ConnectFailure::NoAddress
            } else {
                ConnectFailure::Failed(failed(self))
            };
            return Some(Err(error));
        }
        if on.now() < self.deadline {
            return None;
        }
        let silent =
            self.attempts.iter().map(|(to, _)| *to).chain(self.pending.iter().copied()).collect();
        Some(Err(ConnectFailure::TimedOut { limit: self.limit, silent, failed: failed(self) }))
    }
}

impl Driver for Connector {
    fn work(&mut self, on: &Handle) -> Activity {
        let Some(outcome) = self.outcome(on) else {
            let next = if self.pending.is_empty() {
                self.deadline
            } else {
                self.deadline.min(self.next_at)
            };
            self.timer.arm(on, self.id, next);
            return Activity::Idle;
        };
        on.remove(self.id);
        if let Some(done) = self.done.take() {
            done(on, outcome);
        }
        Activity::Busy
    }
}
