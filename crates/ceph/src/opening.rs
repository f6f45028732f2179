//! Opening images. All that waits for a cluster happens on a thread of the image, its keeper:
//! connecting, opening, asking for a new size, closing. A cluster that does not answer thus holds
//! up nothing but that thread.

use crate::cluster;
use crate::device::RbdDevice;
use crate::limits::RBD_OPENINGS_MAX;
use crate::native::{Image, ImageNews, Keeper, OpenedImage, RadosPool};
use crate::reason::{self, OpeningStep};
use crate::shared_image::SharedImage;
use crate::url::RbdUrl;
use core::time::Duration;
use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use weft_base::lock::Lock;
use weft_block::{Device, Error, ErrorKind, Opening, Pending};

/// Error numbers with which the cluster says that the user may not write.
const NO_WRITING: [i32; 3] = [1, 13, 30];

/// Openings under way.
static OPENINGS: AtomicUsize = AtomicUsize::new(0);

struct Underway;

impl Underway {
    fn begin(url: &str) -> Result<Self, Error> {
        let begun = OPENINGS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
            (n < RBD_OPENINGS_MAX).then_some(n + 1)
        });
        match begun {
            Ok(_) => Ok(Self),
            Err(_) => {
                let text = format!(
                    "{url}: {RBD_OPENINGS_MAX} images wait already for clusters that do not answer; `ceph status` shows how they are"
                );
                Err(Error::new(ErrorKind::NoResources, text))
            }
        }
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        OPENINGS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Begins to open an image; it takes at most `limit`. `task` is dropped when the image is closed
/// again, which happens some time after the device and its queues were dropped: a program that ends
/// earlier leaves the image's lock behind, and the next one waits until the cluster has noticed.
///
/// # Errors
/// There are too many openings already, or the system has no thread.
pub fn begin(url: &RbdUrl, limit: Duration, task: impl Any + Send) -> Result<Opening, Error> {
    let name = url.to_string();
    let underway = Underway::begin(&name)?;
    let no_thread = |e: std::io::Error| Error::io(format!("no thread can be started: {e}"), e);
    let (tell, told) = sync_channel(1);
    let (promise, opening) = Pending::promised();
    let url = url.clone();
    let task = Arc::new(Lock::new(Some(task)));
    let given_up = Arc::clone(&task);
    thread("weft-rbd", move || keep(&url, limit, underway, &tell, &task)).map_err(no_thread)?;
    thread("weft-rbd-open", move || {
        promise.complete(match told.recv_timeout(limit) {
            Ok(opened) => opened,
            Err(RecvTimeoutError::Timeout) => {
                // A program that ends does not wait for what nobody waits for any more.
                drop(given_up.lock().take());
                let text =
                    format!("{name}: the cluster does not answer; check `ceph status`, and `mon host` in the configuration");
                Err(Error::new(ErrorKind::TimedOut, text))
            }
            Err(RecvTimeoutError::Disconnected) => Err(Error::new(ErrorKind::Io, format!("{name}: opening it came to nothing"))),
        });
    })
    .map_err(no_thread)?;
    Ok(opening)
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

/// The life of an image's keeper. Nobody may wait for the image any more when it is open; then it
/// is closed at once.
fn keep(
    url: &RbdUrl,
    limit: Duration,
    underway: Underway,
    tell: &SyncSender<Result<Device, Error>>,
    task: &Lock<Option<impl Any + Send>>,
) {
    let (opened, mut keeper) = match open(url, limit) {
        Ok(OpenedImage { image, keeper }) => (RbdDevice::new(url, image), keeper),
        Err(e) => {
            let _ = tell.send(Err(e));
            drop(task.lock().take());
            return;
        }
    };
    drop(underway);
    let mut shared = Weak::new();
    match opened {
        Ok(device) => {
            shared = Arc::downgrade(device.shared());
            let _ = tell.send(Ok(Arc::new(device)));
        }
        Err(e) => drop(tell.send(Err(e))),
    }
    if !keeper.is_watching() {
        tracing::warn!(
            "{url}: the cluster does not report changes of the image; open it again when its size has changed"
        );
    }
    watch(&mut keeper, &shared);
    drop(task.lock().take());
}

fn open(url: &RbdUrl, limit: Duration) -> Result<OpenedImage, Error> {
    let name = url.to_string();
    let cluster = cluster::client(&name, &url.access, limit)?;
    let failed = |step| move |error| reason::opening(&url.to_string(), step, error);
    let pool =
        RadosPool::open(cluster, &url.pool, &url.namespace).map_err(failed(OpeningStep::Pool))?;
    let opened = match Image::open(pool, &url.image, url.snapshot.as_deref(), false) {
        // Whoever may only read opens it for reading.
        Err((pool, error)) if NO_WRITING.contains(&error) => {
            Image::open(pool, &url.image, url.snapshot.as_deref(), true)
        }
        other => other,
    };
    opened.map_err(|(_, error)| failed(OpeningStep::Image)(error))
}

fn watch(keeper: &mut Keeper, shared: &Weak<SharedImage>) {
    while let ImageNews::Updated = keeper.wait() {
        if let Some(shared) = shared.upgrade() {
            shared.look();
        }
    }
}
