//! Registrations of memory that users lend: the memory of regions, in the parts that [`crate::region::addresses`]
//! tells. A part is registered when something of it is lent for the first time, for this end's
//! reading only, and stays so until the memory goes back to the system.

use super::device::Device;
use super::memory::Registration;
use crate::region::addresses::EndsObserver;
use crate::region::lending;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::io;
use std::sync::{RwLockReadGuard, RwLockWriteGuard};
use weft_base::lock::SharedLock;

/// Parts whose keys a queue pair keeps, a power of two.
const KNOWN: usize = 64;

/// The parts that are registered with a device.
#[derive(Default)]
pub(super) struct LentParts {
    parts: SharedLock<Parts>,
    /// Number of times that parts have ended. Older keys may belong to parts that are no longer
    /// registered.
    ended: AtomicU64,
    /// No more can be registered now, so nobody tries.
    is_full: AtomicBool,
    has_told: AtomicBool,
}

#[derive(Default)]
struct Parts {
    bytes: usize,
    /// By start, with their ends.
    registered: BTreeMap<usize, (usize, Registration)>,
}

impl LentParts {
    fn read(&self) -> RwLockReadGuard<'_, Parts> {
        self.parts.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Parts> {
        self.parts.write()
    }
}

impl Parts {
    /// The key of the part in which these bytes lie.
    fn key(&self, of: &Range<usize>) -> Option<KeyedPart> {
        let (&start, (end, registration)) = self.registered.range(..=of.start).next_back()?;
        (of.end <= *end).then(|| KeyedPart { part: (start, *end), key: registration.keys().0 })
    }
}

/// Why memory cannot be reached: the first time that it is the system that refuses, what it says.
pub(super) type Unreachable = Option<io::Error>;

/// A part and its key.
#[derive(Clone, Copy, Default)]
struct KeyedPart {
    part: (usize, usize),
    key: u32,
}

/// Keys that a queue pair has used lately.
#[derive(Default)]
pub(super) struct KnownKeys {
    ended: u64,
    /// By their parts' starts. Nothing, until one is asked for.
    keys: Vec<KeyedPart>,
}

impl KnownKeys {
    /// The key for memory that the caller holds.
    pub(super) fn of(
        &mut self,
        device: &'static Device,
        memory: &[u8],
    ) -> Result<u32, Unreachable> {
        let Range { start, end } = memory.as_ptr_range();
        let range = start.addr()..end.addr();
        // The caller's view of it was made after everything that ended before.
        let ended = device.lent.ended.load(Ordering::Acquire);
        if self.ended != ended || self.keys.is_empty() {
            self.keys.clear();
            self.keys.resize(KNOWN, KeyedPart::default());
            self.ended = ended;
        }
        let place = (range.start >> PART_SHIFT) % KNOWN;
        let known = self.keys[place];
        if known.part.0 <= range.start && range.end <= known.part.1 {
            return Ok(known.key);
        }
        let found = device.lent.read().key(&range);
        let known = match found {
            Some(known) => known,
            None => device.register_lent(memory, &range)?,
        };
        self.keys[place] = known;
        Ok(known.key)
    }
}

/// Most parts are as long as huge pages.
const PART_SHIFT: u32 = 21;

impl Device {
    #[cold]
    fn register_lent(
        &'static self,
        memory: &[u8],
        range: &Range<usize>,
    ) -> Result<KeyedPart, Unreachable> {
        if self.lent.is_full.load(Ordering::Relaxed) {
            return Err(None);
        }
        let part = lending::part_of(memory).ok_or(None)?;
        let start = NonNull::new(core::ptr::with_exposed_provenance_mut(part.start)).ok_or(None)?;
        let mut parts = self.lent.write();
        // Another loop may have been here before.
        if let Some(known) = parts.key(range) {
            return Ok(known);
        }
        let registered = match self.lent_bytes_max.is_some_and(|max| parts.bytes + part.len() > max)
        {
            true => Err(Registration::refused(self, part.len())),
            // SAFETY: the memory stays until its end was told, and that ends the registration. The
            // caller's view keeps it until then.
            false => unsafe { Registration::new(self, start, part.len(), 0) },
        };
        match registered {
            Ok(registration) => {
                let key = registration.keys().0;
                parts.bytes += part.len();
                parts.registered.insert(part.start, (part.end, registration));
                Ok(KeyedPart { part: (part.start, part.end), key })
            }
            Err(e) => {
                self.lent.is_full.store(true, Ordering::Relaxed);
                Err((!self.lent.has_told.swap(true, Ordering::Relaxed)).then_some(e))
            }
        }
    }
}

impl EndsObserver for Device {
    fn ends(&self, addresses: Range<usize>) {
        let mut parts = self.lent.write();
        let starts: Vec<usize> =
            parts.registered.range(addresses).map(|(&start, _)| start).collect();
        if starts.is_empty() {
            return;
        }
        for start in starts {
            if let Some((end, registration)) = parts.registered.remove(&start) {
                parts.bytes -= end - start;
                // A failure leaves pages to the device that it only reads, for nobody.
                let _ = registration.end();
            }
        }
        self.lent.ended.fetch_add(1, Ordering::Release);
        self.lent.is_full.store(false, Ordering::Relaxed);
    }
}

/// Returns the maximum bytes of lent memory that may be locked, so that enough is left for queue
/// pairs: half of the process's limit, if there is one.
pub(super) fn bytes_max() -> Option<usize> {
    use rustix::process::{Resource, getrlimit};
    let limit = getrlimit(Resource::Memlock).current?;
    (!may_lock_all()).then(|| usize::try_from(limit / 2).unwrap_or(usize::MAX))
}

/// Returns whether the process has `CAP_IPC_LOCK`, to which the limit does not apply.
fn may_lock_all() -> bool {
    const IPC_LOCK: u32 = 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits >> IPC_LOCK & 1 == 1)
}
