"""Reads of 4 KiB at random from a device, for some seconds by each way, and their rate.

    python rate.py nvme+tcp://127.0.0.1:4420/NQN

`weft bench URL --rw=randread --bs=4k --iodepth=32` measures the same by itself.
"""

import argparse
import asyncio
import itertools
import random
import time

import weft
import weft.aio

SIZE = 4096


def places(disk):
    """Offsets, drawn before the measurement."""
    draw = random.Random(1)
    blocks = disk.size // SIZE
    return itertools.cycle([draw.randrange(blocks) * SIZE for _ in range(1 << 16)])


def blocking(url, depth, seconds):
    """One call after the other."""
    with weft.open(url) as disk:
        at, count, end = places(disk), 0, time.monotonic() + seconds
        while time.monotonic() < end:
            disk.pread(SIZE, next(at))
            count += 1
        return count


def queue(url, depth, seconds):
    """A queue, with memory of weft."""
    with weft.open(url) as disk, weft.Queue(disk, depth) as in_flight:
        memory = weft.memory(depth * SIZE)
        slots = [memory[n * SIZE : (n + 1) * SIZE] for n in range(depth)]
        at, count, end = places(disk), 0, time.monotonic() + seconds
        submit, wait = in_flight.pread_into, in_flight.wait
        used = {submit(slot, next(at)): slot for slot in slots}
        while time.monotonic() < end:
            for number, result in wait():
                if result is not None:
                    raise result
                slot = used.pop(number)
                used[submit(slot, next(at))] = slot
                count += 1
        return count


def tasks(url, depth, seconds):
    """As many tasks of asyncio."""

    async def main():
        async with await weft.aio.open(url, depth=depth) as disk:
            at, end = places(disk), time.monotonic() + seconds

            async def read():
                count = 0
                while time.monotonic() < end:
                    await disk.pread(SIZE, next(at))
                    count += 1
                return count

            return sum(await asyncio.gather(*(read() for _ in range(depth))))

    return asyncio.run(main())


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("--depth", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=5)
    given = parser.parse_args()
    for way in (blocking, queue, tasks):
        rate = way(given.url, given.depth, given.seconds) / given.seconds
        print(f"{way.__name__}: {rate:.0f} reads per second")


if __name__ == "__main__":
    main()
