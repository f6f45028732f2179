//! Segment lists: the memory that an operation owns while it is in flight.

mod divide;
mod on_thread;

use crate::buf::Buf;
use crate::region::{Frame, Lent};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
pub use divide::Divided;
pub(crate) use on_thread::OnThread;
use smallvec::SmallVec;
use std::rc::Rc;

/// The memory of one operation, in order. A single segment is the common case and needs no
/// allocation.
pub type Segments = SmallVec<[Segment; 1]>;

/// A piece of memory that its holder owns: from the loop's pool, on loan from another loop, a
/// device's own, a part of another operation's, or foreign.
#[derive(Debug)]
pub enum Segment {
    /// From the pool of the holder's loop.
    Pool(Buf),
    /// Memory of another loop, which waits for its return.
    Loan(Loan),
    /// A device's own memory, to be sent from: the result of a read.
    Lent(Lent),
    /// A device's own memory, to receive data that will be written to it.
    Frame(Frame),
    /// A part of the memory of another operation, which waits for its return.
    Part(SegmentPart),
    /// Memory of another owner, who waits for its return.
    Foreign(ForeignMemory),
}

impl Deref for Segment {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Pool(buf) => buf,
            Self::Loan(loan) => loan.bytes(),
            Self::Lent(lent) => lent,
            Self::Frame(frame) => frame,
            Self::Part(part) => part,
            Self::Foreign(foreign) => foreign,
        }
    }
}

impl DerefMut for Segment {
    /// # Panics
    /// If it is not writable ([`Segment::is_writable`]).
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Pool(buf) => buf,
            Self::Loan(loan) => loan.bytes_mut(),
            Self::Lent(_) => panic!("lent memory is only read"),
            Self::Frame(frame) => frame,
            Self::Part(part) => part,
            Self::Foreign(foreign) => foreign,
        }
    }
}

impl From<Buf> for Segment {
    fn from(buf: Buf) -> Self {
        Self::Pool(buf)
    }
}

/// Bytes of all segments.
pub fn total_len(segments: &[Segment]) -> usize {
    segments.iter().map(|s| s.len()).sum()
}

/// The bytes `skip..skip + len` of a segment list, piece by piece.
pub fn pieces(data: &[Segment], skip: usize, len: usize) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    data.iter().filter_map(move |segment| {
        let from = skip.max(start).min(start + segment.len()) - start;
        let to = (skip + len).max(start).min(start + segment.len()) - start;
        start += segment.len();
        (from < to).then(|| &segment[from..to])
    })
}

/// Like [`pieces`], but writable.
pub fn pieces_mut(
    data: &mut [Segment],
    skip: usize,
    len: usize,
) -> impl Iterator<Item = &mut [u8]> {
    let mut start = 0;
    data.iter_mut().filter_map(move |segment| {
        let from = skip.max(start).min(start + segment.len()) - start;
        let to = (skip + len).max(start).min(start + segment.len()) - start;
        start += segment.len();
        (from < to).then(|| &mut segment[from..to])
    })
}

/// Access to another loop's memory, exclusive unless it is read-only. It may cross threads, unlike
/// a [`Buf`]. Its [`Receipt`] keeps the memory alive.
#[derive(Debug)]
pub struct Loan {
    ptr: NonNull<u8>,
    len: usize,
    writable: bool,
}

// SAFETY: a loan that may be written to is the only access to its memory (the receipt gives none
// until the loan is handed back), so moving it to another thread moves that exclusive access. One
// that may not be is of bytes that nobody writes to meanwhile.
unsafe impl Send for Loan {}

/// The lender's part of a [`Segment`] that it lent. If it is dropped without its loan, it leaks the
/// memory, because another thread may still write to it.
#[derive(Debug)]
#[must_use = "a dropped receipt leaks its memory"]
pub struct Receipt(Option<Segment>);

impl Segment {
    /// Returns whether it is writable. Memory lent by a read, memory shared by several operations,
    /// and foreign read-only memory are not.
    #[inline]
    pub fn is_writable(&self) -> bool {
        match self {
            Self::Pool(_) | Self::Frame(_) => true,
            Self::Lent(_) => false,
            Self::Loan(loan) => loan.writable,
            Self::Part(part) => part.is_writable(),
            Self::Foreign(foreign) => foreign.is_writable(),
        }
    }

    /// Lends the memory to another loop, writable if it is writable here.
    pub fn lend(mut self) -> (Receipt, Loan) {
        let writable = self.is_writable();
        let bytes = if writable { NonNull::from(&mut *self) } else { NonNull::from(&*self) };
        let loan = Loan { ptr: bytes.cast(), len: bytes.len(), writable };
        (Receipt(Some(self)), loan)
    }
}

impl Receipt {
    /// Takes the memory back in exchange for its loan.
    ///
    /// # Panics
    /// If the loan belongs to another receipt.
    pub fn redeem(mut self, loan: Loan) -> Segment {
        let segment = self.0.take().expect("only `redeem`, which consumes, empties a receipt");
        assert!(
            core::ptr::eq(segment.as_ptr(), loan.ptr.as_ptr()),
            "a loan goes back to its own receipt"
        );
        segment
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        core::mem::forget(self.0.take());
    }
}

impl Loan {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the receipt keeps `len` initialised bytes at `ptr` alive (or leaks them) until
        // this loan is consumed by `redeem`, and gives nobody else access meanwhile.
        unsafe { core::slice::from_raw_parts(self.ptr.as_ptr(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.writable, "a loan of memory that is only read");
        // SAFETY: as in `bytes`, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) }
    }
}

// Memory of another owner, such as a guest or a driver of the system.

/// The owner of the memory.
pub trait Owner {
    /// The memory with this name is no longer used.
    fn free(&self, name: u32);
}

/// Memory of another owner, who is notified when it is dropped.
pub struct ForeignMemory {
    start: NonNull<u8>,
    len: u32,
    /// The owner's name for it.
    name: u32,
    writable: bool,
    owner: Rc<dyn Owner>,
}

impl ForeignMemory {
    /// Memory that `owner` knows as `name`; `writable` says whether it may be written to.
    ///
    /// # Safety
    /// Until [`Owner::free`] is called with the name, `len` bytes from `start` are initialised
    /// memory of this process. Nobody else accesses them through Rust references or writes to them;
    /// with `writable`, nobody else reads them either. If the memory is shared with a party that
    /// may break this rule, such as a guest, use separate memory instead.
    pub unsafe fn new(
        start: NonNull<u8>,
        len: u32,
        writable: bool,
        owner: Rc<dyn Owner>,
        name: u32,
    ) -> Self {
        Self { start, len, name, writable, owner }
    }

    /// Returns whether it is writable.
    pub fn is_writable(&self) -> bool {
        self.writable
    }
}

impl Deref for ForeignMemory {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: what `new` was promised holds until this is dropped.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for ForeignMemory {
    /// # Panics
    /// If the memory is read-only.
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        assert!(self.writable, "this memory of another is only read");
        // SAFETY: as in `deref`; it may be written to, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len as usize) }
    }
}

impl Drop for ForeignMemory {
    fn drop(&mut self) {
        self.owner.free(self.name);
    }
}

impl core::fmt::Debug for ForeignMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Foreign({} bytes)", self.len)
    }
}

/// Memory of an operation of which others hold parts ([`Divided`]).
#[derive(Default)]
struct Memory {
    segments: Segments,
    /// The places of the segments, in order.
    pieces: SmallVec<[Piece; 1]>,
}

#[derive(Clone, Copy)]
struct Piece {
    start: NonNull<u8>,
    len: usize,
    writable: bool,
}

/// A part of the memory that a [`Divided`] keeps.
pub struct SegmentPart {
    start: NonNull<u8>,
    len: usize,
    writable: bool,
    of: Rc<Memory>,
}

impl SegmentPart {
    /// Returns whether it is writable.
    pub fn is_writable(&self) -> bool {
        self.writable
    }
}

impl Deref for SegmentPart {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes of a segment that `of` keeps, and does not touch
        // meanwhile. They are in no other part that is writable: a part that was cut is the only
        // one with its bytes, and nobody writes to those that are shared.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for SegmentPart {
    /// # Panics
    /// If the memory is shared or read-only.
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        assert!(self.writable, "memory that is shared is only read");
        // SAFETY: as in `deref`; it was cut, so no other part has these bytes, it came from an
        // exclusive borrow, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl core::fmt::Debug for SegmentPart {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Part({} of {} bytes)", self.len, total_len(&self.of.segments))
    }
}

#[cfg(test)]
mod tests {
    use super::{Divided, Segment, Segments, *};
    use crate::Pool;
    use core::cell::RefCell;

    #[test]
    fn a_loan_crosses_threads_and_comes_back() {
        let pool = Pool::new(1 << 20);
        let (receipt, loan) = Segment::from(pool.take(4096).unwrap()).lend();
        let loan = std::thread::spawn(move || {
            let mut segment = Segment::Loan(loan);
            segment.fill(7);
            match segment {
                Segment::Loan(loan) => loan,
                _ => unreachable!("it was a loan"),
            }
        })
        .join()
        .unwrap();
        let segment = receipt.redeem(loan);
        assert!(segment.iter().all(|&b| b == 7));
        drop(segment);
        assert_eq!(pool.taken_bytes(), 0);
    }

    #[derive(Default)]
    struct Guest(RefCell<Vec<u32>>);

    impl Owner for Guest {
        fn free(&self, name: u32) {
            self.0.borrow_mut().push(name);
        }
    }

    #[test]
    fn the_owner_is_told_once_when_the_last_part_is_free() {
        let mut memory = vec![0u8; 8192];
        let start = NonNull::from(&mut memory[..]).cast::<u8>();
        let guest = Rc::new(Guest::default());
        let owner = || Rc::clone(&guest) as Rc<dyn Owner>;
        // SAFETY: the vector outlives both, they are apart, and nobody else uses it meanwhile.
        let (read, written) = unsafe {
            (
                ForeignMemory::new(start, 4096, true, owner(), 7),
                ForeignMemory::new(start.add(4096), 4096, false, owner(), 8),
            )
        };
        let mut read = Segment::Foreign(read);
        read.fill(9);
        drop(read);
        assert_eq!(*guest.0.borrow(), [7]);
        let written = Segment::Foreign(written);
        assert!(!written.is_writable() && written.iter().all(|&byte| byte == 0));
        let mut divided = Divided::new();
        divided.fill(Segments::from_iter([written]));
        let mut parts = Segments::new();
        divided.cut(0, 4000, &mut parts);
        assert!(!parts[0].is_writable(), "a part of what is only read is only read");
        drop(divided);
        assert_eq!(*guest.0.borrow(), [7]);
        drop(parts);
        assert_eq!(*guest.0.borrow(), [7, 8]);
        assert!(memory[..4096].iter().all(|&byte| byte == 9));
    }
}
