//! Reconnect and multipath: one device over any number of paths, each of which is a source that is
//! opened again after its loss.
//!
//! Sources stay single-shot: they are opened, they work, and they end with truthful outcomes. This
//! layer is written once for all protocols and decides by [`weft_block::Outcome`],
//! [`weft_block::Presence`], [`weft_block::AccessState`] and [`weft_block::Identity`] alone:
//!
//! * `keeper` opens the paths on the control loop and opens them again after their loss;
//! * `path_group` is what queues and the keeper share;
//! * `queue` gives each operation to a path (`choose`), and sends it again when that is right
//!   (`verdict`);
//! * `unflushed` keeps completed writes until a flush; when the target has restarted, `replay`
//!   reads them back and compares (`compare`), or writes them again where weft is the only writer;
//! * `registered` asks a device who else is registered with it, where that decides whether weft is
//!   its only writer;
//! * `weft_connection::settle::unresolved` holds back operations that overlap a lost write;
//! * `ordered` lets overlapping writes over a volatile cache out one after the other;
//! * `admit` refuses another device in the place of the one that was opened; `samples` compares the
//!   data of paths that lead to different targets.
//!
//! While no path can be used, operations wait in bounded memory. See `docs/reconnect.md`,
//! `docs/multipath.md`, and decision 23.

mod admit;
mod asking;
mod backoff;
mod choose;
mod compare;
mod counters;
mod flights;
mod keeper;
mod opener;
mod options;
mod ordered;
mod path_group;
mod queue;
mod registered;
mod replay;
mod reserved;
mod route;
mod samples;
mod size;
mod stranded;
mod unflushed;
mod verdict;

use crate::source::ConnectOptions;
use admit::Base;
use asking::ask_from;
use core::future::{Future, poll_fn};
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use keeper::{Keeper, Path, Phase, begin_all, is_reached};
#[doc(hidden)]
pub use opener::Begin;
#[doc(hidden)]
pub use opener::PathOpener;
pub use options::{Failover, IoPolicy, PathOptions};
use path_group::PathGroup;
use queue::PathsQueue;
use registered::Others;
use reserved::Key;
use std::sync::Arc;
use uuid::Uuid;
use weft_block::losses::report_losses;
use weft_block::offload::{Offload, OffloadSource};
use weft_block::path::PathStatus;
use weft_block::{
    BlockDevice, BlockQueue, Device, Error, ErrorKind, Features, Geometry, Identity, OpKind,
    Opening, Presence, SizeAnswer, units,
};
use weft_io::{DriverId, Handle};

/// Begins to open a device over the paths of `openers` (at least one). It is open with the first
/// path that reaches the data, or with one that does not if no other can be opened; the others are
/// opened in the background. The paths are reconnected as the options of the first opener say.
///
/// # Errors
/// What is wrong with a URL or the options. Later: that no path could be opened, and why the first
/// one could not.
#[doc(hidden)]
pub fn begin(mut openers: Vec<PathOpener>) -> Result<Opening, Error> {
    let Some(options) = openers.first().map(|opener| opener.options.clone()) else {
        return Err(Error::new(ErrorKind::Usage, "a device needs at least one path"));
    };
    let key = options.paths.reserve.then(|| {
        let host = options.host.clone().map_or_else(|| options.control.identities().host(), Ok)?;
        Ok::<_, Error>(Key::new(Uuid::from_bytes(host.id.0), options.opener.unwrap_or_default()))
    });
    let key = key.transpose()?;
    if let Some(key) = key {
        openers.iter_mut().for_each(|opener| opener.options.opener = Some(key.opener()));
    }
    let mut openings: Vec<Option<Opening>> = begin_all(&openers)?.into_iter().map(Some).collect();
    Ok(Opening::of(async move {
        let mut problems = openings.iter().map(|_| None).collect::<Vec<Option<Error>>>();
        let first = poll_fn(|context| first_opened(&mut openings, &mut problems, context)).await;
        let Some((path, device)) = first else {
            let first = problems.into_iter().flatten().next();
            return Err(
                first.unwrap_or_else(|| Error::new(ErrorKind::Io, "no path could be opened"))
            );
        };
        let mut others = Others::None;
        if registered::decides(&options.paths, device.as_ref()) && device.features().volatile_cache
        {
            // Without an answer weft looks, which is the safe side; the paths deal with a lost
            // connection.
            let asked = asking::ask_from(&options.control, &device, OpKind::ReservationReport)?;
            others = asked.await.map_or(Others::Unreadable, |answer| Others::of(&answer));
            registered::tell(device.url(), others);
        }
        if let Some(key) = key {
            key.take(&openers[path], &device).await?;
        }
        let group = assemble(openers, openings, problems, path, device, (&options, key))?;
        group.note_others(others);
        Ok(report_losses(Arc::new(PathsDevice { group })))
    }))
}

/// The first path that is open and reaches the data, or, when none of the others can be opened, the
/// first one that is open; none when all have failed. Others are compared with it, so it has to be
/// one that can be read, if there is one.
fn first_opened(
    openings: &mut [Option<Opening>],
    problems: &mut [Option<Error>],
    context: &mut Context<'_>,
) -> Poll<Option<(usize, Device)>> {
    let mut is_pending = false;
    for (path, slot) in openings.iter_mut().enumerate() {
        let Some(opening) = slot else { continue };
        match Pin::new(opening).poll(context) {
            Poll::Pending => is_pending = true,
            Poll::Ready(Ok(device)) if is_reached(device.as_ref()) => {
                *slot = None;
                return Poll::Ready(Some((path, device)));
            }
            Poll::Ready(Ok(device)) => *slot = Some(Opening::ready(Ok(device))),
            Poll::Ready(Err(e)) => {
                *slot = None;
                problems[path] = Some(e);
            }
        }
    }
    if is_pending {
        return Poll::Pending;
    }
    let open = openings.iter_mut().enumerate().find_map(|(path, slot)| Some((path, slot.take()?)));
    let Some((path, mut opening)) = open else { return Poll::Ready(None) };
    Pin::new(&mut opening).poll(context).map(|opened| Some((path, opened.ok()?)))
}

/// What the paths of the device share, of which one is open.
fn assemble(
    mut openers: Vec<PathOpener>,
    openings: Vec<Option<Opening>>,
    problems: Vec<Option<Error>>,
    open: usize,
    device: Device,
    (options, key): (&ConnectOptions, Option<Key>),
) -> Result<Arc<PathGroup>, Error> {
    openers[open].settle_on(device.as_ref());
    let (url, base) = (device.url().to_owned(), Base::of(device.as_ref()));
    if base.identity.uuid.is_none() && openers.len() > 1 {
        tracing::warn!(
            "{url}: the device has no UUID; weft compares only samples of the data of its paths"
        );
    }
    let urls = openers.iter().map(|opener| opener.url.clone()).collect();
    let group = Arc::new(PathGroup::new(
        url,
        options.control.clone(),
        (options.paths.clone(), key),
        base,
        urls,
    ));
    let epoch = device.cache_epoch();
    group.admit(open, device, false);
    for (path, problem) in (0..).zip(&problems) {
        if let Some(e) = problem {
            tracing::warn!(
                "path {} ({}): cannot connect: {e}; weft keeps trying",
                path + 1,
                openers[path].url
            );
        }
    }
    let phase = |(path, opening): (usize, Option<Opening>)| match opening {
        _ if path == open => Phase::Live,
        Some(opening) => Phase::Connecting(opening),
        None => Phase::Waiting(weft_io::Time::ZERO),
    };
    let phases = openings.into_iter().enumerate().map(phase);
    let paths: Vec<Path> = openers
        .into_iter()
        .zip(phases)
        .map(|(opener, phase)| Path::new(opener, phase, epoch))
        .collect();
    let kept = Arc::clone(&group);
    options.control.remote()?.post(move |on| Keeper::spawn(on, kept, paths));
    Ok(group)
}

/// See [`super`]. Dropping it closes all paths, without waiting for operations.
struct PathsDevice {
    group: Arc<PathGroup>,
}

impl Drop for PathsDevice {
    fn drop(&mut self) {
        self.give_back();
        self.group.close();
        let group = Arc::clone(&self.group);
        if let Ok(remote) = self.group.control.remote() {
            remote.post(move |on| {
                if let Some(keeper) = group.keeper() {
                    on.remove(keeper);
                }
            });
        }
    }
}

impl PathsDevice {
    /// The devices of the paths that can be used.
    fn live(&self) -> impl Iterator<Item = Device> {
        self.group.paths().into_iter().filter_map(|(_, live)| Some(live?.device))
    }

    /// The reservation ends with the device, if a path can be used.
    fn give_back(&self) {
        let device = self.group.paths().into_iter().find_map(|(_, live)| Some(live?.device));
        if let (Some(key), Some(device)) = (self.group.key, device) {
            // It goes on by itself; what cannot be given back is taken over by the next opening of
            // this host.
            drop(ask_from(&self.group.control, &device, key.given_back()));
        }
    }
}

impl BlockDevice for PathsDevice {
    fn url(&self) -> &str {
        &self.group.url
    }

    fn geometry(&self) -> Geometry {
        Geometry { blocks: self.group.blocks(), ..self.group.base.geometry }
    }

    /// Every path is asked, because each may check operations by the size that it knows, and the
    /// smallest size is used. A path that has to be opened again for it is, beside the one that is
    /// in use.
    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        let paths = self.group.paths().into_iter().enumerate();
        let open: Vec<(usize, Device)> =
            paths.filter_map(|(path, (_, live))| Some((path, live?.device))).collect();
        if open.is_empty() {
            let text = format!("{}: no path can be used at present", self.group.url);
            return Err(Error::new(ErrorKind::Refused, text));
        }
        self.group.hold_size();
        let ask = |(path, device): &(usize, Device)| match device.renew_size() {
            Ok(SizeAnswer::WhenOpened) => self.group.renew(*path).wait(),
            Ok(SizeAnswer::Now | SizeAnswer::Fixed) => Ok(()),
            Err(e) => Err(e),
        };
        let mut failed: Vec<Error> = open.iter().filter_map(|path| ask(path).err()).collect();
        // Some may have been opened again.
        let sizes: Vec<(String, Geometry)> =
            self.live().map(|device| (device.url().to_owned(), device.geometry())).collect();
        let blocks: Vec<u64> = sizes.iter().map(|(_, size)| size.blocks).collect();
        self.group.settle_size(&blocks);
        if failed.is_empty() && blocks.iter().any(|of| Some(of) != blocks.first()) {
            failed.push(Error::new(ErrorKind::Refused, different(&sizes)));
        }
        together(failed).map(|()| SizeAnswer::Now)
    }

    fn features(&self) -> Features {
        self.group.base.features
    }

    fn identity(&self) -> Identity {
        self.group.base.identity.clone()
    }

    fn used_blocks(&self) -> Option<u64> {
        self.live().find_map(|device| device.used_blocks())
    }

    fn presence(&self) -> Presence {
        self.group.presence()
    }

    fn losses(&self) -> u64 {
        self.group.losses()
    }

    fn paths(&self) -> Vec<PathStatus> {
        self.group.report()
    }

    fn late_writes_bound(&self) -> Option<Duration> {
        self.group
            .paths()
            .into_iter()
            .filter_map(|(_, live)| live?.device.late_writes_bound())
            .max()
    }

    fn served(&self) -> Option<OffloadSource> {
        self.live().find_map(|device| device.served())
    }

    /// It ends with the path that it uses; who uses it goes on by the queues then.
    fn offload(&self, from: &OffloadSource) -> Option<Arc<dyn Offload>> {
        self.live().find_map(|device| device.offload(from))
    }

    fn data_runs(&self) -> Option<Vec<Range<u64>>> {
        self.live().find_map(|device| device.data_runs())
    }

    fn max_queues(&self) -> usize {
        self.group.base.queues
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(PathsQueue::open(&self.group, on, owner)?))
    }
}

/// Text about paths of different sizes.
fn different(sizes: &[(String, Geometry)]) -> String {
    let each: Vec<String> = sizes
        .iter()
        .map(|(url, size)| format!("{url} has {}", units::format_size(size.bytes())))
        .collect();
    format!(
        "the paths have different sizes: {}; the smallest is used until they are asked again",
        each.join(", ")
    )
}

/// The errors of all paths as one.
fn together(mut errors: Vec<Error>) -> Result<(), Error> {
    match errors.len() {
        0 => Ok(()),
        1 => Err(errors.remove(0)),
        _ => {
            let texts: Vec<String> = errors.iter().map(Error::to_string).collect();
            Err(Error::new(errors[0].kind(), texts.join("; ")))
        }
    }
}
