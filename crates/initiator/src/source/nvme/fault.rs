//! Problems of an association, as problems of a block device.

use weft_block::{Error, ErrorKind};
use weft_proto::nvme::host::{FaultSide, HostError, Incompatibility, Parameter};

/// What went wrong with `what` (a URL or address), and what to do.
pub(super) fn explain(what: &str, error: &HostError) -> Error {
    let (kind, hint) = match error {
        HostError::Parameter { parameter, .. } => match parameter {
            Parameter::Subsystem(_) => {
                (ErrorKind::NotFound, "; `weft discover` lists the subsystems there")
            }
            Parameter::HostNotAllowed { .. } => (
                ErrorKind::PermissionDenied,
                "; have it added there, or give another with --hostnqn",
            ),
            Parameter::Host(_) | Parameter::HostId => {
                (ErrorKind::PermissionDenied, "; give others with --hostnqn and --hostid")
            }
            Parameter::Controller(_) => (ErrorKind::NotFound, ""),
            Parameter::KeepAlive(_) => (ErrorKind::Usage, "; give another with --keep-alive-tmo"),
            Parameter::QueueEntries(_) => (ErrorKind::Usage, "; give another with --queue-size"),
        },
        HostError::Incompatible(Incompatibility::SecureChannel) => (
            ErrorKind::Unsupported,
            "; connect with --concat and the secret of this host, or with --tls and a pre-shared key that the two have",
        ),
        other => match other.fault() {
            FaultSide::Parameter => (ErrorKind::Usage, ""),
            FaultSide::Refused | FaultSide::Lost => (ErrorKind::Refused, ""),
            FaultSide::Incompatible => (ErrorKind::Unsupported, ""),
            FaultSide::Peer => (ErrorKind::Protocol, ""),
            FaultSide::TimedOut => (ErrorKind::TimedOut, ""),
            FaultSide::Limit => (ErrorKind::NoResources, ""),
        },
    };
    Error::new(kind, format!("{what}: {error}{hint}"))
}
