"""A program that uses all of the package, for a checker of types."""

import asyncio
from typing import List, Optional, Tuple

import weft
import weft.aio
from weft.testing import NvmeTarget


def blocking(url: str) -> bytes:
    memory: memoryview = weft.memory(4096)
    with weft.open(url, queues=2, ctrl_loss_tmo=30, tls=False, path=["nbd://h/x"]) as disk:
        size: int = disk.pwrite(bytearray(disk.block_size), 0, fua=True)
        size += disk.pread_into(memory, 0)
        found: Optional[Tuple[int, int]] = disk.next_data(size)
        swapped: bool = disk.compare_and_write(memory, b"", 0)
        with weft.Queue(disk, 8) as queue:
            number: int = queue.pread(4096, 0)
            for reaped, result in queue.wait(1, timeout=0.5):
                if isinstance(result, weft.Error) and reaped == number:
                    raise result
        disk.flush()
        return disk.pread(4096, 0) if found and swapped else b""


async def together(url: str) -> List[bytes]:
    async with await weft.aio.open(url, depth=8) as disk:
        await disk.pwrite(b"x" * 4096, 0)
        return list(await asyncio.gather(disk.pread(512, 0), disk.pread(512, 512)))


def tested() -> Optional[Tuple[int, int]]:
    with NvmeTarget(1 << 20, protocols=["iscsi"]) as target:
        disk: weft.Disk = target.connect("iscsi", io_timeout="1s")
        target.fail("eio", after=1, count=2, operations=["read"])
        try:
            disk.pread(512, 0)
        except weft.Error as error:
            kind: weft.Kind = error.kind
            return error.nvme_status if kind == weft.Kind.IO else None
        return None
