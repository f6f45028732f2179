//! A virtual machine monitor with its guest, as simple as can be.

use super::driver_model::{DriverMemory, DriverModel, Part};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};
use weft_io::guest::foreign::Foreign;
use weft_io::guest::mapping::shared_memory;
use weft_io::guest::messages::MessageSocket;
use weft_io::guest::notify::new_eventfd;
use weft_proto::vhost_user::{code, protocol_feature};
use weft_proto::virtio::feature::FeatureBits;
use weft_testing::wait::PATIENCE;

/// Bytes of the guest's memory, which begins at 0, and is here in the monitor.
pub(super) const MEMORY_BYTES: u64 = 1 << 20;
const USER: u64 = 1 << 40;

/// Where requests have their header, status and data.
const HEADERS: u64 = 0;
const STATUSES: u64 = 2048;
pub(super) const DATA: u64 = 0x10000;

/// The guest's memory: a file that the device maps.
pub(super) struct GuestFile(pub File);

impl DriverMemory for GuestFile {
    fn put(&self, at: u64, from: &[u8]) {
        self.0.write_all_at(from, at).unwrap();
    }

    fn get(&self, at: u64, into: &mut [u8]) {
        self.0.read_exact_at(into, at).unwrap();
    }
}

/// See the module.
pub(super) struct Monitor {
    pub socket: MessageSocket,
    pub driver: DriverModel<GuestFile>,
    pub records: Option<(File, Vec<u8>)>,
    kick: File,
    call: File,
    pub features: u64,
    indirect: bool,
    /// Requests so far, and where those under way have their status.
    count: u64,
    statuses: Vec<(u16, u64)>,
}

/// Waits until something is there.
pub(super) fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Monitor {
    /// A guest whose memory nobody has seen yet, connected.
    pub(super) fn connect(path: &Path, is_packed: bool, indirect: bool) -> Self {
        let memory = File::from(shared_memory("guest", MEMORY_BYTES).unwrap());
        let driver = DriverModel::new(GuestFile(memory), 8, is_packed, true);
        let [kick, call] = [(); 2].map(|()| File::from(new_eventfd().unwrap()));
        let socket = MessageSocket::connect(path).unwrap();
        Self {
            socket,
            driver,
            records: None,
            kick,
            call,
            features: 0,
            indirect,
            count: 0,
            statuses: vec![],
        }
    }

    pub(super) fn send(&self, code: u32, flags: u32, body: &[u8], file: Option<BorrowedFd<'_>>) {
        let head = [code, 1 | flags, body.len() as u32].map(u32::to_le_bytes).concat();
        let message = [&head, body].concat();
        assert_eq!(self.socket.send(&message, file).unwrap(), message.len());
    }

    /// Bytes of the other end, or that it has closed the connection.
    fn receive(&self, len: usize, files: &mut Vec<Foreign>) -> Option<Vec<u8>> {
        let mut bytes = vec![0; len];
        let mut have = 0;
        while have < len {
            let got = wait(|| match self.socket.receive(&mut bytes[have..], files) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => None,
                Err(_) => Some(0),
                Ok(got) => Some(got),
            });
            if got == 0 {
                return None;
            }
            have += got;
        }
        Some(bytes)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.receive(1, &mut Vec::new()).is_none()
    }

    /// Sends a message, and gives what answers it.
    pub(super) fn ask(
        &self,
        code: u32,
        body: &[u8],
        file: Option<BorrowedFd<'_>>,
    ) -> (Vec<u8>, Vec<Foreign>) {
        self.send(code, 0, body, file);
        self.answer(code)
    }

    fn answer(&self, code: u32) -> (Vec<u8>, Vec<Foreign>) {
        let mut files = Vec::new();
        let head = self.receive(12, &mut files).expect("the connection is open");
        assert_eq!(head[..8], [code.to_le_bytes(), 5_u32.to_le_bytes()].concat());
        let len = u32::from_le_bytes(head[8..].try_into().unwrap());
        (self.receive(len as usize, &mut files).unwrap(), files)
    }

    /// Sends a message and waits for its acknowledgement. Returns whether it succeeded.
    pub(super) fn tell(&self, code: u32, body: &[u8], file: Option<BorrowedFd<'_>>) -> bool {
        self.send(code, 8, body, file);
        self.answer(code).0 == [0; 8]
    }

    /// Negotiates, and gives the memory and one queue.
    pub(super) fn set_up(&mut self, base: Option<u32>) {
        let offered = self.ask(code::GET_FEATURES, &[], None).0;
        let offered = u64::from_le_bytes(offered.try_into().unwrap());
        let packed = FeatureBits::RING_PACKED.0;
        self.features = offered & if self.driver.config.is_packed { u64::MAX } else { !packed };
        self.features &= !FeatureBits::LOG_ALL.0;
        let protocol = self.ask(code::GET_PROTOCOL_FEATURES, &[], None).0;
        assert_eq!(protocol, protocol_feature::ALL.to_le_bytes());
        self.send(code::SET_PROTOCOL_FEATURES, 0, &protocol, None);
        assert!(self.tell(code::SET_FEATURES, &self.features.to_le_bytes(), None));
        let region = [0, 0, MEMORY_BYTES, USER, 0].map(u64::to_le_bytes).concat();
        let memory = self.driver.memory.0.as_fd();
        assert!(self.tell(code::ADD_MEM_REG, &region, Some(memory)));
        self.set_records();
        let state = |number: u32| [[0; 4], number.to_le_bytes()].concat();
        let config = self.driver.config;
        assert!(self.tell(code::SET_VRING_NUM, &state(config.size.into()), None));
        assert!(self.tell(code::SET_VRING_BASE, &state(base.unwrap_or(config.base)), None));
        let parts = [config.parts.descriptors, config.parts.device, config.parts.driver];
        let places = [0, USER + parts[0], USER + parts[1], USER + parts[2], 0];
        assert!(self.tell(code::SET_VRING_ADDR, &places.map(u64::to_le_bytes).concat(), None));
        assert!(self.tell(code::SET_VRING_CALL, &[0; 8], Some(self.call.as_fd())));
        assert!(self.tell(code::SET_VRING_KICK, &[0; 8], Some(self.kick.as_fd())));
        assert!(self.tell(code::SET_VRING_ENABLE, &state(1), None));
    }

    /// Memory for what is in flight: that of before, if there was one.
    fn set_records(&mut self) {
        if self.records.is_none() {
            let wanted = [&[0; 16][..], &[1, 0, 8, 0], &[0; 4]].concat();
            let (body, mut files) = self.ask(code::GET_INFLIGHT_FD, &wanted, None);
            let file = files.pop().unwrap().as_fd().try_clone_to_owned().unwrap();
            self.records = Some((File::from(file), body));
        }
        let (file, body) = self.records.as_ref().unwrap();
        assert!(self.tell(code::SET_INFLIGHT_FD, body, Some(file.as_fd())));
    }

    /// Connects again, as the same guest.
    pub(super) fn reconnect(&mut self, path: &Path) {
        self.socket = MessageSocket::connect(path).unwrap();
        self.set_up(None);
    }

    /// Connects again, with a queue that was stopped there.
    pub(super) fn go_on(&mut self, path: &Path, base: u32) {
        self.socket = MessageSocket::connect(path).unwrap();
        self.set_up(Some(base));
    }

    /// Adds a request with data of the guest. Its name.
    pub(super) fn begin(&mut self, kind: u32, sector: u64, sent: &[u8], filled: u32) -> u16 {
        self.count += 1;
        let (header, status) = (HEADERS + 16 * (self.count % 64), STATUSES + self.count % 64);
        let memory = &self.driver.memory;
        memory.put(header, &[kind.to_le_bytes(), [0; 4]].concat());
        memory.put(header + 8, &sector.to_le_bytes());
        memory.put(DATA, sent);
        memory.put(status, &[99]);
        let mut parts: Vec<Part> = vec![(header, 16, false)];
        if !sent.is_empty() {
            parts.push((DATA, sent.len() as u32, false));
        }
        if filled > 0 {
            parts.push((DATA, filled, true));
        }
        parts.push((status, 1, true));
        self.driver.listen(true);
        let name = self.driver.add(&parts, self.indirect).expect("there is room");
        self.statuses.push((name, status));
        self.kick.write_all(&1_u64.to_ne_bytes()).unwrap();
        name
    }

    /// Waits to be notified, and gives the next request that has ended with its status.
    pub(super) fn end(&mut self) -> (u16, u8) {
        let (name, _) = wait(|| {
            let _ = self.call.read(&mut [0; 8]);
            self.driver.used()
        });
        let at = self.statuses.iter().position(|(of, _)| *of == name).expect("it was begun");
        let (_, place) = self.statuses.swap_remove(at);
        let mut status = [0];
        self.driver.memory.get(place, &mut status);
        (name, status[0])
    }

    /// One request. What it filled, and its status.
    pub(super) fn run(
        &mut self,
        kind: u32,
        sector: u64,
        sent: &[u8],
        filled: u32,
    ) -> (Vec<u8>, u8) {
        let name = self.begin(kind, sector, sent, filled);
        let (ended, status) = self.end();
        assert_eq!(ended, name);
        let mut data = vec![0; filled as usize];
        self.driver.memory.get(DATA, &mut data);
        (data, status)
    }
}
