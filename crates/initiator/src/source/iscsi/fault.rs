//! Problems of a session, as problems of a block device.

use weft_block::{Error, ErrorKind};
use weft_proto::iscsi::initiator::SessionFault;
use weft_proto::iscsi::pdu::LoginStatus;
use weft_proto::scsi::initiator::ProbeError;

/// What went wrong with `what` (a URL or address), and what to do.
pub(super) fn explain(what: &str, fault: &SessionFault) -> Error {
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
pub(super) fn unusable(what: &str, error: &ProbeError) -> Error {
    let (kind, hint) = match error {
        ProbeError::NoDisk(_) => (ErrorKind::NotFound, "; check the number at the end of the URL"),
        ProbeError::Size { .. } => (ErrorKind::Unsupported, ""),
        ProbeError::Refused { .. } => (ErrorKind::Refused, ""),
        ProbeError::NotReady(_) => (ErrorKind::TimedOut, "; try again later"),
    };
    Error::new(kind, format!("{what}: {error}{hint}"))
}
