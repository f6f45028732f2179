//! Meanings of the error numbers of librados and librbd: for an operation, and for opening an
//! image.
//!
//! They are those of Linux, negative, whatever the system of the cluster.

use crate::object_results::ObjectError;
use weft_block::{Error, ErrorKind, OpKind, Outcome, Raw, Status, StatusKind};

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const E2BIG: i32 = 7;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const ENODEV: i32 = 19;
const EINVAL: i32 = 22;
const EFBIG: i32 = 27;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const ERANGE: i32 = 34;
const ENAMETOOLONG: i32 = 36;
const EILSEQ: i32 = 84;
const EMSGSIZE: i32 = 90;
const EOPNOTSUPP: i32 = 95;
const ENOTCONN: i32 = 107;
/// "Blocklisted": the cluster accepts nothing from this client any more.
const ESHUTDOWN: i32 = 108;
const ETIMEDOUT: i32 = 110;
const EDQUOT: i32 = 122;

/// Returns whether the cluster has shut this client out.
pub(crate) fn is_blocklisted(error: i32) -> bool {
    error == ESHUTDOWN
}

/// The status of what is not even sent, as the cluster has shut this client out.
pub(crate) fn shut_out() -> Status {
    Status::with_raw(StatusKind::Path, Raw::Os(ESHUTDOWN))
}

/// The outcome of an operation that ended with this error number, which is positive here.
pub(crate) fn outcome(kind: OpKind, error: i32) -> Outcome {
    let status = Status::with_raw(kind_of(kind, error), Raw::Os(error));
    match error {
        // A limit that the configuration sets: the operation may still be on its way.
        ETIMEDOUT => Outcome::unsettled(status),
        // The answer to its last sending. An earlier one may have been executed, or a part of it
        // that lies in another object; nothing of it will be any more.
        ESHUTDOWN | ENOTCONN => Outcome::settled(status),
        _ => Outcome::Done(status),
    }
}

fn kind_of(kind: OpKind, error: i32) -> StatusKind {
    match error {
        ENOSPC | EDQUOT => StatusKind::NoSpace,
        EROFS => StatusKind::WriteProtected,
        EPERM | EACCES if kind.is_write() => StatusKind::WriteProtected,
        // Nothing of this gateway is executed any more; another one may be in charge.
        ESHUTDOWN | ENOTCONN => StatusKind::Path,
        ETIMEDOUT => StatusKind::TimedOut,
        EILSEQ if matches!(kind, OpKind::CompareAndWrite { .. }) => StatusKind::CompareFailed,
        EIO | EILSEQ => StatusKind::Media,
        EINVAL => StatusKind::Invalid,
        ERANGE => StatusKind::OutOfRange,
        EOPNOTSUPP => StatusKind::Unsupported,
        ENOENT | ENODEV => StatusKind::Gone,
        EAGAIN | EBUSY | ENOMEM => StatusKind::Busy,
        _ => StatusKind::Internal,
    }
}

/// What failed while an image was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpeningStep {
    /// The configuration was read.
    Configuration,
    /// The cluster was asked to let us in.
    Connect,
    /// The pool was looked for.
    Pool,
    /// The image was opened.
    Image,
}

/// The error of `url`, one sentence with what to do.
pub(crate) fn opening(url: &str, step: OpeningStep, error: i32) -> Error {
    let (kind, text) = match (step, error) {
        (OpeningStep::Configuration, ENOENT) => (
            ErrorKind::NotFound,
            "there is no such configuration of a cluster; name its file, conf=FILE (the usual one is /etc/ceph/ceph.conf)",
        ),
        (OpeningStep::Configuration, _) => (
            ErrorKind::Usage,
            "the configuration of the cluster cannot be read; `ceph-conf --lookup fsid` says why",
        ),
        // What librados says where it finds no key, and where the configuration has no monitor.
        (OpeningStep::Connect, ENOENT) => (
            ErrorKind::PermissionDenied,
            "there is no key of this user; name the file that holds it, keyring=FILE, and the user, id=USER",
        ),
        (OpeningStep::Connect, EACCES | EPERM | EINVAL) => (
            ErrorKind::PermissionDenied,
            "the cluster does not let this user in; check id=USER and the key in keyring=FILE against `ceph auth get client.USER`",
        ),
        (OpeningStep::Connect, ETIMEDOUT) => (
            ErrorKind::TimedOut,
            "no monitor of the cluster answers; check `mon host` in its configuration, and the network",
        ),
        (OpeningStep::Pool, ENOENT) => (
            ErrorKind::NotFound,
            "the cluster has no such pool; `ceph osd pool ls` shows those that it has",
        ),
        (OpeningStep::Image, ENOENT) => (
            ErrorKind::NotFound,
            "the pool has no such image, snapshot or namespace; `rbd ls POOL` and `rbd snap ls POOL/IMAGE` show what it has",
        ),
        (_, EPERM | EACCES) => (
            ErrorKind::PermissionDenied,
            "the user may not use it; `ceph auth caps client.USER mon 'profile rbd' osd 'profile rbd pool=POOL'` permits it",
        ),
        (_, ESHUTDOWN) => (
            ErrorKind::PermissionDenied,
            "the cluster has shut this machine out; `ceph osd blocklist ls` shows until when",
        ),
        (_, ETIMEDOUT) => {
            (ErrorKind::TimedOut, "the cluster does not answer; `ceph status` shows how it is")
        }
        (_, ENOMEM) => (ErrorKind::NoResources, "there is no memory for it"),
        (_, EBUSY) => (ErrorKind::InUse, "it is in use; `rbd status POOL/IMAGE` shows by whom"),
        _ => {
            let cause = std::io::Error::from_raw_os_error(error);
            return Error::new(
                ErrorKind::Io,
                format!(
                    "{url}: {step:?}: the library of Ceph says: {cause}; `ceph status` shows how the cluster is"
                ),
            );
        }
    };
    Error::new(kind, format!("{url}: {text}"))
}

/// Why something could not be done with an object of a pool.
pub(crate) fn object(error: i32) -> ObjectError {
    let text = match error {
        ESHUTDOWN => return ObjectError::Blocklisted,
        ENOENT => return ObjectError::NotFound,
        E2BIG | EFBIG | ERANGE | ENAMETOOLONG | EMSGSIZE => return ObjectError::TooLong,
        EPERM | EACCES => {
            "the user may not do that; `ceph auth caps client.USER mon 'profile rbd' osd 'profile rbd pool=POOL'` permits it"
                .into()
        }
        ETIMEDOUT => "the cluster does not answer; `ceph status` shows how it is".into(),
        ENOSPC | EDQUOT => "the pool is full; `ceph df` shows its space".into(),
        _ => {
            let cause = std::io::Error::from_raw_os_error(error);
            format!("the library of Ceph says: {cause}; `ceph status` shows how the cluster is")
        }
    };
    ObjectError::Failed(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRITE: OpKind = OpKind::Write { fua: false };

    #[test]
    fn errors_keep_their_meaning() {
        let done = |kind, error| match outcome(kind, error) {
            Outcome::Done(status) => (status.kind, status.raw),
            other => panic!("{other:?}"),
        };
        for (error, kind) in [
            (ENOSPC, StatusKind::NoSpace),
            (EDQUOT, StatusKind::NoSpace),
            (EROFS, StatusKind::WriteProtected),
            (EPERM, StatusKind::WriteProtected),
            (EIO, StatusKind::Media),
            (ENOENT, StatusKind::Gone),
            (9999, StatusKind::Internal),
        ] {
            assert_eq!(done(WRITE, error), (kind, Some(Raw::Os(error))));
        }
        assert_eq!(done(OpKind::Read, EPERM).0, StatusKind::Internal);
        assert_eq!(
            done(OpKind::CompareAndWrite { fua: false }, EILSEQ).0,
            StatusKind::CompareFailed
        );
        assert_eq!(done(OpKind::Read, EILSEQ).0, StatusKind::Media);
        assert!(is_blocklisted(ESHUTDOWN) && !is_blocklisted(EIO));
    }

    /// The cluster refuses a client from some time on, and does not say what it has executed
    /// before.
    #[test]
    fn what_a_fence_has_met_may_have_been_executed() {
        for kind in [WRITE, OpKind::Read, OpKind::CompareAndWrite { fua: false }] {
            let Outcome::MayHaveExecuted { status, settled: true } = outcome(kind, ESHUTDOWN)
            else {
                panic!("{kind:?}")
            };
            assert_eq!((status.kind, status.raw), (StatusKind::Path, Some(Raw::Os(ESHUTDOWN))));
        }
    }

    /// What a limit of the configuration ended may still be executed, so nobody may do it again
    /// elsewhere.
    #[test]
    fn what_timed_out_may_still_be_executed() {
        assert!(matches!(
            outcome(WRITE, ETIMEDOUT),
            Outcome::MayHaveExecuted { settled: false, .. }
        ));
    }

    #[test]
    fn openings_fail_with_what_to_do() {
        for step in [
            OpeningStep::Configuration,
            OpeningStep::Connect,
            OpeningStep::Pool,
            OpeningStep::Image,
        ] {
            for error in [ENOENT, EPERM, ETIMEDOUT, ESHUTDOWN, EINVAL, 9999] {
                let said = opening("rbd:a/b", step, error).to_string();
                assert!(
                    said.starts_with("rbd:a/b: ") && (said.contains('`') || said.contains('=')),
                    "{said}"
                );
            }
        }
        assert_eq!(opening("rbd:a/b", OpeningStep::Pool, ENOENT).kind(), ErrorKind::NotFound);
        assert_eq!(
            opening("rbd:a/b", OpeningStep::Connect, ENOENT).kind(),
            ErrorKind::PermissionDenied
        );
    }
}
