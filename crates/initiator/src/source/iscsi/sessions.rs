//! Opening the sessions of a device: the first finds out what the logical unit is, the others then
//! open side by side.

use super::device::{IscsiDevice, Parts};
use super::idle_sessions::IdleSessions;
use super::login::{Ask, Failure, LoggedIn, Login};
use super::session_names::{SessionNames, pair};
use crate::source::ConnectOptions;
use crate::source::idle::Idle;
use crate::source::opening::{self, OpeningPlan, PeerPlace, Then, TimeLimit, side_by_side};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use weft_block::{Error, ErrorKind};
use weft_connection::iscsi_remarks::Remarks;
use weft_connection::limits::ISCSI_REDIRECTIONS_MAX;
use weft_connection::pump::StreamPump;
use weft_connection::settle::lost_writes::iscsi_bound;
use weft_connection::url::{HostPort, ISCSI_PORT};
use weft_io::Handle;
use weft_proto::iscsi::chap::Algorithm;
use weft_proto::iscsi::deviation::Deviations;
use weft_proto::iscsi::initiator::{Initiator, InitiatorConfig};
use weft_proto::iscsi::pdu::Lun;

/// Where a target is, and how to log in there.
#[derive(Clone)]
pub(super) struct Whom {
    /// URL or address, for messages.
    pub(super) name: String,
    pub(super) address: HostPort,
    pub(super) options: ConnectOptions,
}

/// What comes of a session.
type Session = Result<(StreamPump<Initiator>, LoggedIn), Error>;

/// Opens a device with a session of each configuration, or of fewer where the target grants no
/// more; `then` gets it on this loop, within the connect timeout.
pub(super) fn open_device(
    on: &Handle,
    whom: Whom,
    configs: Vec<InitiatorConfig>,
    (lun, isids): (Lun, Arc<SessionNames>),
    then: impl FnOnce(Result<Arc<IscsiDevice>, Error>) + 'static,
) {
    let limit = TimeLimit::new(on, whom.options.connect_timeout);
    let mut configs = configs.into_iter();
    let Some(first) = configs.next() else {
        return then(Err(Error::new(
            ErrorKind::Usage,
            format!("{}: no session is asked for", whom.name),
        )));
    };
    let asked = Ask::All(lun, Arc::clone(&isids));
    open_session(on, &whom.clone(), limit, first, asked, move |on, first| {
        let (first, known) = match first {
            Ok(first) => first,
            Err(e) => return then(Err(e)),
        };
        let algorithms = known.algorithms;
        let further: Vec<_> =
            configs.map(|config| InitiatorConfig { algorithms, ..config }).collect();
        let begin = {
            let whom = whom.clone();
            move |on: &Handle, n: usize, done: Then<Session>| {
                open_session(on, &whom, limit, further[n].clone(), Ask::Ready(lun), done);
            }
        };
        let count = usize::from(whom.options.nr_io_queues.max(1)) - 1;
        side_by_side(on, count, begin, move |on, further| {
            let mut sessions = vec![first];
            for session in further {
                match session {
                    Ok((further, _)) => sessions.push(further),
                    Err(e) => tracing::info!("{e}; going on with fewer sessions"),
                }
            }
            then(Ok(Arc::new(keep(on, whom, sessions, known, (lun, isids)))));
        });
    });
}

/// Has the idle sessions looked after, and makes the device.
fn keep(
    on: &Handle,
    whom: Whom,
    sessions: Vec<StreamPump<Initiator>>,
    known: LoggedIn,
    (lun, isids): (Lun, Arc<SessionNames>),
) -> IscsiDevice {
    let Whom { name: url, options, .. } = whom;
    let deviations = sessions
        .iter()
        .fold(Deviations::default(), |all, session| all.with(session.engine.deviations()));
    Remarks::default().on(&url, deviations);
    let disk = known.disk.unwrap_or_default();
    settle(on, &url, &options, &sessions, isids.epoch());
    let agreed = sessions.iter().map(|session| session.engine.parameters());
    let bounds =
        agreed.map(|it| iscsi_bound(it.time2wait_s, it.time2retain_s, options.quiesce_time));
    let bound = bounds.max().unwrap_or(options.quiesce_time);
    options.control.late_list().began_unstoppable(url.clone(), bound);
    let idle = Arc::new(Idle::new(url.clone(), &options, sessions));
    let closing = Arc::new(AtomicBool::new(false));
    let idle_driver = {
        let cached = disk.volatile_cache.then(|| Arc::downgrade(&isids));
        IdleSessions::spawn(on, Arc::clone(&idle), Arc::clone(&closing), cached)
    };
    IscsiDevice::new(Parts { url, disk, lun, isids, idle, closing, idle_driver, bound }, &options)
}

/// The target has taken these sessions in the place of those that were lost since it was started,
/// which it has ended by that.
fn settle(
    on: &Handle,
    url: &str,
    options: &ConnectOptions,
    sessions: &[StreamPump<Initiator>],
    epoch: u64,
) {
    let nexuses = sessions.iter().filter_map(|session| session.engine.nexus());
    let replaced = nexuses
        .filter(|nexus| options.control.unsettled().replaced(&pair(nexus, epoch), on.now()))
        .count();
    if replaced > 0 {
        tracing::info!(
            "{url}: the target has ended the sessions that were lost: their writes can no longer be executed"
        );
    }
}

/// Opens one session where the target says that it is, following it so often, and asks that.
pub(super) fn open_session(
    on: &Handle,
    whom: &Whom,
    limit: TimeLimit,
    config: InitiatorConfig,
    ask: Ask,
    then: impl FnOnce(&Handle, Session) + 'static,
) {
    follow(on, whom.clone(), limit, config, ask, 0, Box::new(then));
}

fn follow(
    on: &Handle,
    whom: Whom,
    limit: TimeLimit,
    config: InitiatorConfig,
    ask: Ask,
    moves: usize,
    then: Then<Session>,
) {
    let login = Login::new(whom.name.clone(), config.clone(), ask.clone());
    let control = whom.options.control.clone();
    let plan = OpeningPlan {
        name: whom.name.clone(),
        place: PeerPlace::Host(whom.address.clone()),
        limit,
        capture: control.capture(),
    };
    opening::open(on, control.names(), plan, login, move |on, opened| match opened {
        Ok(session) => {
            then(on, Ok(session));
        }
        Err(Failure::Error(e)) => then(on, Err(e)),
        Err(Failure::List(why)) => {
            tracing::warn!("{why}; offering MD5 (CHAP_A=5), the weakest of them, alone");
            let config = InitiatorConfig { algorithms: &Algorithm::ONLY_MD5, ..config };
            let then_both = move |on: &Handle, session: Session| {
                then(on, session.map_err(|e| of_both(&e, &why)));
            };
            follow(on, whom, limit, config, ask, moves, Box::new(then_both))
        }
        Err(Failure::Moved(to)) => match next_address(&whom.address, &to, moves) {
            Ok(address) => {
                follow(on, Whom { address, ..whom }, limit, config, ask, moves + 1, then)
            }
            Err(e) => then(on, Err(e)),
        },
    });
}

/// Why there is no session, although MD5 alone was offered behind a list of algorithms.
fn of_both(last: &Error, first: &Error) -> Error {
    let text = format!("{last}; before, with a list of algorithms: {first}");
    Error::new(last.kind(), text)
}

/// Where a target has moved to from `address`, after it has moved so often.
fn next_address(address: &HostPort, to: &str, moves: usize) -> Result<HostPort, Error> {
    tracing::info!("{address}: the target has moved to {to}");
    if moves == ISCSI_REDIRECTIONS_MAX {
        let text = format!(
            "{address}: the target has moved more than {ISCSI_REDIRECTIONS_MAX} times, at last to {to}; check its configuration"
        );
        return Err(Error::new(ErrorKind::Refused, text));
    }
    HostPort::parse(to, ISCSI_PORT).map_err(|e| {
        Error::new(
            ErrorKind::Protocol,
            format!("{address}: the target has moved, but says a wrong address: {e}"),
        )
    })
}
