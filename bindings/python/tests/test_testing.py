"""Targets of tests: what they do to hosts."""

import pathlib
import subprocess
import sys
import time

import pytest
import weft
from weft.testing import NvmeTarget

pytest_plugins = ["pytester"]


def until(condition, what):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def test_the_example_of_the_page(nvme_target):
    disk = nvme_target.connect()
    disk.pwrite(b"x" * 4096, 0)
    nvme_target.fail("eio", after=1)
    disk.pread(4096, 0)
    with pytest.raises(weft.Error) as caught:
        disk.pread(4096, 0)
    assert caught.value.nvme_status == (2, 0x81) and caught.value.kind == "io"
    assert "NVMe status 0x281: Unrecovered Read Error" in str(caught.value)
    nvme_target.heal()
    assert disk.pread(4096, 0) == b"x" * 4096


@pytest.mark.parametrize(
    "kind, is_kind", [("enospc", "no_space"), ("erofs", "read_only"), ("media", "io")]
)
def test_failures_are_counted(weft_target, kind, is_kind):
    target = weft_target(1 << 20)
    disk = target.connect()
    target.fail(kind, count=2, operations=["write"])
    for _ in range(2):
        with pytest.raises(weft.Error) as caught:
            disk.pwrite(b"x" * 512, 0)
        assert caught.value.kind == is_kind
    disk.pwrite(b"x" * 512, 0)
    assert target.counters()["errors"] == 2


def test_delays_and_limits(nvme_target):
    disk = nvme_target.connect()
    nvme_target.delay(read=0.05)
    nvme_target.limit(iops=1000)
    begun = time.monotonic()
    disk.pread(512, 0)
    assert time.monotonic() - begun >= 0.05
    nvme_target.heal()


def test_what_hangs_for_a_time_goes_on(nvme_target):
    disk = nvme_target.connect()
    nvme_target.hang(0.05)
    begun = time.monotonic()
    disk.pwrite(b"h" * 512, 0)
    assert time.monotonic() - begun >= 0.05


def test_a_host_comes_back_after_its_connections_are_dropped(nvme_target):
    disk = nvme_target.connect(reconnect_delay=1)
    disk.pwrite(b"d" * 512, 0)
    for _ in range(2):
        nvme_target.drop_connections()
        assert disk.pread(512, 0) == b"d" * 512


def test_a_target_goes_away_and_comes_back(nvme_target):
    disk = nvme_target.connect(reconnect_delay=1, fast_io_fail_tmo=0)
    disk.pwrite(b"d" * 512, 0)
    url = nvme_target.url
    nvme_target.go_away()
    nvme_target.go_away()
    assert nvme_target.counters()["connections"] == 0
    with pytest.raises(weft.Error):
        disk.pread(512, 0)
    with pytest.raises(weft.Error):
        weft.open(url)
    # Changes count while it is away, too.
    nvme_target.resize(32 << 20)
    nvme_target.come_back()
    assert nvme_target.url == url

    def is_back():
        try:
            return disk.pread(512, 0) == b"d" * 512
        except weft.Error:
            return False

    until(is_back, "the host is back")
    until(lambda: disk.size == 32 << 20, "the host knows the size")
    assert nvme_target.connect().pread(512, 0) == b"d" * 512


def test_sizes_are_told(nvme_target):
    disk = nvme_target.connect()
    disk.pwrite(b"s" * 512, 0)
    nvme_target.resize(128 << 20)
    until(lambda: disk.size == 128 << 20, "the host knows the size")
    disk.pwrite(b"s" * 512, (128 << 20) - 512)
    nvme_target.resize(1 << 20)
    until(lambda: disk.size == 1 << 20, "the host knows the size")
    with pytest.raises(ValueError):
        nvme_target.resize(1 << 40)
    assert disk.pread(512, 0) == b"s" * 512


def test_ana_states_are_told(nvme_target):
    disk = nvme_target.connect(fast_io_fail_tmo=0)

    def is_read():
        try:
            return disk.pread(512, 0) == bytes(512)
        except weft.Error:
            return False

    nvme_target.ana("non-optimized")
    assert is_read()
    nvme_target.ana("inaccessible")
    until(lambda: not is_read(), "the host has no path")
    nvme_target.ana("optimized")
    until(is_read, "the host has a path")
    with pytest.raises(ValueError):
        nvme_target.ana("red")
    assert is_read()


def test_hosts_have_to_authenticate(nvme_target):
    before = nvme_target.connect()
    secret = nvme_target.demand_authentication()
    assert secret.startswith("DHHC-1:00:")
    with pytest.raises(PermissionError):
        weft.open(nvme_target.url)
    assert nvme_target.connect().pread(512, 0) == before.pread(512, 0)


def test_hosts_have_to_use_tls(weft_target):
    target = weft_target(tls=True)
    assert target.psk.startswith("NVMeTLSkey-1:01:")
    disk = target.connect()
    disk.pwrite(b"t" * 512, 0)
    assert disk.pread(512, 0) == b"t" * 512
    with pytest.raises(weft.Error):
        weft.open(target.url, connect_timeout="5s")


def test_all_protocols_serve_one_disk(weft_target):
    target = weft_target(protocols=["nvme+tcp", "iscsi", "nbd"])
    for n, protocol in enumerate(["nvme+tcp", "iscsi", "nbd"]):
        disk = target.connect(protocol)
        disk.pwrite(bytes([n + 1]) * 4096, n * 4096)
        disk.flush()
        for m in range(n + 1):
            assert disk.pread(4096, m * 4096) == bytes([m + 1]) * 4096
    target.fail("eio", count=3, operations=["read"])
    statuses = set()
    for protocol in ["nvme+tcp", "iscsi", "nbd"]:
        with pytest.raises(weft.Error) as caught:
            target.connect(protocol).pread(512, 0)
        statuses.add((caught.value.nvme_status, caught.value.scsi_sense))
    assert len(statuses) == 3
    target.go_away()
    target.come_back()
    for protocol in ["iscsi", "nbd"]:
        assert target.connect(protocol).pread(512, 0) == b"\x01" * 512


@pytest.mark.parametrize("protocol", ["nvme+tcp", "iscsi", "nbd"])
def test_disks_end_while_the_target_hangs(weft_target, protocol):
    def controls():
        names = pathlib.Path("/proc/self/task").glob("*/comm")
        return sum(name.read_text() == "weft-control\n" for name in names)

    before = controls()
    target = weft_target(1 << 20, protocols=[protocol])
    disk = target.connect()
    queue = weft.Queue(disk, 4)
    target.hang(operations=["read"])
    queue.pread(512, 0)
    until(lambda: target.counters()["in-flight"] == 1, "the target has the read")
    queue.close()
    disk.close()
    until(lambda: controls() <= before, "the thread of the disk ends")


def test_a_target_that_is_killed_under_load(tmp_path):
    program = """
import sys, weft.testing
target = weft.testing.NvmeTarget()
print(target.url, flush=True)
sys.stdin.read()
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        limits = {"ctrl_loss_tmo": 0, "keep_alive_tmo": 1, "quiesce_time": "1s"}
        disk = weft.open(child.stdout.readline().strip(), **limits)
        queue = weft.Queue(disk, 32)
        numbers = {queue.pwrite(b"k" * 4096, n * 4096) for n in range(32)}
        for _ in range(50):
            for number, result in queue.wait():
                assert result is None
                numbers.remove(number)
                numbers.add(queue.pwrite(b"k" * 4096, 0))
        child.kill()
        failed = []
        while numbers:
            for number, result in queue.wait():
                numbers.remove(number)
                failed += [] if result is None else [result]
        assert all(isinstance(error, weft.Error) for error in failed)
        with pytest.raises(weft.Error):
            disk.pread(512, 0)
        queue.close()
        disk.close()
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


def test_mistakes_are_told():
    for wrong in [{"protocols": ["fc"]}, {"protocols": "nbd"}, {"size": 0}]:
        with pytest.raises(ValueError):
            NvmeTarget(**wrong)
    with NvmeTarget(1 << 20) as target:
        for wrong in ["colour", "eio,rate=2"]:
            with pytest.raises(ValueError):
                target.fail(wrong)
        with pytest.raises(ValueError):
            target.fail(operations=["erase"])
        target.connect().pread(512, 0)
    with pytest.raises(ValueError):
        target.counters()


def test_a_configuration_is_applied():
    with weft.Target(CONFIGURATION) as target:
        target.apply(CONFIGURATION + '[[subsystem.namespace]]\nnsid = 2\nsource = "ram:2MiB"\n')
        with weft.open(f"{target.urls[0].partition('?')[0]}/2") as disk:
            assert disk.size == 2 << 20
        polls = CONFIGURATION.replace("[[subsystem]]", "[server]\npoll = true\n[[subsystem]]", 1)
        for wrong in ["listen = 5", CONFIGURATION.replace(":0", ":1"), polls]:
            with pytest.raises(ValueError):
                target.apply(wrong)
        assert target.report()["open_connections"] >= 0
    with pytest.raises(ValueError):
        target.counters()


CONFIGURATION = """
listen = ["nvme+tcp://127.0.0.1:0"]
[[subsystem]]
nqn = "nqn.2026-01.example:python"
[[subsystem.namespace]]
nsid = 1
source = "ram:1MiB"
"""


def test_the_plugin_is_found(pytester):
    pytester.makepyfile(
        """
        def test_my_driver(nvme_target):
            disk = nvme_target.connect()
            disk.pwrite(b"x" * 4096, 0)
            nvme_target.fail("eio", after=1)

        def test_more(weft_target):
            assert weft_target(1 << 20).size == 1 << 20
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_types_are_there():
    package = pathlib.Path(weft.__file__).parent
    assert (package / "py.typed").exists() and (package / "_weft.pyi").exists()
