//! Problems of a session, as problems of a block device.

use weft_block::{Error, ErrorKind};
use weft_proto::iscsi::initiator::Fault;
use weft_proto::iscsi::pdu::LoginStatus;
use weft_proto::scsi::initiator::ProbeError;

/// What went wrong with `what` (a URL or address), and what to do.
pub(super) fn explain(what: &str, fault: &Fault) -> Error {
    let (kind, hint) = match fault {
        Fault::Refused(status) => refused(*status),
        Fault::Method => (
            ErrorKind::PermissionDenied,
            "; give a name (iscsi://USER@HOST/…) and its --chap-secret-file, or leave them out",
        ),
        Fault::Algorithms { .. } => (
            ErrorKind::PermissionDenied,
            "; weft has SHA3-256 (8), MD5 (5) and SHA-256 (7): allow one of them there",
        ),
        Fault::Impostor => (
            ErrorKind::PermissionDenied,
            "; check --target-chap-secret-file, and that this is the target that you mean",
        ),
        Fault::Violation(_) => {
            (ErrorKind::Protocol, "; check that this is the port of an iSCSI target")
        }
        Fault::NoDigest(_) | Fault::Negotiation(_) => {
            (ErrorKind::Unsupported, "; ask for no digests, or for \"crc32c,none\"")
        }
        Fault::Moved { .. }
        | Fault::Rejected(_)
        | Fault::Dropped
        | Fault::LoggedOut
        | Fault::Logout(_) => (ErrorKind::Refused, ""),
        Fault::Silent | Fault::Stuck => (ErrorKind::TimedOut, ""),
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
pub(super) fn unusable(what: &str, error: &ProbeError) -> Error {
    let (kind, hint) = match error {
        ProbeError::NoDisk(_) => (ErrorKind::NotFound, "; check the number at the end of the URL"),
        ProbeError::Size { .. } => (ErrorKind::Unsupported, ""),
        ProbeError::Refused { .. } => (ErrorKind::Refused, ""),
        ProbeError::NotReady(_) => (ErrorKind::TimedOut, "; try again later"),
    };
    Error::new(kind, format!("{what}: {error}{hint}"))
}
