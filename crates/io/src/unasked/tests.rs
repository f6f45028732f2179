use super::*;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use socket2::SockRef;
use std::io::{IoSlice, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::Duration;
use weft_testing::wait::{PATIENCE, until};

/// A connection that waits for its peer when it is closed, for longer than any test; and the
/// peer.
pub fn lingering() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    while stream.write(&[0; 65536]).is_ok() {}
    SockRef::from(&stream).set_linger(Some(Duration::from_secs(3600))).unwrap();
    (stream, peer)
}

/// Does something on a thread that must not wait.
pub fn at_once(act: impl FnOnce() + Send + 'static) {
    let (give, done) = channel();
    std::thread::spawn(move || {
        act();
        give.send(()).unwrap();
    });
    done.recv_timeout(PATIENCE).expect("it does not wait");
}

fn send(to: &UnixStream, file: &impl AsFd) -> rustix::io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(to, &[IoSlice::new(b"x")], &mut control, SendFlags::empty())
}

#[test]
fn what_came_unasked_is_closed_elsewhere_received_or_not() {
    for is_received in [true, false] {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let closing = Closing::default();
        let socket = PeerSocket::new(ours, &closing);
        let (stream, peer) = lingering();
        assert_eq!(send(&theirs, &stream), Ok(1));
        drop(stream);
        at_once(move || {
            if is_received {
                let mut bytes = [0; 8];
                let outcome = socket.recv(&mut [IoSliceMut::new(&mut bytes)]);
                assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::InvalidData);
            }
        });
        assert_eq!(closing.0.load(Ordering::Acquire), 1, "it lingers");
        // The peer resets the connection, as it has not read.
        drop(peer);
        until("all is closed", || closing.0.load(Ordering::Acquire) == 0);
    }
}

#[test]
fn a_socket_that_has_brought_nothing_more_is_closed_at_once() {
    for is_reset in [false, true] {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let closing = Closing::default();
        let mut socket = PeerSocket::new(ours, &closing);
        theirs.write_all(b"x").unwrap();
        assert_eq!(socket.recv(&mut [IoSliceMut::new(&mut [0; 8])]).unwrap(), 1);
        socket.write_all(b"y").unwrap();
        let theirs = (!is_reset).then_some(theirs);
        drop(socket);
        assert_eq!(closing.0.load(Ordering::Acquire), 0);
        assert!(!closing.is_shared());
        let read = theirs.map(|mut theirs| theirs.read_to_end(&mut Vec::new()).unwrap());
        assert!(read.is_none_or(|bytes| bytes == 1), "what was written arrives");
    }
}

#[test]
fn what_got_no_thread_is_closed_with_the_next() {
    struct Tells(std::sync::mpsc::Sender<()>);
    impl Drop for Tells {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (give, closed) = channel();
    waiting().push(Box::new(Tells(give)));
    drop_elsewhere(());
    closed.recv_timeout(PATIENCE).expect("it is closed");
}

#[test]
fn no_more_are_taken_while_many_are_being_closed() {
    let closing = Closing::default();
    let (give, take) = channel::<()>();
    struct Waits(std::sync::mpsc::Receiver<()>);
    impl Drop for Waits {
        fn drop(&mut self) {
            let _ = self.0.recv();
        }
    }
    closing.0.store(CLOSING_SOCKETS_MAX - 1, Ordering::Release);
    closing.check().unwrap();
    closing.drop_elsewhere(Waits(take));
    assert_eq!(closing.check().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    drop(give);
    until("one is closed", || closing.check().is_ok());
}

#[test]
fn a_socket_that_refuses_descriptors_gets_bytes_alone() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    if !refuse(&ours) {
        return weft_testing::skip("Linux before 6.16 has no SO_PASSRIGHTS");
    }
    let socket = PeerSocket::new(ours, &Closing::default());
    assert!(socket.refuses);
    assert_eq!(send(&theirs, &*socket), Err(rustix::io::Errno::PERM));
    theirs.write_all(b"plain").unwrap();
    let (mut first, mut second) = ([0; 2], [0; 3]);
    let bufs = &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    assert_eq!(socket.recv(bufs).unwrap(), 5);
    assert_eq!((&first, &second), (b"pl", b"ain"));
}
