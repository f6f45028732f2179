//! A disk by vhost-user, driven by libblkio's driver: verified requests over queues of both kinds.
#![cfg(target_os = "linux")]

use crate::support::{Scratch, Server, weft};
use memmap2::MmapMut;
use rustix::fs::{MemfdFlags, OFlags, memfd_create};
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use virtio_driver::{
    VhostUser, VirtioBlkFeatureFlags, VirtioBlkQueue, VirtioBlkTransport, VirtioFeatureFlags,
};
use weft_io::sim::Rng;
use weft_testing::wait::PATIENCE;

/// Bytes of a unit: what a request has at most, and where it may begin.
const UNIT: usize = 64 << 10;

/// Requests under way in each queue.
const DEPTH: usize = 16;

/// A guest with its driver.
struct Guest {
    transport: Box<VirtioBlkTransport>,
    queues: Vec<VirtioBlkQueue<'static, usize>>,
    memory: MmapMut,
    _file: File,
}

/// A request under way.
#[derive(Clone, Copy)]
struct Request {
    unit: usize,
    bytes: usize,
    /// What is written; of a read, None.
    seed: Option<u64>,
}

/// What was written last to a unit: seed and bytes.
type Written = Option<(u64, usize)>;

fn fill(buffer: &mut [u8], seed: u64) {
    for (n, word) in buffer.chunks_mut(8).enumerate() {
        word.copy_from_slice(&seed.wrapping_mul(n as u64 + 3).to_le_bytes());
    }
}

impl Guest {
    fn connect(path: &str, is_packed: bool, queues: usize) -> Self {
        let mut features = VirtioFeatureFlags::VERSION_1
            | VirtioFeatureFlags::RING_INDIRECT_DESC
            | VirtioFeatureFlags::RING_EVENT_IDX;
        features.set(VirtioFeatureFlags::RING_PACKED, is_packed);
        let features = features.bits() | VirtioBlkFeatureFlags::all().bits();
        let mut transport: Box<VirtioBlkTransport> =
            Box::new(VhostUser::new(path, features).unwrap());
        let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
        file.set_len((UNIT * DEPTH * queues) as u64).unwrap();
        // SAFETY: nobody shortens the file; weft writes to it while a read is under way, and then
        // nothing here looks at it.
        #[allow(unsafe_code, reason = "the memory of a guest is shared with the device")]
        let memory = unsafe { MmapMut::map_mut(&file).unwrap() };
        transport
            .map_mem_region(memory.as_ptr() as usize, memory.len(), file.as_raw_fd(), 0)
            .unwrap();
        let queues = VirtioBlkQueue::<usize>::setup_queues(&mut *transport, queues, 64).unwrap();
        Self { transport, queues, memory, _file: file }
    }

    fn notify(&mut self, queue: usize) {
        if self.queues[queue].avail_notif_needed() {
            self.transport.get_submission_notifier(queue).notify().unwrap();
        }
    }

    fn ended(&mut self, queue: usize) -> Vec<(usize, i32)> {
        self.queues[queue].completions().map(|it| (it.context, it.ret)).collect()
    }

    /// Waits for one request that is alone.
    fn one(&mut self) {
        self.notify(0);
        loop {
            match self.ended(0)[..] {
                [] => std::thread::yield_now(),
                [(_, status)] => return assert_eq!(status, 0),
                _ => panic!("several requests ended"),
            }
        }
    }

    /// Requests at random, of which each read is compared with what was written.
    fn verify(&mut self, units: usize, requests: usize, rng: &mut Rng) -> Vec<Written> {
        let mut written: Vec<Written> = vec![None; units];
        let mut slots: Vec<Option<Request>> = vec![None; DEPTH * self.queues.len()];
        let (mut begun, mut done) = (0, 0);
        while done < requests {
            for queue in 0..self.queues.len() {
                for slot in queue * DEPTH..(queue + 1) * DEPTH {
                    let unit = rng.below(units as u64) as usize;
                    let is_busy = slots.iter().flatten().any(|other| other.unit == unit);
                    if slots[slot].is_some() || is_busy || begun == requests {
                        continue;
                    }
                    begun += 1;
                    slots[slot] = Some(self.begin(queue, slot, unit, written[unit], rng));
                }
                self.notify(queue);
                for (slot, status) in self.ended(queue) {
                    assert_eq!(status, 0);
                    done += 1;
                    let Request { unit, bytes, seed } = slots[slot].take().unwrap();
                    match (seed, written[unit]) {
                        (Some(seed), _) => written[unit] = Some((seed, bytes)),
                        (None, Some((seed, _))) => {
                            let mut expected = vec![0; bytes];
                            fill(&mut expected, seed);
                            assert!(self.memory[slot * UNIT..][..bytes] == expected, "{unit}");
                        }
                        (None, None) => unreachable!("what was not written is not read"),
                    }
                }
            }
        }
        written
    }

    fn begin(
        &mut self,
        queue: usize,
        slot: usize,
        unit: usize,
        written: Written,
        rng: &mut Rng,
    ) -> Request {
        let place = (unit * UNIT) as u64;
        let buffer = &mut self.memory[slot * UNIT..][..UNIT];
        match written {
            Some((_, bytes)) if rng.below(2) == 0 => {
                buffer[..bytes].fill(0xee);
                self.queues[queue].read(place, &mut buffer[..bytes], slot).unwrap();
                Request { unit, bytes, seed: None }
            }
            _ => {
                let bytes = 512 * (1 + rng.below(UNIT as u64 / 512) as usize);
                let seed = rng.below(u64::MAX) | 1;
                fill(&mut buffer[..bytes], seed);
                self.queues[queue].write(place, &buffer[..bytes], slot).unwrap();
                Request { unit, bytes, seed: Some(seed) }
            }
        }
    }
}

#[test]
fn libblkios_driver_reads_what_it_has_written() {
    let dir = Scratch::new("vhost-user");
    let path = dir.path().join("disk.sock").display().to_string();
    let listen = format!("vhost-user:{path}?mode=600");
    let server = Server::start(
        dir.path(),
        &["ram:8MiB", "--listen", "nvme+tcp://127.0.0.1:0", "--listen", &listen],
    );
    let mut rng = Rng::new(7);
    for (is_packed, queues) in [(false, 1), (true, 1), (false, 3), (true, 3)] {
        let mut guest = Guest::connect(&path, is_packed, queues);
        let config = guest.transport.get_config().unwrap();
        assert_eq!(u64::from(config.capacity), 8 << 11);
        let written = guest.verify(96, 3000, &mut rng);
        guest.queues[0].flush(0).unwrap();
        guest.one();
        let (first, second) = (96 * UNIT as u64, 97 * UNIT as u64);
        fill(&mut guest.memory[..UNIT], 5);
        for place in [first, second] {
            guest.queues[0].write(place, &guest.memory[..UNIT], 0).unwrap();
            guest.one();
        }
        guest.queues[0].write_zeroes(first, UNIT as u64, true, 0).unwrap();
        guest.one();
        guest.queues[0].discard(second, UNIT as u64, 0).unwrap();
        guest.one();
        for place in [first, second] {
            guest.queues[0].read(place, &mut guest.memory[..UNIT], 0).unwrap();
            guest.one();
            assert!(guest.memory[..UNIT].iter().all(|byte| *byte == 0));
        }
        drop(guest);
        // A host of NVMe/TCP reads the same.
        let disk = weft_endpoint::Disk::open(server.url(), &Default::default()).unwrap();
        for (unit, written) in written.into_iter().enumerate() {
            let Some((seed, bytes)) = written else { continue };
            let (mut expected, mut buffer) = (vec![0; bytes], vec![0; bytes]);
            fill(&mut expected, seed);
            disk.read(unit as u64 * UNIT as u64 / 512, &mut buffer).unwrap();
            assert!(buffer == expected, "{unit}");
        }
    }
}

/// The eventfd of a queue is one open file of both sides: the front end fills its counter, and has a
/// write to it wait.
#[test]
fn a_front_end_that_is_not_notified_stops_nobody_else() {
    let dir = Scratch::new("vhost-user-full");
    let [path, nbd] =
        ["disk.sock", "nbd.sock"].map(|name| dir.path().join(name).display().to_string());
    let listen = [format!("vhost-user:{path}"), format!("nbd+unix:///?socket={nbd}")];
    let server = Server::start(
        dir.path(),
        &["ram:8MiB", "--threads", "1", "--listen", &listen[0], "--listen", &listen[1]],
    );
    let mut guest = Guest::connect(&path, false, 1);
    let call = guest.transport.get_completion_fd(0);
    let set = |flags| rustix::fs::fcntl_setfl(&*call, flags).unwrap();
    set(OFlags::RDWR | OFlags::NONBLOCK);
    let _ = call.read();
    call.write(u64::MAX - 1).unwrap();
    set(OFlags::RDWR);
    for _ in 0..100 {
        guest.queues[0].write(0, &guest.memory[..UNIT], 0).unwrap();
        guest.one();
        let mut client = UnixStream::connect(&nbd).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.read_exact(&mut [0; 18]).expect("the loop goes on");
    }
    drop(guest);
    assert!(server.terminate().success());
}

#[test]
fn after_a_kill_the_target_stops_what_it_may_still_execute() {
    let dir = Scratch::new("vhost-user-killed");
    let target = Server::start(dir.path(), &["ram:8MiB"]);
    let path = dir.path().join("disk.sock").display().to_string();
    let (source, listen) = (format!("{}/1", target.url()), format!("vhost-user:{path}"));
    let log = dir.path().join("log");
    let start = || {
        // What it says of a host of NVMe/TCP tells that it serves.
        let args = ["serve", &source, "--listen", "nvme+tcp://127.0.0.1:0", "--listen", &listen];
        let mut command = weft(dir.path(), &args);
        command.env("WEFT_LOG", "info").stderr(File::create(&log).unwrap());
        Server::spawn(command)
    };
    let killed = start();
    assert!(!std::fs::read_to_string(&log).unwrap().contains("waiting for writes"));
    let mut guest = Guest::connect(&path, false, 1);
    fill(&mut guest.memory[..UNIT], 5);
    guest.queues[0].write(0, &guest.memory[..UNIT], 0).unwrap();
    guest.one();
    drop((guest, killed));
    let server = start();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("waiting for writes"), "{text}");
    assert!(text.contains("they were stopped"), "{text}");
    let mut guest = Guest::connect(&path, false, 1);
    guest.queues[0].flush(0).unwrap();
    guest.one();
    guest.queues[0].read(0, &mut guest.memory[..UNIT], 0).unwrap();
    guest.one();
    let mut expected = vec![0; UNIT];
    fill(&mut expected, 5);
    assert!(guest.memory[..UNIT] == expected);
    drop(guest);
    assert!(server.terminate().success());
    let record = dir.path().join("disk.sock.disk");
    assert!(!record.exists(), "what ended in order leaves nothing");
}
