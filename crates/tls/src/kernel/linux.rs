//! The system calls of kernel TLS (`Documentation/networking/tls.rst`).

use super::direction::TlsDirection;
use core::ffi::{c_int, c_void};
use core::mem::{size_of, zeroed};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};
use weft_io::stream::Stream;

/// A connected TCP socket.
pub(crate) type Socket<'a> = BorrowedFd<'a>;

/// `TCP_ULP`.
const TCP_ULP: c_int = 31;
/// `SOL_TLS`.
const SOL_TLS: c_int = 282;
/// `TLS_RX_EXPECT_NO_PAD`.
const TLS_RX_EXPECT_NO_PAD: c_int = 4;
/// `TLS_SET_RECORD_TYPE`.
const TLS_SET_RECORD_TYPE: c_int = 1;
/// `TLS_GET_RECORD_TYPE`.
const TLS_GET_RECORD_TYPE: c_int = 2;

/// The type of records with data.
const APPLICATION_DATA: u8 = 23;

/// Room for one control message with a record's type.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

const CONTROL_BYTES: usize = 64;

impl TlsDirection {
    /// `TLS_TX` or `TLS_RX`.
    const fn option(self) -> c_int {
        match self {
            Self::Send => 1,
            Self::Receive => 2,
        }
    }
}

/// The socket of a stream, if it is one of TCP.
pub(crate) fn socket(stream: &dyn Stream) -> Option<Socket<'_>> {
    stream.descriptor()
}

fn done(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set(socket: Socket<'_>, level: c_int, option: c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the descriptor is open, and the system only reads so many bytes.
    done(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    })
}

/// Puts TLS between the socket and TCP; without keys it changes nothing.
///
/// # Errors
/// `NotFound`: this kernel has none, or may not load it. `NotConnected`: the connection is over.
pub(crate) fn attach(socket: Socket<'_>) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, TCP_ULP, b"tls")
}

pub(super) fn set_keys(socket: Socket<'_>, direction: TlsDirection, keys: &[u8]) -> io::Result<()> {
    set(socket, SOL_TLS, direction.option(), keys)
}

pub(super) fn keys(socket: Socket<'_>, direction: TlsDirection, into: &mut [u8]) -> io::Result<()> {
    let mut len = into.len() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the system writes at most so many bytes.
    done(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            SOL_TLS,
            direction.option(),
            into.as_mut_ptr().cast(),
            &raw mut len,
        )
    })
}

/// Lets the kernel decrypt to where the data is received, as long as no record is padded. One that
/// is padded is decrypted twice. Kernels before 6.0 do not know this.
pub(crate) fn expect_no_padding(socket: Socket<'_>) {
    let _ = set(socket, SOL_TLS, TLS_RX_EXPECT_NO_PAD, &1_i32.to_ne_bytes());
}

/// Sends a record that is not data.
///
/// # Errors
/// The socket's.
pub(crate) fn send(socket: Socket<'_>, kind: u8, bytes: &[u8]) -> io::Result<usize> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut piece =
        libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast::<c_void>(), iov_len: bytes.len() };
    // SAFETY: all zeroes is a valid message.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: the room for control messages is aligned for their headers and longer than one with a
    // byte; the system reads what these pointers lead to, and it stays until the call is over.
    let sent = unsafe {
        message.msg_controllen = libc::CMSG_SPACE(1) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = SOL_TLS;
        (*header).cmsg_type = TLS_SET_RECORD_TYPE;
        (*header).cmsg_len = libc::CMSG_LEN(1) as _;
        *libc::CMSG_DATA(header) = kind;
        libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives from records of one type; tells which.
///
/// # Errors
/// The socket's.
pub(crate) fn receive(socket: Socket<'_>, into: &mut IoSliceMut<'_>) -> io::Result<(u8, usize)> {
    let mut control = Control([0; CONTROL_BYTES]);
    let mut piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: all zeroes is a valid message.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&raw mut piece, 1);
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: the system writes at most so many bytes to where these pointers lead, which is
    // aligned for headers of control messages. It has written whole ones when they are read.
    unsafe {
        let received = libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0);
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let told = !header.is_null()
            && (*header).cmsg_level == SOL_TLS
            && (*header).cmsg_type == TLS_GET_RECORD_TYPE;
        Ok((if told { *libc::CMSG_DATA(header) } else { APPLICATION_DATA }, received))
    }
}
