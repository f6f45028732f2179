//! The connection manager: event channels and identifiers.

use super::device::Device;
use super::ffi::{
    CmEvent, CmId, ConnParam, Context, EventChannel, OPTION_ID, OPTION_ID_AFONLY, PS_TCP, Qp,
    QpInitAttr,
};
use super::library::{Library, check, check_object, library};
use crate::limits::RDMA_RESOLVE_MS;
use crate::rdma::Unavailable;
use core::ffi::c_int;
use core::ptr::{NonNull, null_mut};
use socket2::SockAddr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// A channel on which the connection manager reports events.
pub(super) struct Channel {
    library: &'static Library,
    channel: NonNull<EventChannel>,
}

// SAFETY: a channel may be used by any thread.
unsafe impl Send for Channel {}

/// Report of the connection manager.
pub(super) struct Reported {
    /// Of `cm_event`.
    pub(super) event: u32,
    pub(super) status: i32,
    pub(super) private_data: Box<[u8]>,
    /// RDMA READs that the other end has outstanding at most, and those that it answers at a time.
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    /// Of a connection request.
    pub(super) request: Option<Id>,
}

impl Channel {
    pub(super) fn new() -> io::Result<Self> {
        let library = library()?;
        // SAFETY: it has no requirements.
        let channel = check_object(unsafe { (library.rdma_create_event_channel)() });
        let channel = channel.map_err(|e| match e.raw_os_error() {
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => e,
            _ => Unavailable::NoDevice(e.to_string()).into(),
        })?;
        let new = Self { library, channel };
        dont_block(new.fd())?;
        Ok(new)
    }

    pub(super) fn fd(&self) -> RawFd {
        // SAFETY: the channel lives as long as `self`.
        unsafe { (*self.channel.as_ptr()).fd }
    }

    /// The next event, if there is one. It is acknowledged at once, so that no identifier has to
    /// wait for that.
    pub(super) fn next(&self) -> io::Result<Option<Reported>> {
        let mut event: *mut CmEvent = null_mut();
        // SAFETY: the channel lives, and there is room for the answer.
        match check(unsafe {
            (self.library.rdma_get_cm_event)(self.channel.as_ptr(), &raw mut event)
        }) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(e) => return Err(e),
            Ok(()) => {}
        }
        // SAFETY: the library has set it; it and its private data stay until it is acknowledged.
        let (id, mut reported) = unsafe {
            let event = &*event;
            let conn = &event.conn;
            let has_data = tells_private_data(event.event) && !conn.private_data.is_null();
            let len = if has_data { usize::from(conn.private_data_len) } else { 0 };
            let data = if len == 0 {
                &[][..]
            } else {
                core::slice::from_raw_parts(conn.private_data.cast::<u8>(), len)
            };
            let reported = Reported {
                event: event.event,
                status: event.status,
                private_data: data.into(),
                responder_resources: conn.responder_resources,
                initiator_depth: conn.initiator_depth,
                request: None,
            };
            (event.id, reported)
        };
        // SAFETY: it came from the library, and is not used afterwards.
        check(unsafe { (self.library.rdma_ack_cm_event)(event) })?;
        if reported.event == super::ffi::cm_event::CONNECT_REQUEST {
            reported.request = NonNull::new(id).map(|id| Id { library: self.library, id });
        }
        Ok(Some(reported))
    }
}

fn tells_private_data(event: u32) -> bool {
    use super::ffi::cm_event::{CONNECT_REQUEST, ESTABLISHED, REJECTED};
    matches!(event, CONNECT_REQUEST | ESTABLISHED | REJECTED)
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: its identifiers are gone: whoever has them drops them first.
        unsafe { (self.library.rdma_destroy_event_channel)(self.channel.as_ptr()) }
    }
}

/// Makes calls on a descriptor return at once.
pub(super) fn dont_block(fd: RawFd) -> io::Result<()> {
    // SAFETY: the caller has the descriptor open; its other flags are kept.
    let result = unsafe {
        let flags = libc::fcntl(fd, libc::F_GETFL);
        if flags < 0 { flags } else { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) }
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// An identifier: a listener, or an end of a connection. Its channel is dropped after it.
pub(super) struct Id {
    library: &'static Library,
    id: NonNull<CmId>,
}

// SAFETY: an identifier may be used by any thread.
unsafe impl Send for Id {}

impl Id {
    pub(super) fn new(channel: &Channel) -> io::Result<Self> {
        let mut id = null_mut();
        // SAFETY: the channel lives, and there is room for the answer.
        check(unsafe {
            (channel.library.rdma_create_id)(
                channel.channel.as_ptr(),
                &raw mut id,
                null_mut(),
                PS_TCP,
            )
        })?;
        Ok(Self { library: channel.library, id: check_object(id)? })
    }

    /// Reports on another channel from now on.
    pub(super) fn migrate(&self, to: &Channel) -> io::Result<()> {
        // SAFETY: both live, and the channel lives longer.
        check(unsafe { (self.library.rdma_migrate_id)(self.id.as_ptr(), to.channel.as_ptr()) })
    }

    pub(super) fn listen(&self, at: SocketAddr, backlog: c_int) -> io::Result<()> {
        if at.is_ipv6() {
            let mut only: c_int = 1;
            // SAFETY: the option is of this type.
            check(unsafe {
                (self.library.rdma_set_option)(
                    self.id.as_ptr(),
                    OPTION_ID,
                    OPTION_ID_AFONLY,
                    (&raw mut only).cast(),
                    size_of::<c_int>(),
                )
            })?;
        }
        let address = SockAddr::from(at);
        // SAFETY: the address is read only.
        let bound = check(unsafe {
            (self.library.rdma_bind_addr)(self.id.as_ptr(), address.as_ptr().cast_mut().cast())
        });
        bound.map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => io::Error::new(
                io::ErrorKind::AddrNotAvailable,
                format!("no RDMA device has the address {}", at.ip()),
            ),
            _ => e,
        })?;
        // SAFETY: the identifier lives.
        check(unsafe { (self.library.rdma_listen)(self.id.as_ptr(), backlog) })
    }

    pub(super) fn resolve_address(&self, to: SocketAddr) -> io::Result<()> {
        let address = SockAddr::from(to);
        // SAFETY: the address is read only.
        check(unsafe {
            (self.library.rdma_resolve_addr)(
                self.id.as_ptr(),
                null_mut(),
                address.as_ptr().cast_mut().cast(),
                RDMA_RESOLVE_MS,
            )
        })
    }

    pub(super) fn resolve_route(&self) -> io::Result<()> {
        // SAFETY: the identifier lives.
        check(unsafe { (self.library.rdma_resolve_route)(self.id.as_ptr(), RDMA_RESOLVE_MS) })
    }

    /// The context of the device, once the address is resolved.
    pub(super) fn context(&self) -> Option<NonNull<Context>> {
        // SAFETY: the identifier lives.
        NonNull::new(unsafe { (*self.id.as_ptr()).verbs })
    }

    pub(super) fn source(&self) -> Option<SocketAddr> {
        // SAFETY: the identifier lives, and nobody writes to its addresses between calls.
        socket_address(unsafe { &(*self.id.as_ptr()).source })
    }

    pub(super) fn destination(&self) -> Option<SocketAddr> {
        // SAFETY: as above.
        socket_address(unsafe { &(*self.id.as_ptr()).destination })
    }

    /// Makes the queue pair.
    ///
    /// # Safety
    /// The completion queues of `attr` live until it is destroyed.
    pub(super) unsafe fn create_qp(
        &self,
        device: &Device,
        attr: &mut QpInitAttr,
    ) -> io::Result<NonNull<Qp>> {
        // SAFETY: the identifier is of that device, and the protection domain stays.
        check(unsafe {
            (self.library.rdma_create_qp)(self.id.as_ptr(), device.pd.as_ptr(), attr)
        })?;
        // SAFETY: the identifier lives.
        check_object(unsafe { (*self.id.as_ptr()).qp })
    }

    pub(super) fn destroy_qp(&self) {
        // SAFETY: the identifier lives; the library looks whether there is one.
        unsafe {
            if !(*self.id.as_ptr()).qp.is_null() {
                (self.library.rdma_destroy_qp)(self.id.as_ptr());
            }
        }
    }

    pub(super) fn connect(
        &self,
        private_data: &[u8],
        responder_resources: u8,
        initiator_depth: u8,
    ) -> io::Result<()> {
        let mut param = parameters(private_data, responder_resources, initiator_depth)?;
        // SAFETY: the identifier lives, and the private data is read only.
        check(unsafe { (self.library.rdma_connect)(self.id.as_ptr(), &raw mut param) })
    }

    pub(super) fn accept(
        &self,
        private_data: &[u8],
        responder_resources: u8,
        initiator_depth: u8,
    ) -> io::Result<()> {
        let mut param = parameters(private_data, responder_resources, initiator_depth)?;
        // SAFETY: as above.
        check(unsafe { (self.library.rdma_accept)(self.id.as_ptr(), &raw mut param) })
    }

    pub(super) fn reject(&self, private_data: &[u8]) -> io::Result<()> {
        let len = u8::try_from(private_data.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        // SAFETY: as above.
        check(unsafe {
            (self.library.rdma_reject)(self.id.as_ptr(), private_data.as_ptr().cast(), len)
        })
    }

    /// Puts the queue pair into its error state, and tells the other end.
    pub(super) fn disconnect(&self) -> io::Result<()> {
        // SAFETY: the identifier lives.
        check(unsafe { (self.library.rdma_disconnect)(self.id.as_ptr()) })
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: it has no queue pair any more, and all its events were acknowledged. A failure
        // means that the system has forgotten it.
        unsafe {
            (self.library.rdma_destroy_id)(self.id.as_ptr());
        }
    }
}

/// The other end's receives come back, so that a SEND without one waits for them without end; one
/// that gets no answer is tried 6 times more.
fn parameters(
    private_data: &[u8],
    responder_resources: u8,
    initiator_depth: u8,
) -> io::Result<ConnParam> {
    Ok(ConnParam {
        private_data: private_data.as_ptr().cast(),
        private_data_len: u8::try_from(private_data.len())
            .map_err(|_| io::ErrorKind::InvalidInput)?,
        responder_resources,
        initiator_depth,
        flow_control: 1,
        // The most that ends: soft RoCE takes seven for no end.
        retry_count: 6,
        rnr_retry_count: 7,
        srq: 0,
        qp_num: 0,
    })
}

fn socket_address(of: &libc::sockaddr_storage) -> Option<SocketAddr> {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
    match i32::from(of.ss_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family has this form, and the storage has room and
            // alignment for every form.
            let of = unsafe { &*core::ptr::from_ref(of).cast::<libc::sockaddr_in>() };
            Some(
                SocketAddrV4::new(
                    Ipv4Addr::from(u32::from_be(of.sin_addr.s_addr)),
                    u16::from_be(of.sin_port),
                )
                .into(),
            )
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let of = unsafe { &*core::ptr::from_ref(of).cast::<libc::sockaddr_in6>() };
            let address = Ipv6Addr::from(of.sin6_addr.s6_addr);
            Some(
                SocketAddrV6::new(
                    address,
                    u16::from_be(of.sin6_port),
                    u32::from_be(of.sin6_flowinfo),
                    of.sin6_scope_id,
                )
                .into(),
            )
        }
        _ => None,
    }
}
