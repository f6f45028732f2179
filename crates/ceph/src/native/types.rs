//! Types and constants of the headers `rados/librados.h` and `rbd/librbd.h`. Handles are opaque: only the libraries look into them.

use core::ffi::{c_char, c_int, c_void};

/// `rados_t`: a client of a cluster.
pub(super) type RadosHandle = *mut c_void;
/// `rados_ioctx_t`: a pool, or a namespace of one.
pub(super) type IoContextHandle = *mut c_void;
/// `rbd_image_t`.
pub(super) type ImageHandle = *mut c_void;
/// `rbd_completion_t`.
pub(super) type CompletionHandle = *mut c_void;

/// `rbd_callback_t`.
pub(super) type Callback = unsafe extern "C" fn(CompletionHandle, *mut c_void);
/// `rbd_update_callback_t`.
pub(super) type UpdateCallback = unsafe extern "C" fn(*mut c_void);

/// `struct iovec`.
pub(super) type Vector = libc::iovec;

/// `rbd_image_info_t`.
#[repr(C)]
pub(super) struct ImageInfo {
    pub(super) size: u64,
    pub(super) object_size: u64,
    pub(super) objects: u64,
    pub(super) order: c_int,
    pub(super) block_name_prefix: [c_char; 24],
    pub(super) parent_pool: i64,
    pub(super) parent_name: [c_char; 96],
}

/// `rbd_config_option_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ConfigOption {
    pub(super) name: *mut c_char,
    pub(super) value: *mut c_char,
    pub(super) source: c_int,
}

/// `RBD_WRITE_ZEROES_FLAG_THICK_PROVISION`: the zeroes take space.
pub(super) const WRITE_ZEROES_THICK: c_int = 1;

/// Bytes of an image's id with its end, at most (`RBD_MAX_IMAGE_ID_LENGTH`, with room).
pub(super) const ID_BYTES: usize = 64;

const _: () = assert!(size_of::<ImageInfo>() == 160 && core::mem::offset_of!(ImageInfo, parent_pool) == 56);
const _: () = assert!(size_of::<ConfigOption>() == 3 * size_of::<*mut c_char>());
