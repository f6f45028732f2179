#[path = "../../../../../endpoint/tests/common/devices.rs"]
mod devices;
#[path = "../../../../../proto/tests/virtio/driver_model.rs"]
mod driver_model;
mod monitor;

use super::super::running::{ExportConfig, ListeningExport, stop_all};
use crate::export::iscsi;
use crate::inventory::{InventoryBuilder, LiveInventory, SubsystemConfig};
use devices::Testing;
use monitor::{Monitor, wait};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use weft_block::{Device, OpKind, OpenOptions};
use weft_connection::limits::VHOST_USER_CONNECTIONS_MAX;
use weft_connection::loops::{Loops, LoopsConfig};
use weft_proto::nvme::types::{Nqn, Nsid};
use weft_proto::vhost_user::{code, protocol_feature};
use weft_proto::virtio::block::BlockConfig;
use weft_testing::wait::until;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;

/// A server with one disk.
struct Served {
    loops: Loops,
    disk: Device,
    inventory: Arc<LiveInventory>,
    export: Box<dyn ListeningExport>,
    path: PathBuf,
}

fn nqn() -> Nqn {
    Nqn::new("nqn.2026-01.example:served").unwrap()
}

impl Served {
    fn start(name: &str, source: &str) -> Self {
        Self::of(name, weft_block::open(source, &OpenOptions::default()).unwrap())
    }

    fn of(name: &str, disk: Device) -> Self {
        let subsystem = SubsystemConfig::new(nqn());
        let inventory = LiveInventory::of_devices(subsystem, vec![Arc::clone(&disk)]).unwrap();
        let loops = Loops::start(&LoopsConfig { threads: Some(1), ..Default::default() }).unwrap();
        let config = ExportConfig {
            inventory: Arc::clone(&inventory),
            iscsi: iscsi::Settings::default(),
            tls: Default::default(),
            late_writers: Default::default(),
        };
        let export = super::start(&config, loops.remotes()).unwrap();
        let path = std::env::temp_dir().join(format!("weft-{name}-{}.sock", std::process::id()));
        export.listen(&format!("vhost-user:{}?mode=600", path.display())).unwrap();
        Self { disk, loops, inventory, export, path }
    }

    fn stop(self) {
        stop_all(&[&*self.export], &[]).unwrap();
        assert_eq!(self.export.connections(), 0);
        drop(self.export);
        self.loops.stop().unwrap();
        assert!(!self.path.exists(), "the socket goes with the server");
    }
}

/// All layouts of queues: packed or not, indirect or not.
const LAYOUTS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

#[test]
fn requests_of_a_guest_are_done() {
    let served = Served::start("requests", "ram:1MiB");
    for (is_packed, indirect) in LAYOUTS {
        let mut guest = Monitor::connect(&served.path, is_packed, indirect);
        guest.set_up(None);
        for round in 0..20_u8 {
            let data = vec![round + 1; 4096];
            assert_eq!(guest.run(WRITE, 8 * u64::from(round), &data, 0).1, 0);
            assert_eq!(guest.run(READ, 8 * u64::from(round), &[], 4096), (data, 0));
        }
        assert_eq!(guest.run(FLUSH, 0, &[], 0).1, 0);
        let uuid = served.inventory.now().namespaces().next().unwrap().uuid;
        let (id, status) = guest.run(GET_ID, 0, &[], 20);
        assert_eq!((&id[..], status), (&uuid.simple().to_string().as_bytes()[..20], 0));
        let range = [8_u64.to_le_bytes(), [8, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(guest.run(WRITE_ZEROES, 0, &range, 0).1, 0);
        assert_eq!(guest.run(DISCARD, 0, &range, 0).1, 0);
        assert_eq!(guest.run(READ, 8, &[], 4096), (vec![0; 4096], 0));
        // Behind the end, not of whole sectors, and of no kind.
        assert_eq!(guest.run(READ, 2048, &[], 512).1, 1);
        assert_eq!(guest.run(READ, u64::MAX, &[], 512).1, 1);
        assert_eq!(guest.run(WRITE, 0, &[1; 100], 0).1, 1);
        assert_eq!(guest.run(99, 0, &[], 0).1, 2);
    }
    served.stop();
}

#[test]
fn one_front_end_at_a_time_and_the_next_takes_up_what_was_in_flight() {
    let testing = Testing::new("ram:1MiB");
    let knobs = &testing.knobs;
    let served = Served::of("reconnect", Arc::clone(&testing) as Device);
    for (is_packed, indirect) in LAYOUTS {
        let mut guest = Monitor::connect(&served.path, is_packed, indirect);
        guest.set_up(None);
        knobs.freeze(true);
        let names = [guest.begin(WRITE, 16, &[7; 512], 0), guest.begin(WRITE, 17, &[7; 512], 0)];
        until("the device has both", || knobs.held() == 2);
        assert_eq!(guest.driver.used(), None);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                until("the next front end waits", || served.export.connections() == 2);
                knobs.freeze(false);
            });
            guest.reconnect(&served.path);
        });
        let mut ended = [guest.end().0, guest.end().0];
        ended.sort_unstable();
        assert_eq!(ended, names);
        assert_eq!(guest.run(READ, 17, &[], 512), (vec![7; 512], 0));
        // The queue is stopped and goes on.
        let base = stopped(&guest);
        guest.go_on(&served.path, base);
        assert_eq!(guest.run(READ, 16, &[], 512), (vec![7; 512], 0));
    }
    served.stop();
}

/// Stops a queue. Where it goes on.
fn stopped(guest: &Monitor) -> u32 {
    let (base, _) = guest.ask(code::GET_VRING_BASE, &[0; 8], None);
    u32::from_le_bytes(base[4..].try_into().unwrap())
}

#[test]
fn what_was_written_is_durable_before_a_queue_stops() {
    let image = std::env::temp_dir().join(format!("weft-stops-{}.img", std::process::id()));
    std::fs::File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let served = Served::start("stops", &format!("stats:file:{}", image.display()));
    let flushes = || served.disk.counted()[0].1.of(OpKind::Flush).operations;
    let mut guest = Monitor::connect(&served.path, true, true);
    guest.set_up(None);
    let before = flushes();
    assert_eq!(guest.run(READ, 0, &[], 512).1, 0);
    let base = stopped(&guest);
    assert_eq!(flushes(), before, "nothing was written");
    guest.go_on(&served.path, base);
    assert_eq!(guest.run(WRITE, 0, &[1; 512], 0).1, 0);
    assert_eq!(flushes(), before, "the driver has not asked for it");
    let base = stopped(&guest);
    assert_eq!(flushes(), before + 1);
    guest.go_on(&served.path, base);
    stopped(&guest);
    assert_eq!(flushes(), before + 1, "nothing was written since");
    drop(guest);
    served.stop();
    std::fs::remove_file(image).unwrap();
}

#[test]
fn a_guest_gets_the_answers_of_a_disk_that_is_removed_and_is_closed_then() {
    let testing = Testing::new("ram:1MiB");
    let served = Served::of("removed", Arc::clone(&testing) as Device);
    let mut guest = Monitor::connect(&served.path, false, false);
    guest.set_up(None);
    testing.knobs.freeze(true);
    let slow = guest.begin(WRITE, 16, &[7; 512], 0);
    until("the device has it", || testing.knobs.held() == 1);
    let remove =
        |builder: &mut InventoryBuilder| builder.remove_namespace(&nqn(), Nsid(1)).map(drop);
    served.inventory.change(remove).unwrap();
    testing.knobs.freeze(false);
    assert_eq!(guest.end(), (slow, 0));
    assert!(guest.is_closed());
    served.stop();
}

#[test]
fn a_server_that_drains_takes_no_other_front_end() {
    let served = Served::start("drains", "ram:1MiB");
    served.export.drain();
    wait(|| UnixStream::connect(&served.path).err());
    served.stop();
}

#[test]
fn a_change_of_size_is_told() {
    let served = Served::start("resize", "ram:1MiB");
    let mut guest = Monitor::connect(&served.path, false, false);
    guest.set_up(None);
    let ask = [0_u32, 60, 0].map(u32::to_le_bytes).concat();
    let ask = [&ask[..], &[0; 60]].concat();
    let (config, _) = guest.ask(code::GET_CONFIG, &ask, None);
    assert_eq!(BlockConfig::capacity_of(&config[12..]), 2048);
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    use std::io::Read;
    use std::os::fd::AsFd;
    assert!(guest.tell(code::SET_BACKEND_REQ_FD, &[], Some(theirs.as_fd())));
    let smaller = |builder: &mut InventoryBuilder| {
        builder.resize_namespace(&nqn(), Nsid(1), Some(1024)).map(drop)
    };
    served.inventory.change(smaller).unwrap();
    let mut message = [0; 12];
    wait(|| (&ours).read_exact(&mut message).ok());
    assert_eq!(message, [2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let (config, _) = guest.ask(code::GET_CONFIG, &ask, None);
    assert_eq!(BlockConfig::capacity_of(&config[12..]), 1024);
    assert_eq!(guest.run(READ, 1024, &[], 512).1, 1);
    // The write cache, and nothing else, is switched by the configuration.
    let set = |at: u32| [&[at, 1, 0].map(u32::to_le_bytes).concat()[..], &[0]].concat();
    assert!(guest.tell(code::SET_CONFIG, &set(32), None));
    assert!(!guest.tell(code::SET_CONFIG, &set(0), None));
    served.stop();
}

#[test]
fn a_hostile_front_end_harms_itself_only() {
    let served = Served::start("hostile", "ram:1MiB");
    let connect = || {
        let mut guest = Monitor::connect(&served.path, false, false);
        guest.set_up(None);
        guest
    };
    // Noise; a message that is none; a number of queue that is none; descriptors too few.
    for body in [&[0xff; 64][..], &[1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]] {
        let guest = connect();
        let _ = guest.socket.send(body, None);
        assert!(guest.is_closed());
    }
    for (code, body) in [(code::SET_VRING_NUM, &[0xff; 8][..]), (code::SET_VRING_KICK, &[0; 8])] {
        let guest = connect();
        guest.send(code, 0, body, None);
        assert!(guest.is_closed());
    }
    // A file of another kind in place of an eventfd, and of memory, is refused and may go on.
    let guest = connect();
    let null = std::fs::File::open("/dev/null").unwrap();
    use std::os::fd::AsFd;
    assert!(!guest.tell(code::SET_VRING_CALL, &[0; 8], Some(null.as_fd())));
    let region = [0, 1 << 40, 4096, 0, 0].map(u64::to_le_bytes).concat();
    assert!(!guest.tell(code::ADD_MEM_REG, &region, Some(null.as_fd())));
    drop(guest);
    // A ring that says more than it has: the queue stands still, and messages are answered.
    let mut guest = connect();
    use driver_model::DriverMemory;
    let driver = guest.driver.config.parts.driver;
    guest.driver.memory.put(driver + 2, &[0xff, 0xff]);
    guest.begin(FLUSH, 0, &[], 0);
    assert!(guest.ask(code::GET_QUEUE_NUM, &[], None).0.len() == 8);
    drop(guest);
    // Another one is served as ever.
    let mut guest = connect();
    assert_eq!(guest.run(WRITE, 0, &[1; 512], 0).1, 0);
    assert_eq!(
        guest.ask(code::GET_PROTOCOL_FEATURES, &[], None).0,
        protocol_feature::ALL.to_le_bytes()
    );
    served.stop();
}

#[test]
fn many_front_ends_wait_and_make_room_when_they_leave() {
    let served = Served::start("waiting", "ram:1MiB");
    let mut guest = Monitor::connect(&served.path, false, false);
    guest.set_up(None);
    let connect = || UnixStream::connect(&served.path).unwrap();
    let waiting: Vec<_> = (0..20 * VHOST_USER_CONNECTIONS_MAX).map(|_| connect()).collect();
    assert_eq!(guest.run(READ, 0, &[], 512).1, 0);
    drop((guest, waiting));
    // All that were there before are accepted first, and go.
    let mut next = Monitor::connect(&served.path, false, false);
    next.set_up(None);
    assert_eq!(next.run(READ, 0, &[], 512).1, 0);
    drop(next);
    served.stop();
}

#[test]
fn what_cannot_be_served_is_said_at_once() {
    let served = Served::start("words", "ram:1MiB");
    let text = format!("vhost-user:{}?nsid=9", served.path.display());
    assert!(served.export.listen(&text).unwrap_err().to_string().contains("no namespace 9"));
    let taken = format!("vhost-user:{}", served.path.display());
    let error = served.export.listen(&taken).unwrap_err().to_string();
    assert!(error.contains("another program listens there"), "{error}");
    let error = served.export.listen("vhost-user:/no/such/place/a.sock").unwrap_err().to_string();
    assert!(error.contains("create its directory"), "{error}");
    served.stop();
}

#[test]
fn what_a_killed_process_may_have_lost_each_queue_tells_once() {
    let disk = std::env::temp_dir().join(format!("weft-lost-{}.img", std::process::id()));
    std::fs::File::create(&disk).unwrap().set_len(1 << 20).unwrap();
    let source = format!("file:{}", disk.display());
    let served = Served::start("lost", &source);
    let kept = PathBuf::from(format!("{}.disk", served.path.display()));
    let text = std::fs::read_to_string(&kept).unwrap();
    served.stop();
    assert!(!kept.exists(), "what ended in order has left nothing");
    let statuses = |served: &Served| {
        let mut guest = Monitor::connect(&served.path, false, false);
        guest.set_up(None);
        [(); 3].map(|()| guest.run(FLUSH, 0, &[], 0).1)
    };
    // Killed, and the machine has started since: another start counter.
    let mut other: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(other["epoch"].is_u64(), "{text}");
    other["epoch"] = 1.into();
    std::fs::write(&kept, other.to_string()).unwrap();
    let served = Served::start("lost", &source);
    let now = std::fs::read_to_string(&kept).unwrap();
    let now: serde_json::Value = serde_json::from_str(&now).unwrap();
    assert_eq!(now, other, "not told yet");
    assert_eq!(statuses(&served), [1, 0, 0]);
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), text);
    served.stop();
    // Killed, and nothing else.
    std::fs::write(&kept, &text).unwrap();
    let served = Served::start("lost", &source);
    assert_eq!(statuses(&served), [0, 0, 0]);
    served.stop();
    // Killed by an older process, or with another disk: nothing is known.
    std::fs::write(&kept, "{}").unwrap();
    let served = Served::start("lost", &source);
    assert_eq!(statuses(&served), [1, 0, 0]);
    served.stop();
    std::fs::remove_file(disk).unwrap();
}
