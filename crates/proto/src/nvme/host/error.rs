//! Why an association came to nothing or to its end, by whose fault.

use super::request::AssociationStep;
use crate::nvme::fabrics::{Connect, ConnectData, InvalidParameter};
use crate::nvme::status::Status;
use crate::nvme::types::{Cid, Cntlid, Nqn, Qid};
use crate::nvme::wire::DecodeError;

/// Something that the caller asked for and that the peer does not accept in Connect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Parameter {
    /// SUBNQN.
    #[error("there is no subsystem {0} at this address")]
    Subsystem(Nqn),
    /// HOSTNQN is not on the subsystem's list.
    #[error("the subsystem {subsystem} does not allow host NQN {host}")]
    HostNotAllowed {
        /// The subsystem.
        subsystem: Nqn,
        /// The host.
        host: Nqn,
    },
    /// HOSTNQN is not a name that the peer accepts.
    #[error("the subsystem does not accept {0} as a host NQN")]
    Host(Nqn),
    /// HOSTID.
    #[error("the subsystem does not accept the host identifier; it may belong to another host NQN")]
    HostId,
    /// CNTLID.
    #[error("the subsystem has no controller {0} for this host (65535 asks for any)")]
    Controller(Cntlid),
    /// KATO.
    #[error("the subsystem does not accept a keep alive timeout of {0} ms")]
    KeepAlive(u32),
    /// SQSIZE.
    #[error("the subsystem does not accept a queue of {0} entries")]
    QueueEntries(u16),
}

/// Missing or required feature of the peer that makes it unusable for this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatibility {
    /// AUTHREQ.
    #[error("the subsystem requires authentication, and there is no secret of this host for it")]
    Authentication,
    /// AUTHREQ, of more than authentication.
    #[error("the subsystem requires a secure channel, which authentication alone does not make")]
    SecureChannel,
    /// CAP.CSS.
    #[error("the controller does not offer the NVM command set")]
    CommandSet,
    /// CNTRLTYPE of a discovery controller.
    #[error("the subsystem holds no namespaces: it is a discovery subsystem")]
    DiscoveryController,
    /// CNTRLTYPE of an administrative controller.
    #[error("the controller does not support I/O: it is an administrative controller")]
    AdministrativeController,
    /// CNTRLTYPE, where a discovery controller was expected.
    #[error("the subsystem is not a discovery subsystem")]
    NotDiscovery,
    /// SGLS.
    #[error("the controller does not support SGLs, which fabrics need")]
    Sgl,
    /// IOCCSZ or IORCSZ.
    #[error(
        "the controller supports command capsules of {ioccsz} × 16 bytes and responses of {iorcsz} × 16; the minimum is 4 and 1"
    )]
    CapsuleSize {
        /// IOCCSZ.
        ioccsz: u32,
        /// IORCSZ.
        iorcsz: u32,
    },
    /// SQES or CQES.
    #[error(
        "the controller does not support queue entries of 64 and 16 bytes (SQES {sqes:#x}, CQES {cqes:#x})"
    )]
    EntrySize {
        /// SQES.
        sqes: u8,
        /// CQES.
        cqes: u8,
    },
    /// RECFMT of the discovery log.
    #[error("the discovery log has record format {0}; weft supports only 0")]
    DiscoveryFormat(u16),
}

/// A rule that the peer broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// Connect returned an identifier that is reserved or not the one asked for.
    #[error("Connect returned controller {0}, which was not requested or is reserved")]
    ControllerId(Cntlid),
    /// Connect and Identify disagree.
    #[error("Connect returned controller {connect}, Identify returned {identify}")]
    ControllerIdChanged {
        /// Connect's.
        connect: Cntlid,
        /// Identify's.
        identify: Cntlid,
    },
    /// SUBNQN of Identify is another name than that connected to.
    #[error("the controller reports another subsystem than the one connected to")]
    Subsystem,
    /// CSTS.CFS, or an event that says the same.
    #[error("the controller reports a fatal error")]
    Fatal,
    /// A list that was to hold identifiers above a number holds lower ones.
    #[error("the list of namespaces does not continue after its last entry")]
    NamespaceOrder,
    /// The discovery log kept changing while it was read.
    #[error("the discovery log changed each of the {0} times that it was read")]
    Unsettled(u32),
}

/// Why an association failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Something that the caller asked for is not to be had from this peer.
    #[error("{parameter}")]
    Parameter {
        /// The parameter.
        parameter: Parameter,
        /// The status of Connect.
        status: Status,
    },
    /// The peer refused a step.
    #[error("{step} was refused: {status}{}", hint(*.status))]
    Refused {
        /// The step.
        step: AssociationStep,
        /// Its status.
        status: Status,
        /// Do Not Retry: the same would be refused again.
        do_not_retry: bool,
    },
    /// The peer lacks or demands something.
    #[error(transparent)]
    Incompatible(Incompatibility),
    /// The peer broke a rule.
    #[error(transparent)]
    Violation(Violation),
    /// The peer sent a structure that cannot be read.
    #[error("{step}: {source}")]
    Malformed {
        /// In the answer to what.
        step: AssociationStep,
        /// The problem.
        source: DecodeError,
    },
    /// The peer did not answer in time.
    #[error("no answer to {step} within {after_ms} ms")]
    TimedOut {
        /// To what.
        step: AssociationStep,
        /// Waiting time, in milliseconds.
        after_ms: u64,
    },
    /// An I/O command did not end, not even after an Abort.
    #[error("command {cid} on queue {qid} did not end after Abort")]
    CommandStuck {
        /// Its queue.
        qid: Qid,
        /// Its identifier.
        cid: Cid,
    },
    /// More I/O commands timed out than are followed up one by one.
    #[error("{0} commands timed out")]
    ManyStuck(usize),
    /// A connection ended.
    #[error("the connection of queue {0} was lost")]
    ConnectionLost(Qid),
    /// The peer has more of something than this host takes.
    #[error("the discovery log has {records} records, more than the maximum of {limit}")]
    DiscoveryRecords {
        /// NUMREC.
        records: u64,
        /// [`crate::limits::DISCOVERY_ENTRIES_MAX`].
        limit: usize,
    },
}

/// Side that has to change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultSide {
    /// The caller: it asked for something that is not there or not allowed.
    Parameter,
    /// The peer refused, for a reason of its own.
    Refused,
    /// Nobody: the two do not fit.
    Incompatible,
    /// The peer: it broke the protocol.
    Peer,
    /// The peer or the way to it: no answer.
    TimedOut,
    /// The way to the peer: the connection is gone.
    Lost,
    /// A limit of this program.
    Limit,
}

impl HostError {
    /// Returns the side at fault.
    pub const fn fault(&self) -> FaultSide {
        match self {
            Self::Parameter { .. } => FaultSide::Parameter,
            Self::Refused { .. } => FaultSide::Refused,
            Self::Incompatible(_) => FaultSide::Incompatible,
            Self::Violation(_) | Self::Malformed { .. } => FaultSide::Peer,
            Self::TimedOut { .. } | Self::CommandStuck { .. } | Self::ManyStuck(_) => {
                FaultSide::TimedOut
            }
            Self::ConnectionLost(_) => FaultSide::Lost,
            Self::DiscoveryRecords { .. } => FaultSide::Limit,
        }
    }
}

/// Returns a hint for a status of Connect.
fn hint(status: Status) -> &'static str {
    match status {
        Status::CONNECT_CONTROLLER_BUSY => {
            "; the controller has another host or is full, try again later"
        }
        Status::CONNECT_RESTART_DISCOVERY => "; repeat the discovery of the subsystem",
        Status::CONNECT_INCOMPATIBLE_FORMAT => "; the controller expects another format of Connect",
        Status::AUTHENTICATION_REQUIRED => {
            "; the subsystem requires authentication, and there is no secret of this host for it"
        }
        _ => "",
    }
}

/// Contents of a Connect, to explain its refusal.
pub(super) struct Asked<'a> {
    pub host: &'a Nqn,
    pub subsystem: &'a Nqn,
    pub cntlid: Cntlid,
    pub connect: Connect,
}

impl Asked<'_> {
    /// Explains the refusal of this Connect by status and dword 0 (Base §6.3).
    pub fn refused(&self, status: Status, do_not_retry: bool, dword0: u32) -> HostError {
        let parameter = match status {
            Status::CONNECT_INVALID_HOST => Some(self.host_not_allowed()),
            Status::CONNECT_INVALID_PARAMETERS => self.invalid(InvalidParameter::decode(dword0)),
            _ => None,
        };
        let step = if self.connect.qid == Qid(0) {
            AssociationStep::Connect
        } else {
            AssociationStep::OpenQueue(self.connect.qid)
        };
        match parameter {
            Some(parameter) => HostError::Parameter { parameter, status },
            None => HostError::Refused { step, status, do_not_retry },
        }
    }

    fn host_not_allowed(&self) -> Parameter {
        Parameter::HostNotAllowed { subsystem: self.subsystem.clone(), host: self.host.clone() }
    }

    fn invalid(&self, at: InvalidParameter) -> Option<Parameter> {
        match (at.in_data, at.offset) {
            (true, ConnectData::SUBNQN_AT) => Some(Parameter::Subsystem(self.subsystem.clone())),
            (true, ConnectData::HOSTNQN_AT) => Some(Parameter::Host(self.host.clone())),
            (true, ConnectData::HOST_ID_AT) => Some(Parameter::HostId),
            (true, ConnectData::CNTLID_AT) => Some(Parameter::Controller(self.cntlid)),
            (false, Connect::KEEP_ALIVE_AT) => {
                Some(Parameter::KeepAlive(self.connect.keep_alive_ms))
            }
            (false, Connect::SQ_SIZE_AT) => {
                Some(Parameter::QueueEntries(self.connect.sq_size.saturating_add(1)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: Status, dword0: u32) -> HostError {
        let (host, subsystem) = (
            Nqn::new("nqn.2014-08.org.example:host").unwrap(),
            Nqn::new("nqn.2014-08.org.example:disk").unwrap(),
        );
        let connect = Connect {
            record_format: 0,
            qid: Qid(0),
            sq_size: 31,
            attributes: 0,
            keep_alive_ms: 5000,
        };
        Asked { host: &host, subsystem: &subsystem, cntlid: Cntlid::DYNAMIC, connect }
            .refused(status, true, dword0)
    }

    #[test]
    fn refusals_of_connect_are_one_sentence_each() {
        let invalid = Status::CONNECT_INVALID_PARAMETERS;
        let cases = [
            (
                Status::CONNECT_INVALID_HOST,
                0,
                "the subsystem nqn.2014-08.org.example:disk does not allow host NQN nqn.2014-08.org.example:host",
            ),
            (
                invalid,
                0x1_0100,
                "there is no subsystem nqn.2014-08.org.example:disk at this address",
            ),
            (
                invalid,
                0x1_0200,
                "the subsystem does not accept nqn.2014-08.org.example:host as a host NQN",
            ),
            (
                invalid,
                0x1_0010,
                "the subsystem has no controller 65535 for this host (65535 asks for any)",
            ),
            (invalid, 48, "the subsystem does not accept a keep alive timeout of 5000 ms"),
            (invalid, 44, "the subsystem does not accept a queue of 32 entries"),
            (invalid, 7, "Connect was refused: Connect Invalid Parameters (0x182)"),
            (Status(0x1ff), 0, "Connect was refused: status 0x1ff"),
            (
                Status::CONNECT_CONTROLLER_BUSY,
                0,
                "Connect was refused: Connect Controller Busy (0x181); the controller has another host or is full, try again later",
            ),
        ];
        for (status, dword0, text) in cases {
            assert_eq!(refused(status, dword0).to_string(), text);
        }
    }

    #[test]
    fn faults() {
        assert_eq!(refused(Status::CONNECT_INVALID_HOST, 0).fault(), FaultSide::Parameter);
        assert_eq!(refused(Status::INTERNAL_ERROR, 0).fault(), FaultSide::Refused);
        assert_eq!(refused(Status::CONNECT_CONTROLLER_BUSY, 0).fault(), FaultSide::Refused);
        assert_eq!(HostError::ConnectionLost(Qid(1)).fault(), FaultSide::Lost);
        assert_eq!(HostError::Violation(Violation::Fatal).fault(), FaultSide::Peer);
    }
}
