//! A connection in memory.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_io::event_loop::Registrar;
use weft_io::stream::Stream;

/// One direction.
#[derive(Clone, Default)]
pub struct Direction(Arc<Lock<Carried>>);

pub struct Carried {
    pub bytes: VecDeque<u8>,
    /// All that was ever sent.
    pub record: Vec<u8>,
    /// Bytes that one call takes or gives.
    pub piece: usize,
    /// Bytes that it holds.
    pub room: usize,
    pub ended: bool,
    /// Error of the next send, once.
    pub failure: Option<ErrorKind>,
}

impl Default for Carried {
    fn default() -> Self {
        Self {
            bytes: VecDeque::new(),
            record: Vec::new(),
            piece: usize::MAX,
            room: usize::MAX,
            ended: false,
            failure: None,
        }
    }
}

impl Direction {
    pub fn change<T>(&self, change: impl FnOnce(&mut Carried) -> T) -> T {
        change(&mut self.0.lock())
    }
}

/// A stream in memory.
pub struct Pipe {
    pub from: Direction,
    pub to: Direction,
}

impl Stream for Pipe {
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.from.change(|from| {
            let n = bufs[0].len().min(from.bytes.len()).min(from.piece);
            for (to, byte) in bufs[0].iter_mut().zip(from.bytes.drain(..n)) {
                *to = byte;
            }
            if n == 0 && !from.ended { Err(ErrorKind::WouldBlock.into()) } else { Ok(n) }
        })
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.to.change(|to| {
            if let Some(failure) = to.failure.take() {
                return Err(failure.into());
            }
            let n = bufs[0].len().min(to.piece).min(to.room.saturating_sub(to.bytes.len()));
            to.bytes.extend(&bufs[0][..n]);
            to.record.extend(&bufs[0][..n]);
            if n == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(n) }
        })
    }

    fn tells_rest(&self) -> bool {
        self.from.change(|from| from.piece == usize::MAX)
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.to.change(|to| to.ended = true);
        Ok(())
    }

    fn connected(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    fn peer(&self) -> String {
        "peer".into()
    }

    fn local(&self) -> String {
        "local".into()
    }

    fn register(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        Ok(())
    }

    fn deregister(&mut self, _: &Registrar<'_>) -> io::Result<()> {
        Ok(())
    }
}
