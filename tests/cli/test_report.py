"""``keff report`` as users run it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import keff
from keff.analysis.estimates import Settings, analyze
from keff.reading.open import open_record

pytestmark = pytest.mark.slow

BLOCK = (
    "import sys; sys.modules['vl_convert'] = None; sys.argv[0] = 'keff'; from keff.cli import main; main()"
)


def without_the_extra(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run code in a process that cannot import what this one has imported."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl"
    answers = [["4", "4", "5"], ["4", "3", "3"], ["4", "4", "4"], ["1", "2", "4"]]
    rows = [{"id": str(i), "gold_answer": "4", "all_answers": one} for i, one in enumerate(answers)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_records_of_too_few_questions_cost_no_drawings(tmp_path: Path) -> None:
    """A decision needs 10 independent questions; of fewer a chart would show nothing but its band."""
    page = pytest.importorskip("keff.report.page")
    rng = np.random.default_rng(0)
    exhibits: list[Any] = []
    for name, size in (("one", 1), ("nine", 9), ("ten", 10)):
        rows = [
            {"id": str(n), "gold_answer": "4", "all_answers": rng.choice(["4", "4", "5"], 8).tolist()}
            for n in range(size)
        ]
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        exhibits.append(page.Exhibit(record := open_record(file), analyze(record, Settings())))
    drawn: list[str] = []

    def draw(specs: Mapping[str, Any]) -> dict[str, str]:
        drawn.extend(specs)
        return page.vega.draw(specs)

    page.write_page(exhibits, tmp_path / "page.html", draw)
    assert drawn and {name.split("-")[1] for name in drawn} == {"3"}
    written = (tmp_path / "page.html").read_text("utf-8")
    assert "9 questions cannot decide" in written


def test_it_writes_one_complete_file(log: Path, tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    done = keff("report", log, log, "-o", tmp_path / "page.html", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    page = (tmp_path / "page.html").read_text("utf-8")
    assert found["runs"] == 2
    assert found["bytes"] == len(page.encode()) < 1_500_000
    assert "http://" not in page.split("<script")[0].replace("http-equiv", "")


def test_bad_input_is_one_line(log: Path, tmp_path: Path) -> None:
    for arguments, said in (
        ((log, "-o", tmp_path / "no" / "x.html"), "does not exist"),
        ((tmp_path / "none.jsonl",), "does not exist"),
    ):
        done = keff("report", *arguments)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_without_the_extra_it_says_what_to_install(log: Path, tmp_path: Path) -> None:
    done = without_the_extra(BLOCK, "report", log, "-o", tmp_path / "page.html")
    assert done.returncode == 2
    assert re.search(r"pip install .*\[report\]'", done.stderr)
    assert not (tmp_path / "page.html").exists()


def test_the_demo_goes_on_without_the_extra(log: Path, tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['vl_convert'] = None\n"
        "from pathlib import Path\n"
        "from keff.analysis.estimates import Settings, analyze\n"
        "from keff.cli.demo import write_report_if_possible\n"
        "from keff.reading.open import open_record\n"
        "record = open_record(Path(sys.argv[1]))\n"
        "assert not write_report_if_possible([(record, analyze(record, Settings()))], Path(sys.argv[2]))\n"
    )
    done = without_the_extra(code, log, tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert re.search(r"pip install .*\[report\]'", done.stderr)
