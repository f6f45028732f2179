//! Both ends of connections on one loop, step by step.

use core::time::Duration;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use weft_io::rdma::{
    Exposure, QueuePair, QueuePairConfig, QueuePairEvent, QueuePairListener, SlotData, WorkError,
    WorkOutcome,
};
use weft_io::{Activity, Driver, DriverId, Handle, Loop, LoopConfig, Time};

/// Far more than any of this takes.
const LIMIT: Duration = Duration::from_secs(60);

pub const SLOT: u16 = 3;
pub const REQUEST: &[u8] = b"request";
pub const ACCEPT: &[u8] = b"accept";

/// The address of the device that the tests use, with any port.
pub fn address() -> SocketAddr {
    let ip = std::env::var("WEFT_RDMA_ADDRESS").unwrap_or_else(|_| "192.168.7.1".into());
    SocketAddr::new(ip.parse().expect("WEFT_RDMA_ADDRESS is an address"), 0)
}

/// Counters of the devices of this machine, if they have any: soft ones do.
pub fn counter(name: &str) -> Option<u64> {
    let devices = std::fs::read_dir("/sys/class/infiniband").ok()?;
    let of = |device: std::io::Result<std::fs::DirEntry>| {
        let path = device.ok()?.path().join("ports/1/hw_counters").join(name);
        std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    devices.filter_map(of).reduce(|sum, one| sum + one)
}

pub fn config(exposure: Option<Exposure>) -> QueuePairConfig {
    QueuePairConfig {
        send_queue: 16,
        receives: 8,
        receive_bytes: 4096,
        message_bytes: 64,
        slots: 8,
        reads: 4,
        exposure,
        lent_pieces: 4,
    }
}

pub fn memory(offset: u32, bytes: u32) -> SlotData {
    SlotData { slot: SLOT, offset, bytes }
}

/// A loop, and the time that it may take.
pub struct Bench {
    pub event_loop: Loop,
    deadline: Time,
}

impl Bench {
    pub fn new() -> Self {
        let event_loop = Loop::new(LoopConfig::default()).unwrap();
        let deadline = event_loop.handle().clock() + LIMIT;
        event_loop.handle().spawn(|id| Alarm { id, deadline });
        Self { event_loop, deadline }
    }

    pub fn on(&self) -> &Handle {
        self.event_loop.handle()
    }

    /// Runs the loop until there is something.
    pub fn until<T>(&mut self, mut there: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(it) = there() {
                return it;
            }
            assert!(self.on().clock() < self.deadline, "nothing happens");
            let _ = self.event_loop.turn(true).unwrap();
        }
    }

    /// The next event of an end.
    pub fn next(&mut self, end: &End) -> QueuePairEvent {
        self.until(|| end.events.borrow_mut().pop_front())
    }

    pub fn listen(&self) -> (Listening, SocketAddr) {
        let listener = self.on().listen_rdma(address()).unwrap();
        let at = listener.local().parse().unwrap();
        let requests = Rc::<RefCell<VecDeque<_>>>::default();
        let theirs = Rc::clone(&requests);
        self.on()
            .try_spawn(|id| {
                let mut listener = listener;
                self.on().registrar(id, |r| listener.register(r))?;
                Ok::<_, io::Error>(Accepting { listener, requests: theirs })
            })
            .unwrap();
        (Listening { requests }, at)
    }

    pub fn connect(&mut self, to: SocketAddr) -> End {
        End::new(self.on(), self.on().connect_rdma(to).unwrap())
    }

    /// Connects to a listener. The first end is the one that asked.
    pub fn pair(&mut self, exposure: Option<Exposure>) -> (End, End) {
        let (listening, at) = self.listen();
        let host = self.connect(at);
        assert_eq!(self.next(&host), QueuePairEvent::Resolved);
        host.begin(exposure);
        host.qp().open(REQUEST).unwrap();
        let request = self.until(|| listening.requests.borrow_mut().pop_front());
        assert!(request.private_data().starts_with(REQUEST));
        assert!(request.device_limits().reads > 0);
        let target = End::new(self.on(), request);
        target.begin(None);
        target.qp().open(ACCEPT).unwrap();
        assert_eq!(self.next(&host), QueuePairEvent::Established);
        assert_eq!(self.next(&target), QueuePairEvent::Established);
        assert!(host.qp().private_data().starts_with(ACCEPT));
        (host, target)
    }
}

/// Ends a loop's wait when the test takes too long.
struct Alarm {
    id: DriverId,
    deadline: Time,
}

impl Driver for Alarm {
    fn work(&mut self, on: &Handle) -> Activity {
        on.wake_at(self.id, self.deadline);
        Activity::Idle
    }
}

/// A listener on a loop.
pub struct Listening {
    pub requests: Rc<RefCell<VecDeque<Box<dyn QueuePair>>>>,
}

struct Accepting {
    listener: Box<dyn QueuePairListener>,
    requests: Rc<RefCell<VecDeque<Box<dyn QueuePair>>>>,
}

impl Driver for Accepting {
    fn receive(&mut self, _: &Handle) -> Activity {
        match self.listener.accept() {
            Ok(request) => {
                self.requests.borrow_mut().push_back(request);
                Activity::Busy
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Activity::Idle,
            Err(e) => panic!("{e}"),
        }
    }

    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

/// One end, whose events a driver takes.
pub struct End {
    qp: Rc<RefCell<Option<Box<dyn QueuePair>>>>,
    events: Rc<RefCell<VecDeque<QueuePairEvent>>>,
    driver: DriverId,
    on: Handle,
}

struct Taking {
    qp: Rc<RefCell<Option<Box<dyn QueuePair>>>>,
    events: Rc<RefCell<VecDeque<QueuePairEvent>>>,
}

impl Driver for Taking {
    fn receive(&mut self, on: &Handle) -> Activity {
        let mut qp = self.qp.borrow_mut();
        let Some(qp) = qp.as_mut() else { return Activity::Idle };
        let mut count = 0;
        while let Some(event) = qp.poll(on).unwrap() {
            self.events.borrow_mut().push_back(event);
            count += 1;
        }
        Activity::busy_if(count > 0)
    }

    fn work(&mut self, _: &Handle) -> Activity {
        Activity::Idle
    }
}

impl End {
    pub fn new(on: &Handle, qp: Box<dyn QueuePair>) -> Self {
        let (mut qp, events) = (qp, Rc::<RefCell<VecDeque<_>>>::default());
        let shared = Rc::new(RefCell::new(None));
        let taking = Taking { qp: Rc::clone(&shared), events: Rc::clone(&events) };
        let driver = on.spawn(|_| taking);
        on.registrar(driver, |r| qp.register(r)).unwrap();
        *shared.borrow_mut() = Some(qp);
        Self { qp: shared, events, driver, on: on.clone() }
    }

    /// The queue pair; its driver runs afterwards, as work that was not taken announces itself
    /// nowhere else.
    pub fn qp(&self) -> std::cell::RefMut<'_, Box<dyn QueuePair>> {
        self.on.wake(self.driver);
        std::cell::RefMut::map(self.qp.borrow_mut(), |qp| qp.as_mut().expect("it is still there"))
    }

    /// Makes the queues, and posts receives.
    pub fn begin(&self, exposure: Option<Exposure>) {
        let mut qp = self.qp();
        let config = config(exposure);
        qp.create(&config).unwrap();
        (0..config.receives).for_each(|buffer| qp.post_receive(buffer));
    }

    /// Takes the queue pair away from its loop.
    pub fn leave(self) -> Box<dyn QueuePair> {
        let mut qp = self.qp.borrow_mut().take().expect("it is still there");
        self.on.registrar(self.driver, |r| qp.deregister(r)).unwrap();
        self.on.remove(self.driver);
        qp
    }

    /// The events that are there.
    pub fn taken(&self) -> Vec<QueuePairEvent> {
        self.events.borrow_mut().drain(..).collect()
    }

    pub fn fill(&self, bytes: &[u8]) {
        let mut qp = self.qp();
        qp.prepare(SLOT, bytes.len() as u32).unwrap();
        qp.copy_in(SLOT, 0, bytes);
    }

    pub fn content(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.qp().copy_out(SLOT, 0, &mut bytes);
        bytes
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.on.remove(self.driver);
    }
}

pub fn done(id: u64) -> QueuePairEvent {
    QueuePairEvent::WorkEnded { id, ended: WorkOutcome::Done }
}

pub fn failed(id: u64, error: WorkError) -> QueuePairEvent {
    QueuePairEvent::WorkEnded { id, ended: WorkOutcome::Failed(error) }
}

pub fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 256 + seed) as u8).collect()
}
