//! What clients tell each other of an object: messages, and the watches that hear them.

use super::rados::Pool;
use super::{c_string, check};
use crate::limits::RADOS_WATCH_S;
use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};
use core::time::Duration;
use std::ffi::CString;
use std::sync::Arc;

const ETIMEDOUT: i32 = 110;
const EMSGSIZE: i32 = 90;

/// What is called with each message.
pub(crate) type Hearing = Box<dyn Fn(&[u8]) + Send + Sync>;

impl Pool {
    /// Tells all who watch an object; waits until they have acknowledged it, or for `limit` (whole seconds, rounded up). Whether all have.
    pub(crate) fn notify(&self, object: &str, message: &[u8], limit: Duration) -> Result<bool, i32> {
        let library = self.cluster.library;
        let (object, mut reply, mut reply_len) = (c_string(object), null_mut(), 0);
        let len = c_int::try_from(message.len()).map_err(|_| EMSGSIZE)?;
        // The library drops what is less than a second, and takes 0 for a default of its own.
        let seconds = (limit.as_secs() + u64::from(limit.subsec_nanos() > 0)).clamp(1, u64::from(u32::MAX));
        let from = message.as_ptr().cast();
        // SAFETY: the context exists; `message` has as many bytes as are stated; `reply` and `reply_len` are written to; message and string live until
        // the call returns.
        let told = unsafe {
            (library.rados_notify2)(self.handle, object.as_ptr(), from, len, seconds * 1000, &mut reply, &mut reply_len)
        };
        if !reply.is_null() {
            // SAFETY: the library has made it, and nobody else has it.
            unsafe { (library.rados_buffer_free)(reply) };
        }
        match check(told) {
            Ok(_) => Ok(true),
            Err(ETIMEDOUT) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Has `heard` called, on a thread of the library, with each message to those who watch an object, and with an empty one when the cluster has ended the
    /// watch. Waits for the cluster.
    pub(crate) fn watch(self: &Arc<Self>, object: &str, heard: Hearing) -> Result<Watch, i32> {
        let library = self.cluster.library;
        let mut watch = Watch { of: Arc::new(Watched { pool: Arc::clone(self), object: c_string(object), heard }), cookie: 0 };
        let place = Arc::as_ptr(&watch.of).cast_mut().cast::<c_void>();
        let object = watch.of.object.as_ptr();
        // SAFETY: the context exists; `cookie` is written to; the string, and what the callbacks get, live until `Watch` is dropped, which waits for them to
        // be over.
        check(unsafe { (library.rados_watch3)(self.handle, object, &mut watch.cookie, told, lost, RADOS_WATCH_S, place) })?;
        Ok(watch)
    }
}

/// What a watch's callbacks need.
struct Watched {
    pool: Arc<Pool>,
    object: CString,
    heard: Hearing,
}

/// A watch of an object. Dropping it waits for the cluster, and for `heard` to return.
pub(crate) struct Watch {
    of: Arc<Watched>,
    /// The library's name of it; 0 if it was not made.
    cookie: u64,
}

impl Watch {
    /// Whether the cluster keeps the watch, as far as is known here.
    pub(crate) fn is_kept(&self) -> bool {
        let Watched { pool, .. } = &*self.of;
        // SAFETY: the watch was made with this context, and is not over.
        check(unsafe { (pool.cluster.library.rados_watch_check)(pool.handle, self.cookie) }).is_ok()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Watched { pool, .. } = &*self.of;
        let library = pool.cluster.library;
        if self.cookie != 0 {
            // SAFETY: the watch was made with this context, and is ended once. It is over after that even if the cluster did not agree.
            unsafe { (library.rados_unwatch2)(pool.handle, self.cookie) };
        }
        // SAFETY: the client is connected. Callbacks that were on their way have returned after this, also those of a watch that could not be made.
        unsafe { (library.rados_watch_flush)(pool.cluster.raw()) };
    }
}

/// The library calls this with a message to those who watch.
unsafe extern "C" fn told(of: *mut c_void, id: u64, cookie: u64, _: u64, message: *mut c_void, len: usize) {
    // SAFETY: it lives until the watch is over: see `Pool::watch`.
    let Watched { pool, object, heard } = unsafe { &*of.cast::<Watched>() };
    heard(match len {
        0 => &[],
        // SAFETY: the library has so many bytes there until this returns.
        _ => unsafe { core::slice::from_raw_parts(message.cast::<u8>(), len) },
    });
    // SAFETY: the context exists, as the watch has it; nothing is sent with the answer.
    unsafe { (pool.cluster.library.rados_notify_ack)(pool.handle, object.as_ptr(), id, cookie, null(), 0) };
}

/// The library calls this when the cluster has ended the watch, or may have.
unsafe extern "C" fn lost(of: *mut c_void, _: u64, _: c_int) {
    // SAFETY: as in `told`.
    let of = unsafe { &*of.cast::<Watched>() };
    (of.heard)(&[]);
}
