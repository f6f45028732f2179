"""Block devices over NVMe/TCP, iSCSI and NBD, and targets for tests, without a kernel module.

    with weft.open("nvme+tcp://192.0.2.1:4420/nqn.2026-01.example:disks") as disk:
        disk.pwrite(b"x" * 4096, 0)
        disk.flush()

`weft.aio` has the same for asyncio, and `weft.testing` a plugin of pytest.
"""

from ._disk import Disk, Queue, memory, open
from ._errors import (
    Cancelled,
    Error,
    Gone,
    Kind,
    NotFound,
    PermissionDenied,
    Refused,
    TimedOut,
    UsageError,
)
from ._target import Target
from ._weft import __version__

__all__ = [
    "Cancelled",
    "Disk",
    "Error",
    "Gone",
    "Kind",
    "NotFound",
    "PermissionDenied",
    "Queue",
    "Refused",
    "Target",
    "TimedOut",
    "UsageError",
    "__version__",
    "memory",
    "open",
]
