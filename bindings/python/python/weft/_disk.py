"""Open devices: blocking calls, and queues of operations in flight."""

import ctypes
from types import TracebackType
from typing import TYPE_CHECKING, Dict, Iterable, List, Mapping, Optional, Tuple, Type, Union

from . import _weft
from ._errors import Kind, UsageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

Option = Union[str, bool, int, float, Iterable[str]]


def _texts(options: Mapping[str, Option]) -> List[Tuple[str, str]]:
    """Options as the library takes them: names with dashes, values as texts."""
    texts = []
    for name, value in options.items():
        if isinstance(value, bool):
            values = ["on" if value else "off"]
        elif isinstance(value, (str, int, float)):
            values = [str(value)]
        else:
            values = list(value)
        texts += [(name.replace("_", "-"), text) for text in values]
    return texts


def memory(size: int) -> memoryview:
    """Return `size` bytes of zeroes, aligned to 4096, which devices use without a copy.

    Any part of them may be given to functions that read or write.
    """
    region = _weft.Region(size)
    array = (ctypes.c_ubyte * size).from_address(region.address)
    # The view keeps the array, and the array the memory.
    array._region = region  # type: ignore[attr-defined]
    return memoryview(array).cast("B")


class Disk:
    """An open device. Any thread may call any function. Offsets and sizes are bytes, and multiples
    of `block_size`. While a function waits, other threads of the program run."""

    __slots__ = ("__weakref__", "_disk")

    def __init__(self, disk: _weft.Disk) -> None:
        self._disk = disk

    def __enter__(self) -> "Disk":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<weft.Disk closed>" if self.closed else f"<weft.Disk {self.url}>"

    def close(self) -> None:
        """Close the device and its connections. What was not flushed may be lost."""
        self._disk.close()

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._disk.closed

    @property
    def size(self) -> int:
        """Its size in bytes at present."""
        return int(self._disk.property("size"))

    @property
    def block_size(self) -> int:
        """Bytes of a block."""
        return int(self._disk.property("block-size"))

    @property
    def url(self) -> str:
        """Its URL."""
        return str(self._disk.property("url"))

    @property
    def read_only(self) -> bool:
        """Whether it takes no writes."""
        return bool(self._disk.property("read-only"))

    def properties(self) -> Dict[str, Union[int, str]]:
        """Return all properties, as they are at present."""
        return self._disk.properties()

    def pread(self, size: int, offset: int) -> bytes:
        """Read `size` bytes at `offset`."""
        return self._disk.pread(size, offset)

    def pread_into(self, buffer: "Buffer", offset: int) -> int:
        """Fill `buffer` with the bytes at `offset`, and return their number.

        `memory()` avoids a copy.
        """
        return self._disk.pread_into(buffer, offset)

    def pwrite(self, data: "Buffer", offset: int, *, fua: bool = False) -> int:
        """Write `data` at `offset`, and return the number of bytes.

        They are durable after `flush()`, or at once with `fua`.
        """
        return self._disk.pwrite(data, offset, fua=fua)

    def flush(self) -> None:
        """Make durable what was written before."""
        self._disk.flush()

    def trim(self, size: int, offset: int) -> None:
        """Tell the device that bytes are no longer needed: they read as zeroes or as before."""
        self._disk.trim(size, offset)

    def write_zeroes(
        self, size: int, offset: int, *, may_unmap: bool = False, fua: bool = False
    ) -> None:
        """Make bytes read as zeroes; with `may_unmap` the device may free their space."""
        self._disk.write_zeroes(size, offset, may_unmap=may_unmap, fua=fua)

    def compare_and_write(
        self, expected: "Buffer", data: "Buffer", offset: int, *, fua: bool = False
    ) -> bool:
        """Write `data` if the device holds `expected`, in one step, and return whether it did."""
        return self._disk.compare_and_write(expected, data, offset, fua=fua)

    def next_data(self, offset: int) -> Optional[Tuple[int, int]]:
        """Return offset and size of the next bytes that may be anything but zeroes.

        The size is 0 if there are none. Return None if the source does not tell.
        """
        return self._disk.next_data(offset)

    def renew_size(self) -> None:
        """Ask the source for its size. Most report a new one by themselves; a file does not."""
        self._disk.renew_size()


class Queue:
    """Operations in flight, for programs that neither use threads nor asyncio.

    Each function that submits returns a number, with which `wait()` returns the result: the bytes
    of `pread`, an exception that is not raised, or None. Buffers are left alone until then. A
    queue that is full raises an error of the kind `again`.
    """

    __slots__ = ("__weakref__", "_queue")

    def __init__(self, disk: Disk, depth: int = 128) -> None:
        self._queue = _weft.Queue(disk._disk, depth)

    def __enter__(self) -> "Queue":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the queue. What is in flight is given up."""
        self._queue.close()

    def pread(self, size: int, offset: int) -> int:
        """Submit a read of `size` bytes."""
        return self._queue.pread(size, offset)

    def pread_into(self, buffer: "Buffer", offset: int) -> int:
        """Submit a read into `buffer`. `memory()` avoids a copy."""
        return self._queue.pread_into(buffer, offset)

    def pwrite(self, data: "Buffer", offset: int, *, fua: bool = False) -> int:
        """Submit a write."""
        return self._queue.pwrite(data, offset, fua=fua)

    def flush(self) -> int:
        """Submit a flush of all writes that have completed."""
        return self._queue.flush()

    def trim(self, size: int, offset: int) -> int:
        """Submit a trim."""
        return self._queue.trim(size, offset)

    def write_zeroes(
        self, size: int, offset: int, *, may_unmap: bool = False, fua: bool = False
    ) -> int:
        """Submit writing zeroes."""
        return self._queue.write_zeroes(size, offset, may_unmap=may_unmap, fua=fua)

    def compare_and_write(
        self, expected: "Buffer", data: "Buffer", offset: int, *, fua: bool = False
    ) -> int:
        """Submit a compare-and-write. The result has the kind `differs` if the data differs."""
        return self._queue.compare_and_write(expected, data, offset, fua=fua)

    def cancel(self, number: int) -> None:
        """Ask for an early end of an operation, which still completes."""
        self._queue.cancel(number)

    def wait(
        self, least: int = 1, timeout: Optional[float] = None
    ) -> List[Tuple[int, Union[bytes, None, BaseException]]]:
        """Return what has completed, after waiting for `least` operations or `timeout` seconds.

        It does not wait for more operations than are in flight.
        """
        return self._queue.wait(least, timeout)

    def fileno(self) -> int:
        """Return a descriptor that is readable while `wait(0)` has something to return."""
        return self._queue.fileno()

    @property
    def in_flight(self) -> int:
        """Operations that were submitted and not returned."""
        return self._queue.in_flight


def open(url: str, **options: Option) -> Disk:
    """Open a device by its URL: any source of weft, as in "nvme+tcp://192.0.2.1:4420/NQN".

    Options are those of libweft, with underscores: `queues=4`, `ctrl_loss_tmo=30`, `tls=True`.
    Raise `Error` if it cannot be opened.
    """
    texts = _texts(options)
    if ("threads", "off") in texts:
        # Only queues on an event loop of the caller would do I/O, and there is none here.
        raise UsageError(Kind.USAGE, "threads=off is for programs in C")
    return Disk(_weft.Disk(url, texts))
