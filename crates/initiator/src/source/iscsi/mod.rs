//! The iSCSI initiator: [`begin`] to open a logical unit as a block device, or [`discover`] what
//! targets an address offers.
//!
//! Each queue has a session of its own, with one connection (MC/S is not used). Sessions are opened
//! on the control loop; each then waits there, looked after by the driver `IdleSessions`, until the
//! device opens a queue, and comes back when that is dropped.

mod device;
mod device_state;
mod identity;
mod idle_sessions;
pub(crate) mod isids;
mod login;
mod options;
mod reserve;
mod session_config;
mod session_names;
mod sessions;
mod size_asking;
mod step;
mod table;

pub use device::IscsiDevice;
pub use options::IscsiOptions;
pub use weft_proto::iscsi::initiator::DiscoveredTarget;

use crate::source::ConnectOptions;
use crate::source::idle::Idle;
use crate::source::opening::TimeLimit;
use idle_sessions::IdleSessions;
use login::Ask;
use session_names::SessionNames;
use sessions::{Whom, open_device, open_session};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weft_block::{Device, Error, ErrorKind, Opening, Pending, waiting};
use weft_connection::iscsi_remarks::{Remarks, remark};
use weft_connection::url::{ISCSI_PORT, IscsiUrl};
use weft_proto::iscsi::pdu::Lun;

/// Begins to open the logical unit of a URL text; for the table of schemes.
#[doc(hidden)]
pub fn begin_url(url: &str, options: &ConnectOptions) -> Result<Opening, Error> {
    Ok(begin(&IscsiUrl::parse(url, ISCSI_PORT)?, options)?.and_then(|device| Ok(device as Device)))
}

/// Begins to open the logical unit that the URL names, with as many sessions as the options ask for
/// queues and the target grants. Takes at most the connect timeout.
pub fn begin(url: &IscsiUrl, options: &ConnectOptions) -> Result<Pending<Arc<IscsiDevice>>, Error> {
    let lun = which(url)?;
    let isids = Arc::new(SessionNames::new(&options.control));
    let configs = (0..options.nr_io_queues.max(1))
        .map(|n| session_config::session(url, options, Some(&isids), n));
    let configs = configs.collect::<Result<_, _>>()?;
    if let Some(target) = &url.target {
        remark("the target's name", target);
    }
    let whom = whom(url.to_string(), url, options);
    options.control.begin(move |on, done| open_device(on, whom, configs, (lun, isids), done))
}

/// The targets that an address offers; of the URL only address and user count. Waits for them, at
/// most for the connect timeout.
pub fn discover(url: &IscsiUrl, options: &ConnectOptions) -> Result<Vec<DiscoveredTarget>, Error> {
    let whom = whom(url.address.to_string(), url, options);
    let config = session_config::session(url, options, None, 0)?;
    let found = options.control.begin(move |on, done| {
        let limit = TimeLimit::new(on, whom.options.connect_timeout);
        open_session(on, &whom.clone(), limit, config, Ask::Nothing, move |on, session| {
            done(session.map(|(session, known)| {
                Remarks::default().on(&whom.name, session.engine.deviations());
                let idle = Arc::new(Idle::new(whom.name, &whom.options, vec![session]));
                // A session that has no device left is logged out at once.
                IdleSessions::spawn(on, idle, Arc::new(AtomicBool::new(true)), None);
                known.targets
            }));
        });
    })?;
    let _waiting = waiting::begin(|| format!("{} to answer", url.address));
    found.wait()
}

fn whom(name: String, url: &IscsiUrl, options: &ConnectOptions) -> Whom {
    Whom { name, address: url.address.clone(), options: options.clone() }
}

/// The logical unit that a URL names.
fn which(url: &IscsiUrl) -> Result<Lun, Error> {
    let missing = |what: &str, hint: &str| {
        let address = IscsiUrl { user: None, target: None, lun: None, ..url.clone() };
        Error::new(
            ErrorKind::Usage,
            format!(
                "\"{url}\" names no {what}; append {hint}, which `weft discover {address}` lists"
            ),
        )
    };
    if url.target.is_none() {
        return Err(missing("target", "its IQN and a LUN"));
    }
    let Some(lun) = url.lun else {
        return Err(Error::new(
            ErrorKind::Usage,
            format!("\"{url}\" names no logical unit; append its number, as in {url}/0"),
        ));
    };
    Ok(Lun::single_level(lun))
}
