"""Exceptions: an error of weft is an OSError, as a disk is used like a file."""

import enum
import errno
from typing import Optional, Tuple, Type


class Kind(str, enum.Enum):
    """The kind of an error: the codes of libweft in lower case."""

    OK = "ok"
    USAGE = "usage"
    NOT_FOUND = "not_found"
    PERMISSION = "permission"
    IN_USE = "in_use"
    NO_RESOURCES = "no_resources"
    REFUSED = "refused"
    TIMED_OUT = "timed_out"
    PROTOCOL = "protocol"
    UNSUPPORTED = "unsupported"
    IO = "io"
    CANCELLED = "cancelled"
    OUT_OF_RANGE = "out_of_range"
    READ_ONLY = "read_only"
    NO_SPACE = "no_space"
    CONFLICT = "conflict"
    DIFFERS = "differs"
    GONE = "gone"
    AGAIN = "again"
    FORKED = "forked"
    INTERNAL = "internal"


_KINDS = list(Kind)

_NUMBERS = {
    Kind.USAGE: errno.EINVAL,
    Kind.NOT_FOUND: errno.ENOENT,
    Kind.PERMISSION: errno.EACCES,
    Kind.IN_USE: errno.EBUSY,
    Kind.NO_RESOURCES: errno.ENOMEM,
    Kind.REFUSED: errno.ECONNREFUSED,
    Kind.TIMED_OUT: errno.ETIMEDOUT,
    Kind.PROTOCOL: errno.EPROTO,
    Kind.UNSUPPORTED: errno.EOPNOTSUPP,
    Kind.CANCELLED: errno.ECANCELED,
    Kind.OUT_OF_RANGE: errno.ERANGE,
    Kind.READ_ONLY: errno.EROFS,
    Kind.NO_SPACE: errno.ENOSPC,
    Kind.CONFLICT: errno.EBUSY,
    Kind.DIFFERS: errno.EILSEQ,
    Kind.GONE: errno.ENODEV,
    Kind.AGAIN: errno.EAGAIN,
}

# Numbers of protocols, and flags, of a completion.
_NVME, _SCSI = 1, 2
_MAY_HAVE_EXECUTED, _MAY_STILL_EXECUTE = 1, 2


class Error(OSError):
    """An error. `str()` of it is a sentence; `errno` is the number that a file would have given.

    A failed write may have been executed: `may_have_executed`. If `may_still_execute` is true the
    peer may even execute it later.
    """

    kind: Kind
    may_have_executed: bool
    may_still_execute: bool
    _protocol: int
    _status: int

    def __init__(
        self, kind: Kind, message: str, protocol: int = 0, status: int = 0, flags: int = 0
    ) -> None:
        super().__init__(_NUMBERS.get(kind, errno.EIO), message)
        self.kind = kind
        self.may_have_executed = bool(flags & _MAY_HAVE_EXECUTED)
        self.may_still_execute = bool(flags & _MAY_STILL_EXECUTE)
        self._protocol = protocol
        self._status = status

    def __str__(self) -> str:
        return str(self.strerror)

    def __reduce__(self) -> Tuple[object, ...]:
        flags = _MAY_HAVE_EXECUTED * self.may_have_executed
        flags |= _MAY_STILL_EXECUTE * self.may_still_execute
        return type(self), (self.kind, self.strerror, self._protocol, self._status, flags)

    @property
    def nvme_status(self) -> Optional[Tuple[int, int]]:
        """Status code type and status code, if an NVMe controller has reported the error."""
        if self._protocol != _NVME:
            return None
        return self._status >> 8 & 7, self._status & 0xFF

    @property
    def do_not_retry(self) -> bool:
        """Whether an NVMe controller has set Do Not Retry."""
        return self._protocol == _NVME and bool(self._status & 0x4000)

    @property
    def scsi_sense(self) -> Optional[Tuple[int, int, int]]:
        """Sense key, additional sense code and qualifier, if a SCSI target has reported it."""
        if self._protocol != _SCSI:
            return None
        return self._status >> 16 & 0xFF, self._status >> 8 & 0xFF, self._status & 0xFF


class UsageError(Error, ValueError):
    """A URL, an option or an argument is wrong."""


class NotFound(Error, FileNotFoundError):
    """A file, host name, subsystem or namespace does not exist."""


class PermissionDenied(Error, PermissionError):
    """The system or the peer denies permission."""


class Refused(Error, ConnectionRefusedError):
    """The peer refused or ended the connection."""


class TimedOut(Error, TimeoutError):
    """No answer in time."""


class Cancelled(Error):
    """The operation was cancelled, or aborted by a reset."""


class Gone(Error):
    """The device is gone for good."""


_CLASSES = {
    Kind.USAGE: UsageError,
    Kind.NOT_FOUND: NotFound,
    Kind.PERMISSION: PermissionDenied,
    Kind.REFUSED: Refused,
    Kind.TIMED_OUT: TimedOut,
    Kind.CANCELLED: Cancelled,
    Kind.GONE: Gone,
}


def of(code: int, message: str, protocol: int, status: int, flags: int) -> Error:
    """Return the exception for an error of the library."""
    kind = _KINDS[code]
    made: Type[Error] = _CLASSES.get(kind, Error)
    return made(kind, message, protocol, status, flags)
