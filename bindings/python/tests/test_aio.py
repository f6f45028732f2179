"""Devices on an event loop of asyncio."""

import asyncio

import pytest
import weft
import weft.aio

BLOCK = 4096


def test_operations_are_in_flight_together(nvme_target):
    async def main():
        async with await weft.aio.open(nvme_target.url, depth=8) as disk:
            assert (disk.size, disk.block_size) == (nvme_target.size, 512)
            blocks = [bytes([n]) * BLOCK for n in range(100)]
            writes = (disk.pwrite(block, n * BLOCK) for n, block in enumerate(blocks))
            assert set(await asyncio.gather(*writes)) == {BLOCK}
            await disk.flush()
            reads = (disk.pread(BLOCK, n * BLOCK) for n in range(100))
            assert await asyncio.gather(*reads) == blocks
            memory = weft.memory(BLOCK)
            assert await disk.pread_into(memory, 3 * BLOCK) == BLOCK
            assert bytes(memory) == blocks[3]
            await disk.write_zeroes(BLOCK, 0)
            await disk.trim(BLOCK, BLOCK)
            assert await disk.compare_and_write(bytes(512), b"1" * 512, 0)
            assert not await disk.compare_and_write(bytes(512), b"1" * 512, 0)

    asyncio.run(main())


def test_errors_are_raised_where_they_are_awaited(nvme_target):
    async def main():
        async with await weft.aio.open(nvme_target.url) as disk:
            nvme_target.fail("eio", count=1, operations=["read"])
            done = await asyncio.gather(
                *(disk.pread(512, 0) for _ in range(4)), return_exceptions=True
            )
            failed = [error for error in done if isinstance(error, weft.Error)]
            assert len(failed) == 1 and failed[0].nvme_status == (2, 0x81)
            assert "reading 512 bytes at 0 failed: " in str(failed[0])
            assert "Unrecovered Read Error" in str(failed[0])
            with pytest.raises(ValueError):
                await disk.pread(7, 0)
        with pytest.raises(weft.Error):
            await weft.aio.open("nbd://127.0.0.1:1/x")

    asyncio.run(main())


def test_cancelled_operations_make_room(nvme_target):
    async def main():
        async with await weft.aio.open(nvme_target.url, depth=2) as disk:
            nvme_target.hang(operations=["read"])
            reads = [asyncio.ensure_future(disk.pread(512, 0)) for _ in range(4)]
            while nvme_target.counters()["in-flight"] < 2:
                await asyncio.sleep(0)
            for read in reads:
                read.cancel()
            done = await asyncio.gather(*reads, return_exceptions=True)
            assert all(isinstance(error, asyncio.CancelledError) for error in done)
            nvme_target.heal()
            assert await disk.pread(512, 0) == bytes(512)

    asyncio.run(main())


def test_closing_ends_what_is_in_flight(nvme_target):
    async def main():
        disk = await weft.aio.open(nvme_target.url)
        nvme_target.hang()
        read = asyncio.ensure_future(disk.pread(512, 0))
        while nvme_target.counters()["in-flight"] == 0:
            await asyncio.sleep(0)
        await disk.close()
        with pytest.raises(weft.Cancelled):
            await read
        await disk.close()

    asyncio.run(main())
