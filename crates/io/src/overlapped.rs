//! Calls of Windows on a file, whole: each returns when the system has finished with its memory.
//!
//! They work on every file. One that was opened with `FILE_FLAG_OVERLAPPED` takes calls of several
//! threads at a time; on all others Windows lets one call wait for the one before it. `std` reads
//! and writes only the others.

use core::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};
use windows_sys::Win32::Foundation::{ERROR_HANDLE_EOF, ERROR_IO_PENDING, HANDLE, STATUS_PENDING};
use windows_sys::Win32::Storage::FileSystem::{ReadFile, WriteFile};
use windows_sys::Win32::System::IO::{DeviceIoControl, GetOverlappedResult, OVERLAPPED};
use windows_sys::Win32::System::Threading::CreateEventW;
use windows_sys::core::BOOL;

/// Reads; 0 bytes at the end of the file.
pub(crate) fn read(file: &File, into: &mut [u8], offset: u64) -> io::Result<usize> {
    let (pointer, len) = (into.as_mut_ptr(), part(into.len()));
    let read = whole(file, offset, |handle, overlapped| {
        // SAFETY: the handle is open, and the memory is writable for its length and borrowed until
        // `whole` returns, which is when the system has finished with it.
        unsafe { ReadFile(handle, pointer, len, null_mut(), overlapped) }
    });
    match read {
        Err(e) if e.raw_os_error() == Some(ERROR_HANDLE_EOF.cast_signed()) => Ok(0),
        other => other,
    }
}

/// Writes.
pub(crate) fn write(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    let (pointer, len) = (bytes.as_ptr(), part(bytes.len()));
    whole(file, offset, |handle, overlapped| {
        // SAFETY: as in `read`, for memory that is only read.
        unsafe { WriteFile(handle, pointer, len, null_mut(), overlapped) }
    })
}

/// A control code with its input; returns how many bytes of the output were filled.
pub(crate) fn control<T>(
    file: &File,
    code: u32,
    input: &[T],
    output: &mut [u8],
) -> io::Result<usize> {
    let (given, given_bytes) = (input.as_ptr().cast(), part(size_of_val(input)));
    let (taken, taken_bytes) = (output.as_mut_ptr().cast(), part(output.len()));
    whole(file, 0, |handle, overlapped| {
        // SAFETY: the handle is open, the input is readable and the output writable for their
        // sizes, and both are borrowed until `whole` returns.
        unsafe {
            DeviceIoControl(
                handle,
                code,
                given,
                given_bytes,
                taken,
                taken_bytes,
                null_mut(),
                overlapped,
            )
        }
    })
}

/// As much as one call takes.
fn part(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// Starts a call and waits for its end; returns its bytes.
fn whole(
    file: &File,
    offset: u64,
    start: impl FnOnce(HANDLE, *mut OVERLAPPED) -> BOOL,
) -> io::Result<usize> {
    with_event(|event| {
        let handle = file.as_raw_handle();
        let mut state = OVERLAPPED { hEvent: event, ..OVERLAPPED::default() };
        state.Anonymous.Anonymous.Offset = offset as u32;
        state.Anonymous.Anonymous.OffsetHigh = (offset >> 32) as u32;
        let state = &raw mut state;
        if start(handle, state) == 0 {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(ERROR_IO_PENDING.cast_signed()) {
                return Err(error);
            }
        }
        let mut bytes = 0;
        // SAFETY: the handle is open, and the state is that of the call that was just started.
        if unsafe { GetOverlappedResult(handle, state, &mut bytes, 1) } != 0 {
            return Ok(bytes as usize);
        }
        let error = io::Error::last_os_error();
        // SAFETY: the state is in scope; the system may write to it.
        let status = unsafe { (&raw const (*state).Internal).read_volatile() };
        if status == STATUS_PENDING as usize {
            // It could not be waited for, and writes to memory that the caller uses again.
            std::process::abort();
        }
        Err(error)
    })
}

/// Calls `with` with an event that nobody else uses during the call.
fn with_event<T>(with: impl FnOnce(HANDLE) -> io::Result<T>) -> io::Result<T> {
    thread_local! {
        static EVENT: OnceCell<OwnedHandle> = const { OnceCell::new() };
    }
    EVENT.with(|cell| {
        if cell.get().is_none() {
            // SAFETY: no attributes and no name are given. It is reset by hand, by the next call.
            let event = unsafe { CreateEventW(null(), 1, 0, null()) };
            if event.is_null() {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: it was just made, and belongs to nobody else.
            let _ = cell.set(unsafe { OwnedHandle::from_raw_handle(event) });
        }
        with(cell.get().map_or(null_mut(), AsRawHandle::as_raw_handle))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::windows::fs::OpenOptionsExt;
    use windows_sys::Win32::Storage::FileSystem::{
        FILE_FLAG_DELETE_ON_CLOSE, FILE_FLAG_NO_BUFFERING, FILE_FLAG_OVERLAPPED,
    };

    #[repr(align(4096))]
    struct Block([u8; 4096]);

    /// Several threads read and write one file, each its own blocks.
    #[test]
    fn calls_of_several_threads_on_one_file_are_kept_apart() {
        for flags in [0, FILE_FLAG_OVERLAPPED | FILE_FLAG_NO_BUFFERING] {
            let path = std::env::temp_dir()
                .join(format!("weft-overlapped-{}-{flags}", std::process::id()));
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .custom_flags(flags | FILE_FLAG_DELETE_ON_CLOSE)
                .open(path)
                .unwrap();
            file.set_len(4 * 4096).unwrap();
            std::thread::scope(|scope| {
                for n in 0..4_u8 {
                    let file = &file;
                    scope.spawn(move || {
                        let at = u64::from(n) * 4096;
                        for round in 0..50 {
                            let block = Block([n * 50 + round; 4096]);
                            assert_eq!(write(file, &block.0, at).unwrap(), 4096);
                            let mut read_back = Block([0; 4096]);
                            assert_eq!(read(file, &mut read_back.0, at).unwrap(), 4096);
                            assert!(read_back.0 == block.0, "thread {n}, round {round}");
                        }
                    });
                }
            });
            assert_eq!(read(&file, &mut Block([0; 4096]).0, 4 * 4096).unwrap(), 0, "its end");
            file.sync_data().unwrap();
        }
    }
}
