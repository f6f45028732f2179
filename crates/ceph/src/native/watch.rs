//! Messages between clients about an object, and the watches that receive them.

use super::rados::RadosPool;
use super::{c_string, check};
use crate::limits::RADOS_WATCH_S;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::time::Duration;
use std::ffi::CString;
use std::sync::Arc;

const ETIMEDOUT: i32 = 110;
const EMSGSIZE: i32 = 90;

/// What is called with each message.
pub(crate) type Hearing = Box<dyn Fn(NotifyMessage) + Send + Sync>;

/// A message to those who watch an object. Whoever sent it waits for an answer; dropping it is an
/// empty one.
pub struct NotifyMessage {
    bytes: Vec<u8>,
    reply: Option<Reply>,
}

struct Reply {
    pool: Arc<RadosPool>,
    object: CString,
    id: u64,
    cookie: u64,
}

impl NotifyMessage {
    /// Returns the sent bytes. Nothing: the watch is lost, and nobody waits for an answer.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Answers it, from any thread. Does not wait.
    pub fn answer(mut self, bytes: &[u8]) {
        self.reply.take().into_iter().for_each(|reply| reply.send(bytes));
    }
}

impl Drop for NotifyMessage {
    fn drop(&mut self) {
        self.reply.take().into_iter().for_each(|reply| reply.send(&[]));
    }
}

impl Reply {
    fn send(&self, bytes: &[u8]) {
        let Self { pool, object, id, cookie } = self;
        let len = c_int::try_from(bytes.len()).unwrap_or(0);
        // SAFETY: the context exists; there are so many bytes, which the library copies; the string
        // lives until the call returns. That the watch may be over by now is the cluster's matter.
        unsafe {
            (pool.cluster.library.rados_notify_ack)(
                pool.handle,
                object.as_ptr(),
                *id,
                *cookie,
                bytes.as_ptr().cast(),
                len,
            )
        };
    }
}

impl RadosPool {
    /// Tells all who watch an object; waits until they have acknowledged it, or for `limit` (whole
    /// seconds, rounded up). Whether all have, and their answers.
    pub(crate) fn notify(
        &self,
        object: &str,
        message: &[u8],
        limit: Duration,
    ) -> Result<(bool, Vec<Vec<u8>>), i32> {
        let library = self.cluster.library;
        let (object, mut reply, mut reply_len) = (c_string(object), null_mut(), 0);
        let len = c_int::try_from(message.len()).map_err(|_| EMSGSIZE)?;
        // The library drops what is less than a second, and takes 0 for a default of its own.
        let seconds =
            (limit.as_secs() + u64::from(limit.subsec_nanos() > 0)).clamp(1, u64::from(u32::MAX));
        let from = message.as_ptr().cast();
        // SAFETY: the context exists; `message` has as many bytes as are stated; `reply` and
        // `reply_len` are written to; message and string live until the call returns.
        let told = unsafe {
            (library.rados_notify2)(
                self.handle,
                object.as_ptr(),
                from,
                len,
                seconds * 1000,
                &mut reply,
                &mut reply_len,
            )
        };
        let mut answered = Vec::new();
        if !reply.is_null() {
            // SAFETY: the library has put so many bytes there.
            answered =
                answers(unsafe { core::slice::from_raw_parts(reply.cast::<u8>(), reply_len) });
            // SAFETY: the library has made it, and nobody else has it.
            unsafe { (library.rados_buffer_free)(reply) };
        }
        match check(told) {
            Ok(_) => Ok((true, answered)),
            Err(ETIMEDOUT) => Ok((false, answered)),
            Err(error) => Err(error),
        }
    }

    /// Has `heard` called, on a thread of the library, with each message to those who watch an
    /// object, and with an empty one when the cluster has ended the watch. Waits for the cluster.
    pub(crate) fn watch(self: &Arc<Self>, object: &str, heard: Hearing) -> Result<RadosWatch, i32> {
        let library = self.cluster.library;
        let mut watch = RadosWatch {
            of: Arc::new(Watched { pool: Arc::clone(self), object: c_string(object), heard }),
            cookie: 0,
        };
        let place = Arc::as_ptr(&watch.of).cast_mut().cast::<c_void>();
        let object = watch.of.object.as_ptr();
        // SAFETY: the context exists; `cookie` is written to; the string, and what the callbacks
        // get, live until `RadosWatch` is dropped, which waits for them to be over.
        check(unsafe {
            (library.rados_watch3)(
                self.handle,
                object,
                &mut watch.cookie,
                told,
                lost,
                RADOS_WATCH_S,
                place,
            )
        })?;
        Ok(watch)
    }
}

/// The answers in what the library gives: a count, then for each a client (u64), a watch (u64), a
/// length and so many bytes; numbers are little-endian. Behind them are those who have not
/// answered.
fn answers(mut rest: &[u8]) -> Vec<Vec<u8>> {
    let mut take = |count: usize| {
        let (taken, behind) = rest.split_at_checked(count)?;
        rest = behind;
        Some(taken)
    };
    let number = |bytes: &[u8]| bytes.try_into().map(u32::from_le_bytes).unwrap_or(0);
    let count = take(4).map_or(0, number);
    let mut answer = || {
        take(16)?;
        let len = number(take(4)?);
        Some(take(usize::try_from(len).ok()?)?.to_vec())
    };
    (0..count).map_while(|_| answer()).collect()
}

/// What a watch's callbacks need.
struct Watched {
    pool: Arc<RadosPool>,
    object: CString,
    heard: Hearing,
}

/// A watch of an object. Dropping it waits for the cluster, and for `heard` to return.
pub(crate) struct RadosWatch {
    of: Arc<Watched>,
    /// The library's name of it; 0 if it was not made.
    cookie: u64,
}

impl RadosWatch {
    /// Returns whether the cluster keeps the watch, as far as is known here.
    pub(crate) fn is_kept(&self) -> bool {
        let Watched { pool, .. } = &*self.of;
        // SAFETY: the watch was made with this context, and is not over.
        check(unsafe { (pool.cluster.library.rados_watch_check)(pool.handle, self.cookie) }).is_ok()
    }
}

impl Drop for RadosWatch {
    fn drop(&mut self) {
        let Watched { pool, .. } = &*self.of;
        let library = pool.cluster.library;
        if self.cookie != 0 {
            // SAFETY: the watch was made with this context, and is ended once. It is over after
            // that even if the cluster did not agree.
            unsafe { (library.rados_unwatch2)(pool.handle, self.cookie) };
        }
        // SAFETY: the client is connected. Callbacks that were on their way have returned after
        // this, also those of a watch that could not be made.
        unsafe { (library.rados_watch_flush)(pool.cluster.raw()) };
    }
}

/// The library calls this with a message to those who watch.
unsafe extern "C" fn told(
    of: *mut c_void,
    id: u64,
    cookie: u64,
    _: u64,
    message: *mut c_void,
    len: usize,
) {
    // SAFETY: it lives until the watch is over: see `RadosPool::watch`.
    let Watched { pool, object, heard } = unsafe { &*of.cast::<Watched>() };
    let bytes = match len {
        0 => &[],
        // SAFETY: the library has so many bytes there until this returns.
        _ => unsafe { core::slice::from_raw_parts(message.cast::<u8>(), len) },
    };
    let reply = Reply { pool: Arc::clone(pool), object: object.clone(), id, cookie };
    heard(NotifyMessage { bytes: bytes.to_vec(), reply: Some(reply) });
}

/// The library calls this when the cluster has ended the watch, or may have.
unsafe extern "C" fn lost(of: *mut c_void, _: u64, _: c_int) {
    // SAFETY: as in `told`.
    let of = unsafe { &*of.cast::<Watched>() };
    (of.heard)(NotifyMessage { bytes: Vec::new(), reply: None });
}

#[cfg(test)]
mod tests {
    use super::answers;

    #[test]
    fn answers_are_those_of_all_who_gave_one() {
        let mut text = 2u32.to_le_bytes().to_vec();
        for answer in [&b"one"[..], b""] {
            text.extend([7; 16]);
            text.extend((answer.len() as u32).to_le_bytes());
            text.extend(answer);
        }
        text.extend([1, 0, 0, 0]);
        text.extend([9; 16]);
        assert_eq!(answers(&text), [&b"one"[..], b""]);
        assert_eq!(answers(&text[..10]), [[0u8; 0]; 0]);
        assert_eq!(answers(&[]), [[0u8; 0]; 0]);
    }
}
