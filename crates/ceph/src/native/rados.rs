//! A client of a cluster, and pools as it sees them.

use super::library::CephLibrary;
use super::types::{IoContextHandle, RadosHandle};
use super::{c_string, check, text};
use crate::url::CephAccess;
use core::ffi::c_char;
use core::ptr::{null, null_mut};
use core::time::Duration;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Bytes of a cluster's id as text, with its end.
const FSID_BYTES: usize = 37;

/// What every client of ours is set to, over what its configuration says.
///
/// * No cache in this process: a write that is acknowledged is with the cluster, whichever gateway
///   dies next, and a gateway reads what another one has written. An image or a pool can have the
///   cache switched on all the same (`rbd config image set`).
/// * Submitting does not wait: not for room, nor for the lock of an image.
const SETTINGS: [(&str, &str); 2] = [("rbd_cache", "false"), ("rbd_non_blocking_aio", "true")];

/// A client of a cluster. Dropping it says goodbye to the cluster, which may wait: not on a thread
/// of a loop.
pub(crate) struct RadosClient {
    pub(super) library: &'static CephLibrary,
    handle: RadosHandle,
    /// The cluster's id.
    fsid: String,
}

/// A client that is configured and not connected.
pub(crate) struct Unconnected(RadosClient);

// SAFETY: librados permits the use of a client by several threads at a time.
unsafe impl Send for RadosClient {}
// SAFETY: as above.
unsafe impl Sync for RadosClient {}

impl RadosClient {
    /// A client that is configured and not connected. One is made at a time: the library has a
    /// static buffer for it.
    pub(crate) fn configured(
        library: &'static CephLibrary,
        access: &CephAccess,
        limit: Duration,
    ) -> Result<Unconnected, i32> {
        let mut handle = null_mut();
        let (name, user) = (c_string("ceph"), c_string(access.user()));
        // SAFETY: `handle` is written to; the strings live until the call returns.
        check(unsafe { (library.rados_create2)(&mut handle, name.as_ptr(), user.as_ptr(), 0) })?;
        let cluster = Self { library, handle, fsid: String::new() };
        cluster.configure(access, limit)?;
        Ok(Unconnected(cluster))
    }

    fn configure(&self, access: &CephAccess, limit: Duration) -> Result<(), i32> {
        let file = access.conf.as_ref().map(|path| c_string(path.as_os_str().as_bytes()));
        let file = file.as_ref().map_or(null(), |path| path.as_ptr());
        // SAFETY: the client is not connected; the string lives until the call returns, and null
        // stands for the usual places.
        check(unsafe { (self.library.rados_conf_read_file)(self.handle, file) })?;
        // SAFETY: the client is not connected; null stands for CEPH_ARGS. The library's static
        // buffer is used by one thread at a time, as clients are configured one after the other
        // (`crate::cluster`).
        check(unsafe { (self.library.rados_conf_parse_env)(self.handle, null::<c_char>()) })?;
        if let Some(keyring) = &access.keyring {
            self.set("keyring", keyring.as_os_str().as_bytes())?;
        }
        for (option, value) in SETTINGS {
            self.set(option, value.as_bytes())?;
        }
        self.set("client_mount_timeout", limit.as_secs().max(1).to_string().as_bytes())
    }

    fn set(&self, option: &str, value: &[u8]) -> Result<(), i32> {
        let (option, value) = (c_string(option), c_string(value));
        // SAFETY: the client is not connected; the strings live until the call returns.
        check(unsafe {
            (self.library.rados_conf_set)(self.handle, option.as_ptr(), value.as_ptr())
        })
        .map(drop)
    }

    pub(super) fn raw(&self) -> RadosHandle {
        self.handle
    }

    /// The cluster's id, a UUID.
    pub(crate) fn fsid(&self) -> &str {
        &self.fsid
    }
}

impl Unconnected {
    /// Connects, and waits until a monitor has let us in, for at most as long as was said.
    pub(crate) fn connect(self) -> Result<RadosClient, i32> {
        let Self(mut cluster) = self;
        let library = cluster.library;
        // SAFETY: the handle is that of a client which is configured and not connected.
        check(unsafe { (library.rados_connect)(cluster.handle) })?;
        let mut fsid = [0u8; FSID_BYTES];
        // SAFETY: the client is connected; `fsid` has as many bytes as are stated.
        check(unsafe {
            (library.rados_cluster_fsid)(cluster.handle, fsid.as_mut_ptr().cast(), FSID_BYTES)
        })?;
        cluster.fsid = text(&fsid);
        Ok(cluster)
    }
}

impl Drop for RadosClient {
    fn drop(&mut self) {
        // SAFETY: nothing else has the handle: each pool keeps the cluster.
        unsafe { (self.library.rados_shutdown)(self.handle) }
    }
}

/// A pool, or a namespace of one.
pub(crate) struct RadosPool {
    pub(super) cluster: Arc<RadosClient>,
    pub(super) handle: IoContextHandle,
}

// SAFETY: librados permits the use of a context by several threads at a time, as long as none
// changes its settings; those are made in `open`.
unsafe impl Send for RadosPool {}
// SAFETY: as above.
unsafe impl Sync for RadosPool {}

impl RadosPool {
    /// Opens a pool by its name, in the namespace of this name. May wait for the cluster.
    pub(crate) fn open(
        cluster: Arc<RadosClient>,
        name: &str,
        namespace: &str,
    ) -> Result<Self, i32> {
        let library = cluster.library;
        let (name, namespace) = (c_string(name), c_string(namespace));
        let mut handle = null_mut();
        // SAFETY: the client is connected, and `RadosPool` keeps it; `handle` is written to; the
        // string lives until the call returns.
        check(unsafe { (library.rados_ioctx_create)(cluster.handle, name.as_ptr(), &mut handle) })?;
        // SAFETY: the context was made just now, and nobody else has it.
        unsafe {
            (library.rados_ioctx_set_namespace)(handle, namespace.as_ptr());
            // A write that finds the pool full ends with an error instead of waiting for space.
            (library.rados_set_pool_full_try)(handle);
        }
        Ok(Self { cluster, handle })
    }

    /// The pool's number in its cluster.
    pub(crate) fn id(&self) -> i64 {
        // SAFETY: the context exists.
        unsafe { (self.cluster.library.rados_ioctx_get_id)(self.handle) }
    }

    /// The cluster.
    pub(crate) fn cluster(&self) -> &RadosClient {
        &self.cluster
    }
}

impl Drop for RadosPool {
    fn drop(&mut self) {
        // SAFETY: nothing else has the handle: an image keeps its pool until it is closed.
        unsafe { (self.cluster.library.rados_ioctx_destroy)(self.handle) }
    }
}
