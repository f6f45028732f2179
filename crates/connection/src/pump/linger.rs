//! The end of a connection whose peer violated the protocol. The last bytes sent tell the peer the
//! reason. A system discards them if the socket is closed with unread input, and so does the peer's
//! system (RFC 1122 §4.2.2.13). So further input is received and discarded, up to a limit of time
//! and bytes.

use super::scratch::with_staging;
use crate::limits::{LINGER_BYTES, LINGER_MS, LINGERING_MAX};
use std::cell::Cell;
use std::io::{ErrorKind, IoSliceMut};
use std::time::Duration;
use weft_io::{Activity, Driver, DriverId, Handle, Stream, Time};

thread_local! {
    static LINGERING: Cell<usize> = const { Cell::new(0) };
}

/// One of a loop's lingering connections.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let taken = LINGERING.get();
        (taken < LINGERING_MAX).then(|| {
            LINGERING.set(taken + 1);
            Self
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        LINGERING.set(LINGERING.get().saturating_sub(1));
    }
}

/// A connection that is shut down and waits for its peer.
struct Linger {
    stream: Box<dyn Stream>,
    id: DriverId,
    until: Time,
    left: usize,
    _place: Place,
}

/// Keeps a stream whose sending direction has ended until the peer ends it too. Where there is no
/// room it is closed at once.
pub(super) fn linger(on: &Handle, mut stream: Box<dyn Stream>) {
    let Some(_place) = Place::take() else { return };
    let until = on.now() + Duration::from_millis(LINGER_MS);
    // A stream that cannot be watched is closed at once, too.
    let _ = on.try_spawn(|id| {
        on.registrar(id, |r| stream.register(r))?;
        on.wake(id);
        on.wake_at(id, until);
        Ok::<_, std::io::Error>(Linger { stream, id, until, left: LINGER_BYTES, _place })
    });
}

impl Driver for Linger {
    fn receive(&mut self, on: &Handle) -> Activity {
        let over = with_staging(|staging| {
            loop {
                match self.stream.recv(&mut [IoSliceMut::new(staging)]) {
                    Ok(0) => return true,
                    Ok(n) => self.left = self.left.saturating_sub(n),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return false,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    Err(_) => return true,
                }
                if self.left == 0 {
                    return true;
                }
            }
        });
        if over || on.now() >= self.until {
            on.remove(self.id);
        }
        Activity::Idle
    }

    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

/// What a pump holds when its stream has gone elsewhere: its addresses, for people.
pub(super) struct Departed {
    peer: String,
    local: String,
}

impl Departed {
    pub(super) fn of(stream: &dyn Stream) -> Box<Self> {
        Box::new(Self { peer: stream.peer(), local: stream.local() })
    }
}

impl Stream for Departed {
    fn recv(&mut self, _: &mut [IoSliceMut<'_>]) -> std::io::Result<usize> {
        Ok(0)
    }

    fn send(&mut self, _: &[std::io::IoSlice<'_>]) -> std::io::Result<usize> {
        Err(ErrorKind::NotConnected.into())
    }

    fn shutdown(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    fn connected(&mut self) -> std::io::Result<bool> {
        Ok(false)
    }

    fn peer(&self) -> String {
        self.peer.clone()
    }

    fn local(&self) -> String {
        self.local.clone()
    }

    fn register(&mut self, _: &weft_io::event_loop::Registrar<'_>) -> std::io::Result<()> {
        Ok(())
    }

    fn deregister(&mut self, _: &weft_io::event_loop::Registrar<'_>) -> std::io::Result<()> {
        Ok(())
    }
}
