"""The programs of the pages are run."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PAGES = ["bindings/python/README.md", "docs/library.md", "docs/python.md"]


def programs():
    for page in PAGES:
        blocks = (ROOT / page).read_text().split("```python\n")[1:]
        for n, block in enumerate(blocks):
            yield pytest.param(block.split("```")[0], id=f"{page}-{n}")


@pytest.mark.parametrize("program", list(programs()))
def test_a_program_of_a_page(program, tmp_path):
    path = tmp_path / "test_page.py"
    path.write_text(program)
    run = ["-m", "pytest", "-q"] if "def test_" in program else []
    subprocess.run([sys.executable, *run, str(path)], check=True, cwd=tmp_path, timeout=300)
