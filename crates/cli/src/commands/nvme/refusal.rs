//! The message for a command that a controller refuses: the status in nvme-cli's words, which
//! scripts look for, and advice.

use crate::process::exit::Failure;
use weft_block::ErrorKind;
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::status::Status;

/// An error unless the command succeeded.
pub fn check(name: &str, what: &str, cqe: &Cqe) -> Result<(), Failure> {
    if cqe.status.is_success() {
        return Ok(());
    }
    let advice = advice(cqe.status, what).map(|advice| format!("; {advice}")).unwrap_or_default();
    let text = format!("{name}: {what}: NVMe status: {}({:#x}){advice}", text(cqe), cqe.field());
    Err(Failure::new(exit_status(cqe.status), text))
}

fn text(cqe: &Cqe) -> &'static str {
    cqe.status.text().unwrap_or("Unknown")
}

fn exit_status(status: Status) -> u8 {
    let kind = match status {
        Status::COMPARE_FAILURE => return Failure::VERIFICATION,
        Status::INVALID_NAMESPACE => ErrorKind::NotFound,
        Status::INVALID_OPCODE
        | Status::INVALID_FIELD
        | Status::INVALID_LOG_PAGE
        | Status::FEATURE_NOT_SAVEABLE
        | Status::FEATURE_NOT_CHANGEABLE
        | Status::FEATURE_NOT_NAMESPACE_SPECIFIC => ErrorKind::Unsupported,
        Status::LBA_OUT_OF_RANGE | Status::DATA_SGL_LENGTH_INVALID => ErrorKind::Usage,
        Status::RESERVATION_CONFLICT
        | Status::ACCESS_DENIED
        | Status::OPERATION_DENIED
        | Status::NAMESPACE_WRITE_PROTECTED => ErrorKind::PermissionDenied,
        _ => ErrorKind::Refused,
    };
    Failure::of(kind, "").status()
}

/// What helps, where that is known.
fn advice(status: Status, what: &str) -> Option<&'static str> {
    match (status, what) {
        (Status::INVALID_NAMESPACE, _) => Some("`weft list-ns` lists the namespaces"),
        (Status::INVALID_LOG_PAGE | Status::INVALID_FIELD, "Get Log Page") => {
            Some("`weft supported-log-pages` shows which log pages there are")
        }
        (Status::INVALID_FIELD, "Get Features") => {
            Some("the controller may lack this feature, or want another --namespace-id")
        }
        (Status::HOST_ID_FORMAT, "Reservation Report") => {
            Some("give --eds: hosts over a network have identifiers of 128 bits")
        }
        (Status::DATA_SGL_LENGTH_INVALID, _) => Some("ask for exactly as many bytes as there are"),
        (Status::LBA_OUT_OF_RANGE, _) => Some("`weft id-ns` shows how many blocks there are"),
        (Status::RESERVATION_CONFLICT, _) => Some("`weft resv-report --eds` shows who holds it"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_proto::nvme::types::Cid;

    #[test]
    fn the_status_is_told_as_scripts_look_for_it() {
        let refused = |status, is_final| {
            let cqe = Cqe { do_not_retry: is_final, more: is_final, ..Cqe::new(Cid(1), status) };
            let failure = check("nvme+tcp://a/b", "Get Log Page", &cqe).unwrap_err();
            (failure.to_string(), failure.status())
        };
        let (text, status) = refused(Status::INVALID_LOG_PAGE, true);
        assert_eq!(
            text,
            "nvme+tcp://a/b: Get Log Page: NVMe status: Invalid Log Page(0x6109); `weft supported-log-pages` shows which log pages there are"
        );
        assert_eq!(status, 10);
        assert_eq!(
            refused(Status(0x7ff), false).0.split("status: ").last(),
            Some("Unknown(0x7ff)")
        );
        assert_eq!(refused(Status::COMPARE_FAILURE, false).1, 12);
        assert!(check("", "", &Cqe::new(Cid(1), Status::SUCCESS)).is_ok());
    }
}
