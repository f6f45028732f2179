//! Operations on images. Each one owns its memory while the library has it. The library reports its
//! end on a thread of its own, by a list without a lock and, if the loop waits, an event
//! descriptor; the loop that began it takes it from there.

use super::image::Image;
use super::library::CephLibrary;
use super::types::{CompletionHandle, Vector, WRITE_ZEROES_THICK};
use core::cell::RefCell;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use rustix::event::{EventfdFlags, eventfd};
use smallvec::SmallVec;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use weft_io::Segments;
use weft_io::segment::{pieces, total_len};

/// Records of ended operations that a loop keeps for the next ones.
const SPARE: usize = 1024;

/// What to do with bytes of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageRequest {
    /// Read from this offset into the memory, which is writable.
    Read { offset: u64 },
    /// Write the memory from this offset on.
    Write { offset: u64 },
    /// Make sure that all ended writes are stored.
    Flush,
    /// The bytes are no longer needed.
    Discard { offset: u64, len: u64 },
    /// The bytes become zeroes; `thick`: zeroes that take space.
    WriteZeroes { offset: u64, len: u64, thick: bool },
    /// Compare with the first half of the memory, and write the second half if they are equal.
    CompareAndWrite { offset: u64 },
}

/// An operation that the library has not taken: its error number, and what came with it.
pub(crate) struct RefusedRequest<R> {
    pub(crate) error: i32,
    pub(crate) memory: Segments,
    pub(crate) rest: R,
}

/// An operation that has ended.
pub(crate) struct Landed<R> {
    /// Bytes, zero, or a negative error number.
    pub(crate) result: i64,
    /// The memory that it was given.
    pub(crate) memory: Segments,
    /// What came with it.
    pub(crate) rest: R,
}

/// An operation that the library has.
struct Flight<R> {
    /// The next one in the list of those that have ended.
    next: *mut Flight<R>,
    result: i64,
    inbox: Arc<Inbox<R>>,
    library: &'static CephLibrary,
    /// The image that it is on: open until it has ended.
    image: Option<Image>,
    memory: Segments,
    /// Where the memory lies, for the library.
    vectors: SmallVec<[Vector; 4]>,
    /// Both halves of a compare-and-write whose memory is in pieces.
    gathered: Vec<u8>,
    /// Where a comparison found a difference: the library writes to it.
    mismatch: u64,
    rest: Option<R>,
}

/// Operations that have ended and that their loop has not taken yet.
struct Inbox<R> {
    /// The last one that ended.
    last: AtomicPtr<Flight<R>>,
    /// The loop has found nothing, and waits for the event.
    waiting: AtomicBool,
    event: OwnedFd,
}

// SAFETY: threads of the library only touch the list and the event. What hangs in the list belongs
// to the loop, which alone takes it out (`Arrivals` does not leave its thread); what nobody takes
// is leaked.
unsafe impl<R> Send for Inbox<R> {}
// SAFETY: as above.
unsafe impl<R> Sync for Inbox<R> {}

/// The operations of one loop on images of any cluster.
pub(crate) struct Arrivals<R> {
    inbox: Arc<Inbox<R>>,
    spare: RefCell<Vec<Box<Flight<R>>>>,
    /// It stays on its thread.
    _here: Rc<()>,
}

impl<R> Arrivals<R> {
    /// An empty one.
    ///
    /// # Errors
    /// The system has no event descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let inbox =
            Inbox { last: AtomicPtr::new(null_mut()), waiting: AtomicBool::new(false), event };
        Ok(Self { inbox: Arc::new(inbox), spare: RefCell::default(), _here: Rc::new(()) })
    }

    /// The descriptor that becomes readable when an operation ends after [`Arrivals::take`] found
    /// none.
    pub(crate) fn fd(&self) -> RawFd {
        self.inbox.event.as_raw_fd()
    }

    /// Gives an operation to the library. It comes out of [`Arrivals::take`], once, on this thread.
    pub(crate) fn start(
        &self,
        image: &Image,
        request: ImageRequest,
        memory: Segments,
        rest: R,
    ) -> Result<(), RefusedRequest<R>> {
        let mut flight = self
            .spare
            .borrow_mut()
            .pop()
            .unwrap_or_else(|| Box::new(Flight::empty(&self.inbox, image.library())));
        flight.image = Some(image.clone());
        flight.memory = memory;
        flight.rest = Some(rest);
        flight.prepare(request);
        let flight = Box::into_raw(flight);
        // SAFETY: the record is of this loop, complete, and in no list. It is not used here
        // afterwards unless the library has refused it.
        match unsafe { begin(image, flight, request) } {
            Ok(()) => Ok(()),
            Err(error) => {
                // SAFETY: it comes from `into_raw` above, and the library has not taken it.
                let Landed { memory, rest, .. } = self.unload(unsafe { Box::from_raw(flight) });
                Err(RefusedRequest { error, memory, rest })
            }
        }
    }

    /// Passes on all operations that have ended, in the order in which they did; returns how many.
    /// After 0 the descriptor announces the next one.
    pub(crate) fn take(&self, mut each: impl FnMut(Landed<R>)) -> usize {
        let mut list = self.inbox.last.swap(null_mut(), Ordering::AcqRel);
        if list.is_null() {
            // The one who ends an operation puts it into the list and then looks whether the loop
            // waits; so one of the two sees the other.
            self.inbox.waiting.store(true, Ordering::SeqCst);
            list = self.inbox.last.swap(null_mut(), Ordering::SeqCst);
            if list.is_null() {
                return 0;
            }
            self.inbox.waiting.store(false, Ordering::Relaxed);
        }
        let mut first = null_mut();
        while !list.is_null() {
            // SAFETY: what is in the list belongs to this loop, and its links were written before
            // it was put there.
            let next = unsafe { core::mem::replace(&mut (*list).next, first) };
            (first, list) = (list, next);
        }
        let mut count = 0;
        while !first.is_null() {
            // SAFETY: it comes from `into_raw` in `start`, and the library has done with it.
            let flight = unsafe { Box::from_raw(first) };
            first = flight.next;
            each(self.unload(flight));
            count += 1;
        }
        count
    }

    /// Takes out what a record holds, and keeps the record.
    fn unload(&self, mut flight: Box<Flight<R>>) -> Landed<R> {
        flight.image = None;
        flight.vectors.clear();
        flight.gathered = Vec::new();
        let memory = core::mem::take(&mut flight.memory);
        let rest = flight.rest.take().expect("a record in flight has its rest");
        let landed = Landed { result: flight.result, memory, rest };
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE {
            spare.push(flight);
        }
        landed
    }
}

impl<R> Flight<R> {
    fn empty(inbox: &Arc<Inbox<R>>, library: &'static CephLibrary) -> Self {
        Self {
            next: null_mut(),
            result: 0,
            inbox: Arc::clone(inbox),
            library,
            image: None,
            memory: Segments::new(),
            vectors: SmallVec::new(),
            gathered: Vec::new(),
            mismatch: 0,
            rest: None,
        }
    }

    /// Writes down where the memory lies.
    fn prepare(&mut self, request: ImageRequest) {
        match request {
            ImageRequest::Read { .. } => {
                self.vectors.extend(self.memory.iter_mut().map(|segment| {
                    let bytes: &mut [u8] = segment;
                    Vector { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
                }))
            }
            ImageRequest::Write { .. } => self.vectors.extend(self.memory.iter().map(|segment| {
                let bytes: &[u8] = segment;
                // The library does not write to it.
                Vector { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
            })),
            ImageRequest::CompareAndWrite { .. } if self.memory.len() > 1 => {
                pieces(&self.memory, 0, total_len(&self.memory))
                    .for_each(|piece| self.gathered.extend_from_slice(piece));
            }
            _ => {}
        }
    }

    /// Both halves of a compare-and-write, in one piece.
    fn halves(&self) -> (&[u8], &[u8]) {
        let whole: &[u8] = match &self.memory[..] {
            [only] => only,
            _ => &self.gathered,
        };
        whole.split_at(whole.len() / 2)
    }
}

/// Gives a record to the library.
///
/// # Safety
/// `flight` points to a complete record that was boxed, is in no list and is used by nobody else;
/// unless this fails it belongs to the library until it has called `ended`.
unsafe fn begin<R>(
    image: &Image,
    flight: *mut Flight<R>,
    request: ImageRequest,
) -> Result<(), i32> {
    let (library, handle) = (image.library(), image.raw());
    let mut completion: CompletionHandle = null_mut();
    // SAFETY: `completion` is written to; the record stays until `ended` has been called with it.
    super::check(unsafe {
        (library.rbd_aio_create_completion)(flight.cast(), ended::<R>, &mut completion)
    })?;
    // SAFETY: nobody else uses the record before the calls below; what is borrowed of it lies
    // behind these pointers until it has ended.
    let (vectors, count, (old, new)) = unsafe {
        let record = &*flight;
        (record.vectors.as_ptr(), record.vectors.len() as c_int, record.halves())
    };
    // SAFETY: the record keeps the image open until the operation has ended. It owns the memory at
    // which the vectors and the halves point, the vectors themselves and `mismatch`, and none of
    // them is moved, used or freed before that. Memory that is read into is writable.
    let begun = unsafe {
        match request {
            ImageRequest::Read { offset } => {
                (library.rbd_aio_readv)(handle, vectors, count, offset, completion)
            }
            ImageRequest::Write { offset } => {
                (library.rbd_aio_writev)(handle, vectors, count, offset, completion)
            }
            ImageRequest::Flush => (library.rbd_aio_flush)(handle, completion),
            ImageRequest::Discard { offset, len } => {
                (library.rbd_aio_discard)(handle, offset, len, completion)
            }
            ImageRequest::WriteZeroes { offset, len, thick } => {
                let flags = if thick { WRITE_ZEROES_THICK } else { 0 };
                (library.rbd_aio_write_zeroes)(handle, offset, len as usize, completion, flags, 0)
            }
            ImageRequest::CompareAndWrite { offset } => {
                let (first, second, len) = (old.as_ptr().cast(), new.as_ptr().cast(), old.len());
                let mismatch = &raw mut (*flight).mismatch;
                (library.rbd_aio_compare_and_write)(
                    handle, offset, len, first, second, completion, mismatch, 0,
                ) as c_int
            }
        }
    };
    if begun < 0 {
        // SAFETY: the library has not begun, so it does not call `ended`.
        unsafe { (library.rbd_aio_release)(completion) };
    }
    super::check(begun).map(drop)
}

/// The library calls this on one of its threads when an operation has ended.
unsafe extern "C" fn ended<R>(completion: CompletionHandle, flight: *mut c_void) {
    let flight = flight.cast::<Flight<R>>();
    // SAFETY: the record belongs to the library, which has done with it, until it is in the list:
    // only this thread uses it, and only those of its fields that any thread may use. The
    // completion is released once, here.
    let inbox = unsafe {
        let library = (*flight).library;
        (*flight).result = (library.rbd_aio_get_return_value)(completion) as i64;
        (library.rbd_aio_release)(completion);
        // The loop may free the record, and its share of the inbox, as soon as it is in the list.
        Arc::clone(&(*flight).inbox)
    };
    let mut before = inbox.last.load(Ordering::Relaxed);
    loop {
        // SAFETY: as above.
        unsafe { (*flight).next = before };
        match inbox.last.compare_exchange_weak(before, flight, Ordering::SeqCst, Ordering::Relaxed)
        {
            Ok(_) => break,
            Err(now) => before = now,
        }
    }
    if inbox.waiting.swap(false, Ordering::SeqCst) {
        // It fails only if the event has not been taken for 2^64 times.
        let _ = rustix::io::write(&inbox.event, &1u64.to_ne_bytes());
    }
}
