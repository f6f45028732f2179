//! An open image: its properties, the watch that reports its changes, and closing, which may wait
//! for the cluster and therefore happens on a thread of its own.

use super::library::CephLibrary;
use super::rados::RadosPool;
use super::types::{ConfigOption, ID_BYTES, ImageHandle, ImageInfo};
use super::{c_string, check, text};
use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_base::lock::Lock;

use std::thread::Thread;

/// An open image. Clones are the same one; operations on it keep it open. When the last clone is
/// dropped, on whatever thread, its keeper closes it.
#[derive(Clone)]
pub(crate) struct Image(Arc<Open>);

struct Open {
    /// `None` when it is on its way to the keeper.
    handle: Option<Handle>,
    read_only: bool,
    keeper: Arc<Post>,
}

/// What has to be closed.
struct Handle {
    image: ImageHandle,
    pool: RadosPool,
}

// SAFETY: librbd permits the use of an image by several threads at a time.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

/// An image that was opened just now.
pub(crate) struct OpenedImage {
    /// The image.
    pub(crate) image: Image,
    /// The end of its keeper.
    pub(crate) keeper: Keeper,
}

/// What an image has for its keeper.
struct Post {
    /// The image was changed.
    updated: AtomicBool,
    /// Nobody uses it any more.
    over: Lock<Option<Handle>>,
    keeper: Thread,
}

/// The thread that opened an image, which looks after it until it is closed.
pub(crate) struct Keeper {
    post: Arc<Post>,
    watch: Option<u64>,
    library: &'static CephLibrary,
}

/// `RBD_FEATURE_EXCLUSIVE_LOCK`.
const EXCLUSIVE_LOCK: u64 = 1 << 2;

/// What a keeper waits for.
pub(crate) enum ImageNews {
    /// The image may have another size.
    Updated,
    /// The image was not used any more, and is closed.
    Closed,
}

/// Size and layout of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImageShape {
    /// Bytes.
    pub(crate) bytes: u64,
    /// Bytes of an object.
    pub(crate) object_bytes: u64,
}

impl Image {
    /// Opens an image by its name, or a snapshot of one, which is only read. Waits for the cluster.
    /// This thread is its keeper from now on.
    pub(crate) fn open(
        pool: RadosPool,
        name: &str,
        snapshot: Option<&str>,
        read_only: bool,
    ) -> Result<OpenedImage, (RadosPool, i32)> {
        let library = pool.cluster.library;
        let (name, snapshot) = (c_string(name), snapshot.map(c_string));
        let snapshot = snapshot.as_ref().map_or(null(), |name| name.as_ptr());
        let mut image = null_mut();
        let read_only = read_only || !snapshot.is_null();
        let open = if read_only { library.rbd_open_read_only } else { library.rbd_open };
        // SAFETY: the context exists, and `Handle` keeps it; `image` is written to; the strings
        // live until the call returns, and null stands for no snapshot.
        if let Err(error) = check(unsafe { open(pool.handle, name.as_ptr(), &mut image, snapshot) })
        {
            return Err((pool, error));
        }
        let post = Arc::new(Post {
            updated: AtomicBool::new(false),
            over: Lock::new(None),
            keeper: std::thread::current(),
        });
        let mut watch = 0;
        // SAFETY: the image is open; `watch` is written to; the post lives until the watch is over
        // (`Keeper::close`).
        let watched = unsafe {
            (library.rbd_update_watch)(
                image,
                &mut watch,
                updated,
                Arc::as_ptr(&post).cast_mut().cast(),
            )
        };
        let keeper =
            Keeper { post: Arc::clone(&post), watch: check(watched).ok().map(|_| watch), library };
        Ok(OpenedImage {
            image: Self(Arc::new(Open {
                handle: Some(Handle { image, pool }),
                read_only,
                keeper: post,
            })),
            keeper,
        })
    }

    fn handle(&self) -> &Handle {
        self.0.handle.as_ref().expect("only `drop` takes it")
    }

    pub(super) fn raw(&self) -> ImageHandle {
        self.handle().image
    }

    pub(super) fn library(&self) -> &'static CephLibrary {
        self.pool().cluster.library
    }

    /// Returns whether it was opened for reading only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.0.read_only
    }

    /// Its pool.
    pub(crate) fn pool(&self) -> &RadosPool {
        &self.handle().pool
    }

    /// Its size and layout at present. May wait for the cluster.
    pub(crate) fn shape(&self) -> Result<ImageShape, i32> {
        let mut info = MaybeUninit::<ImageInfo>::zeroed();
        // SAFETY: the image is open; `info` has as many bytes as are stated.
        check(unsafe {
            (self.library().rbd_stat)(self.raw(), info.as_mut_ptr(), size_of::<ImageInfo>())
        })?;
        // SAFETY: all bytes are zero or were written by the library, and every such value is valid.
        let info = unsafe { info.assume_init() };
        Ok(ImageShape { bytes: info.size, object_bytes: info.object_size })
    }

    /// Whether one client at a time may write, with a lock that is passed on. May wait for the
    /// cluster.
    pub(crate) fn has_exclusive_lock(&self) -> Result<bool, i32> {
        let mut features = 0;
        // SAFETY: the image is open; `features` is written to.
        check(unsafe { (self.library().rbd_get_features)(self.raw(), &mut features) })?;
        Ok(features & EXCLUSIVE_LOCK != 0)
    }

    /// The id that stays its own under any name. Images of the old format have none.
    pub(crate) fn id(&self) -> Option<String> {
        let mut id = [0u8; ID_BYTES];
        // SAFETY: the image is open; `id` has as many bytes as are stated.
        check(unsafe { (self.library().rbd_get_id)(self.raw(), id.as_mut_ptr().cast(), ID_BYTES) })
            .ok()?;
        Some(text(&id))
    }

    /// The number of a snapshot, which a later one of the same name does not have.
    pub(crate) fn snapshot_id(&self, name: &str) -> Option<u64> {
        let (name, mut id) = (c_string(name), 0);
        // SAFETY: the image is open; `id` is written to; the string lives until the call returns.
        check(unsafe { (self.library().rbd_snap_get_id)(self.raw(), name.as_ptr(), &mut id) })
            .ok()
            .map(|_| id)
    }

    /// Whether one of these options is on for this image, by whatever configuration. May wait for
    /// the cluster.
    pub(crate) fn has_any(&self, options: &[&str]) -> Result<bool, i32> {
        const MOST: usize = 256;
        let empty = ConfigOption { name: null_mut(), value: null_mut(), source: 0 };
        let mut list = vec![empty; MOST];
        let mut count = MOST as c_int;
        // SAFETY: the image is open; `list` has as many entries as `count` says, and both are
        // written to.
        check(unsafe {
            (self.library().rbd_config_image_list)(self.raw(), list.as_mut_ptr(), &mut count)
        })?;
        let filled = &list[..(count.max(0) as usize).min(MOST)];
        let found = filled.iter().any(|option| {
            // SAFETY: the library has filled the entry with two strings, which live until they are
            // given back below.
            let (name, value) =
                unsafe { (CStr::from_ptr(option.name), CStr::from_ptr(option.value)) };
            let off = [c"false", c"disabled", c"0", c"no", c""].contains(&value);
            !off && options.iter().any(|wanted| name.to_bytes() == wanted.as_bytes())
        });
        // SAFETY: these are the entries that the library has filled; they are not used afterwards.
        unsafe { (self.library().rbd_config_image_list_cleanup)(list.as_mut_ptr(), count) };
        Ok(found)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        *self.keeper.over.lock() = self.handle.take();
        self.keeper.keeper.unpark();
    }
}

impl Keeper {
    /// Waits for the next news of the image. It is to be called until it says that the image is
    /// closed.
    pub(crate) fn wait(&mut self) -> ImageNews {
        loop {
            let over = self.post.over.lock().take();
            if let Some(handle) = over {
                self.close(handle);
                return ImageNews::Closed;
            }
            if self.post.updated.swap(false, Ordering::AcqRel) {
                return ImageNews::Updated;
            }
            std::thread::park();
        }
    }

    /// Returns whether changes of the image are told.
    pub(crate) fn is_watching(&self) -> bool {
        self.watch.is_some()
    }

    fn close(&mut self, handle: Handle) {
        let Handle { image, pool } = handle;
        // SAFETY: the image is open, and nobody else has it: the last one who used it has sent it
        // here. Callbacks of the watch are over when `rbd_update_unwatch` returns.
        unsafe {
            if let Some(watch) = self.watch.take() {
                (self.library.rbd_update_unwatch)(image, watch);
            }
            (self.library.rbd_close)(image);
        }
        drop(pool);
    }
}

/// The library calls this on a thread of its own when the image has been changed.
unsafe extern "C" fn updated(post: *mut c_void) {
    // SAFETY: the post lives until the watch is over: see `Image::open`.
    let post = unsafe { &*post.cast::<Post>() };
    post.updated.store(true, Ordering::Release);
    post.keeper.unpark();
}
