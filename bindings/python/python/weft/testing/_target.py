"""A target with one disk, which fails, hangs, leaves and changes when a test says so."""

import contextlib
import json
import os
import tempfile
from types import TracebackType
from typing import Any, Dict, List, Optional, Sequence, Type, Union

from .._disk import Disk, Option, open
from .._errors import Error
from .._target import Target
from . import _secrets

# Names of errors of a file, and the faults of the filter `error:` that hosts see as these.
_FAULTS = {
    "eio": "media",
    "enospc": "nospace",
    "erofs": "protected",
    "ebusy": "busy",
    "enodev": "gone",
}

_OPERATIONS = ("read", "write", "discard", "flush")

# Listening at the protocols, at ports that are free.
_LISTEN = {
    "nvme+tcp": "nvme+tcp://127.0.0.1:0",
    "iscsi": "iscsi://127.0.0.1:0",
    "nbd": "nbd://127.0.0.1:0",
}


def _text(value: object) -> str:
    """A value as TOML writes it."""
    return json.dumps(value)


def _chosen(operations: Sequence[str]) -> str:
    unknown = [name for name in operations if name not in _OPERATIONS]
    if unknown or not operations or isinstance(operations, str):
        raise ValueError(f"{operations!r}: choose from {', '.join(_OPERATIONS)}")
    return "+".join(operations)


class NvmeTarget:
    """A target that serves a RAM disk of `size` bytes, which may grow to `max_size`.

    `protocols` are any of "nvme+tcp", "iscsi" and "nbd". With `tls`, NVMe hosts have to use TLS
    with the key `psk`. Faults count for commands that begin later, and stay until `heal()`.
    """

    def __init__(
        self,
        size: int = 64 << 20,
        *,
        max_size: Optional[int] = None,
        block_size: int = 512,
        protocols: Sequence[str] = ("nvme+tcp",),
        nqn: str = "nqn.2026-01.weft.testing:disk",
        tls: bool = False,
    ) -> None:
        unknown = [name for name in protocols if name not in _LISTEN]
        if unknown or not protocols or isinstance(protocols, str):
            raise ValueError(f"{protocols!r}: choose from {', '.join(_LISTEN)}")
        self.nqn = nqn
        self.psk = _secrets.psk() if tls else None
        self._protocols = tuple(protocols)
        self._block_size = block_size
        self._size = size
        self._max_size = max(size, 4 * size if max_size is None else max_size)
        self._state = "optimized"
        self._secret: Optional[str] = None
        self._filters: Dict[str, str] = {}
        self._disks: List[Disk] = []
        self._directory = tempfile.TemporaryDirectory(prefix="weft-testing-")
        try:
            if self.psk is not None:
                _secrets.write(self._file("psk"), self.psk)
            self._target = Target(self._configuration())
            # They stay the same while it is away.
            self._urls = self._target.urls
        except BaseException:
            self._directory.cleanup()
            raise

    def __enter__(self) -> "NvmeTarget":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def _file(self, name: str) -> str:
        return os.path.join(self._directory.name, name)

    def _configuration(self) -> str:
        lines = [f"listen = {_text([_LISTEN[name] for name in self._protocols])}"]
        lines += ["[server]", "threads = 1"]
        if self.psk is not None:
            lines += ["[tls]", f"psk_file = {_text(self._file('psk'))}"]
        lines += ["[[ana]]", "group = 1", f"state = {_text(self._state)}"]
        lines += ["[[subsystem]]", f"nqn = {_text(self.nqn)}"]
        if self._secret is not None:
            lines += ["[[subsystem.authentication.host]]"]
            lines += [f"secret_files = {_text([self._file('secret')])}"]
        source = f"ram:{self._max_size},block={self._block_size}"
        lines += ["[[subsystem.namespace]]", "nsid = 1", f"source = {_text(source)}"]
        lines += [f"size = {_text(str(self._size))}", 'name = "disk"']
        return "\n".join(lines) + "\n"

    def _filter(self) -> None:
        self._target.set_filters(",".join(self._filters.values()))

    @property
    def urls(self) -> List[str]:
        """The URLs of the disk, one for each protocol."""
        return list(self._urls)

    @property
    def url(self) -> str:
        """The URL of the disk by the first protocol."""
        return self.url_by(self._protocols[0])

    def url_by(self, protocol: str) -> str:
        """Return the URL of the disk by a protocol."""
        for url in self._urls:
            if url.startswith(f"{protocol}://"):
                return url
        raise ValueError(f"the target does not serve {protocol!r}")

    @property
    def size(self) -> int:
        """The size in bytes that it serves."""
        return self._size

    def connect(self, protocol: Optional[str] = None, **options: Option) -> Disk:
        """Open the disk, with what the target demands; it is closed when the target is.

        Options are those of `weft.open`.
        """
        protocol = self._protocols[0] if protocol is None else protocol
        demanded: Dict[str, Option] = {}
        if protocol == "nvme+tcp" and self.psk is not None:
            demanded.update(tls=True, tls_key_file=self._file("psk"))
        if protocol == "nvme+tcp" and self._secret is not None:
            demanded["dhchap_secret_file"] = self._file("secret")
        demanded.update(options)
        disk = open(self.url_by(protocol), **demanded)
        self._disks = [other for other in self._disks if not other.closed] + [disk]
        return disk

    def fail(
        self,
        kind: str = "eio",
        *,
        after: int = 0,
        count: Optional[int] = None,
        operations: Sequence[str] = ("read", "write"),
    ) -> None:
        """Fail commands: all, or `count` of them, but the first `after` of each connection.

        `kind` is "eio", "enospc", "erofs", "ebusy", "enodev", or a kind of the filter `error:`.
        """
        fault = _FAULTS.get(kind.lower(), kind)
        text = f"error:rate=1,kind={fault},after={after},ops={_chosen(operations)}"
        self._set("fail", text if count is None else f"{text},count={count}")

    def hang(
        self,
        seconds: Optional[float] = None,
        *,
        after: int = 0,
        operations: Sequence[str] = ("read", "write"),
    ) -> None:
        """Do not answer commands for some seconds; without a number, until hosts abort them."""
        kind = "timeout"
        if seconds is not None:
            kind = f"hang,for={round(seconds * 1e6)}us"
        self._set("hang", f"error:rate=1,kind={kind},after={after},ops={_chosen(operations)}")

    def delay(self, read: float = 0, write: float = 0) -> None:
        """Let each read and write take some seconds longer."""
        self._set("delay", f"delay:read={round(read * 1e6)}us,write={round(write * 1e6)}us")

    def limit(self, *, iops: Optional[int] = None, bandwidth: Optional[int] = None) -> None:
        """Begin at most `iops` commands, and transfer at most `bandwidth` bytes, per second."""
        parts = [] if iops is None else [f"iops={iops}"]
        parts += [] if bandwidth is None else [f"bw={bandwidth}"]
        if not parts:
            raise ValueError("give iops, bandwidth or both")
        self._set("limit", "limit:" + ",".join(parts))

    def _set(self, name: str, text: str) -> None:
        before = dict(self._filters)
        self._filters[name] = text
        try:
            self._filter()
        except BaseException:
            self._filters = before
            raise

    def heal(self) -> None:
        """Take away all faults, delays and limits."""
        self._filters = {}
        self._filter()

    def drop_connections(self) -> None:
        """Close all connections. Hosts may come back at once."""
        self._target.disconnect()

    def go_away(self) -> None:
        """Stop listening, and close all connections, until `come_back()`. Data is kept."""
        self._target.leave()

    def come_back(self) -> None:
        """Listen again, at the same ports."""
        self._target.come_back()

    def resize(self, size: int) -> None:
        """Serve another size, up to `max_size`. Hosts are told."""
        if not 0 < size <= self._max_size or size % self._block_size:
            raise ValueError(f"use whole blocks, and up to max_size, {self._max_size} bytes")
        self._change(_size=size)

    def ana(self, state: str) -> None:
        """Set the ANA state of all paths.

        It is "optimized", "non-optimized", "inaccessible" or "persistent-loss".
        """
        self._change(_state=state)

    def demand_authentication(self, secret: Optional[str] = None) -> str:
        """Demand DH-HMAC-CHAP of NVMe hosts that connect from now on, and return the secret.

        `connect()` knows it.
        """
        secret = _secrets.dhchap() if secret is None else secret
        _secrets.write(self._file("secret"), secret)
        self._change(_secret=secret)
        return secret

    def _change(self, **values: Union[int, str]) -> None:
        before = {name: getattr(self, name) for name in values}
        self.__dict__.update(values)
        try:
            self._target.apply(self._configuration())
        except BaseException:
            self.__dict__.update(before)
            raise

    def counters(self) -> Dict[str, int]:
        """Return what was counted: connections, commands, bytes, errors."""
        return self._target.counters()

    def report(self) -> Dict[str, Any]:
        """Return the state of the target, as `weft status --json` prints it."""
        return self._target.report()

    def close(self) -> None:
        """Close the disks that `connect()` has opened, and end the target."""
        # What hangs would hold up the end.
        if not self._target.stopped and self._filters:
            self.heal()
        disks, self._disks = self._disks, []
        for disk in disks:
            # One that is in use ends with its connection.
            with contextlib.suppress(Error):
                disk.close()
        self._target.stop()
        self._directory.cleanup()
