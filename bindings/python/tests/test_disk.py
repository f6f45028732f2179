"""Blocking calls, buffers, queues, and errors."""

import array
import errno
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
import weft
from weft import _weft

BLOCK = 4096


def test_what_is_written_is_read():
    with weft.open("ram:1MiB,block=4096") as disk:
        assert (disk.size, disk.block_size, disk.read_only) == (1 << 20, BLOCK, False)
        assert disk.pwrite(b"a" * BLOCK, BLOCK, fua=True) == BLOCK
        disk.flush()
        assert disk.pread(2 * BLOCK, 0) == bytes(BLOCK) + b"a" * BLOCK
        disk.write_zeroes(BLOCK, BLOCK)
        assert disk.pread(BLOCK, BLOCK) == bytes(BLOCK)
        disk.trim(BLOCK, 0)
        assert disk.pread(0, 0) == b""
        assert disk.properties()["url"] == disk.url == "ram:1MiB,block=4096"
    assert disk.closed
    with pytest.raises(ValueError):
        disk.flush()
    disk.close()


def test_any_buffer_is_used_in_place():
    with weft.open("ram:1MiB") as disk:
        data = array.array("Q", range(BLOCK // 8))
        assert disk.pwrite(data, 0) == BLOCK
        found = bytearray(3 * BLOCK)
        assert disk.pread_into(memoryview(found)[BLOCK : 2 * BLOCK], 0) == BLOCK
        assert found == bytes(BLOCK) + data.tobytes() + bytes(BLOCK)
        with pytest.raises((BufferError, TypeError)):
            disk.pread_into(bytes(BLOCK), 0)
        with pytest.raises(BufferError):
            disk.pwrite(memoryview(found)[::2], 0)
        with pytest.raises(TypeError):
            disk.pwrite("text", 0)


@pytest.mark.parametrize("url", ["ram:8MiB", "file:{}/disk,size=8MiB"])
def test_memory_is_used_without_a_copy(url, tmp_path):
    memory = weft.memory(4 * BLOCK)
    assert len(memory) == 4 * BLOCK and memory.nbytes == 4 * BLOCK and not memory.readonly
    memory[:BLOCK] = b"m" * BLOCK
    with weft.open(url.format(tmp_path)) as disk:
        disk.pwrite(memory[:BLOCK], BLOCK)
        disk.pread_into(memory[2 * BLOCK :], 0)
        assert bytes(memory[3 * BLOCK :]) == b"m" * BLOCK
        with pytest.raises(ValueError):
            weft.memory(0)


def test_memory_goes_with_its_last_view():
    def mapped():
        return int(pathlib.Path("/proc/self/statm").read_text().split()[0])

    size = 4 << 20
    before = mapped()
    for _ in range(100):
        view = weft.memory(size)[4096:8192]
        view[:] = bytes(4096)
    del view
    assert mapped() - before < 10 * size // os.sysconf("SC_PAGE_SIZE")


def test_a_disk_that_is_opened_for_reading_only():
    with weft.open("ram:1MiB", read_only=True) as disk:
        assert disk.properties()["read-only"] == 1 and disk.pread(512, 0) == bytes(512)
        with pytest.raises(weft.Error) as caught:
            disk.pwrite(bytes(512), 0)
        assert caught.value.kind == "read_only" and "without the option" in str(caught.value)
    with weft.open("ram:1MiB", read_only=False) as disk:
        disk.pwrite(bytes(512), 0)


def test_compare_and_write():
    with weft.open("ram:1MiB") as disk:
        assert disk.compare_and_write(bytes(512), b"1" * 512, 0)
        assert not disk.compare_and_write(bytes(512), b"2" * 512, 0)
        assert disk.pread(512, 0) == b"1" * 512


def test_data_of_a_sparse_file_is_found(tmp_path):
    path = tmp_path / "disk"
    path.write_bytes(b"")
    os.truncate(path, 4 << 20)
    with weft.open(f"file:{path}") as disk:
        disk.pwrite(b"d" * BLOCK, 1 << 20)
        disk.flush()
        found = disk.next_data(0)
        assert found is None or found[0] <= 1 << 20
        os.truncate(path, 8 << 20)
        disk.renew_size()
        assert disk.size == 8 << 20


def test_errors_have_a_kind_and_a_number():
    for url, kind, number, kinds in [
        ("error:ram:1MiB", "usage", errno.EINVAL, (weft.UsageError, ValueError)),
        ("file:/nonexistent/weft", "not_found", errno.ENOENT, (FileNotFoundError,)),
        ("nbd://127.0.0.1:1/x", "refused", errno.ECONNREFUSED, (ConnectionRefusedError,)),
    ]:
        with pytest.raises(weft.Error) as caught:
            weft.open(url)
        error = caught.value
        assert (error.kind, error.errno) == (kind, number)
        assert all(isinstance(error, of) for of in (*kinds, OSError))
        assert error.nvme_status is None and len(str(error)) > 10
    with weft.open("ram:1MiB") as disk:
        with pytest.raises(weft.Error) as caught:
            disk.pread(512, 1 << 20)
        assert caught.value.kind is weft.Kind.OUT_OF_RANGE
        with pytest.raises(ValueError):
            disk.pread(7, 0)
        with pytest.raises(OverflowError):
            disk.pread(-1, 0)
        with pytest.raises(weft.Error):
            disk.pread(1 << 62, 0)
    for options in [{"colour": "red"}, {"queues": 0}, {"tls": 3}, {"threads": False}]:
        with pytest.raises(weft.UsageError):
            weft.open("ram:1MiB", **options)


def test_errors_can_be_pickled():
    error = weft.TimedOut(weft.Kind.TIMED_OUT, "no answer", 1, 0x4281, 3)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is weft.TimedOut and str(copy) == "no answer"
    assert copy.nvme_status == (2, 0x81) and copy.do_not_retry
    assert copy.may_have_executed and copy.may_still_execute


def test_kinds_are_those_of_the_library():
    assert [kind.value for kind in weft.Kind] == _weft.KINDS
    header = pathlib.Path(__file__).parents[3] / "crates/capi/include/weft.h"
    named = re.findall(r"^\s+WEFT_ERROR_(\w+) = (\d+),", header.read_text(), re.M)
    assert [name.lower() for name, _ in named][-20:] == _weft.KINDS[-20:]


@pytest.mark.skipif(not hasattr(_weft, "panics"), reason="only a wheel made by --fast can panic")
def test_a_panic_is_an_exception():
    for place in ["quick", "blocking"]:
        with pytest.raises(weft.Error) as caught:
            _weft.panics(place)
        assert caught.value.kind == "internal" and str(caught.value).endswith(place)
    with pytest.raises(BaseException, match="elsewhere") as caught:
        _weft.panics("elsewhere")
    assert type(caught.value).__name__ == "PanicException"
    with weft.open("ram:1MiB") as disk:
        assert disk.pread(512, 0) == bytes(512)


def test_a_queue_has_many_operations_in_flight():
    memory = weft.memory(32 * BLOCK)
    with weft.open("ram:1MiB", queues=2) as disk, weft.Queue(disk, 32) as queue:
        writes = {queue.pwrite(bytes([n]) * BLOCK, n * BLOCK) for n in range(16)}
        done = dict(queue.wait(16))
        assert set(done) == writes and set(done.values()) == {None}
        parts = [memory[n * BLOCK : (n + 1) * BLOCK] for n in range(16)]
        places = {queue.pread_into(part, n * BLOCK) for n, part in enumerate(parts)}
        reads = {queue.pread(BLOCK, n * BLOCK): n for n in range(16)}
        with pytest.raises(weft.Error) as caught:
            queue.flush()
        assert caught.value.kind == "again" and queue.in_flight == 32
        done = dict(queue.wait(32))
        assert set(done) == places | set(reads) and queue.in_flight == 0
        for number, n in reads.items():
            assert done[number] == bytes([n]) * BLOCK == bytes(parts[n])
        assert queue.wait(5, timeout=0.01) == []
        number = queue.compare_and_write(b"x" * 512, b"y" * 512, 0)
        ((reaped, error),) = queue.wait()
        assert reaped == number and isinstance(error, weft.Error) and error.kind == "differs"
        with pytest.raises(weft.Error) as caught:
            disk.close()
        assert caught.value.kind == "in_use"


def test_other_threads_run_while_one_waits(nvme_target):
    nvme_target.hang(operations=["read"])
    disk = nvme_target.connect(reconnect_delay=1)
    ended = []
    reader = threading.Thread(target=lambda: ended.append(disk.pread(512, 0)))
    reader.start()
    # This thread goes on, with the same disk, while the other one waits.
    while nvme_target.counters()["in-flight"] == 0:
        time.sleep(0)
    assert disk.pwrite(b"w" * 512, 0) == 512 and not ended
    nvme_target.heal()
    # The end of the connection ends what is held, and the host reads again.
    nvme_target.drop_connections()
    reader.join()
    assert ended == [b"w" * 512]


def test_control_c_ends_a_call(nvme_target):
    program = f"""
import weft
disk = weft.open({nvme_target.url!r})
print("open", flush=True)
try:
    disk.pread(512, 0)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    nvme_target.hang()
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "open\n"
    while nvme_target.counters()["in-flight"] == 0:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    assert child.communicate()[0] == "interrupted\n" and child.returncode == 0


def test_a_forked_child_is_refused():
    with weft.open("ram:1MiB") as disk:
        child = os.fork()
        if child == 0:
            try:
                disk.pread(512, 0)
            except weft.Error as error:
                os._exit(0 if error.kind == "forked" else 2)
            os._exit(3)
        assert os.waitpid(child, 0)[1] == 0
        assert disk.pread(512, 0) == bytes(512)


def test_nothing_is_left_of_disks_that_were_opened(weft_target):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    def threads():
        return len(os.listdir("/proc/self/task"))

    protocols = ["nvme+tcp", "iscsi", "nbd"]
    target = weft_target(1 << 20, protocols=protocols)
    urls = ["ram:1MiB", *target.urls]
    # Limits of the library's lists are reached first.
    for n in range(40):
        weft.open(urls[n % len(urls)]).close()
    before = descriptors(), threads()
    for n in range(200):
        disk = weft.open(urls[n % len(urls)])
        queue = weft.Queue(disk, 4)
        queue.pread(512, 0)
        if n % 3:
            queue.close()
            disk.close()
        del queue, disk
    # The target learns of the ends, and threads of disks that were not closed end by themselves.
    end = time.monotonic() + 120
    while (descriptors() > before[0] or threads() > before[1]) and time.monotonic() < end:
        time.sleep(0.01)
    assert descriptors() <= before[0] and threads() <= before[1]
