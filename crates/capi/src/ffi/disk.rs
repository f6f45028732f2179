//! Devices, and blocking calls.

use super::options::WeftOptions;
use super::{copy_text, give, give_handle, handle, text};
use crate::disk::{DiskInner, close, pair};
use crate::failure::{CallFailure, Code};
use crate::guard;
use crate::memory::CallerBytes;
use crate::options::LibraryOptions;
use crate::properties::{PropertyValue, property};
use crate::worker::Data;
use core::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use weft_block::OpKind;

/// The write is durable when it completes (force unit access).
pub const WEFT_FUA: u32 = 1;

/// The device may free the space of the zeroes.
pub const WEFT_MAY_UNMAP: u32 = 2;

/// An open device.
pub struct WeftDisk(pub(super) Arc<DiskInner>);

/// The kind of a write with these flags.
pub(super) fn write_kind(flags: u32) -> Result<OpKind, CallFailure> {
    match flags {
        0 | WEFT_FUA => Ok(OpKind::Write { fua: flags != 0 }),
        _ => Err(CallFailure::usage(format!("{flags:#x}: a write takes WEFT_FUA only"))),
    }
}

/// The kind of writing zeroes with these flags.
pub(super) fn zeroes_kind(flags: u32) -> Result<OpKind, CallFailure> {
    if flags & !(WEFT_FUA | WEFT_MAY_UNMAP) != 0 {
        let text = format!("{flags:#x}: writing zeroes takes WEFT_FUA and WEFT_MAY_UNMAP only");
        return Err(CallFailure::usage(text));
    }
    let (deallocate, fua) = (flags & WEFT_MAY_UNMAP != 0, flags & WEFT_FUA != 0);
    Ok(OpKind::WriteZeroes { deallocate, fua })
}

/// The kind of compare-and-write with these flags.
pub(super) fn compare_kind(flags: u32) -> Result<OpKind, CallFailure> {
    match flags {
        0 | WEFT_FUA => Ok(OpKind::CompareAndWrite { fua: flags != 0 }),
        _ => Err(CallFailure::usage(format!("{flags:#x}: compare-and-write takes WEFT_FUA only"))),
    }
}

/// Opens a device by its URL: any source of weft, as in "nvme+tcp://host/NQN", "ram:1GiB",
/// "file:/srv/disk.img" or "iscsi://host/IQN/0"; docs/sources.md lists all of them. `options` may be
/// NULL. Waits until the device is open, for the option "connect-timeout" at most, or until
/// `weft_options_cancel`. Free it with `weft_close`.
///
/// # Safety
/// `url` is a text; `options` is NULL or a handle; `disk` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_open(
    url: *const c_char,
    options: *const WeftOptions,
    disk: *mut *mut WeftDisk,
) -> c_int {
    guard::done(|| {
        if disk.is_null() {
            return Err(CallFailure::usage("the place for the disk is NULL"));
        }
        // SAFETY: the caller's promise.
        let (url, options) = unsafe { (text(url, "URL")?, options.as_ref()) };
        // A copy: other threads may set, or cancel, while this one waits.
        let options =
            options.map_or_else(LibraryOptions::default, |options| options.lock().clone());
        let opened = DiskInner::open(url, &options);
        // SAFETY: the caller's promise.
        unsafe { give_handle(disk, WeftDisk(Arc::new(opened?)), "disk") }
    })
}

/// Closes a device, and tells its peers. What was written and not flushed may be lost, as with any
/// disk. Fails with `WEFT_ERROR_IN_USE`, and changes nothing, while the device has queues. NULL is
/// ignored.
///
/// # Safety
/// `disk` is NULL or a handle, which is not used afterwards if the function succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_close(disk: *mut WeftDisk) -> c_int {
    guard::done(|| {
        if disk.is_null() {
            return Ok(());
        }
        // SAFETY: made by `weft_open`, and not closed before.
        if Arc::strong_count(&unsafe { handle(disk, "disk")? }.0) > 1 {
            return Err(CallFailure::new(Code::InUse, "the disk has queues: free them first"));
        }
        // SAFETY: as above.
        let WeftDisk(inner) = *unsafe { Box::from_raw(disk) };
        Arc::into_inner(inner).into_iter().for_each(close);
        Ok(())
    })
}

/// Stores a property that is a number: a size in bytes, a count, or 1 for yes and 0 for no.
/// docs/libweft.md lists all of them. Waits for no I/O.
///
/// # Safety
/// `disk` is a handle; `name` is a text; `value` is NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_get_u64(
    disk: *const WeftDisk,
    name: *const c_char,
    value: *mut u64,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let (disk, name) = unsafe { (handle(disk, "disk")?, text(name, "name")?) };
        match property(&disk.0, name)? {
            // SAFETY: the caller's promise.
            PropertyValue::Number(number) => unsafe { give(value, number, "value") },
            PropertyValue::Text(_) => {
                Err(CallFailure::usage(format!("{name} is a text: use weft_get_text")))
            }
        }
    })
}

/// Copies a property, as a text with a NUL at its end, to `buffer` of `bytes` bytes, cut off where
/// it does not fit. Numbers are written in decimal. Returns the length of the whole text without
/// the NUL, like snprintf. Waits for no I/O.
///
/// # Safety
/// `disk` is a handle; `name` is a text; `buffer` is valid for writing `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_get_text(
    disk: *const WeftDisk,
    name: *const c_char,
    buffer: *mut c_char,
    bytes: usize,
) -> c_int {
    guard::number(|| {
        // SAFETY: the caller's promise.
        let (disk, name) = unsafe { (handle(disk, "disk")?, text(name, "name")?) };
        let value = match property(&disk.0, name)? {
            PropertyValue::Number(number) => number.to_string(),
            PropertyValue::Text(text) => text,
        };
        // SAFETY: the caller's promise.
        unsafe { copy_text(&value, buffer, bytes) }
    })
}

/// Asks the source for its size, which the property "size" then has. Most sources report a new size
/// by themselves; a file does not. Waits for the source.
///
/// # Safety
/// `disk` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_renew_size(disk: *const WeftDisk) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        unsafe { handle(disk, "disk")? }.0.renew_size()
    })
}

/// Stores where the next bytes at or behind `offset` begin that may be anything but zeroes, and how
/// many follow each other; at the end of the device 0 bytes. Returns 1, or 0 if the source does not
/// tell: then all bytes may be anything. Makes at most one system call.
///
/// # Safety
/// `disk` is a handle; `start` and `bytes` are NULL, or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_next_data(
    disk: *const WeftDisk,
    offset: u64,
    start: *mut u64,
    bytes: *mut u64,
) -> c_int {
    guard::number(|| {
        // SAFETY: the caller's promise.
        let found = unsafe { handle(disk, "disk")? }.0.next_data(offset)?;
        // SAFETY: the caller's promise.
        unsafe {
            give(start, found.as_ref().map_or(offset, |range| range.start), "start")?;
            give(bytes, found.as_ref().map_or(0, |range| range.end - range.start), "bytes")?;
        }
        Ok(found.is_some().into())
    })
}

/// Reads `bytes` bytes at `offset` into `buffer`, and waits for them. Both are multiples of the
/// block size.
///
/// # Safety
/// `disk` is a handle; `buffer` is valid for writing `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pread(
    disk: *const WeftDisk,
    buffer: *mut c_void,
    bytes: usize,
    offset: u64,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise; this call returns when the operation has completed.
        let (disk, to) =
            unsafe { (&handle(disk, "disk")?.0, CallerBytes::new(buffer.cast(), bytes, true)?) };
        let checked = disk.check(OpKind::Read, (offset, bytes as u64), Data::Bytes(to))?;
        disk.run(checked, || format!("reading {bytes} bytes at {offset}"))
    })
}

/// Writes `bytes` bytes from `buffer` at `offset`, and waits for it. Both are multiples of the
/// block size. It is durable after `weft_flush`, or with `WEFT_FUA`.
///
/// # Safety
/// `disk` is a handle; `buffer` is valid for reading `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_pwrite(
    disk: *const WeftDisk,
    buffer: *const c_void,
    bytes: usize,
    offset: u64,
    flags: u32,
) -> c_int {
    guard::done(|| {
        // SAFETY: as in `weft_pread`; the bytes are only read.
        let (disk, from) = unsafe {
            (&handle(disk, "disk")?.0, CallerBytes::new(buffer.cast_mut().cast(), bytes, false)?)
        };
        let checked = disk.check(write_kind(flags)?, (offset, bytes as u64), Data::Bytes(from))?;
        disk.run(checked, || format!("writing {bytes} bytes at {offset}"))
    })
}

/// Makes durable all writes that completed before, and waits for it.
///
/// # Safety
/// `disk` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_flush(disk: *const WeftDisk) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let disk = &unsafe { handle(disk, "disk")? }.0;
        let checked = disk.check(OpKind::Flush, (0, 0), Data::None)?;
        disk.run(checked, || "the flush".into())
    })
}

/// Tells the device that `bytes` bytes at `offset` are no longer needed: they read as zeroes or as
/// before. A device that cannot free space does nothing. Both are multiples of the block size.
///
/// # Safety
/// `disk` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_discard(disk: *const WeftDisk, bytes: u64, offset: u64) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let disk = &unsafe { handle(disk, "disk")? }.0;
        let checked = disk.check(OpKind::Discard, (offset, bytes), Data::None)?;
        disk.run(checked, || format!("discarding {bytes} bytes at {offset}"))
    })
}

/// Makes `bytes` bytes at `offset` read as zeroes, and waits for it. Both are multiples of the
/// block size. With `WEFT_MAY_UNMAP` the device may free their space.
///
/// # Safety
/// `disk` is a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_write_zeroes(
    disk: *const WeftDisk,
    bytes: u64,
    offset: u64,
    flags: u32,
) -> c_int {
    guard::done(|| {
        // SAFETY: the caller's promise.
        let disk = &unsafe { handle(disk, "disk")? }.0;
        let checked = disk.check(zeroes_kind(flags)?, (offset, bytes), Data::None)?;
        disk.run(checked, || format!("writing {bytes} zeroes at {offset}"))
    })
}

/// Writes `bytes` bytes from `data` at `offset` if the device holds `expected` there, in one step:
/// no write of another host comes between. Returns 1 if it was written, and 0 if the device holds
/// other data. The property "compare-and-write-max" has the most bytes.
///
/// # Safety
/// `disk` is a handle; `expected` and `data` are valid for reading `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn weft_compare_and_write(
    disk: *const WeftDisk,
    expected: *const c_void,
    data: *const c_void,
    bytes: usize,
    offset: u64,
    flags: u32,
) -> c_int {
    guard::number(|| {
        // SAFETY: as in `weft_pwrite`.
        let (disk, both) = unsafe {
            let expected = CallerBytes::new(expected.cast_mut().cast(), bytes, false)?;
            let new = CallerBytes::new(data.cast_mut().cast(), bytes, false)?;
            (&handle(disk, "disk")?.0, pair(expected, new)?)
        };
        let checked = disk.check(compare_kind(flags)?, (offset, bytes as u64), both)?;
        let ended = disk.complete(checked)?;
        if ended.result == Code::Differs.negative() {
            return Ok(0);
        }
        if ended.is_success() {
            return Ok(1);
        }
        Err(CallFailure::of(&ended, &format!("comparing and writing {bytes} bytes at {offset}")))
    })
}
