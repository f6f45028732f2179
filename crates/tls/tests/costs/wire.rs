//! A connection in memory that holds all that is sent, counts calls, and allocates nothing once it
//! has its memory.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::sync::{Arc, Mutex};
use weft_io::event_loop::Registrar;
use weft_io::stream::Stream;

/// Bytes that one direction holds.
const ROOM: usize = 1 << 20;

/// Work on one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Sends that took bytes.
    pub sends: u64,
    /// Receives that gave some.
    pub receives: u64,
    /// Receives that gave none.
    pub empty: u64,
    pub bytes: u64,
}

struct Carried {
    bytes: Vec<u8>,
    /// What of them was received.
    taken: usize,
    spent: Spent,
}

/// One direction.
#[derive(Clone)]
pub struct Way(Arc<Mutex<Carried>>);

impl Way {
    fn new() -> Self {
        let carried =
            Carried { bytes: Vec::with_capacity(ROOM), taken: 0, spent: Spent::default() };
        Self(Arc::new(Mutex::new(carried)))
    }

    pub fn spent(&self) -> Spent {
        self.0.lock().unwrap().spent
    }
}

/// One end.
pub struct Wire {
    from: Way,
    to: Way,
}

/// Both ends, and the ways from the first to the second and back.
pub fn wire() -> ([Wire; 2], [Way; 2]) {
    let ways = [Way::new(), Way::new()];
    let [to, from] = ways.clone();
    let second = Wire { from: to.clone(), to: from.clone() };
    ([Wire { from, to }, second], ways)
}

impl Stream for Wire {
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut way = self.from.0.lock().unwrap();
        let way = &mut *way;
        let mut total = 0;
        for buf in bufs {
            let n = buf.len().min(way.bytes.len() - way.taken);
            buf[..n].copy_from_slice(&way.bytes[way.taken..way.taken + n]);
            way.taken += n;
            total += n;
        }
        if way.taken == way.bytes.len() {
            way.bytes.clear();
            way.taken = 0;
        }
        if total == 0 {
            way.spent.empty += 1;
            return Err(ErrorKind::WouldBlock.into());
        }
        way.spent.receives += 1;
        Ok(total)
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut way = self.to.0.lock().unwrap();
        let total: usize = bufs.iter().map(|buf| buf.len()).sum();
        assert!(way.bytes.len() + total <= ROOM, "it is received in between");
        bufs.iter().for_each(|buf| way.bytes.extend_from_slice(buf));
        way.spent.sends += 1;
        way.spent.bytes += total as u64;
        Ok(total)
    }

    fn shutdown(&mut self) -> io::Result<()> {
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
