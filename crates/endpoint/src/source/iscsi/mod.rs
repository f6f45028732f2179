//! The iSCSI initiator: [`open`] a logical unit as a block device, or [`discover`] what targets an address offers.
//!
//! Each queue has a session of its own, with one connection (MC/S is not used). Sessions are opened on the control loop; each then
//! waits there, looked after by a keeper, until the device opens a queue, and comes back when that is dropped.

mod device;
mod fault;
mod keeper;
mod opening;
mod options;
mod shared;
mod step;
mod table;
mod url;

pub use device::IscsiDevice;
pub use options::IscsiOptions;
pub use url::{DigestWish, IscsiUrl, LUN_MAX};
pub use weft_proto::iscsi::initiator::DiscoveredTarget;

use crate::control::control_loop;
use crate::limits::ISCSI_REDIRECTIONS_MAX;
use crate::source::ConnectOptions;
use crate::source::idle::Idle;
use crate::url::{HostPort, ISCSI_PORT};
use device::Parts;
use keeper::Keeper;
use opening::{Failure, Opened, Plan};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weft_block::{BlockDevice, Error, ErrorKind};
use weft_proto::iscsi::initiator::Initiator;
use weft_proto::iscsi::pdu::Lun;
use weft_proto::scsi::initiator::Disk;

/// How long beyond its own time limits the control loop may take to answer.
const GRACE: Duration = Duration::from_secs(3);

/// Opens the logical unit of a URL text; for the table of schemes.
pub(crate) fn open_url(url: &str, options: &ConnectOptions) -> Result<Arc<dyn BlockDevice>, Error> {
    let device = open(&IscsiUrl::parse(url, ISCSI_PORT)?, options)?;
    Ok(device)
}

/// Opens the logical unit that the URL names, with as many sessions as the options ask for queues and the target grants. Takes at
/// most the connect timeout for each session, and the system's time to look up the host's name.
pub fn open(url: &IscsiUrl, options: &ConnectOptions) -> Result<Arc<IscsiDevice>, Error> {
    let lun = which(url)?;
    let name = url.to_string();
    let first = session(url, options, &name, Some(lun), 0)?;
    let disk = first.disk.unwrap_or_default();
    let mut sessions = vec![first.pump];
    for n in 1..options.nr_io_queues.max(1) {
        match session(url, options, &name, None, n) {
            Ok(further) => sessions.push(further.pump),
            Err(e) => {
                tracing::info!("{e}; going on with {} sessions", sessions.len());
                break;
            }
        }
    }
    keep(name, disk, lun, sessions, options)
}

/// Hands the sessions to a keeper, and makes the device.
fn keep(
    url: String,
    disk: Disk,
    lun: Lun,
    sessions: Vec<crate::pump::StreamPump<Initiator>>,
    options: &ConnectOptions,
) -> Result<Arc<IscsiDevice>, Error> {
    let (idle, closing) = (Arc::new(Idle::new(url.clone(), sessions)), Arc::new(AtomicBool::new(false)));
    let (give, take) = mpsc::channel();
    let kept = (Arc::clone(&idle), Arc::clone(&closing));
    control_loop()?.post(move |on| {
        // Nobody listens any more when the time limit has passed.
        let _ = give.send(Keeper::spawn(on, kept.0, kept.1));
    });
    let keeper = take
        .recv_timeout(GRACE)
        .map_err(|_| Error::new(ErrorKind::TimedOut, format!("{url}: the control loop does not answer")))?;
    Ok(Arc::new(IscsiDevice::new(Parts { url, disk, lun, idle, closing, keeper }, options)))
}

/// The targets that an address offers; of the URL only address and user count.
pub fn discover(url: &IscsiUrl, options: &ConnectOptions) -> Result<Vec<DiscoveredTarget>, Error> {
    let name = url.address.to_string();
    let config = options::session(url, options, false, 0)?;
    let opened = follow(&url.address, |address| {
        Ok(Plan {
            name: name.clone(),
            addresses: address.resolve()?,
            config: config.clone(),
            probe: None,
            limit: options.connect_timeout,
        })
    })?;
    let idle = Arc::new(Idle::new(name, vec![opened.pump]));
    control_loop()?.post(move |on| {
        // A session that has no device left is logged out at once.
        Keeper::spawn(on, idle, Arc::new(AtomicBool::new(true)));
    });
    Ok(opened.targets)
}

/// The logical unit that a URL names.
fn which(url: &IscsiUrl) -> Result<Lun, Error> {
    let missing = |what: &str, hint: &str| {
        let address = IscsiUrl { user: None, target: None, lun: None, ..url.clone() };
        Error::new(ErrorKind::Usage, format!("\"{url}\" names no {what}; append {hint}, which `weft discover {address}` lists"))
    };
    if url.target.is_none() {
        return Err(missing("target", "its IQN and a LUN"));
    }
    let Some(lun) = url.lun else {
        return Err(Error::new(ErrorKind::Usage, format!("\"{url}\" names no logical unit; append its number, as in {url}/0")));
    };
    Ok(Lun::single_level(lun))
}

/// Opens one session.
fn session(url: &IscsiUrl, options: &ConnectOptions, name: &str, probe: Option<Lun>, n: u16) -> Result<Opened, Error> {
    let config = options::session(url, options, true, n)?;
    follow(&url.address, |address| {
        let addresses = address.resolve()?;
        Ok(Plan { name: name.to_owned(), addresses, config: config.clone(), probe, limit: options.connect_timeout })
    })
}

/// Opens a session where the target says that it is, following it so often.
fn follow(at: &HostPort, plan: impl Fn(&HostPort) -> Result<Plan, Error>) -> Result<Opened, Error> {
    let mut address = at.clone();
    for _ in 0..=ISCSI_REDIRECTIONS_MAX {
        match open_and_wait(plan(&address)?) {
            Ok(opened) => return Ok(opened),
            Err(Failure::Error(e)) => return Err(e),
            Err(Failure::Moved(to)) => {
                tracing::info!("{address}: the target has moved to {to}");
                address = HostPort::parse(&to, ISCSI_PORT).map_err(|e| {
                    Error::new(ErrorKind::Protocol, format!("{address}: the target has moved, but says a wrong address: {e}"))
                })?;
            }
        }
    }
    let text = format!(
        "{at}: the target has moved more than {ISCSI_REDIRECTIONS_MAX} times, at last to {address}; check its configuration"
    );
    Err(Error::new(ErrorKind::Refused, text))
}

fn open_and_wait(plan: Plan) -> Result<Opened, Failure> {
    let (name, limit) = (plan.name.clone(), plan.limit + GRACE);
    let (give, take) = mpsc::channel();
    control_loop()?.post(move |on| {
        // Nobody listens any more when the time limit has passed.
        opening::open(on, plan, move |_, result| drop(give.send(result)));
    });
    take.recv_timeout(limit).unwrap_or_else(|_| {
        let text = format!("{name}: no answer within {} s", limit.as_secs_f32());
        Err(Error::new(ErrorKind::TimedOut, text).into())
    })
}
