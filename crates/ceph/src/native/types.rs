//! Types and constants of the headers `rados/librados.h` and `rbd/librbd.h`. Handles are opaque:
//! only the libraries look into them.

use core::ffi::{c_char, c_int, c_void};

/// `rados_t`: a client of a cluster.
pub(super) type RadosHandle = *mut c_void;
/// `rados_ioctx_t`: a pool, or a namespace of one.
pub(super) type IoContextHandle = *mut c_void;
/// `rados_xattrs_iter_t`: attributes of an object, one after the other.
pub(super) type AttributesHandle = *mut c_void;
/// `rados_read_op_t`: several reads of one object, done at one instant.
pub(super) type ReadHandle = *mut c_void;
/// `rados_write_op_t`: several changes of one object, done all or not at all.
pub(super) type WriteHandle = *mut c_void;
/// `rbd_image_t`.
pub(super) type ImageHandle = *mut c_void;
/// `rbd_completion_t`.
pub(super) type CompletionHandle = *mut c_void;

/// `rbd_callback_t`.
pub(super) type Callback = unsafe extern "C" fn(CompletionHandle, *mut c_void);
/// `rbd_update_callback_t`.
pub(super) type UpdateCallback = unsafe extern "C" fn(*mut c_void);

/// `rados_watchcb2_t`: argument, number of the message, watch, who sent it, the message and its
/// length.
pub(super) type NotifyCallback =
    unsafe extern "C" fn(*mut c_void, u64, u64, u64, *mut c_void, usize);
/// `rados_watcherrcb_t`: argument, watch, error number.
pub(super) type WatchErrorCallback = unsafe extern "C" fn(*mut c_void, u64, c_int);

/// `struct iovec`.
pub(super) type Vector = libc::iovec;

/// `rbd_image_info_t`.
#[repr(C)]
pub(super) struct ImageInfo {
    pub(super) size: u64,
    pub(super) object_size: u64,
    objects: u64,
    order: c_int,
    block_name_prefix: [c_char; 24],
    parent_pool: i64,
    parent_name: [c_char; 96],
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

/// `LIBRADOS_CMPXATTR_OP_EQ`: an attribute has this value. One that is missing has the empty one.
pub(super) const ATTRIBUTE_EQUALS: u8 = 1;

/// `LIBRADOS_CREATE_EXCLUSIVE`: the object must not exist.
pub(super) const CREATE_EXCLUSIVE: c_int = 1;

/// Bytes of an image's id with its end, at most (`RBD_MAX_IMAGE_ID_LENGTH`, with room).
pub(super) const ID_BYTES: usize = 64;

const _: () =
    assert!(size_of::<ImageInfo>() == 160 && core::mem::offset_of!(ImageInfo, parent_pool) == 56);
const _: () = assert!(size_of::<ConfigOption>() == 3 * size_of::<*mut c_char>());
