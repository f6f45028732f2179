//! The exchange on a new connection: the login, and the questions to the logical unit before it can
//! be used.

use super::session_names::SessionNames;
use crate::source::opening::{Handshake, HandshakeStep};
use std::sync::Arc;
use std::time::Duration;
use weft_block::{Error, ErrorKind};
use weft_connection::limits::{ISCSI_PROBE_BYTES, ISCSI_READY_PAUSE_MS};
use weft_connection::pump::{Flow, Handler};
use weft_io::{Handle, Time};
use weft_proto::iscsi::chap::Algorithm;
use weft_proto::iscsi::initiator::{
    CommandOutcome, DiscoveredTarget, Initiator, InitiatorCommand, InitiatorConfig, InitiatorEvent,
    ScsiData, SessionFault,
};
use weft_proto::iscsi::pdu::{LoginStatus, Lun};
use weft_proto::scsi::initiator::{Probe, ProbeCommand, ProbeError, ScsiDisk};
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::ScsiStatus;
use weft_proto::stream::Tag;

/// What a new session has said.
#[derive(Default)]
pub(super) struct LoggedIn {
    /// What the logical unit said, if it was asked.
    pub(super) disk: Option<ScsiDisk>,
    /// What a discovery session learned.
    pub(super) targets: Vec<DiscoveredTarget>,
    /// Algorithms of CHAP that the target lets itself be offered.
    pub(super) algorithms: &'static [Algorithm],
}

/// Why there is no session.
pub(super) enum Failure {
    /// The target is at this address.
    Moved(String),
    /// It did not take the list of CHAP's algorithms: it may take one alone.
    List(Error),
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Where the questions to the logical unit stand.
enum Asked {
    Nothing,
    /// The next one is for then.
    Later(Time),
    Waiting,
}

/// What a new session asks.
#[derive(Clone)]
pub(super) enum Ask {
    Nothing,
    /// What the logical unit is, for the device with these names.
    All(Lun, Arc<SessionNames>),
    /// Whether the logical unit is ready.
    Ready(Lun),
}

impl Ask {
    fn lun(&self) -> Option<Lun> {
        match self {
            Self::Nothing => None,
            Self::All(lun, _) | Self::Ready(lun) => Some(*lun),
        }
    }
}

/// The handshake.
pub(super) struct Login {
    /// URL or address, for messages.
    name: String,
    config: InitiatorConfig,
    ask: Ask,
    probe: Probe,
    asked: Asked,
    /// The session takes commands; what was to be listed was.
    ready: bool,
    listed: bool,
    ended: Option<(Tag, CommandOutcome)>,
    data: [u8; ISCSI_PROBE_BYTES],
}

impl Login {
    /// A session of this configuration, which asks that.
    pub(super) fn new(name: String, config: InitiatorConfig, ask: Ask) -> Self {
        Self {
            name,
            config,
            probe: if matches!(ask, Ask::Ready(_)) { Probe::greeting() } else { Probe::new() },
            ask,
            asked: Asked::Nothing,
            ready: false,
            listed: false,
            ended: None,
            data: [0; ISCSI_PROBE_BYTES],
        }
    }

    /// Asks the next question, or takes an answer.
    fn next(
        &mut self,
        engine: &mut Initiator,
        on: &Handle,
        lun: Lun,
    ) -> Result<HandshakeStep, Error> {
        if let Some((tag, end)) = self.ended.take() {
            let sense = Sense::decode(engine.sense(tag));
            engine.release(tag);
            self.take_answer(end, sense)?;
            self.asked = match self.probe.question() {
                Some(ProbeCommand { later: true, .. }) => {
                    Asked::Later(on.now() + Duration::from_millis(ISCSI_READY_PAUSE_MS))
                }
                _ => Asked::Nothing,
            };
        }
        let Some(question) = self.probe.question() else { return Ok(HandshakeStep::Done) };
        match self.asked {
            Asked::Waiting => return Ok(HandshakeStep::Wait),
            Asked::Later(at) if on.now() < at => return Ok(HandshakeStep::WaitUntil(at)),
            _ => {}
        }
        let data = ScsiData::In(question.data_in_bytes.min(ISCSI_PROBE_BYTES as u32));
        // A session has room for one command.
        let _ = engine.submit(
            on.now().since_epoch(),
            InitiatorCommand { lun, cdb: question.cdb.bytes, data },
        );
        self.asked = Asked::Waiting;
        Ok(HandshakeStep::Wait)
    }

    fn take_answer(&mut self, end: CommandOutcome, sense: Option<Sense>) -> Result<(), Error> {
        let name = &self.name;
        let CommandOutcome::Answered(answer) = end else {
            return Err(Error::new(
                ErrorKind::TimedOut,
                format!("{name}: the logical unit does not answer; try again later"),
            ));
        };
        if answer.damaged {
            return Err(Error::new(
                ErrorKind::Io,
                format!("{name}: data was damaged on its way; try again"),
            ));
        }
        let data = &self.data[..(answer.received_bytes as usize).min(ISCSI_PROBE_BYTES)];
        let knew = self.probe.disk().started;
        let answered = self
            .probe
            .answer(ScsiStatus(answer.status), sense, data)
            .map_err(|e| unusable(name, &e));
        if let (false, true, Ask::All(_, isids)) = (knew, self.probe.disk().started, &self.ask) {
            // It says so once, perhaps on a connection that is lost before the device is open.
            isids.begin_epoch();
        }
        answered
    }
}

impl Handler<Initiator> for Login {
    fn memory_mut(&mut self, _: Tag, offset: u32, len: u32) -> Option<&mut [u8]> {
        self.data.get_mut(offset as usize..(offset + len) as usize)
    }

    fn memory(&self, _: Tag, _: u32, _: u32) -> &[u8] {
        unreachable!("no question sends data")
    }

    fn event(&mut self, _: &Handle, _: &mut Initiator, event: InitiatorEvent) -> Flow {
        match event {
            InitiatorEvent::Ready => self.ready = true,
            InitiatorEvent::Targets => self.listed = true,
            InitiatorEvent::Ended { tag, end } => self.ended = Some((tag, end)),
            InitiatorEvent::Reported { .. }
            | InitiatorEvent::Leaving
            | InitiatorEvent::Deviation(_) => {}
        }
        Flow::Continue
    }

    fn released(&mut self, on: &Handle, engine: &mut Initiator, tag: Tag) {
        if let Some(event) = engine.sent(tag) {
            let _ = self.event(on, engine, event);
        }
    }
}

impl Handshake for Login {
    type Engine = Initiator;
    type Learned = LoggedIn;
    type Failure = Failure;

    const PEER: &'static str = "a target";

    fn engine(&mut self, on: &Handle) -> Initiator {
        Initiator::new(self.config.clone(), on.now().since_epoch())
    }

    fn owes_answers(engine: &Initiator) -> bool {
        engine.outstanding() > 0
    }

    fn advance(&mut self, engine: &mut Initiator, on: &Handle) -> Result<HandshakeStep, Failure> {
        let lun = self.ask.lun();
        let next = match lun {
            Some(lun) if self.ready => self.next(engine, on, lun)?,
            _ => HandshakeStep::Wait,
        };
        let done = self.listed || self.ready && lun.is_none();
        Ok(if done { HandshakeStep::Done } else { next })
    }

    fn fault(&self, engine: &Initiator) -> Option<Failure> {
        Some(match engine.fault()? {
            SessionFault::Moved { address } => Failure::Moved(address.clone()),
            fault @ SessionFault::Algorithms { .. } if self.config.algorithms.len() > 1 => {
                Failure::List(explain(&self.name, fault))
            }
            fault => explain(&self.name, fault).into(),
        })
    }

    fn cut_off(&self, engine: &Initiator) -> Option<Failure> {
        let offered = engine.unanswered_algorithms()?;
        let text = format!(
            "{}: the target closed the connection in answer to CHAP_A={offered}",
            self.name
        );
        let error = Error::new(ErrorKind::Refused, text);
        Some(match self.config.algorithms.len() {
            0 | 1 => error.into(),
            _ => Failure::List(error),
        })
    }

    fn stage(&self) -> &'static str {
        if self.ready { "what was asked of it after the login" } else { "the login" }
    }

    fn hint(&self) -> &'static str {
        "check that this is the port of an iSCSI target"
    }

    fn finish(self, engine: &mut Initiator) -> LoggedIn {
        let disk = matches!(self.ask, Ask::All(..)).then(|| self.probe.disk().clone());
        LoggedIn { disk, targets: engine.take_targets(), algorithms: self.config.algorithms }
    }
}

// Problems of a session, as problems of a block device.

/// What went wrong with `what` (a URL or address), and what to do.
fn explain(what: &str, fault: &SessionFault) -> Error {
    let (kind, hint) = match fault {
        SessionFault::Refused(status) => refused(*status),
        SessionFault::Method => (
            ErrorKind::PermissionDenied,
            "; give a name (iscsi://USER@HOST/…) and its --chap-secret-file, or leave them out",
        ),
        SessionFault::Algorithms { .. } => (
            ErrorKind::PermissionDenied,
            "; weft has SHA3-256 (8), MD5 (5) and SHA-256 (7): allow one of them there",
        ),
        SessionFault::Impostor => (
            ErrorKind::PermissionDenied,
            "; check --target-chap-secret-file, and that this is the target that you mean",
        ),
        SessionFault::Violation(_) => {
            (ErrorKind::Protocol, "; check that this is the port of an iSCSI target")
        }
        SessionFault::NoDigest(_) | SessionFault::Negotiation(_) => {
            (ErrorKind::Unsupported, "; ask for no digests, or for \"crc32c,none\"")
        }
        SessionFault::Moved { .. }
        | SessionFault::Rejected(_)
        | SessionFault::Dropped
        | SessionFault::LoggedOut
        | SessionFault::Logout(_) => (ErrorKind::Refused, ""),
        SessionFault::Silent | SessionFault::Stuck => (ErrorKind::TimedOut, ""),
    };
    Error::new(kind, format!("{what}: {fault}{hint}"))
}

fn refused(status: LoginStatus) -> (ErrorKind, &'static str) {
    match status {
        LoginStatus::AUTHENTICATION_FAILURE => (
            ErrorKind::PermissionDenied,
            "; check the user in iscsi://USER@HOST/… and --chap-secret-file",
        ),
        LoginStatus::AUTHORIZATION_FAILURE => (
            ErrorKind::PermissionDenied,
            "; have this initiator added there, or give another with --initiator-name",
        ),
        LoginStatus::NOT_FOUND | LoginStatus::TARGET_REMOVED => {
            (ErrorKind::NotFound, "; `weft discover` lists the targets there")
        }
        LoginStatus::OUT_OF_RESOURCES | LoginStatus::TOO_MANY_CONNECTIONS => {
            (ErrorKind::NoResources, "; try again later")
        }
        LoginStatus::UNSUPPORTED_VERSION | LoginStatus::SESSION_TYPE => {
            (ErrorKind::Unsupported, "")
        }
        _ => (ErrorKind::Refused, ""),
    }
}

/// Why a logical unit cannot be used.
fn unusable(what: &str, error: &ProbeError) -> Error {
    let (kind, hint) = match error {
        ProbeError::NoDisk(_) => (ErrorKind::NotFound, "; check the number at the end of the URL"),
        ProbeError::Size { .. } => (ErrorKind::Unsupported, ""),
        ProbeError::Refused { .. } => (ErrorKind::Refused, ""),
        ProbeError::NotReady(_) => (ErrorKind::TimedOut, "; try again later"),
    };
    Error::new(kind, format!("{what}: {error}{hint}"))
}
