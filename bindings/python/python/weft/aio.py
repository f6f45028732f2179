"""The same devices for asyncio.

    disk = await weft.aio.open("nvme+tcp://192.0.2.1:4420/nqn.2026-01.example:disks")
    first, second = await asyncio.gather(disk.pread(4096, 0), disk.pread(4096, 4096))
    await disk.close()

The event loop learns of completed operations by a descriptor; there are no threads of Python.
"""

import asyncio
import collections
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Optional, Type, Union

from . import _disk, _weft
from ._errors import Cancelled, Kind

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["Disk", "open"]


class Disk:
    """An open device of the running event loop, with up to `depth` operations in flight; further
    ones wait.

    An operation that is cancelled ends early if the device can do that. Its buffer is in use until
    it has ended, also after the call has returned; `close()` waits for that.
    """

    def __init__(self, disk: _disk.Disk, depth: int = 128) -> None:
        self._disk = disk
        self._depth = depth
        self._loop = asyncio.get_running_loop()
        self._queue = _weft.Queue(disk._disk, depth)
        self._descriptor = self._queue.fileno()
        self._flights: Dict[int, "asyncio.Future[Any]"] = {}
        self._waiting: Deque["asyncio.Future[None]"] = collections.deque()
        self._closed = False
        self._loop.add_reader(self._descriptor, self._reap)

    async def __aenter__(self) -> "Disk":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    def _reap(self) -> None:
        flights = self._flights
        for number, result in self._queue.wait(0):
            future = flights.pop(number, None)
            if future is None or future.done():
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)
        self._wake()

    def _wake(self) -> None:
        """Let as many go on as there is room for."""
        room = self._depth - len(self._flights)
        while room > 0 and self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                room -= 1

    async def _room(self) -> None:
        while len(self._flights) >= self._depth and not self._closed:
            future: "asyncio.Future[None]" = self._loop.create_future()
            self._waiting.append(future)
            try:
                await future
            except asyncio.CancelledError:
                # Its place is another one's.
                self._wake()
                raise

    async def _run(self, submit: Callable[[], int]) -> Any:
        if len(self._flights) >= self._depth:
            await self._room()
        number = submit()
        future = self._loop.create_future()
        self._flights[number] = future
        try:
            return await future
        except asyncio.CancelledError:
            if number in self._flights:
                self._queue.cancel(number)
            raise

    async def pread(self, size: int, offset: int) -> bytes:
        """Read `size` bytes at `offset`."""
        data: bytes = await self._run(lambda: self._queue.pread(size, offset))
        return data

    async def pread_into(self, buffer: "Buffer", offset: int) -> int:
        """Fill `buffer` with the bytes at `offset`, and return their number."""
        size = memoryview(buffer).nbytes
        await self._run(lambda: self._queue.pread_into(buffer, offset))
        return size

    async def pwrite(self, data: "Buffer", offset: int, *, fua: bool = False) -> int:
        """Write `data` at `offset`, and return the number of bytes."""
        size = memoryview(data).nbytes
        await self._run(lambda: self._queue.pwrite(data, offset, fua=fua))
        return size

    async def flush(self) -> None:
        """Make durable what was written before."""
        await self._run(self._queue.flush)

    async def trim(self, size: int, offset: int) -> None:
        """Tell the device that bytes are no longer needed."""
        await self._run(lambda: self._queue.trim(size, offset))

    async def write_zeroes(
        self, size: int, offset: int, *, may_unmap: bool = False, fua: bool = False
    ) -> None:
        """Make bytes read as zeroes."""
        await self._run(
            lambda: self._queue.write_zeroes(size, offset, may_unmap=may_unmap, fua=fua)
        )

    async def compare_and_write(
        self, expected: "Buffer", data: "Buffer", offset: int, *, fua: bool = False
    ) -> bool:
        """Write `data` if the device holds `expected`, in one step, and return whether it did."""
        try:
            await self._run(
                lambda: self._queue.compare_and_write(expected, data, offset, fua=fua)
            )
        except OSError as error:
            if getattr(error, "kind", None) == Kind.DIFFERS:
                return False
            raise
        return True

    @property
    def size(self) -> int:
        """Its size in bytes at present."""
        return self._disk.size

    @property
    def block_size(self) -> int:
        """Bytes of a block."""
        return self._disk.block_size

    @property
    def url(self) -> str:
        """Its URL."""
        return self._disk.url

    def properties(self) -> Dict[str, Union[int, str]]:
        """Return all properties, as they are at present."""
        return self._disk.properties()

    async def close(self) -> None:
        """Close the device. Operations in flight end with `weft.Cancelled`."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._descriptor)
        await self._loop.run_in_executor(None, self._queue.close)
        flights, self._flights = self._flights, {}
        for future in flights.values():
            if not future.done():
                future.set_exception(Cancelled(Kind.CANCELLED, "the disk was closed"))
        self._wake()
        await self._loop.run_in_executor(None, self._disk.close)


async def open(url: str, *, depth: int = 128, **options: _disk.Option) -> Disk:
    """Open a device by its URL for the running event loop. Options are those of `weft.open`."""
    loop = asyncio.get_running_loop()
    opened = await loop.run_in_executor(None, lambda: _disk.open(url, **options))
    try:
        return Disk(opened, depth)
    except BaseException:
        opened.close()
        raise
