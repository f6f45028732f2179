//! The start of a file.

use super::disk::Disk;
use super::server::{Server, Slots};
use super::url::FuseUrl;
use crate::export::local::hosts::{LocalHosts, NamespaceView, Opened};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;
use weft_block::{Error, ErrorKind};
use weft_connection::identity::HostIdentity;
use weft_connection::limits::{
    FUSE_QUEUES_MAX, FUSE_RING_BYTES_MAX, FUSE_RING_SLOTS_MAX, POOL_PARTS, TRANSFER_BYTES_MAX,
};
use weft_connection::loops::ask;
use weft_io::RemoteLoop;
use weft_io::fuse::{FileAttributes, MountSettings, is_dead, is_mounted, mount, queues, unmount};
use weft_proto::nvme::types::{Nqn, Nsid};

/// `io-uring=on` where there is none.
const NO_RING: &str = "the kernel offers no io_uring for files by FUSE; it needs Linux 6.14, and as root `echo Y >/sys/module/fuse/parameters/enable_uring`";

/// The smallest maximum that the kernel accepts.
const REQUEST_BYTES_MIN: u32 = 4096;

/// Mounts the file that a URL asks for.
pub(super) fn begin(
    url: &str,
    hosts: &Arc<LocalHosts>,
    loops: &[RemoteLoop],
) -> Result<Arc<Disk>, Error> {
    let asked = FuseUrl::parse(url)?;
    let opened = Arc::new(find(hosts, asked.nqn.as_ref(), asked.nsid)?);
    let gone = || Error::new(ErrorKind::NotFound, "the namespace has just been removed");
    let view = opened.view(&hosts.inventory.now()).ok_or_else(gone)?;
    let directory = place(&asked.directory)?;
    let request_bytes = request_bytes(loops, &view)?;
    let depth = if asked.io_uring == Some(false) { None } else { depth(request_bytes) };
    let mut settings = MountSettings {
        is_read_only: !view.features.write,
        request_bytes,
        is_plain: depth.is_none(),
    };
    loop {
        let mounted = mount(&directory, &settings).map_err(|e| not_mounted(&asked.directory, e))?;
        let depth = depth.filter(|_| mounted.has_ring);
        let disk = Disk::new(url, &directory, attributes_of(&view), mounted);
        let started = match (asked.io_uring, depth) {
            (Some(true), None) => Err(Error::new(ErrorKind::Unsupported, NO_RING)),
            _ => serve(&disk, hosts, &opened, loops, depth),
        };
        let Err(e) = started else { return Ok(disk) };
        let _ = disk.remove(true);
        if depth.is_none() || asked.io_uring.is_some() {
            return Err(e);
        }
        tracing::warn!("{e}; it is served without io_uring");
        settings.is_plain = true;
    }
}

fn find(hosts: &LocalHosts, nqn: Option<&Nqn>, nsid: Option<Nsid>) -> Result<Opened, Error> {
    let none = || Error::new(ErrorKind::NotFound, "there is no namespace to make a file of");
    let (nqn, nsid) = hosts.chosen(nqn, nsid).ok_or_else(none)?;
    hosts.find(HostIdentity::of_this_host()?, &nqn, nsid)
}

/// Resolves the directory. Unmounts a file there whose process has ended.
fn place(directory: &Path) -> Result<std::path::PathBuf, Error> {
    if is_dead(directory) {
        let failed = |e| {
            let text = format!(
                "{} has a file whose server has ended, and cannot be unmounted: {e}",
                directory.display()
            );
            Error::io(text, e)
        };
        unmount(directory, true).map_err(failed)?;
    }
    let failed = |e: io::Error| {
        Error::io(format!("cannot use the directory {}: {e}", directory.display()), e)
    };
    let place = directory.canonicalize().map_err(failed)?;
    let is_empty = std::fs::read_dir(&place).map_err(failed)?.next().is_none();
    if is_mounted(&place) || !is_empty {
        let text = format!(
            "{} is not empty; name an empty directory, in which the file disk is to appear",
            directory.display()
        );
        return Err(Error::new(ErrorKind::InUse, text));
    }
    Ok(place)
}

fn not_mounted(directory: &Path, e: io::Error) -> Error {
    let directory = directory.display();
    let text = format!("cannot mount a file system by FUSE at {directory}: {e}");
    let rest = match e.kind() {
        io::ErrorKind::NotFound if text.contains("/dev/fuse") => {
            "; `modprobe fuse` loads the kernel's driver"
        }
        io::ErrorKind::NotFound => {
            "; run weft as root, or install fusermount3 (the package fuse3), which mounts for other users"
        }
        _ => "",
    };
    let kind = match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::Unsupported => ErrorKind::Unsupported,
        io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
        _ => return Error::io(text, e),
    };
    Error::new(kind, format!("{text}{rest}"))
}

fn attributes_of(view: &NamespaceView) -> FileAttributes {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    FileAttributes {
        bytes: view.geometry.data_bytes(),
        block_bytes: view.geometry.block_bytes,
        is_read_only: !view.features.write,
        owner: weft_io::fuse::owner(),
        since: since.as_secs(),
    }
}

/// Serves all queues of a file, over the loops in turn; by io_uring with slots of a `depth` for
/// each queue of the kernel.
fn serve(
    disk: &Arc<Disk>,
    hosts: &Arc<LocalHosts>,
    opened: &Arc<Opened>,
    loops: &[RemoteLoop],
    depth: Option<u16>,
) -> Result<(), Error> {
    let failed =
        |e: io::Error| Error::io(format!("cannot serve {}: {e}", disk.path().display()), e);
    let loops = &loops[..loops.len().min(FUSE_QUEUES_MAX)];
    let queues = if depth.is_some() { queues().map_err(failed)? } else { 0 };
    for (first, on) in loops.iter().enumerate() {
        let channel = disk.channel().map_err(failed)?;
        let of_loop: Vec<u16> = (0..queues).skip(first).step_by(loops.len()).collect();
        // There may be fewer queues than loops.
        let has_slots = depth.filter(|_| !of_loop.is_empty());
        let slots = has_slots.map(|depth| Slots { queues: of_loop, depth });
        let (of, hosts, opened) = (Arc::clone(disk), Arc::clone(hosts), Arc::clone(opened));
        disk.queue_begins();
        let driver = ask(on, move |on| {
            Server::start(on, &of, (&hosts, &opened), (channel, slots))
                .inspect_err(|_| of.queue_ended())
        })??;
        disk.queue_began(on, driver);
    }
    Ok(())
}

/// The slots for each of the kernel's queues; `None`: they would take too much memory.
fn depth(request_bytes: u32) -> Option<u16> {
    let queues = usize::from(queues().ok()?.max(1));
    let slots = (FUSE_RING_BYTES_MAX / request_bytes as usize).min(FUSE_RING_SLOTS_MAX);
    u16::try_from(slots / queues).ok().filter(|depth| *depth > 0)
}

/// The maximum data of a request: a power of two. With the partial blocks at both ends it fits into
/// one transfer of the device, and it leaves memory for others.
fn request_bytes(loops: &[RemoteLoop], view: &NamespaceView) -> Result<u32, Error> {
    let on = loops.first().ok_or_else(|| Error::new(ErrorKind::Usage, "no loop"))?;
    let pool = ask(on, |on| on.pool().cap_bytes())? / POOL_PARTS / 2;
    let block_bytes = view.geometry.block_bytes;
    let most = view.geometry.max_transfer_bytes.min(TRANSFER_BYTES_MAX);
    let most = most.min(u32::try_from(pool).unwrap_or(u32::MAX));
    let most = most.saturating_sub(block_bytes.saturating_mul(2));
    if most < REQUEST_BYTES_MIN {
        let text = format!(
            "{}: transfers of {} bytes at most are too small for a file by FUSE",
            view.namespace.device.url(),
            view.geometry.max_transfer_bytes
        );
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    Ok(1 << most.ilog2())
}
