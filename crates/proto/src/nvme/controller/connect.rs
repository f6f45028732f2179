//! Connect (Base §6.3): what a queue takes before it, and each rule that a Connect can break.

use core::fmt;

use super::admin::event::Next;
use super::fault::{Fault, at, data_from_host};
use super::identity::{CNTLID_MAX, HostIdentity, SubsystemConfig};
use crate::nvme::cqe::Cqe;
use crate::nvme::deviation::{Deviation, Deviations};
use crate::nvme::fabrics::{Connect, ConnectData, InvalidParameter};
use crate::nvme::opcode::{AdminOpcode, FabricsType};
use crate::nvme::sqe::{Fuse, HostMemory, Sgl, Sqe};
use crate::nvme::status::Status;
use crate::nvme::types::{Cid, Cntlid, Id128, Nqn, Qid};
use crate::printable::Printable;

/// Bytes of the data of Connect.
pub const CONNECT_BYTES: usize = ConnectData::BYTES;

/// The first command of a connection: a Connect whose 1,024 bytes of data must be fetched (in the
/// capsule, or through the transport: some hosts do that), or something that is refused. With the
/// data, find the subsystem by [`subsystem_name`] and call [`super::Subsystem::connect`] or
/// [`super::Subsystem::connect_io`], as [`Connect::qid`] says.
pub fn before_connect(sqe: &Sqe, in_capsule_bytes: u32, memory: HostMemory) -> Next {
    match check_first(sqe, in_capsule_bytes, memory) {
        Ok(()) => Next::Fetch { bytes: CONNECT_BYTES as u32 },
        Err(fault) => Next::Reply { cqe: fault.cqe(sqe), data_bytes: 0 },
    }
}

fn check_first(sqe: &Sqe, in_capsule_bytes: u32, memory: HostMemory) -> Result<(), Fault> {
    let fabrics = sqe.opcode() == AdminOpcode::FABRICS.0;
    if !fabrics || sqe.fabrics_type() != FabricsType::CONNECT.0 {
        return Err(Fault::at(Status::COMMAND_SEQUENCE_ERROR, at::OPCODE));
    }
    if sqe.fuse() != Fuse::Normal {
        return Err(Fault::at(Status::COMMAND_SEQUENCE_ERROR, at::FLAGS));
    }
    if data_from_host(sqe, in_capsule_bytes, memory)? != CONNECT_BYTES as u32 {
        return Err(Fault::at(Status::DATA_SGL_LENGTH_INVALID, at::SGL_LENGTH));
    }
    Ok(())
}

/// The subsystem that the data of a Connect asks for, if that is a well-formed name.
pub fn subsystem_name(data: &[u8; CONNECT_BYTES]) -> Option<Nqn> {
    ConnectData::decode(data).ok()?.subnqn.nqn().ok()
}

/// Returns the names in the data of a Connect, for people.
pub fn connect_names(data: &[u8; CONNECT_BYTES]) -> impl fmt::Display {
    let text = |at: u16| {
        let field = &data[usize::from(at)..usize::from(at) + 256];
        let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end]).into_owned()
    };
    let (host, subsystem) = (text(ConnectData::HOSTNQN_AT), text(ConnectData::SUBNQN_AT));
    fmt::from_fn(move |f| {
        write!(f, "host \"{}\", subsystem \"{}\"", Printable(&host), Printable(&subsystem))
    })
}

/// Why a Connect was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// RECFMT.
    #[error("record format {0} is not known")]
    RecordFormat(u16),
    /// A queue identifier that does not go with what is connected.
    #[error("queue identifier {0} is out of range")]
    QueueIdentifier(Qid),
    /// The queue is there already.
    #[error("queue {0} is connected already")]
    QueueExists(Qid),
    /// SQSIZE.
    #[error("a queue of {0} entries is too small or too large")]
    QueueSize(u32),
    /// SUBNQN is malformed, or not this subsystem.
    #[error("there is no such subsystem")]
    Subsystem,
    /// HOSTNQN is malformed.
    #[error("the host's name is too long or not UTF-8")]
    HostName,
    /// The host is not on the list.
    #[error("host {0} is not allowed")]
    HostNotAllowed(HostIdentity),
    /// HOSTNQN of an I/O queue.
    #[error("the host's name is not that of the admin queue")]
    OtherHostName,
    /// HOSTNQN or SUBNQN on a connection with a secure channel.
    #[error("these names are not those of the connection's PSK identity")]
    OtherIdentity,
    /// HOSTID of a host that has proved its name, and is of this other name.
    #[error(
        "the host identifier is that of host {0}, which proved its name: give each host an identifier of its own (/etc/nvme/hostid)"
    )]
    OtherIdentifier(Nqn),
    /// HOSTID of a host to which the configuration gives this other one.
    #[error(
        "the configuration gives this host the identifier {0}: set it at the host (/etc/nvme/hostid), or change the table [[host_identifier]]"
    )]
    NotTheGivenIdentifier(Id128),
    /// An I/O queue on a connection without a secure channel, where there has to be one.
    #[error(
        "an I/O queue needs a secure channel here: the host has to connect with secure channel concatenation"
    )]
    NoSecureChannel,
    /// CNTLID does not go with the controller model, or there is no such controller.
    #[error("controller identifier {0:#x} cannot be asked for")]
    ControllerIdentifier(u16),
    /// The controller that was asked for has a host already.
    #[error("controller {0} has a host already")]
    ControllerTaken(Cntlid),
    /// All controllers are in use.
    #[error(
        "all {0} controllers are in use: raise the limit of the subsystem, or disconnect a host"
    )]
    ControllersExhausted(u16),
    /// The target has no connection left for the queue.
    #[error(
        "no connection is left: {own} of {all} that are open or granted are from this address; raise --max-connections, or disconnect a host"
    )]
    ConnectionsExhausted {
        /// Connections that are open, or kept for queues that were granted.
        all: usize,
        /// Those of the host's address.
        own: usize,
    },
    /// An I/O queue of a controller that is not enabled, or with entry sizes that are not those of
    /// the NVM command set.
    #[error("the controller is not ready for I/O queues")]
    NotReady,
}

impl ConnectError {
    /// Status and field to blame.
    fn status(&self) -> (Status, Option<InvalidParameter>) {
        let invalid = |parameter| (Status::CONNECT_INVALID_PARAMETERS, Some(parameter));
        match self {
            Self::RecordFormat(_) => (Status::CONNECT_INCOMPATIBLE_FORMAT, None),
            Self::QueueExists(_) => (Status::INVALID_QUEUE_IDENTIFIER, None),
            Self::HostNotAllowed(_)
            | Self::OtherIdentity
            | Self::OtherIdentifier(_)
            | Self::NotTheGivenIdentifier(_)
            | Self::NoSecureChannel => (Status::CONNECT_INVALID_HOST, None),
            Self::ControllerTaken(_)
            | Self::ControllersExhausted(_)
            | Self::ConnectionsExhausted { .. } => (Status::CONNECT_CONTROLLER_BUSY, None),
            Self::QueueIdentifier(_) | Self::NotReady => {
                invalid(InvalidParameter::command(Connect::QID_AT))
            }
            Self::QueueSize(_) => invalid(InvalidParameter::command(Connect::SQ_SIZE_AT)),
            Self::Subsystem => invalid(InvalidParameter::data(ConnectData::SUBNQN_AT)),
            Self::HostName | Self::OtherHostName => {
                invalid(InvalidParameter::data(ConnectData::HOSTNQN_AT))
            }
            Self::ControllerIdentifier(_) => {
                invalid(InvalidParameter::data(ConnectData::CNTLID_AT))
            }
        }
    }
}

/// A refused Connect: the completion to send, and the reason for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ConnectRefusal {
    /// For the host.
    pub cqe: Cqe,
    /// For people.
    pub reason: ConnectError,
}

impl ConnectRefusal {
    /// Refuses the Connect `cid`.
    pub fn new(cid: Cid, reason: ConnectError) -> Self {
        let (status, parameter) = reason.status();
        let busy = status == Status::CONNECT_CONTROLLER_BUSY;
        let result = parameter.map_or(0, |parameter| u64::from(parameter.encode()));
        // A busy controller may be free later; all else will not change by trying again.
        Self { cqe: Cqe { result, do_not_retry: !busy, ..Cqe::new(cid, status) }, reason }
    }
}

/// The part of a Connect that is checked without looking at controllers.
pub(super) struct ConnectRequest {
    pub connect: Connect,
    pub cntlid: Cntlid,
    pub host: HostIdentity,
    /// Entries of the queue.
    pub entries: u32,
    pub flow_control: bool,
    pub deviations: Deviations,
}

impl ConnectRequest {
    /// Checks a Connect to a subsystem, for a queue of at most `entries_max` entries.
    pub fn parse(
        sqe: &Sqe,
        data: &[u8; CONNECT_BYTES],
        to: &SubsystemConfig,
        entries_max: u16,
    ) -> Result<Self, ConnectError> {
        let connect = Connect::decode(sqe);
        let data = ConnectData::decode(data).map_err(|_| ConnectError::Subsystem)?;
        if connect.record_format != 0 {
            return Err(ConnectError::RecordFormat(connect.record_format));
        }
        if !data.subnqn.nqn().is_ok_and(|nqn| to.is_called(&nqn)) {
            return Err(ConnectError::Subsystem);
        }
        let entries = u32::from(connect.sq_size) + 1;
        if !(2..=u32::from(entries_max)).contains(&entries) {
            return Err(ConnectError::QueueSize(entries));
        }
        let host = if data.hostnqn.is_empty() {
            None
        } else {
            Some(data.hostnqn.nqn().map_err(|_| ConnectError::HostName)?)
        };
        let host = HostIdentity { nqn: host, id: data.host_id };
        Ok(Self {
            connect,
            cntlid: data.cntlid,
            entries,
            flow_control: connect.attributes & Connect::DISABLE_FLOW_CONTROL == 0,
            deviations: deviations(sqe, &connect, &host),
            host,
        })
    }
}

/// Returns the tolerated deviations of a Connect. Of a host's names the admin queue tells.
fn deviations(sqe: &Sqe, connect: &Connect, host: &HostIdentity) -> Deviations {
    let mut noted = Deviations::default();
    if connect.qid == Qid(0) {
        noted.note_if(host.nqn.is_none(), Deviation::NoHostName);
        noted
            .note_if(host.nqn.as_ref().is_some_and(|nqn| !nqn.is_qualified()), Deviation::HostName);
        noted.note_if(host.id.is_zero(), Deviation::NoHostIdentifier);
    }
    noted.note_if(connect.qid != Qid(0) && connect.keep_alive_ms != 0, Deviation::IoQueueKeepAlive);
    // Where memory has keys the specification leaves open where the data is.
    noted.note_if(sqe.sgl().identifier == Sgl::TRANSPORT, Deviation::ConnectDataFetched);
    noted
}

/// Returns whether a controller can have this identifier.
pub(super) fn assignable(cntlid: Cntlid) -> bool {
    (1..=CNTLID_MAX).contains(&cntlid.0)
}
