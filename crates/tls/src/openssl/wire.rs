//! Bytes of the handshake between a stream and the library: received ones, and those to send. The
//! library has them by a BIO of ours, which never blocks and never touches a socket.

use super::library::{Library, Unavailable, loaded};
use super::types::{
    BIO_CTRL_FLUSH, BIO_RETRY_ANY, BIO_RETRY_READ, BIO_SOURCE_SINK, Bio, BioMethod,
};
use crate::limits::TLS_RECORD_BYTES;
use core::ffi::{c_char, c_int, c_long, c_void};
use std::cell::RefCell;
use std::sync::OnceLock;

/// Room for one record; the library refuses one that is longer by its header.
const ROOM_BYTES: usize = TLS_RECORD_BYTES + 512;

/// Bytes in both directions.
pub(super) struct Wire {
    received: Box<[u8]>,
    /// The record that is being received.
    record: Record,
    /// Where in `received` the bytes are that the library has not taken.
    unread: core::ops::Range<usize>,
    /// What the library has written, of which so many bytes are sent.
    written: Vec<u8>,
    sent: usize,
}

impl Wire {
    pub(super) fn new() -> Self {
        Self {
            received: vec![0; ROOM_BYTES].into(),
            record: Record::default(),
            unread: 0..0,
            written: Vec::new(),
            sent: 0,
        }
    }

    /// Room for what is left of one record, or of its header; empty when the library has taken
    /// nothing of a whole load.
    pub(super) fn room_for_record(&mut self) -> &mut [u8] {
        if self.unread.start > 0 {
            self.received.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
        }
        let room = &mut self.received[self.unread.end..];
        let len = room.len().min(self.record.wanted());
        &mut room[..len]
    }

    /// So many bytes have come into that room.
    pub(super) fn came_of_record(&mut self, bytes: usize) {
        let from = self.unread.end;
        self.unread.end = (from + bytes).min(self.received.len());
        self.record.take(&self.received[from..self.unread.end]);
    }

    /// What is to be sent.
    pub(super) fn unsent(&self) -> &[u8] {
        &self.written[self.sent..]
    }

    /// So many bytes of it were sent.
    pub(super) fn went(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent >= self.written.len() {
            self.written.clear();
            self.sent = 0;
        }
    }

    /// Hands out the next bytes, at most `most`.
    fn take(&mut self, most: usize) -> &[u8] {
        let from = self.unread.start;
        self.unread.start += most.min(self.unread.len());
        &self.received[from..self.unread.start]
    }
}

/// Bytes of a record's header: type, version, and length (RFC 8446 §5.1).
const HEADER_BYTES: usize = 5;

/// How much of a record has come.
#[derive(Default)]
struct Record {
    header: [u8; HEADER_BYTES],
    /// Bytes of the header and of what follows it.
    have: usize,
}

impl Record {
    fn len(&self) -> usize {
        HEADER_BYTES + usize::from(u16::from_be_bytes([self.header[3], self.header[4]]))
    }

    /// Bytes until the end of the header, or of the record.
    fn wanted(&self) -> usize {
        if self.have < HEADER_BYTES { HEADER_BYTES - self.have } else { self.len() - self.have }
    }

    /// Takes bytes, no more than were wanted.
    fn take(&mut self, bytes: &[u8]) {
        if let Some(header) = self.header.get_mut(self.have..self.have + bytes.len()) {
            header.copy_from_slice(bytes);
        }
        self.have += bytes.len();
        if self.have >= HEADER_BYTES && self.have == self.len() {
            self.have = 0;
        }
    }
}

/// The only `BIO_METHOD`. It is never freed, and not changed once it is made.
struct Method(*const BioMethod);

// SAFETY: the library only reads what it points to, which lives as long as the process.
unsafe impl Send for Method {}
// SAFETY: as above.
unsafe impl Sync for Method {}

/// Makes the BIO of a wire, which has to live longer.
pub(super) fn bio(
    library: &'static Library,
    wire: *const RefCell<Wire>,
) -> Result<*mut Bio, Unavailable> {
    static METHOD: OnceLock<Option<Method>> = OnceLock::new();
    let method =
        METHOD.get_or_init(|| method(library)).as_ref().ok_or(Unavailable::Refused("a BIO"))?;
    // SAFETY: the method is whole; the BIO is new. The library hands the pointer back and does not
    // follow it.
    unsafe {
        let bio = (library.BIO_new)(method.0);
        if bio.is_null() {
            return Err(Unavailable::Refused("a BIO"));
        }
        (library.BIO_set_data)(bio, wire.cast_mut().cast());
        (library.BIO_set_init)(bio, 1);
        Ok(bio)
    }
}

/// Makes the method by which the library reads and writes.
fn method(library: &Library) -> Option<Method> {
    // SAFETY: the name ends with zero and lives for ever. The callbacks have the types that the
    // library calls them with.
    unsafe {
        let method = (library.BIO_meth_new)(
            (library.BIO_get_new_index)() | BIO_SOURCE_SINK,
            c"weft".as_ptr(),
        );
        let is_made = !method.is_null()
            && (library.BIO_meth_set_read)(method, read) == 1
            && (library.BIO_meth_set_write)(method, write) == 1
            && (library.BIO_meth_set_ctrl)(method, ctrl) == 1;
        is_made.then_some(Method(method.cast_const()))
    }
}

/// The wire of a BIO.
///
/// # Safety
/// The library calls back with a BIO that [`super::machine::SslMachine`] made, whose data is its
/// wire and lives longer.
unsafe fn wire<'a>(bio: *mut Bio) -> Option<&'a RefCell<Wire>> {
    let library = loaded()?;
    // SAFETY: as the caller promises.
    unsafe { (library.BIO_get_data)(bio).cast::<RefCell<Wire>>().as_ref() }
}

/// Gives the library what has come.
unsafe extern "C" fn read(bio: *mut Bio, into: *mut c_char, len: c_int) -> c_int {
    // SAFETY: the library calls this with a BIO of ours.
    let (Some(wire), Some(library)) = (unsafe { wire(bio) }, loaded()) else { return -1 };
    let (Ok(mut wire), Ok(len)) = (wire.try_borrow_mut(), usize::try_from(len)) else { return -1 };
    // SAFETY: the BIO is valid during its callback.
    unsafe { (library.BIO_clear_flags)(bio, BIO_RETRY_ANY) };
    if into.is_null() || len == 0 {
        return 0;
    }
    let bytes = wire.take(len);
    if bytes.is_empty() {
        // SAFETY: as above.
        unsafe { (library.BIO_set_flags)(bio, BIO_RETRY_READ) };
        return -1;
    }
    // SAFETY: the library gives room for `len` bytes, and these are no more; its memory is none of
    // ours.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), into.cast::<u8>(), bytes.len()) };
    bytes.len() as c_int
}

/// Takes what the library wants to be sent.
unsafe extern "C" fn write(bio: *mut Bio, from: *const c_char, len: c_int) -> c_int {
    // SAFETY: the library calls this with a BIO of ours.
    let (Some(wire), Some(library)) = (unsafe { wire(bio) }, loaded()) else { return -1 };
    let (Ok(mut wire), Ok(bytes)) = (wire.try_borrow_mut(), usize::try_from(len)) else {
        return -1;
    };
    // SAFETY: the BIO is valid during its callback.
    unsafe { (library.BIO_clear_flags)(bio, BIO_RETRY_ANY) };
    if from.is_null() || bytes == 0 {
        return 0;
    }
    // SAFETY: the library passes so many bytes, which do not change during the call.
    wire.written
        .extend_from_slice(unsafe { core::slice::from_raw_parts(from.cast::<u8>(), bytes) });
    len
}

/// Flushing has nothing to do; there is nothing else that it can.
unsafe extern "C" fn ctrl(_: *mut Bio, what: c_int, _: c_long, _: *mut c_void) -> c_long {
    c_long::from(what == BIO_CTRL_FLUSH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_byte_behind_a_record_is_received() {
        let stream = [
            &[22, 3, 3, 0, 3, 1, 2, 3][..],
            &[20, 3, 3, 0, 0],
            &[23, 3, 3, 1, 0],
            &[9; 256],
            &[22, 3],
        ]
        .concat();
        for piece in [1, 2, 4, 7, 300] {
            let (mut wire, mut at, mut ends) = (Wire::new(), 0, Vec::new());
            while at < stream.len() {
                let room = wire.room_for_record();
                let n = room.len().min(piece).min(stream.len() - at);
                assert!(n > 0);
                room[..n].copy_from_slice(&stream[at..at + n]);
                wire.came_of_record(n);
                at += n;
                if wire.record.have == 0 {
                    ends.push(at);
                }
            }
            assert_eq!(ends, [8, 13, 274], "{piece}");
            assert_eq!(wire.take(stream.len()), stream);
        }
    }

    #[test]
    fn what_is_sent_is_forgotten() {
        let mut wire = Wire::new();
        wire.written.extend_from_slice(b"abcdef");
        wire.went(4);
        assert_eq!(wire.unsent(), b"ef");
        wire.went(2);
        assert!(wire.unsent().is_empty() && wire.written.is_empty());
    }

    #[test]
    fn no_more_is_held_than_a_record() {
        let mut wire = Wire::new();
        for announced in [ROOM_BYTES, 0xffff] {
            let header = [22, 3, 3, (announced >> 8) as u8, announced as u8];
            wire.room_for_record().copy_from_slice(&header);
            wire.came_of_record(header.len());
            let room = wire.room_for_record().len();
            assert_eq!(room, ROOM_BYTES - header.len());
            wire.came_of_record(room);
            assert!(wire.room_for_record().is_empty());
            wire = Wire::new();
        }
    }
}
