"""Targets for tests of programs that use block devices, in the process of the test.

With pytest, the fixtures `nvme_target` and `weft_target` are there when weft is installed:

    def test_my_driver(nvme_target):
        disk = nvme_target.connect()
        disk.pwrite(b"x" * 4096, 0)
        nvme_target.fail("eio", after=1)

Other programs use `NvmeTarget`. It needs neither root nor a kernel module.
"""

from ._target import NvmeTarget

__all__ = ["NvmeTarget"]
