//! Obstacles that another user of the machine can put in weft's way: links where it writes, and
//! clients of its sockets.
#![cfg(target_os = "linux")]

use crate::support::{Scratch, run, weft};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Resource, Rlimit, Uid, prlimit};
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use weft_endpoint::limits::{
    REFUSALS_LOGGED_MAX, REFUSALS_LOGGED_STEP_S, VHOST_USER_CONNECTIONS_MAX,
};
use weft_io::limits::CLOSING_SOCKETS_MAX;
use weft_proto::vhost_user::code;
use weft_testing::wait::until;

/// Descriptors that a message can have.
const MESSAGE_FILES_MAX: usize = 253;

/// A user that owns nothing here.
const NOBODY: u32 = 65_534;

/// A directory of another user, as far as this one may give it away, and a file that is not that
/// user's.
struct Trap {
    theirs: PathBuf,
    precious: PathBuf,
}

impl Trap {
    fn new(dir: &Scratch) -> Self {
        let (theirs, precious) = (dir.path().join("theirs"), dir.path().join("precious"));
        fs::create_dir(&theirs).unwrap();
        fs::write(&precious, "as it was").unwrap();
        fs::set_permissions(&precious, Permissions::from_mode(0o600)).unwrap();
        // Without privileges the links are this user's own, and are not followed either.
        let _ = chown(&theirs, Some(NOBODY), None);
        Self { theirs, precious }
    }

    /// A link of the other user's to the file.
    fn set(&self, name: &str) {
        let link = self.theirs.join(name);
        symlink(&self.precious, &link).unwrap();
        let _ = lchown(&link, Some(NOBODY), None);
    }

    fn is_intact(&self) -> bool {
        fs::read_to_string(&self.precious).unwrap() == "as it was"
            && fs::metadata(&self.precious).unwrap().mode() & 0o777 == 0o600
    }
}

/// Serves a disk until it listens, or has refused to. The mode of the socket, if there is one.
fn mode_of_socket(dir: &Path, socket: &Path) -> Option<u32> {
    let listen = format!("vhost-user:{}?mode=660", socket.display());
    let mut command = weft(dir, &["serve", "file:disk.img,size=1MiB", "--listen", &listen]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let listens = lines.any(|line| line.starts_with("listening on "));
    let mode = listens.then(|| fs::symlink_metadata(socket).unwrap().mode() & 0o777);
    child.kill().unwrap();
    child.wait().unwrap();
    mode
}

#[test]
fn no_link_beside_a_socket_is_followed() {
    for name in ["disk.sock.disk.new", "disk.sock.disk", "disk.sock.new", "disk.sock"] {
        let dir = Scratch::new("links");
        let trap = Trap::new(&dir);
        trap.set(name);
        let mode = mode_of_socket(dir.path(), &trap.theirs.join("disk.sock"));
        assert!(trap.is_intact(), "{name} is followed");
        let is_in_the_way = name == "disk.sock";
        assert_eq!(mode, (!is_in_the_way).then_some(0o660), "{name}");
    }
}

#[test]
fn no_link_of_a_journal_is_followed() {
    for name in ["journal.lock", "journal.new"] {
        let dir = Scratch::new("journal");
        let trap = Trap::new(&dir);
        trap.set(name);
        fs::write(dir.path().join("from"), [1; 4096]).unwrap();
        let journal = trap.theirs.join("journal").display().to_string();
        let ran = run(weft(dir.path(), &["copy", "./from", "./to", "--journal", &journal]));
        assert!(trap.is_intact(), "{name} is followed");
        let refused = name == "journal.lock";
        assert_eq!(ran.status.success(), !refused, "{ran:?}");
        assert!(!refused || ran.message().contains("symbolic link"), "{ran:?}");
    }
}

/// Connecting to such a listener may never end.
#[test]
fn a_listener_with_a_full_queue_delays_nobody() {
    let dir = Scratch::new("full");
    let socket = dir.path().join("full.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let limit = Duration::from_millis(10);
    let waiting: Vec<_> =
        std::iter::from_fn(|| weft_io::unix::connect(&socket, limit).ok()).collect();
    let path = socket.display();
    for listen in [format!("vhost-user:{path}"), format!("nbd+unix:///?socket={path}")] {
        let ran = run(weft(dir.path(), &["serve", "ram:1MiB", "--listen", &listen]));
        assert!(ran.message().contains("another program listens there"), "{ran:?}");
    }
    let ran = run(weft(dir.path(), &["status", "--control", socket.to_str().unwrap()]));
    assert!(ran.message().contains("it is busy, or hangs"), "{ran:?}");
    drop((listener, waiting));
}

/// A running weft whose log is a file.
struct Logging {
    child: Child,
    log: PathBuf,
    since: Instant,
}

impl Logging {
    fn start(dir: &Scratch, args: &[&str]) -> Self {
        let (log, since) = (dir.path().join("log"), Instant::now());
        let mut command = weft(dir.path(), args);
        command.stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.starts_with("listening on ")), "{args:?}");
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, log, since }
    }

    /// There are such lines, and no more than the limit of their rate lets through.
    fn check(&self, what: &str) {
        let log = fs::read_to_string(&self.log).unwrap();
        let lines = log.lines().filter(|line| line.contains(what)).count() as u64;
        let steps = self.since.elapsed().as_secs() / REFUSALS_LOGGED_STEP_S + 1;
        let most = u64::from(REFUSALS_LOGGED_MAX) + steps;
        assert!((1..=most).contains(&lines), "{lines} lines: {log}");
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Greets as a client of NBD: the loop has done what came before.
fn greet_nbd(socket: &Path) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
}

#[test]
fn connections_that_wait_take_few_descriptors() {
    let dir = Scratch::new("waiting");
    let [disk, nbd] = ["disk.sock", "nbd.sock"].map(|name| dir.path().join(name));
    let listen = [
        format!("vhost-user:{}", disk.display()),
        format!("nbd+unix:///?socket={}", nbd.display()),
    ];
    let args =
        ["serve", "ram:1MiB", "--threads", "1", "--listen", &listen[0], "--listen", &listen[1]];
    let server = Logging::start(&dir, &args);
    let descriptors = || {
        greet_nbd(&nbd);
        fs::read_dir(format!("/proc/{}/fd", server.child.id())).unwrap().count()
    };
    let before = descriptors();
    let waiting: Vec<_> = (0..200).map(|_| UnixStream::connect(&disk).unwrap()).collect();
    // One more for a client of NBD that is not closed yet.
    let more = descriptors().saturating_sub(before);
    assert!(more <= VHOST_USER_CONNECTIONS_MAX + 1, "{more} more");
    drop(waiting);
}

/// Sends descriptors with bytes, if the system lets them pass.
fn send_with(to: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MESSAGE_FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(files)));
    let sent = sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL);
    assert!(sent == Ok(bytes.len()) || sent == Err(rustix::io::Errno::PERM), "{sent:?}");
}

/// Sends bytes and some descriptors, the last of them that of a connection that waits for its peer
/// when it is closed. Returns the peer.
fn send_lingering(to: &UnixStream, bytes: &[u8], others: &[BorrowedFd<'_>]) -> TcpStream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 65536]).is_ok() {}
    rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(3600))).unwrap();
    send_with(to, bytes, &[others, &[stream.as_fd()]].concat());
    // If it did not pass, or is closed already, this descriptor is the last, and closing it waits. A
    // program that is started before would inherit it, and wait in execve for the same reason.
    let place = format!("/proc/self/fd/{}", stream.as_raw_fd());
    let name = || fs::read_link(&place).ok();
    let socket = name();
    std::thread::spawn(move || drop(stream));
    until("the descriptor is closed", || name() != socket);
    peer
}

#[test]
fn descriptors_that_linger_delay_nobody() {
    let dir = Scratch::new("lingering");
    let nbd = dir.path().join("nbd.sock");
    let listen = format!("nbd+unix:///?socket={}", nbd.display());
    let args = ["serve", "ram:1MiB", "--threads", "1", "--listen", &listen, "--control", "disks"];
    let _server = Logging::start(&dir, &args);
    let control = dir.path().join("run/disks.control");
    let mut peers = Vec::new();
    for socket in [&nbd, &control] {
        for _ in 0..CLOSING_SOCKETS_MAX / 2 - 1 {
            let stream = UnixStream::connect(socket).unwrap();
            peers.push(send_lingering(&stream, b"{", &[]));
        }
    }
    greet_nbd(&nbd);
    let ran = run(weft(dir.path(), &["status", "--control", "disks"]));
    assert!(ran.status.success(), "{ran:?}");
    drop(peers);
}

/// A message of a front end of vhost-user that has no content.
fn front_end_message(code: u32) -> Vec<u8> {
    [code, 1, 0].map(u32::to_le_bytes).concat()
}

/// Asks as a front end for the features, and waits for the answer.
fn ask_features(socket: &mut UnixStream) {
    socket.write_all(&front_end_message(code::GET_FEATURES)).unwrap();
    socket.read_exact(&mut [0; 20]).unwrap();
}

#[test]
fn descriptors_of_one_virtual_machine_disconnect_no_other() {
    let dir = Scratch::new("reserve");
    let paths = ["greedy.sock", "other.sock"].map(|name| dir.path().join(name));
    let [first, second] = paths.each_ref().map(|path| format!("vhost-user:{}", path.display()));
    let args = ["serve", "ram:1MiB", "--threads", "1", "--listen", &first, "--listen", &second];
    let server = Logging::start(&dir, &args);
    let [mut greedy, mut other] = paths.each_ref().map(|path| UnixStream::connect(path).unwrap());
    ask_features(&mut other);
    ask_features(&mut greedy);
    // Half of so few are reserved: as many as one message can bring.
    let few = Some(2 * MESSAGE_FILES_MAX as u64);
    let limit = Rlimit { current: few, maximum: few };
    prlimit(Some(Pid::from_child(&server.child)), Resource::Nofile, limit).unwrap();
    let memory = memfd_create("memory", MemfdFlags::CLOEXEC).unwrap();
    let others = [memory.as_fd(); MESSAGE_FILES_MAX - 1];
    let message = front_end_message(code::GET_FEATURES);
    let peer = send_lingering(&greedy, &message, &others);
    // It is disconnected, and its last descriptor stays in the reserve.
    let _ = greedy.read_to_end(&mut Vec::new());
    for _ in 0..3 {
        ask_features(&mut other);
    }
    // What brings descriptors waits for the reserve.
    send_with(&other, &front_end_message(code::SET_LOG_FD), &[memory.as_fd()]);
    until("it waits", || fs::read_to_string(&server.log).unwrap().contains("a message waits"));
    drop(peer);
    ask_features(&mut other);
}

/// Connections that are refused: many more than are logged.
const REFUSED: usize = 500;

#[test]
fn front_ends_that_break_rules_do_not_fill_the_log() {
    let dir = Scratch::new("garbage");
    let socket = dir.path().join("disk.sock");
    let listen = format!("vhost-user:{}", socket.display());
    let server = Logging::start(&dir, &["serve", "ram:1MiB", "--listen", &listen]);
    for _ in 0..REFUSED {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(&[0xff; 64]).unwrap();
        // It is closed, or reset with what was not read.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    server.check("the connection ends");
}

#[test]
fn strangers_at_a_socket_do_not_fill_the_log() {
    if !rustix::process::geteuid().is_root() {
        return weft_testing::skip("only root can be another user");
    }
    let dir = Scratch::new("flood");
    let socket = dir.path().join("daemon.sock");
    let given = socket.to_str().unwrap();
    let daemon = Logging::start(&dir, &["daemon", "--socket", given, "--allow-user", "65533"]);
    let stranger = {
        let socket = socket.clone();
        move || {
            // Of this thread alone, which ends so.
            let nobody = Uid::from_raw(NOBODY);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            for _ in 0..REFUSED {
                let _ = UnixStream::connect(&socket).unwrap().read(&mut [0]);
            }
        }
    };
    std::thread::spawn(stranger).join().unwrap();
    daemon.check("a client of the control socket was refused");
    let listed = run(weft(dir.path(), &["list", "--daemon", given]));
    assert!(listed.status.success(), "{listed:?}");
}
