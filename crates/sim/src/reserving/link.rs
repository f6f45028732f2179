//! A connection of a host that says what it wants, message by message, as a future.

use core::future::poll_fn;
use core::task::Poll;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle, Stream, Time};

/// The connection is over, or has not answered in time.
#[derive(Debug)]
pub struct StreamLost;

/// The driver that polls a future.
#[derive(Clone)]
pub struct PollingDriver {
    /// Its loop.
    pub on: Handle,
    /// The driver to wake when it may go on.
    pub driver: DriverId,
}

impl PollingDriver {
    /// Waits until then.
    pub async fn sleep_until(&self, at: Time) {
        let timer = TimerSlot::default();
        poll_fn(|_| {
            if self.on.now() >= at {
                return Poll::Ready(());
            }
            timer.arm(&self.on, self.driver, at);
            Poll::Pending
        })
        .await;
    }
}

/// A connection, with a time limit for all that is done on it.
pub struct TimedStream {
    stream: Box<dyn Stream>,
    place: PollingDriver,
    limit: Time,
    timer: TimerSlot,
}

impl TimedStream {
    /// Connects.
    pub async fn open(
        place: &PollingDriver,
        to: SocketAddr,
        limit: Time,
    ) -> Result<Self, StreamLost> {
        let mut stream = place.on.connect(to).map_err(|_| StreamLost)?;
        place.on.registrar(place.driver, |r| stream.register(r)).map_err(|_| StreamLost)?;
        let mut link = Self { stream, place: place.clone(), limit, timer: TimerSlot::default() };
        poll_fn(|_| match link.stream.connected() {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => link.pending(),
            Err(_) => Poll::Ready(Err(StreamLost)),
        })
        .await?;
        Ok(link)
    }

    fn pending<T>(&self) -> Poll<Result<T, StreamLost>> {
        if self.place.on.now() >= self.limit {
            return Poll::Ready(Err(StreamLost));
        }
        self.timer.arm(&self.place.on, self.place.driver, self.limit);
        Poll::Pending
    }

    /// Sends all of it.
    pub async fn send(&mut self, mut bytes: &[u8]) -> Result<(), StreamLost> {
        poll_fn(|_| {
            while !bytes.is_empty() {
                match self.stream.send(&[IoSlice::new(bytes)]) {
                    Ok(count) => bytes = &bytes[count..],
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return self.pending(),
                    Err(_) => return Poll::Ready(Err(StreamLost)),
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Receives `count` bytes.
    pub async fn receive(&mut self, count: usize) -> Result<Vec<u8>, StreamLost> {
        let (mut bytes, mut at) = (vec![0; count], 0);
        poll_fn(|_| {
            while at < count {
                match self.stream.recv(&mut [IoSliceMut::new(&mut bytes[at..])]) {
                    Ok(0) => return Poll::Ready(Err(StreamLost)),
                    Ok(count) => at += count,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return self.pending(),
                    Err(_) => return Poll::Ready(Err(StreamLost)),
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        Ok(bytes)
    }
}

impl Drop for TimedStream {
    fn drop(&mut self) {
        // What fails here was over already.
        let _ = self.place.on.registrar(self.place.driver, |r| self.stream.deregister(r));
    }
}
