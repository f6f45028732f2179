//! The calls of Linux: add_key(2) and keyctl(2).

use std::ffi::CString;
use std::io::{Error, ErrorKind, Result};
use zeroize::Zeroizing;

/// The type of keys.
const PSK: &std::ffi::CStr = c"psk";

/// Bytes of the longest key that is of use.
const KEY_BYTES_MAX: usize = 64;

/// Bytes of the longest description: type, numbers and an identity.
const DESCRIPTION_BYTES_MAX: usize = 1024;

/// What the system knows of keys that this process may see.
pub(super) fn keys() -> Result<String> {
    std::fs::read_to_string("/proc/keys")
}

fn serial(result: libc::c_long) -> Result<i32> {
    if result < 0 {
        Err(Error::last_os_error())
    } else {
        i32::try_from(result).map_err(|_| ErrorKind::InvalidData.into())
    }
}

/// Makes this process the possessor of the keys in a keyring.
pub(super) fn link_to_session(keyring: i32) -> Result<()> {
    // SAFETY: the call takes numbers only.
    let result = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            libc::KEYCTL_LINK,
            keyring,
            libc::KEY_SPEC_SESSION_KEYRING,
            0,
            0,
        )
    };
    serial(result).map(drop)
}

/// A key whose description begins like this.
pub(super) fn search(keyring: i32, description: &str) -> Result<i32> {
    let description = CString::new(description)?;
    // SAFETY: both texts end with zero, and live until the call returns.
    serial(unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            libc::KEYCTL_SEARCH,
            keyring,
            PSK.as_ptr(),
            description.as_ptr(),
            0,
        )
    })
}

/// The type, owners, permissions and description of a key.
pub(super) fn describe(key: i32) -> Result<String> {
    let mut room = vec![0_u8; DESCRIPTION_BYTES_MAX];
    // SAFETY: the system writes at most so many bytes there.
    let bytes = unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            libc::KEYCTL_DESCRIBE,
            key,
            room.as_mut_ptr(),
            room.len(),
            0,
        )
    };
    room.truncate(usize::try_from(serial(bytes)?).unwrap_or(0).min(DESCRIPTION_BYTES_MAX));
    room.pop_if(|last| *last == 0);
    String::from_utf8(room).map_err(|_| ErrorKind::InvalidData.into())
}

/// The bytes of a key.
pub(super) fn read(key: i32) -> Result<Zeroizing<Vec<u8>>> {
    let mut room = Zeroizing::new(vec![0_u8; KEY_BYTES_MAX]);
    // SAFETY: the system writes at most so many bytes there; of a longer key it tells the length,
    // which is not taken.
    let bytes = unsafe {
        libc::syscall(libc::SYS_keyctl, libc::KEYCTL_READ, key, room.as_mut_ptr(), room.len(), 0)
    };
    let bytes = usize::try_from(serial(bytes)?).unwrap_or(0);
    if bytes > KEY_BYTES_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    room.truncate(bytes);
    Ok(room)
}

/// Adds or replaces a key.
pub(super) fn add(keyring: i32, description: &str, key: &[u8]) -> Result<i32> {
    let description = CString::new(description)?;
    // SAFETY: both texts end with zero, the key has so many bytes, and all live until the call
    // returns.
    serial(unsafe {
        libc::syscall(
            libc::SYS_add_key,
            PSK.as_ptr(),
            description.as_ptr(),
            key.as_ptr(),
            key.len(),
            keyring,
        )
    })
}
