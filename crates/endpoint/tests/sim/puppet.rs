//! A host in the simulation that sends what a test gives it and keeps what it receives.

use crate::sim::scene::{Connections, NQN, Scene, host, port};
use crate::wire::{Pdu, Peer, Who};
use std::cell::RefCell;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use weft_io::sim::World;
use weft_io::{Activity, Driver, DriverId, Handle, Stream};
use weft_proto::nvme::types::Nqn;

/// How long a puppet waits for a PDU.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Strings {
    out: Vec<u8>,
    received: Vec<u8>,
    /// The peer ended the stream, or it broke.
    ended: bool,
    /// Receive nothing.
    deaf: bool,
    hang_up: bool,
}

/// The end of a connection that a test holds.
#[derive(Clone)]
pub struct Puppet {
    strings: Rc<RefCell<Strings>>,
    on: Handle,
    driver: DriverId,
}

struct Doll {
    stream: Box<dyn Stream>,
    strings: Rc<RefCell<Strings>>,
    id: DriverId,
    standing: bool,
}

pub fn who() -> Who {
    Who { host: host("puppet"), subsystem: Nqn::new(NQN).unwrap(), keep_alive_ms: 0 }
}

impl Puppet {
    /// Connects to the target.
    pub fn new<T: Connections>(scene: &Scene<T>) -> Self {
        Self::to(scene, port())
    }

    /// Connects to another one.
    pub fn to<T: Connections>(scene: &Scene<T>, address: SocketAddr) -> Self {
        Self::between(scene.admin_loop(), address)
    }

    /// Connects to the target from this loop.
    pub fn on(on: Handle) -> Self {
        Self::between(on, port())
    }

    fn between(on: Handle, address: SocketAddr) -> Self {
        let strings = Rc::<RefCell<Strings>>::default();
        let mut stream = on.connect(address).unwrap();
        let driver = on.spawn(|id| {
            on.registrar(id, |r| stream.register(r)).unwrap();
            Doll { stream, strings: Rc::clone(&strings), id, standing: false }
        });
        Self { strings, on, driver }
    }

    /// With the world, to wait in.
    pub fn within<'a, T>(&'a self, scene: &'a mut Scene<T>) -> Talk<'a> {
        Talk { puppet: self, world: &mut scene.world }
    }

    pub fn put(&self, bytes: &[u8]) {
        self.strings.borrow_mut().out.extend_from_slice(bytes);
        self.on.wake(self.driver);
    }

    /// Stops receiving, or begins again.
    pub fn set_deaf(&self, deaf: bool) {
        self.strings.borrow_mut().deaf = deaf;
        self.on.wake(self.driver);
    }

    pub fn hang_up(&self) {
        self.strings.borrow_mut().hang_up = true;
        self.on.wake(self.driver);
    }

    pub fn has_ended(&self) -> bool {
        self.strings.borrow().ended
    }

    /// Bytes that were received and that nobody has taken.
    pub fn received_bytes(&self) -> usize {
        self.strings.borrow().received.len()
    }

    /// The bytes that are there.
    pub fn take_bytes(&self) -> Vec<u8> {
        core::mem::take(&mut self.strings.borrow_mut().received)
    }

    /// A PDU that is there.
    pub fn take(&self) -> Option<Pdu> {
        Pdu::split(&mut self.strings.borrow_mut().received)
    }
}

impl Doll {
    fn receive_all(&mut self, strings: &mut Strings) -> Activity {
        let mut bytes = [0; 4096];
        let mut activity = Activity::Idle;
        while !strings.ended && !strings.deaf {
            match self.stream.recv(&mut [IoSliceMut::new(&mut bytes)]) {
                Ok(0) => strings.ended = true,
                Ok(n) => strings.received.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(_) => strings.ended = true,
            }
            activity = Activity::Busy;
        }
        activity
    }

    fn send_all(&mut self, strings: &mut Strings) {
        while !strings.out.is_empty() && !strings.ended {
            match self.stream.send(&[IoSlice::new(&strings.out)]) {
                Ok(n) => drop(strings.out.drain(..n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(_) => strings.ended = true,
            }
        }
    }
}

impl Driver for Doll {
    fn work(&mut self, on: &Handle) -> Activity {
        let strings = Rc::clone(&self.strings);
        let strings = &mut *strings.borrow_mut();
        if strings.hang_up {
            on.remove(self.id);
            return Activity::Busy;
        }
        match self.stream.connected() {
            Ok(standing) => self.standing = standing,
            Err(_) => strings.ended = true,
        }
        if !self.standing {
            return Activity::Idle;
        }
        let activity = self.receive_all(strings);
        self.send_all(strings);
        activity
    }
}

/// A puppet, while a test talks through it.
pub struct Talk<'a> {
    puppet: &'a Puppet,
    world: &'a mut World,
}

impl Talk<'_> {
    /// Waits until `is_enough` accepts the bytes received, the connection is over, or `patience` has
    /// passed. Returns the bytes, and whether the connection is over.
    pub fn receive(
        &mut self,
        mut is_enough: impl FnMut(&[u8]) -> bool,
        patience: Duration,
    ) -> (Vec<u8>, bool) {
        let strings = &self.puppet.strings;
        let _ = self.world.run_until(
            |_| is_enough(&strings.borrow().received) || strings.borrow().ended,
            patience,
        );
        (self.puppet.take_bytes(), self.puppet.has_ended())
    }
}

impl Peer for Talk<'_> {
    fn put(&mut self, bytes: &[u8]) {
        self.puppet.put(bytes);
    }

    fn pdu(&mut self) -> Option<Pdu> {
        let mut pdu = None;
        let _ = self.world.run_until(
            |_| {
                pdu = pdu.take().or_else(|| self.puppet.take());
                pdu.is_some() || self.puppet.has_ended()
            },
            PATIENCE,
        );
        pdu
    }
}
