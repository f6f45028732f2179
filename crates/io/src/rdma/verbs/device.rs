//! Devices: each is known once in a process, with one protection domain, in which all its queue
//! pairs and memory are.

use super::ffi::{Context, DEVICE_WINDOWS_TYPE_2, DeviceAttr, Pd, TRANSPORT_IWARP};
use super::lent::{self, LentParts};
use super::library::{Library, check_object, library};
use super::memory::FreePieces;
use crate::limits::RDMA_MESSAGE_BYTES_MAX;
use crate::rdma::DeviceLimits;
use crate::region::addresses;
use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};
use std::io;
use weft_base::lock::Lock;

/// A device that some queue pair has used. It stays open as long as the process lives.
pub(super) struct Device {
    pub(super) library: &'static Library,
    pub(super) context: NonNull<Context>,
    pub(super) pd: NonNull<Pd>,
    pub(super) name: String,
    /// Its transport is iWARP, on which RDMA READ needs a key of its destination.
    pub(super) is_iwarp: bool,
    pub(super) limits: DeviceLimits,
    /// RDMA READs of the other end that a queue pair answers at a time.
    pub(super) answers: u8,
    /// Entries of a completion queue.
    pub(super) completions: u32,
    pub(super) free: FreePieces,
    pub(super) lent: LentParts,
    /// Bytes of lent memory that are registered at most, if that is limited.
    pub(super) lent_bytes_max: Option<usize>,
    vectors: u32,
    next_vector: AtomicU32,
}

// SAFETY: the library's functions on a context and a protection domain may be called by several
// threads at a time, and both stay as long as the process lives. Everything else is shared by its
// own means.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    /// The device of a context that the connection manager has opened.
    pub(super) fn of(context: NonNull<Context>) -> io::Result<&'static Self> {
        static DEVICES: Lock<Vec<&'static Device>> = Lock::new(Vec::new());
        let mut devices = DEVICES.lock();
        if let Some(known) = devices.iter().find(|device| device.context == context) {
            return Ok(known);
        }
        let new: &'static Device = Box::leak(Box::new(Self::open(context)?));
        devices.push(new);
        addresses::observe(new);
        Ok(new)
    }

    fn open(context: NonNull<Context>) -> io::Result<Self> {
        let library = library()?;
        // The list holds a reference to every device, and so this one open, until it is freed:
        // which it is not. SAFETY: it may be called without a place for the number.
        check_object(unsafe { (library.rdma_get_devices)(core::ptr::null_mut()) })?;
        let attr = attributes(library, context)?;
        // SAFETY: the context is open.
        let pd = check_object(unsafe { (library.ibv_alloc_pd)(context.as_ptr()) })?;
        // SAFETY: the context and what it refers to stay, and the name ends with zero.
        let (name, transport, vectors) = unsafe {
            let device = (*context.as_ptr()).device;
            let name = CStr::from_ptr(&raw const (*device).name as *const _)
                .to_string_lossy()
                .into_owned();
            (name, (*device).transport_type, (*context.as_ptr()).num_comp_vectors)
        };
        let limits = DeviceLimits {
            send_queue: count(attr.max_qp_wr),
            receives: count(attr.max_qp_wr),
            reads: byte(attr.max_qp_init_rd_atom),
            message_bytes: RDMA_MESSAGE_BYTES_MAX,
            has_windows: attr.device_cap_flags & DEVICE_WINDOWS_TYPE_2 != 0,
            pieces: byte(attr.max_sge),
        };
        Ok(Self {
            library,
            context,
            pd,
            name,
            is_iwarp: transport == TRANSPORT_IWARP,
            limits,
            answers: byte(attr.max_qp_rd_atom),
            completions: attr.max_cqe.max(1) as u32,
            free: FreePieces::default(),
            lent: LentParts::default(),
            lent_bytes_max: lent::bytes_max(),
            vectors: vectors.max(1) as u32,
            next_vector: AtomicU32::new(0),
        })
    }

    /// The interrupt of the next completion queue: they take turns.
    pub(super) fn completion_vector(&self) -> c_int {
        (self.next_vector.fetch_add(1, Ordering::Relaxed) % self.vectors) as c_int
    }
}

fn attributes(library: &Library, context: NonNull<Context>) -> io::Result<DeviceAttr> {
    let mut attr = MaybeUninit::<DeviceAttr>::zeroed();
    // SAFETY: the context is open, and there is room for the answer.
    match unsafe { (library.ibv_query_device)(context.as_ptr(), attr.as_mut_ptr()) } {
        // SAFETY: all of it are numbers, for which zeros are valid, too.
        0 => Ok(unsafe { attr.assume_init() }),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

fn count(number: c_int) -> u16 {
    number.clamp(0, u16::MAX.into()) as u16
}

fn byte(number: c_int) -> u8 {
    number.clamp(0, u8::MAX.into()) as u8
}
