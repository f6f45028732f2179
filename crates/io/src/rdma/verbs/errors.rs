//! Meanings of the libraries' error numbers.

use super::device::Device;
use crate::rdma::{QueuePairConfig, WorkError};
use std::io;
use std::net::SocketAddr;

/// Outcome of work.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WorkStatus {
    Success,
    Flushed,
    Failed(WorkError),
}

/// `ibv_wc_status`.
#[inline]
pub(super) fn status(number: u32) -> WorkStatus {
    WorkStatus::Failed(match number {
        0 => return WorkStatus::Success,
        1 => WorkError::LocalLength,
        4 | 8 => WorkError::LocalProtection,
        5 => return WorkStatus::Flushed,
        6 => WorkError::Bind,
        9 => WorkError::RemoteInvalid,
        10 => WorkError::RemoteAccess,
        11 => WorkError::RemoteOperation,
        12 => WorkError::RetriesExceeded,
        13 => WorkError::ReceiverNotReady,
        other => WorkError::Other(other),
    })
}

/// The error of an event of the connection manager, which states it as a negative number.
pub(super) fn error(status: i32) -> io::Error {
    io::Error::from_raw_os_error(status.saturating_neg())
}

/// Why there is no connection to an address.
pub(super) fn of_address(to: SocketAddr, e: io::Error) -> io::Error {
    let text = match e.raw_os_error() {
        Some(libc::ENODEV | libc::EADDRNOTAVAIL) => {
            format!("no RDMA device of this machine leads to {to}")
        }
        Some(libc::ETIMEDOUT) => format!("{to} does not answer on RDMA"),
        Some(libc::ENETUNREACH | libc::EHOSTUNREACH) => format!("there is no route to {to}"),
        _ => format!("cannot connect to {to} on RDMA: {e}"),
    };
    io::Error::new(e.kind(), text)
}

/// Why the other end rejected a connection. The reasons are numbers of InfiniBand's connection
/// manager, and with iWARP errors of the system.
pub(super) fn of_rejection(by: SocketAddr, reason: i32) -> String {
    match reason {
        8 => format!("nobody listens on RDMA at {by}"),
        28 => format!("{by} rejected the connection"),
        reason if reason < 0 => format!("{by} rejected the connection: {}", error(reason)),
        reason => {
            format!("{by} rejected the connection for reason {reason} of the connection manager")
        }
    }
}

/// Why a queue pair could not be made.
pub(super) fn of_creation(device: &Device, config: &QueuePairConfig, e: io::Error) -> io::Error {
    let QueuePairConfig { send_queue, receives, .. } = config;
    let text = format!(
        "the RDMA device {} cannot make a queue pair of {send_queue} sends and {receives} receives: {e}",
        device.name
    );
    io::Error::new(e.kind(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_meanings() {
        assert_eq!((status(0), status(5)), (WorkStatus::Success, WorkStatus::Flushed));
        assert_eq!(status(10), WorkStatus::Failed(WorkError::RemoteAccess));
        assert_eq!(status(21), WorkStatus::Failed(WorkError::Other(21)));
        let to = SocketAddr::from(([192, 0, 2, 1], 4420));
        assert_eq!(
            of_address(to, error(-libc::ENODEV)).to_string(),
            "no RDMA device of this machine leads to 192.0.2.1:4420"
        );
        assert_eq!(of_address(to, error(-libc::ETIMEDOUT)).kind(), io::ErrorKind::TimedOut);
        assert_eq!(of_rejection(to, 8), "nobody listens on RDMA at 192.0.2.1:4420");
        assert!(of_rejection(to, -libc::ECONNREFUSED).contains("refused"));
        assert!(of_rejection(to, 99).contains("reason 99"));
        assert_eq!(error(i32::MIN).raw_os_error(), Some(i32::MAX));
    }
}
