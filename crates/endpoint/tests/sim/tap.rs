//! A host between client and target, which passes their bytes on and keeps them.

use crate::sim::scene::{Connections, Scene, port};
use std::cell::RefCell;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::rc::Rc;
use weft_io::{Activity, Driver, DriverId, Handle, Listener, LoopConfig, Stream};

/// Where clients find the target behind the tap, at the target's port.
pub const TAP: &str = "10.0.0.2";

/// Bytes that client and target have sent on each connection.
pub type Streams = Vec<[Vec<u8>; 2]>;

/// Starts a tap, and returns what has passed it.
pub fn tap<T: Connections>(scene: &mut Scene<T>) -> Rc<RefCell<Streams>> {
    let host = scene.world.host(TAP);
    let on = scene.world.add_loop(host, &LoopConfig::default());
    let (on, passed) = (scene.world.handle(on), Rc::<RefCell<Streams>>::default());
    let address = format!("{TAP}:{}", port().port()).parse().unwrap();
    let mut listener = on.listen(address).unwrap();
    on.spawn(|id| {
        on.registrar(id, |r| listener.register(r)).unwrap();
        Door { listener, passed: Rc::clone(&passed) }
    });
    passed
}

/// Accepts connections.
struct Door {
    listener: Box<dyn Listener>,
    passed: Rc<RefCell<Streams>>,
}

impl Driver for Door {
    fn work(&mut self, on: &Handle) -> Activity {
        let mut activity = Activity::Idle;
        while let Ok(client) = self.listener.accept() {
            let mut ends = [client, on.connect(port()).unwrap()];
            let number = self.passed.borrow().len();
            self.passed.borrow_mut().push(Default::default());
            on.spawn(|id| {
                let register = |end: &mut Box<dyn Stream>| on.registrar(id, |r| end.register(r));
                ends.iter_mut().for_each(|end| register(end).unwrap());
                let passed = Rc::clone(&self.passed);
                Pair { ends, sent: [0; 2], ended: [false; 2], number, passed, id }
            });
            activity = Activity::Busy;
        }
        activity
    }
}

/// The two connections that stand for one.
struct Pair {
    ends: [Box<dyn Stream>; 2],
    /// Bytes from each end that the other was sent.
    sent: [usize; 2],
    ended: [bool; 2],
    number: usize,
    passed: Rc<RefCell<Streams>>,
    id: DriverId,
}

impl Pair {
    /// Passes on what one end sends, as far as that goes now.
    fn pass(&mut self, from: usize) -> std::io::Result<Activity> {
        let bytes = &mut self.passed.borrow_mut()[self.number][from];
        let mut piece = [0; 1 << 14];
        let before = (bytes.len(), self.sent[from]);
        while !self.ended[from] {
            match self.ends[from].recv(&mut [IoSliceMut::new(&mut piece)]) {
                Ok(0) => self.ended[from] = true,
                Ok(n) => bytes.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        while self.sent[from] < bytes.len() {
            match self.ends[1 - from].send(&[IoSlice::new(&bytes[self.sent[from]..])]) {
                Ok(n) => self.sent[from] += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        if self.ended[from] && self.sent[from] == bytes.len() {
            let _ = self.ends[1 - from].shutdown();
        }
        Ok(Activity::busy_if(before != (bytes.len(), self.sent[from])))
    }

    fn pass_both(&mut self) -> std::io::Result<Activity> {
        if !self.ends[1].connected()? {
            return Ok(Activity::Idle);
        }
        let activity = [self.pass(0)?, self.pass(1)?];
        Ok(Activity::busy_if(activity.contains(&Activity::Busy)))
    }
}

impl Driver for Pair {
    fn work(&mut self, on: &Handle) -> Activity {
        let outcome = self.pass_both();
        if outcome.is_err() || self.ended == [true; 2] {
            on.remove(self.id);
        }
        outcome.unwrap_or(Activity::Idle)
    }
}
