"""The archives that are published hold what they need and nothing else."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPO = Path(__file__).resolve().parent.parent


def test_wheel_and_sdist_hold_what_they_should(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="pip install hatchling")
    pytest.importorskip("hatch_fancy_pypi_readme", reason="pip install hatch-fancy-pypi-readme")
    spec = importlib.util.spec_from_file_location("check_package", REPO / "scripts" / "check_package.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)], cwd=REPO, check=True)
    wheel = script.contents(next(tmp_path.glob("*.whl")))
    sdist = script.contents(next(tmp_path.glob("*.tar.gz")))
    assert script.problems(wheel, sdist) == []
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith("METADATA"))
        said = archive.read(name).decode()
    # A package index has the text and none of the files beside it.
    assert "Project-URL: " in said and "Author: " in said and "3.14" in said
    assert re.findall(r"\]\((?!https?:)|<picture|<img", said) == []
    assert script.problems([*wheel, "keff/run/paths.sqlite"], sdist) == ["stray: keff/run/paths.sqlite"]
    assert script.problems([name for name in wheel if "page.js" not in name], sdist) == [
        "missing in wheel: templates/page.js"
    ]


WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
for name in {absent!r}:
    sys.modules.pop(name, None)
import keff

print(keff.analyze({log!r}).n, keff.noise({log!r}).k)
sys.argv = ["keff", "sample", "starter", "--engine", "fake", "--n", "2", "--run", {run!r}]
from keff.cli import main
main()
"""


def test_a_log_is_analysed_where_modules_of_posix_are_absent(tmp_path: Path) -> None:
    """Windows has none of them; sampling and the sandbox need them, analysing a log does not."""
    log = tmp_path / "answers.csv"
    log.write_text("id,answer,gold_answer\n" + "".join(f"q{i // 4},{i % 3},1\n" for i in range(80)))
    code = WITHOUT.format(
        absent=("fcntl", "resource", "termios", "pwd", "grp", "pty"), log=str(log), run=str(tmp_path / "r")
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["20", "4"], done.stderr
    assert done.returncode == 2 and "paths are drawn on Linux or macOS" in done.stderr.splitlines()[-1]
