//! A device that asks to be notified of chains, and a driver that adds one at the same time.

use super::driver_model::{DriverMemory, DriverModel};
use super::{Bytes, PARTS};
use core::cell::{Cell, RefCell};
use std::rc::Rc;
use weft_proto::virtio::chain::Chain;
use weft_proto::virtio::ring::Ring;
use weft_proto::virtio::{Outside, SharedMemory};

impl DriverMemory for Rc<Bytes> {
    fn put(&self, at: u64, from: &[u8]) {
        (**self).put(at, from);
    }

    fn get(&self, at: u64, into: &mut [u8]) {
        (**self).get(at, into);
    }
}

/// A guest whose driver adds a chain just before the device asks to be notified.
struct Late {
    driver: RefCell<DriverModel<Rc<Bytes>>>,
    indirect: bool,
    chains: Cell<u32>,
}

impl Late {
    fn memory(&self) -> Rc<Bytes> {
        Rc::clone(&self.driver.borrow().memory)
    }

    fn add(&self) {
        if let Some(left) = self.chains.get().checked_sub(1) {
            self.chains.set(left);
            self.driver.borrow_mut().add(&PARTS, self.indirect).unwrap();
        }
    }
}

impl SharedMemory for Late {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Outside> {
        self.memory().read(at, into)
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<(), Outside> {
        self.memory().write(at, from)
    }

    fn load(&self, at: u64) -> Result<u16, Outside> {
        self.memory().load(at)
    }

    /// Asking stores; for any other store no chain is left to add.
    fn store(&self, at: u64, value: u16) -> Result<(), Outside> {
        self.add();
        self.memory().store(at, value)
    }
}

#[test]
fn a_chain_that_comes_while_the_device_asks_for_notifications_hides_no_later_one() {
    for bits in 0..8 {
        let (is_packed, events, indirect) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        let memory = Rc::new(Bytes::new(1 << 16));
        let driver = DriverModel::new(memory, 8, is_packed, events);
        let config = driver.config;
        let guest = Late { driver: RefCell::new(driver), indirect, chains: Cell::new(0) };
        let mut ring = Ring::open(&guest, &config, None).unwrap();
        for late in [1, 0, 1, 1] {
            guest.chains.set(late);
            let mut chain = Chain::default();
            let mut taken = 0;
            while ring.take_or_listen(&guest, None, &mut chain).unwrap() {
                ring.give(&guest, None, &chain, 1).unwrap();
                guest.driver.borrow_mut().used().unwrap();
                taken += 1;
            }
            assert_eq!((taken, guest.driver.borrow().is_asked()), (late, true), "{bits}");
            // The next one is announced, and taken.
            guest.driver.borrow_mut().add(&PARTS, indirect).unwrap();
            assert!(ring.take_or_listen(&guest, None, &mut chain).unwrap());
            ring.give(&guest, None, &chain, 1).unwrap();
            guest.driver.borrow_mut().used().unwrap();
        }
    }
}
