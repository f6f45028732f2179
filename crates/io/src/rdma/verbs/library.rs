//! The libraries libibverbs and librdmacm, loaded when they are first asked for.

use super::ffi::{
    CmEvent, CmId, CompChannel, ConnParam, Context, Cq, DeviceAttr, EventChannel, Mr, Pd,
    QpInitAttr,
};
use crate::rdma::Unavailable;
use core::ffi::{CStr, c_int, c_uint, c_void};
use std::io;
use std::sync::OnceLock;

macro_rules! library {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?, of $of:ident;)*) => {
        /// The functions of both libraries, which stay loaded as long as the process lives.
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            fn load() -> Result<Self, Unavailable> {
                let verbs = open(c"libibverbs.so.1")?;
                let cm = open(c"librdmacm.so.1")?;
                let file = Files { verbs, cm };
                Ok(Self {
                    $($name: {
                        let symbol = symbol(file.$of, concat!(stringify!($name), "\0"))?;
                        // SAFETY: the function has this type in the headers of version 1 of the
                        // library's interface, and a library of that version, which its file name
                        // states, keeps it.
                        unsafe { core::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(symbol) }
                    },)*
                })
            }
        }
    };
}

struct Files {
    verbs: *mut c_void,
    cm: *mut c_void,
}

library! {
    ibv_query_device: fn(*mut Context, *mut DeviceAttr) -> c_int, of verbs;
    ibv_alloc_pd: fn(*mut Context) -> *mut Pd, of verbs;
    ibv_reg_mr: fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr, of verbs;
    ibv_dereg_mr: fn(*mut Mr) -> c_int, of verbs;
    ibv_create_comp_channel: fn(*mut Context) -> *mut CompChannel, of verbs;
    ibv_destroy_comp_channel: fn(*mut CompChannel) -> c_int, of verbs;
    ibv_create_cq: fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq, of verbs;
    ibv_destroy_cq: fn(*mut Cq) -> c_int, of verbs;
    ibv_get_cq_event: fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int, of verbs;
    ibv_ack_cq_events: fn(*mut Cq, c_uint), of verbs;
    rdma_get_devices: fn(*mut c_int) -> *mut *mut Context, of cm;
    rdma_create_event_channel: fn() -> *mut EventChannel, of cm;
    rdma_destroy_event_channel: fn(*mut EventChannel), of cm;
    rdma_create_id: fn(*mut EventChannel, *mut *mut CmId, *mut c_void, c_uint) -> c_int, of cm;
    rdma_destroy_id: fn(*mut CmId) -> c_int, of cm;
    rdma_migrate_id: fn(*mut CmId, *mut EventChannel) -> c_int, of cm;
    rdma_set_option: fn(*mut CmId, c_int, c_int, *mut c_void, usize) -> c_int, of cm;
    rdma_bind_addr: fn(*mut CmId, *mut libc::sockaddr) -> c_int, of cm;
    rdma_listen: fn(*mut CmId, c_int) -> c_int, of cm;
    rdma_resolve_addr: fn(*mut CmId, *mut libc::sockaddr, *mut libc::sockaddr, c_int) -> c_int, of cm;
    rdma_resolve_route: fn(*mut CmId, c_int) -> c_int, of cm;
    rdma_create_qp: fn(*mut CmId, *mut Pd, *mut QpInitAttr) -> c_int, of cm;
    rdma_destroy_qp: fn(*mut CmId), of cm;
    rdma_connect: fn(*mut CmId, *mut ConnParam) -> c_int, of cm;
    rdma_accept: fn(*mut CmId, *mut ConnParam) -> c_int, of cm;
    rdma_reject: fn(*mut CmId, *const c_void, u8) -> c_int, of cm;
    rdma_disconnect: fn(*mut CmId) -> c_int, of cm;
    rdma_get_cm_event: fn(*mut EventChannel, *mut *mut CmEvent) -> c_int, of cm;
    rdma_ack_cm_event: fn(*mut CmEvent) -> c_int, of cm;
}

/// The libraries, which are loaded by the first call. If that fails the next one tries again: they
/// may have been installed in the meantime.
pub(super) fn library() -> Result<&'static Library, Unavailable> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let loaded = Library::load()?;
    Ok(LIBRARY.get_or_init(|| loaded))
}

fn open(name: &CStr) -> Result<*mut c_void, Unavailable> {
    // SAFETY: a string that ends with zero; the initialisers of these libraries have no
    // requirements.
    let file = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if file.is_null() { Err(failed()) } else { Ok(file) }
}

/// `name` ends with zero.
fn symbol(file: *mut c_void, name: &'static str) -> Result<*mut c_void, Unavailable> {
    // SAFETY: `open` returned the library, which is never closed, and the string ends with zero.
    let symbol = unsafe { libc::dlsym(file, name.as_ptr().cast()) };
    if symbol.is_null() { Err(failed()) } else { Ok(symbol) }
}

fn failed() -> Unavailable {
    // SAFETY: the message stays valid until the next such call of this thread.
    let message = unsafe {
        let message = libc::dlerror();
        (!message.is_null()).then(|| CStr::from_ptr(message).to_string_lossy().into_owned())
    };
    Unavailable::NoLibrary(message.unwrap_or_else(|| "the system does not say why".into()))
}

/// The result of a function that returns −1 and sets `errno`.
pub(super) fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The result of a function that returns an object, or null and sets `errno`.
pub(super) fn check_object<T>(object: *mut T) -> io::Result<core::ptr::NonNull<T>> {
    core::ptr::NonNull::new(object).ok_or_else(io::Error::last_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Most machines that build this have no rdma-core, some have. Either is an answer, and the
    /// same one the next time.
    #[test]
    fn a_machine_without_the_libraries_is_told_what_to_install() {
        for _ in 0..2 {
            if let Err(why) = library() {
                let text = why.to_string();
                assert!(text.contains("libibverbs1") && text.contains("librdmacm"), "{text}");
                assert!(text.contains("lib"), "{text}");
            }
        }
    }
}
