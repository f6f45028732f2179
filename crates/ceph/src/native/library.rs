//! The libraries librados and librbd, loaded when they are first asked for.

use super::types::{
    AttributesHandle, Callback, CompletionHandle, ConfigOption, ImageHandle, ImageInfo,
    IoContextHandle, NotifyCallback, RadosHandle, ReadHandle, UpdateCallback, Vector,
    WatchErrorCallback, WriteHandle,
};
use core::ffi::{c_char, c_int, c_void};
use libloading::Library as File;
use std::sync::OnceLock;
use weft_base::lock::Lock;

/// Why there are no images of Ceph here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The libraries are missing, or too old.
    #[error(
        "images of Ceph need its libraries: install librbd1 (Debian, Ubuntu, Fedora, RHEL), of release 16 or later ({0})"
    )]
    NoLibrary(String),
}

macro_rules! library {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?, of $of:ident;)*) => {
        /// The functions of both libraries, which stay loaded as long as the process lives.
        pub(crate) struct CephLibrary {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl CephLibrary {
            fn of(files: &Files) -> Result<Self, Unavailable> {
                $(
                    // SAFETY: the function has this type in the headers of version 2 of librados's
                    // interface and version 1 of librbd's, and a library of that version, which its
                    // file name states, keeps it.
                    let $name = unsafe {
                        files.$of.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(concat!(stringify!($name), "\0").as_bytes())
                    };
                    let $name = *$name.map_err(|e| missing(&e))?;
                )*
                Ok(Self { $($name,)* })
            }
        }
    };
}

struct Files {
    rados: File,
    rbd: File,
}

library! {
    rados_create2: fn(*mut RadosHandle, *const c_char, *const c_char, u64) -> c_int, of rados;
    rados_conf_read_file: fn(RadosHandle, *const c_char) -> c_int, of rados;
    rados_conf_parse_env: fn(RadosHandle, *const c_char) -> c_int, of rados;
    rados_conf_set: fn(RadosHandle, *const c_char, *const c_char) -> c_int, of rados;
    rados_connect: fn(RadosHandle) -> c_int, of rados;
    rados_shutdown: fn(RadosHandle), of rados;
    rados_cluster_fsid: fn(RadosHandle, *mut c_char, usize) -> c_int, of rados;
    rados_ioctx_create: fn(RadosHandle, *const c_char, *mut IoContextHandle) -> c_int, of rados;
    rados_ioctx_destroy: fn(IoContextHandle), of rados;
    rados_ioctx_get_id: fn(IoContextHandle) -> i64, of rados;
    rados_ioctx_set_namespace: fn(IoContextHandle, *const c_char), of rados;
    rados_set_pool_full_try: fn(IoContextHandle), of rados;
    rados_getaddrs: fn(RadosHandle, *mut *mut c_char) -> c_int, of rados;
    rados_blocklist_add: fn(RadosHandle, *mut c_char, u32) -> c_int, of rados;
    rados_wait_for_latest_osdmap: fn(RadosHandle) -> c_int, of rados;
    rados_buffer_free: fn(*mut c_char), of rados;
    rados_getxattr: fn(IoContextHandle, *const c_char, *const c_char, *mut c_char, usize) -> c_int, of rados;
    rados_setxattr: fn(IoContextHandle, *const c_char, *const c_char, *const c_char, usize) -> c_int, of rados;
    rados_getxattrs: fn(IoContextHandle, *const c_char, *mut AttributesHandle) -> c_int, of rados;
    rados_getxattrs_next: fn(AttributesHandle, *mut *const c_char, *mut *const c_char, *mut usize) -> c_int, of rados;
    rados_getxattrs_end: fn(AttributesHandle), of rados;
    rados_create_read_op: fn() -> ReadHandle, of rados;
    rados_release_read_op: fn(ReadHandle), of rados;
    rados_read_op_getxattrs: fn(ReadHandle, *mut AttributesHandle, *mut c_int), of rados;
    rados_read_op_read: fn(ReadHandle, u64, usize, *mut c_char, *mut usize, *mut c_int), of rados;
    rados_read_op_operate: fn(ReadHandle, IoContextHandle, *const c_char, c_int) -> c_int, of rados;
    rados_create_write_op: fn() -> WriteHandle, of rados;
    rados_release_write_op: fn(WriteHandle), of rados;
    rados_write_op_create: fn(WriteHandle, c_int, *const c_char), of rados;
    rados_write_op_cmpxattr: fn(WriteHandle, *const c_char, u8, *const c_char, usize), of rados;
    rados_write_op_setxattr: fn(WriteHandle, *const c_char, *const c_char, usize), of rados;
    rados_write_op_write_full: fn(WriteHandle, *const c_char, usize), of rados;
    rados_write_op_remove: fn(WriteHandle), of rados;
    rados_write_op_operate: fn(WriteHandle, IoContextHandle, *const c_char, *mut libc::time_t, c_int) -> c_int, of rados;
    rados_watch3:
        fn(IoContextHandle, *const c_char, *mut u64, NotifyCallback, WatchErrorCallback, u32, *mut c_void) -> c_int, of rados;
    rados_watch_check: fn(IoContextHandle, u64) -> c_int, of rados;
    rados_unwatch2: fn(IoContextHandle, u64) -> c_int, of rados;
    rados_watch_flush: fn(RadosHandle) -> c_int, of rados;
    rados_notify2: fn(IoContextHandle, *const c_char, *const c_char, c_int, u64, *mut *mut c_char, *mut usize) -> c_int, of rados;
    rados_notify_ack: fn(IoContextHandle, *const c_char, u64, u64, *const c_char, c_int) -> c_int, of rados;
    rbd_open: fn(IoContextHandle, *const c_char, *mut ImageHandle, *const c_char) -> c_int, of rbd;
    rbd_open_read_only: fn(IoContextHandle, *const c_char, *mut ImageHandle, *const c_char) -> c_int, of rbd;
    rbd_close: fn(ImageHandle) -> c_int, of rbd;
    rbd_stat: fn(ImageHandle, *mut ImageInfo, usize) -> c_int, of rbd;
    rbd_get_features: fn(ImageHandle, *mut u64) -> c_int, of rbd;
    rbd_get_id: fn(ImageHandle, *mut c_char, usize) -> c_int, of rbd;
    rbd_snap_get_id: fn(ImageHandle, *const c_char, *mut u64) -> c_int, of rbd;
    rbd_config_image_list: fn(ImageHandle, *mut ConfigOption, *mut c_int) -> c_int, of rbd;
    rbd_config_image_list_cleanup: fn(*mut ConfigOption, c_int), of rbd;
    rbd_update_watch: fn(ImageHandle, *mut u64, UpdateCallback, *mut c_void) -> c_int, of rbd;
    rbd_update_unwatch: fn(ImageHandle, u64) -> c_int, of rbd;
    rbd_aio_create_completion: fn(*mut c_void, Callback, *mut CompletionHandle) -> c_int, of rbd;
    rbd_aio_get_return_value: fn(CompletionHandle) -> isize, of rbd;
    rbd_aio_release: fn(CompletionHandle), of rbd;
    rbd_aio_readv: fn(ImageHandle, *const Vector, c_int, u64, CompletionHandle) -> c_int, of rbd;
    rbd_aio_writev: fn(ImageHandle, *const Vector, c_int, u64, CompletionHandle) -> c_int, of rbd;
    rbd_aio_flush: fn(ImageHandle, CompletionHandle) -> c_int, of rbd;
    rbd_aio_discard: fn(ImageHandle, u64, u64, CompletionHandle) -> c_int, of rbd;
    rbd_aio_write_zeroes: fn(ImageHandle, u64, usize, CompletionHandle, c_int, c_int) -> c_int, of rbd;
    rbd_aio_compare_and_write:
        fn(ImageHandle, u64, usize, *const c_char, *const c_char, CompletionHandle, *mut u64, c_int) -> isize, of rbd;
}

static LIBRARY: OnceLock<CephLibrary> = OnceLock::new();

/// Returns whether the libraries were loaded. Their threads may still be at work then, and what
/// they use is destroyed by `exit` before they end: a program leaves with `_exit` instead.
pub fn is_loaded() -> bool {
    LIBRARY.get().is_some()
}

/// The functions, which the first call loads. If that fails the next one tries again: the libraries
/// may have been installed meanwhile.
pub(crate) fn library() -> Result<&'static CephLibrary, Unavailable> {
    static LOADING: Lock<()> = Lock::new(());
    // One at a time: their initialisers take a while, and several images may be opened side by
    // side.
    let _one = LOADING.lock();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    // SAFETY: the initialisers of these libraries have no requirements.
    let files = unsafe {
        File::new("librados.so.2")
            .and_then(|rados| Ok(Files { rados, rbd: File::new("librbd.so.1")? }))
            .map_err(|e| missing(&e))?
    };
    let loaded = CephLibrary::of(&files)?;
    // They are never closed: the functions stay where they are, and their threads in them.
    core::mem::forget(files);
    Ok(LIBRARY.get_or_init(|| loaded))
}

fn missing(e: &libloading::Error) -> Unavailable {
    Unavailable::NoLibrary(e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Either is an answer, and the same one the next time.
    #[test]
    fn a_machine_without_the_libraries_is_told_what_to_install() {
        for _ in 0..2 {
            if let Err(why) = library() {
                assert!(why.to_string().contains("librbd1"), "{why}");
            }
        }
    }
}
