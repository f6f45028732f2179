"""What all tests share: names of hosts that are drawn anew, the closing line, and the client of others."""

import os
import sys

import pytest

# The sources of a client in Python that others wrote. It is in no registry, so `cargo xtask long`
# runs its tests, where this names the place.
FOREIGN = os.environ.get("PYNVMEOF_DIR")

if FOREIGN is None:
    collect_ignore = ["test_foreign.py"]
else:
    sys.path.insert(0, FOREIGN)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the counts as the steps of `cargo xtask test` do."""
    passed, failed, broken, skipped = (
        len(terminalreporter.stats.get(name, [])) for name in ("passed", "failed", "error", "skipped")
    )
    print(f"\n{passed} passed, {failed + broken} failed, {skipped} skipped")


@pytest.fixture(autouse=True, scope="session")
def names(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["WEFT_STATE_DIR"] = str(tmp_path_factory.mktemp("state"))
