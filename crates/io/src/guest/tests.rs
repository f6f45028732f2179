use super::foreign::{CALLS, Foreign, is_eventfd, is_memory, is_unix_stream};
use super::mapping::{Mapping, shared_memory};
use super::memory::{GuestMemory, GuestRegion};
use super::messages::{MessageListener, MessageSocket, SideChannel};
use super::notify::Call;
use crate::accept::Accept;
use crate::unasked::tests::{at_once, lingering};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use weft_testing::wait::PATIENCE;

fn file(len: u64) -> OwnedFd {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, len).unwrap();
    file
}

fn region(guest: u64, bytes: u64, user: u64, offset: u64) -> GuestRegion {
    GuestRegion { guest, bytes, user, offset }
}

#[test]
fn regions_are_found_by_both_addresses_and_accesses_may_cross_them() {
    let (file, mut memory) = (file(3 << 16), GuestMemory::default());
    memory.add(region(0, 1 << 16, 1 << 40, 1 << 16), file.as_fd()).unwrap();
    memory.add(region(1 << 16, 1 << 16, 1 << 41, 1 << 17), file.as_fd()).unwrap();
    let border = (1 << 16) - 2;
    assert!(memory.write(border, &[1, 2, 3, 4]));
    let mut bytes = [0; 4];
    assert!(memory.read(border, &mut bytes));
    assert_eq!((bytes, memory.load(1 << 16)), ([1, 2, 3, 4], Some(0x0403)));
    assert_eq!(memory.guest_address((1 << 41) + 16, 16), Some((1 << 16) + 16));
    assert_eq!(memory.guest_address((1 << 41) + 16, 1 << 16), None);
    assert!(!memory.write((1 << 17) - 1, &[0; 2]) && !memory.read(u64::MAX, &mut [0; 2]));
    assert!(memory.load(1).is_none() && !memory.store((1 << 17) - 1, 0));
    assert!(memory.add(region(100, 10, 0, 0), file.as_fd()).is_err(), "it overlaps");
    assert!(memory.remove(&region(0, 1 << 16, 1 << 40, 0)));
    assert!(memory.load(0).is_none() && memory.load(1 << 16).is_some());
}

#[test]
fn only_files_of_memory_that_are_long_enough_are_taken() {
    assert!(Mapping::of(file(4096).as_fd(), 0, 4097).is_err());
    assert!(Mapping::of(file(4096).as_fd(), u64::MAX, 2).is_err());
    assert!(Mapping::of(file(4096).as_fd(), 0, 0).is_err());
    let null = std::fs::File::open("/dev/null").unwrap();
    assert!(Mapping::of(null.as_fd(), 0, 1).is_err());
    let program = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    assert!(Mapping::of(program.as_fd(), 0, 1).is_err());
}

#[test]
fn memory_that_is_truncated_under_us_is_lost_and_nothing_else_happens() {
    let (file, other) = (file(1 << 20), shared_memory("other", 4096).unwrap());
    let mapping = Mapping::of(file.as_fd(), 4096, 1 << 16).unwrap();
    let safe = Mapping::of(other.as_fd(), 0, 4096).unwrap();
    assert!(mapping.write(1 << 15, &[7]) && safe.write(0, &[9]));
    ftruncate(&file, 4096).unwrap();
    assert!(!mapping.is_lost());
    let mut bytes = [1; 4];
    assert!(mapping.read(1 << 15, &mut bytes));
    assert_eq!((bytes, mapping.is_lost()), ([0; 4], true));
    assert!(mapping.write(0, &[3; 100]) && mapping.store(0, 1));
    assert!(safe.read(0, &mut bytes) && !safe.is_lost());
    assert_eq!(bytes, [9, 0, 0, 0]);
    assert!(ftruncate(&other, 0).is_err(), "what we make does not shrink");
}

#[test]
fn what_is_written_is_logged() {
    let (file, log, mut memory) = (file(1 << 20), file(4096), GuestMemory::default());
    memory.add(region(0, 1 << 20, 0, 0), file.as_fd()).unwrap();
    assert!(memory.write(0, &[1]));
    memory.log_to(Some(Mapping::of(log.as_fd(), 0, 32).unwrap()));
    assert!(memory.write(4096 * 9 + 4095, &[1, 2]) && memory.store(4096 * 17, 1));
    let mut bytes = [0; 4];
    assert!(Mapping::of(log.as_fd(), 0, 32).unwrap().read(0, &mut bytes));
    assert_eq!(bytes, [0, 6, 2, 0]);
    memory.log_to(None);
    assert!(memory.write(0, &[1]) && !memory.is_lost());
}

/// Descriptors of many kinds, and what each is taken for.
fn kinds() -> Vec<(OwnedFd, &'static str)> {
    let (stream, _) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let program = std::env::current_exe().unwrap();
    let flags = rustix::fs::OFlags::PATH;
    let place = rustix::fs::open(&program, flags, rustix::fs::Mode::empty()).unwrap();
    vec![
        (eventfd(0, EventfdFlags::CLOEXEC).unwrap(), "eventfd"),
        (file(4096), "memory"),
        (stream.into(), "stream"),
        (UnixDatagram::unbound().unwrap().into(), ""),
        (listener.into(), ""),
        (std::io::pipe().unwrap().0.into(), ""),
        (File::open(program).unwrap().into(), ""),
        (File::open("/proc/self").unwrap().into(), ""),
        (File::open("/dev/null").unwrap().into(), ""),
        (place, ""),
    ]
}

#[test]
fn descriptors_of_other_kinds_are_refused() {
    for (file, kind) in kinds() {
        let of = file.as_fd();
        assert_eq!(is_eventfd(of), kind == "eventfd", "{file:?}");
        assert_eq!(is_memory(of), kind == "memory", "{file:?}");
        assert_eq!(is_unix_stream(of), kind == "stream", "{file:?}");
        let foreign = || Foreign::alone(file.try_clone().unwrap());
        assert_eq!(Call::new(foreign()).is_ok(), kind == "eventfd");
        assert_eq!(SideChannel::new(foreign()).is_ok(), kind == "stream");
        assert_eq!(Mapping::of(of, 0, 4096).is_ok(), kind == "memory");
    }
}

#[test]
fn the_page_has_each_call_on_descriptors_of_others() {
    let page = include_str!("../../../../docs/attach/vhost-user.md");
    let (_, table) = page.split_once("<!-- calls -->\n").unwrap();
    let (table, _) = table.split_once("<!-- end of calls -->").unwrap();
    let rows: Vec<&str> = table.trim().lines().skip(2).collect();
    let expected = CALLS.map(|row| format!("| {} |", row.join(" | ")));
    assert_eq!(rows, expected);
}

/// An eventfd whose counter is full, and a write to which waits; and what it was.
fn full() -> (File, Foreign) {
    let mut file = File::from(eventfd(0, EventfdFlags::CLOEXEC).unwrap());
    file.write_all(&(u64::MAX - 1).to_ne_bytes()).unwrap();
    let of_peer = Foreign::alone(file.try_clone().unwrap().into());
    (file, of_peer)
}

fn count(file: &mut File) -> u64 {
    let mut count = [0; 8];
    file.read_exact(&mut count).unwrap();
    u64::from_ne_bytes(count)
}

#[test]
fn notifying_never_waits() {
    let (mut file, of_peer) = full();
    let call = Call::new(of_peer).unwrap();
    for _ in 0..1000 {
        call.signal();
    }
    assert!(count(&mut file) >= u64::MAX - 1);
    (0..3).for_each(|_| call.signal());
    assert_eq!(count(&mut file), 3);
    // Where the system has no asynchronous I/O a thread waits, and nobody waits for that.
    let (mut file, of_peer) = full();
    let call = Call::by_thread(of_peer).unwrap();
    for _ in 0..1000 {
        call.signal();
    }
    assert!(count(&mut file) >= u64::MAX - 1);
    assert!((1..=2).contains(&count(&mut file)), "those in between are one");
}

/// A connection that has brought such a descriptor, which has no other owner; its peer; and a
/// signal that everything is closed.
fn brings_lingering(name: &str) -> (MessageListener, MessageSocket, TcpStream, Receiver<()>) {
    let name = format!("weft-foreign-{name}-{}.sock", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let mut listener = MessageListener::listen(&path, Some(0o600)).unwrap();
    let sender = MessageSocket::connect(&path).unwrap();
    let socket = listener.accept().unwrap();
    let (stream, peer) = lingering();
    assert_eq!(sender.send(b"x", Some(stream.as_fd())).unwrap(), 1);
    let (give, closed) = channel();
    struct Guard(std::sync::mpsc::Sender<()>);
    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    socket.hold(Guard(give));
    (listener, socket, peer, closed)
}

#[test]
fn what_lingers_is_closed_elsewhere() {
    for is_received in [true, false] {
        let (_listener, socket, peer, closed) = brings_lingering(&is_received.to_string());
        at_once(move || {
            let mut files = Vec::new();
            if is_received {
                assert_eq!(socket.receive(&mut [0; 8], &mut files).unwrap(), 1);
                assert_eq!(files.len(), 1);
                assert!(Call::new(files.pop().unwrap()).is_err());
            }
        });
        assert!(closed.try_recv().is_err(), "its place is taken as long as it lingers");
        // The peer resets the connection, as it has not read.
        drop(peer);
        closed.recv_timeout(PATIENCE).expect("it is closed then");
    }
}
