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
//! * `ordered` lets overlapping writes over a volatile cache out one after the other;
//! * `unresolved` holds back operations that overlap a lost write;
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
mod device;
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
mod unresolved;
mod verdict;

#[doc(hidden)]
pub use opener::{Begin, PathOpener};
pub use options::{Failover, IoPolicy, PathOptions};

use crate::source::ConnectOptions;
use admit::Base;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use device::PathsDevice;
use keeper::{Keeper, Path, Phase, begin_all, is_reached};
use path_group::PathGroup;
use registered::Others;
use reserved::Key;
use std::sync::Arc;
use uuid::Uuid;
use weft_block::losses::report_losses;
use weft_block::{Device, Error, ErrorKind, OpKind, Opening};

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
