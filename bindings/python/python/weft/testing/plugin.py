"""The plugin of pytest: a target for each test that asks for one."""

import contextlib
from typing import Callable, Iterator

import pytest

from . import NvmeTarget


@pytest.fixture
def weft_target() -> Iterator[Callable[..., NvmeTarget]]:
    """Make targets: `weft_target(protocols=["iscsi"])`. They end with the test."""
    with contextlib.ExitStack() as stack:

        def make(*arguments: int, **options: object) -> NvmeTarget:
            return stack.enter_context(NvmeTarget(*arguments, **options))  # type: ignore[arg-type]

        yield make


@pytest.fixture
def nvme_target(weft_target: Callable[..., NvmeTarget]) -> NvmeTarget:
    """A target of NVMe/TCP with a disk of 64 MiB. It ends with the test."""
    return weft_target()
