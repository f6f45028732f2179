"""Names of hosts are drawn anew, in place of this user's."""

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def names(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["WEFT_STATE_DIR"] = str(tmp_path_factory.mktemp("state"))
