//! The memory under numbers of a queue pair, and the other end's access to it.

use super::device::Device;
use super::ffi::{Bind, MW_TYPE_2, Mw, Sge, access};
use super::lent::KnownKeys;
use super::library::check_object;
use super::memory::{Piece, Registration, Use};
use crate::limits::RDMA_KEPT_BYTES;
use crate::rdma::{Exposure, NotLent, RemoteMemory, SlotData};
use crate::segment::{OnThread, Segments};
use core::ptr::NonNull;
use smallvec::SmallVec;
use std::io;

/// A type 2 memory window.
struct Window {
    device: &'static Device,
    mw: NonNull<Mw>,
    /// The key of its last bind. The next one is the same but for its last byte, which counts.
    rkey: u32,
}

// SAFETY: a window may be used by any thread.
unsafe impl Send for Window {}

impl Window {
    fn new(device: &'static Device) -> io::Result<Self> {
        // SAFETY: the context stays open, and its functions are not replaced.
        let alloc =
            unsafe { (*device.context.as_ptr()).ops.alloc_mw }.ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the protection domain stays.
        let mw = check_object(unsafe { alloc(device.pd.as_ptr(), MW_TYPE_2) })?;
        // SAFETY: the library made it.
        let rkey = unsafe { (*mw.as_ptr()).rkey };
        Ok(Self { device, mw, rkey })
    }

    /// Returns the constant part of its keys.
    fn index(&self) -> u32 {
        self.rkey >> 8
    }

    fn next_key(&self) -> u32 {
        (self.rkey & !0xff) | u32::from((self.rkey as u8).wrapping_add(1))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: the library made it, and it is freed once. A failure leaves it to the end of the
        // process.
        unsafe {
            if let Some(free) = (*self.device.context.as_ptr()).ops.dealloc_mw {
                free(self.mw.as_ptr());
            }
        }
    }
}

/// Access of the other end to a slot, until it is ended.
#[derive(Default)]
enum Access {
    #[default]
    None,
    Window,
    Registration(Registration),
}

/// Where data is, in order.
pub(super) type Entries = SmallVec<[Sge; 2]>;

/// The user's memory in a slot.
struct Lent {
    memory: OnThread<Segments>,
    entries: Entries,
}

#[derive(Default)]
struct MemorySlot {
    memory: Option<Piece>,
    /// In the place of `memory`.
    lent: Option<Lent>,
    /// Posted work that uses it.
    posted: u32,
    access: Access,
    window: Option<Window>,
}

/// Exposure of a slot.
pub(super) enum Exposed {
    /// By this key at once.
    Now(RemoteMemory),
    /// By this key once the bind is done.
    ByBind(RemoteMemory, Bind),
}

/// The slots of a queue pair.
pub(super) struct Slots {
    device: &'static Device,
    slots: Vec<MemorySlot>,
    exposure: Option<Exposure>,
    /// The slots of windows, by what does not change of their keys.
    windows: Vec<(u32, u16)>,
    /// Pieces that lent memory may have.
    lent_pieces: usize,
    keys: KnownKeys,
}

/// A part of memory in pieces; `None`: it is shorter.
fn cut(pieces: &[Sge], part: SlotData) -> Option<Entries> {
    let (mut skip, mut left, mut entries) = (part.offset, part.bytes, Entries::new());
    for piece in pieces {
        if skip >= piece.length {
            skip -= piece.length;
            continue;
        }
        let length = left.min(piece.length - skip);
        if length > 0 {
            entries.push(Sge {
                address: piece.address + u64::from(skip),
                length,
                lkey: piece.lkey,
            });
        }
        (skip, left) = (0, left - length);
    }
    (left == 0).then_some(entries)
}

fn busy() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "the memory is still in use")
}

impl Slots {
    pub(super) fn new(
        device: &'static Device,
        count: u16,
        exposure: Option<Exposure>,
        lent_pieces: usize,
    ) -> Self {
        let slots = (0..count).map(|_| MemorySlot::default()).collect();
        Self {
            device,
            slots,
            exposure,
            windows: Vec::new(),
            lent_pieces,
            keys: KnownKeys::default(),
        }
    }

    fn at(&mut self, slot: u16) -> &mut MemorySlot {
        &mut self.slots[usize::from(slot)]
    }

    pub(super) fn prepare(&mut self, slot: u16, bytes: u32) -> io::Result<()> {
        let (device, exposure, bytes) = (self.device, self.exposure, bytes as usize);
        let slot = self.at(slot);
        if slot.posted > 0 || slot.lent.is_some() || !matches!(slot.access, Access::None) {
            return Err(busy());
        }
        if slot.memory.as_ref().is_some_and(|memory| memory.bytes() >= bytes) {
            return Ok(());
        }
        if let Some(small) = slot.memory.take() {
            device.give_back(small);
        }
        let used = if exposure == Some(Exposure::Standing) { Use::Standing } else { Use::Data };
        slot.memory = Some(device.take(bytes, used)?);
        Ok(())
    }

    /// Frees the memory of a slot that nothing uses, unless it is small: then it is likely to be
    /// used again.
    pub(super) fn release(&mut self, slot: u16) {
        let device = self.device;
        let slot = self.at(slot);
        if slot.posted == 0
            && matches!(slot.access, Access::None)
            && let Some(memory) = slot.memory.take_if(|memory| memory.bytes() > RDMA_KEPT_BYTES)
        {
            device.give_back(memory);
        }
    }

    pub(super) fn copy_in(&mut self, slot: u16, offset: u32, bytes: &[u8]) {
        self.at(slot).memory.as_mut().expect("the slot has memory").copy_in(offset as usize, bytes);
    }

    pub(super) fn copy_out(&self, slot: u16, offset: u32, bytes: &mut [u8]) {
        self.slots[usize::from(slot)]
            .memory
            .as_ref()
            .expect("the slot has memory")
            .copy_out(offset as usize, bytes);
    }

    pub(super) fn lend(&mut self, slot: u16, memory: Segments) -> Result<(), NotLent> {
        let (device, pieces) = (self.device, self.lent_pieces);
        let slot = &mut self.slots[usize::from(slot)];
        if memory.len() > pieces
            || slot.posted > 0
            || slot.lent.is_some()
            || !matches!(slot.access, Access::None)
        {
            return Err(NotLent { memory, why: None });
        }
        let mut entries = Entries::new();
        for segment in &memory {
            let lkey = match self.keys.of(device, segment) {
                Ok(lkey) => lkey,
                Err(why) => return Err(NotLent { memory, why }),
            };
            entries.push(Sge {
                address: segment.as_ptr().addr() as u64,
                length: segment.len() as u32,
                lkey,
            });
        }
        slot.lent = Some(Lent { memory: OnThread::new(memory), entries });
        Ok(())
    }

    /// Returns lent memory that nothing uses.
    pub(super) fn take_back(&mut self, slot: u16) -> Option<Segments> {
        let slot = self.at(slot);
        let lent =
            slot.lent.take_if(|_| slot.posted == 0 && matches!(slot.access, Access::None))?;
        Some(lent.memory.into_inner())
    }

    /// Returns the place of a part of a slot; `None`: it has no such part.
    pub(super) fn entries(&self, part: SlotData) -> Option<Entries> {
        let slot = &self.slots[usize::from(part.slot)];
        if let Some(lent) = &slot.lent {
            return cut(&lent.entries, part);
        }
        let memory = slot.memory.as_ref()?;
        let fits = u64::from(part.offset) + u64::from(part.bytes) <= memory.bytes() as u64;
        let entry = || Sge {
            address: memory.address() + u64::from(part.offset),
            length: part.bytes,
            lkey: memory.lkey(),
        };
        fits.then(|| Entries::from_iter([entry()]))
    }

    /// Returns whether a slot has memory that is only read.
    pub(super) fn is_lent(&self, slot: u16) -> bool {
        self.slots[usize::from(slot)].lent.is_some()
    }

    /// Work that uses a slot is posted.
    pub(super) fn posted(&mut self, slot: u16) {
        self.at(slot).posted += 1;
    }

    /// It has ended.
    pub(super) fn ended(&mut self, slot: u16) {
        self.at(slot).posted -= 1;
    }

    /// Exposes a slot. With a window it is exposed from now on, whatever comes of the bind.
    pub(super) fn expose(
        &mut self,
        number: u16,
        bytes: u32,
        writable: bool,
    ) -> io::Result<Exposed> {
        let (device, exposure) = (self.device, self.exposure);
        let slot = &mut self.slots[usize::from(number)];
        if !matches!(slot.access, Access::None) {
            return Err(busy());
        }
        let fits = slot
            .memory
            .as_ref()
            .filter(|memory| slot.lent.is_none() && memory.bytes() >= bytes as usize);
        let memory = fits.ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidInput, "the slot has less memory")
        })?;
        let address = memory.address();
        let rights = if writable { access::REMOTE_WRITE } else { access::REMOTE_READ };
        match exposure {
            None => Err(io::ErrorKind::Unsupported.into()),
            // The key is one of all such memory, and nothing ends.
            Some(Exposure::Standing) => {
                Ok(Exposed::Now(RemoteMemory { address, key: memory.registration().keys().1 }))
            }
            Some(Exposure::Registration) => {
                let local = if writable { access::LOCAL_WRITE } else { 0 };
                // SAFETY: the memory stays in the slot while its access is not `None`, and what is
                // registered at the end is ended first.
                let registration = unsafe {
                    Registration::new(device, memory.start(), bytes as usize, rights | local)?
                };
                let key = registration.keys().1;
                slot.access = Access::Registration(registration);
                Ok(Exposed::Now(RemoteMemory { address, key }))
            }
            Some(Exposure::Window) => {
                if slot.window.is_none() {
                    let window = Window::new(device)?;
                    let at = self.windows.partition_point(|&(index, _)| index < window.index());
                    self.windows.insert(at, (window.index(), number));
                    slot.window = Some(window);
                }
                let window = slot.window.as_mut().expect("it has one now");
                window.rkey = window.next_key();
                slot.access = Access::Window;
                let bind = Bind {
                    mw: window.mw.as_ptr(),
                    rkey: window.rkey,
                    mr: memory.registration().mr().as_ptr(),
                    address,
                    length: bytes.into(),
                    access: rights as u32,
                };
                Ok(Exposed::ByBind(RemoteMemory { address, key: window.rkey }, bind))
            }
        }
    }

    /// Ends access that was given without a window.
    pub(super) fn conceal(&mut self, slot: u16) {
        let slot = self.at(slot);
        match core::mem::take(&mut slot.access) {
            Access::Window => slot.access = Access::Window,
            Access::Registration(registration) => {
                if registration.end().is_err() {
                    // The other end may still touch the memory: nobody else gets it.
                    core::mem::forget(slot.memory.take());
                }
            }
            Access::None => {}
        }
    }

    /// The key of the window of a slot, if it is bound.
    pub(super) fn window_key(&self, slot: u16) -> Option<u32> {
        let slot = &self.slots[usize::from(slot)];
        slot.window
            .as_ref()
            .filter(|_| matches!(slot.access, Access::Window))
            .map(|window| window.rkey)
    }

    /// The window of a slot is no longer bound.
    pub(super) fn unbound(&mut self, slot: u16) {
        let slot = self.at(slot);
        if matches!(slot.access, Access::Window) {
            slot.access = Access::None;
        }
    }

    /// The other end invalidated a key.
    pub(super) fn invalidated(&mut self, key: u32) {
        if let Some(slot) = self.bound(key) {
            self.unbound(slot);
        }
    }

    /// The slot whose window is bound to a key.
    pub(super) fn bound(&self, key: u32) -> Option<u16> {
        let at = self.windows.binary_search_by_key(&(key >> 8), |&(index, _)| index).ok()?;
        let slot = self.windows[at].1;
        (self.window_key(slot) == Some(key)).then_some(slot)
    }

    /// The key of a bind that was posted is the window's own from now on.
    pub(super) fn bind_posted(&mut self, slot: u16) {
        if let Some(window) = &self.at(slot).window {
            // SAFETY: the library made it, and leaves this field to its user. Soft RoCE looks the
            // window up by it.
            unsafe { (*window.mw.as_ptr()).rkey = window.rkey }
        }
    }

    /// Frees all windows, before the queue pair is destroyed: a soft device keeps it for as long as
    /// a window leads to it.
    pub(super) fn free_windows(&mut self) {
        for number in 0..self.slots.len() as u16 {
            self.at(number).window = None;
            self.unbound(number);
        }
        self.windows.clear();
    }

    /// The queue pair is destroyed: nothing is posted.
    pub(super) fn destroyed(&mut self) {
        for number in 0..self.slots.len() as u16 {
            self.at(number).posted = 0;
            self.conceal(number);
        }
    }
}

impl Drop for Slots {
    /// The queue pair is destroyed.
    fn drop(&mut self) {
        self.free_windows();
        self.destroyed();
        let memory: Vec<Piece> =
            self.slots.iter_mut().filter_map(|slot| slot.memory.take()).collect();
        memory.into_iter().for_each(|memory| self.device.give_back(memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_pieces() {
        let pieces = [(1000, 10), (5000, 20), (9000, 30)].map(|(address, length)| Sge {
            address,
            length,
            lkey: address as u32,
        });
        let of = |offset, bytes| {
            let entries = cut(&pieces, SlotData { slot: 0, offset, bytes })?;
            Some(entries.iter().map(|one| (one.address, one.length, one.lkey)).collect::<Vec<_>>())
        };
        assert_eq!(of(0, 10).unwrap(), [(1000, 10, 1000)]);
        assert_eq!(of(5, 30).unwrap(), [(1005, 5, 1000), (5000, 20, 5000), (9000, 5, 9000)]);
        assert_eq!(of(30, 30).unwrap(), [(9000, 30, 9000)]);
        assert_eq!(of(31, 30), None);
    }
}
