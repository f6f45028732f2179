//! Meanings of the service manager's errors: one sentence each, with the remedy.

use std::io;
use weft_block::{Error, ErrorKind};

const FILE_NOT_FOUND: i32 = 2;
const PATH_NOT_FOUND: i32 = 3;
const ACCESS_DENIED: i32 = 5;
const REQUEST_TIMEOUT: i32 = 1053;
const INVALID_ACCOUNT: i32 = 1057;
const DISABLED: i32 = 1058;
const DOES_NOT_EXIST: i32 = 1060;
const CANNOT_ACCEPT: i32 = 1061;
const NO_MANAGER: i32 = 1063;
const LOGON_FAILED: i32 = 1069;
const MARKED_FOR_DELETE: i32 = 1072;
const EXISTS: i32 = 1073;
const DUPLICATE_NAME: i32 = 1078;

/// The operation that failed, and its service.
#[derive(Clone, Copy)]
pub struct ServiceAttempt<'a> {
    /// As in "cannot DO the service NAME".
    pub doing: &'a str,
    /// The service.
    pub name: &'a str,
}

impl ServiceAttempt<'_> {
    /// The error to return for an error of the system.
    pub fn failed(self, e: &io::Error) -> Error {
        let Self { doing, name } = self;
        let known = e.raw_os_error().and_then(|code| Some((kind(code)?, self.sentence(code)?)));
        let (kind, text) = known
            .unwrap_or_else(|| (ErrorKind::Io, format!("cannot {doing} the service {name}: {e}")));
        Error::new(kind, text)
    }

    fn sentence(self, code: i32) -> Option<String> {
        let Self { doing, name } = self;
        Some(match code {
            ACCESS_DENIED => format!(
                "only an administrator may {doing} the service {name}: open a terminal with \"Run as administrator\" and try again"
            ),
            DOES_NOT_EXIST => format!(
                "there is no service {name}: install it with `weft service install`, or give the name of another one with --name"
            ),
            EXISTS => format!(
                "a service {name} is already installed: remove it with `weft service remove --name {name}`, or choose another --name"
            ),
            MARKED_FOR_DELETE => format!(
                "the service {name} is about to be removed: close what shows services (services.msc, the Task Manager) and try again"
            ),
            DUPLICATE_NAME => format!(
                "another service has the name {name} or this display name: choose another --name or --display-name"
            ),
            DISABLED => format!(
                "the service {name} is disabled: allow it with `sc.exe config \"{name}\" start= demand`"
            ),
            INVALID_ACCOUNT | LOGON_FAILED => format!(
                "the service {name} cannot log in with its account: install it with another --account, or let that one log on as a service"
            ),
            CANNOT_ACCEPT => {
                format!("the service {name} is starting or ending: try again when it has")
            }
            REQUEST_TIMEOUT => format!(
                "the service {name} did not answer the service manager: the event log says why (Get-WinEvent -LogName System -MaxEvents 5)"
            ),
            FILE_NOT_FOUND | PATH_NOT_FOUND => format!(
                "the program of the service {name} is not where it was: remove the service, and install it again with the weft.exe that is to run"
            ),
            NO_MANAGER => "`weft service run` is what the service manager starts: use `weft service start`, or `weft serve` without a service".to_owned(),
            _ => return None,
        })
    }
}

fn kind(code: i32) -> Option<ErrorKind> {
    Some(match code {
        ACCESS_DENIED | INVALID_ACCOUNT | LOGON_FAILED => ErrorKind::PermissionDenied,
        DOES_NOT_EXIST | FILE_NOT_FOUND | PATH_NOT_FOUND => ErrorKind::NotFound,
        EXISTS | MARKED_FOR_DELETE | DUPLICATE_NAME | CANNOT_ACCEPT => ErrorKind::InUse,
        DISABLED | NO_MANAGER => ErrorKind::Usage,
        REQUEST_TIMEOUT => ErrorKind::TimedOut,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: i32) -> Error {
        ServiceAttempt { doing: "install", name: "disks" }
            .failed(&io::Error::from_raw_os_error(code))
    }

    #[test]
    fn errors_of_the_service_manager_are_sentences() {
        for (code, kind, part) in [
            (ACCESS_DENIED, ErrorKind::PermissionDenied, "only an administrator may install"),
            (DOES_NOT_EXIST, ErrorKind::NotFound, "there is no service disks"),
            (EXISTS, ErrorKind::InUse, "already installed"),
            (MARKED_FOR_DELETE, ErrorKind::InUse, "about to be removed"),
            (DISABLED, ErrorKind::Usage, "is disabled"),
            (LOGON_FAILED, ErrorKind::PermissionDenied, "--account"),
            (REQUEST_TIMEOUT, ErrorKind::TimedOut, "event log"),
            (NO_MANAGER, ErrorKind::Usage, "weft service start"),
            (1_700, ErrorKind::Io, "cannot install the service disks"),
        ] {
            let error = said(code);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
