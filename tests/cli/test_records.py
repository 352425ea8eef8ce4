"""import, export, compare, combine, tables and reproduce as a user meets them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import keff
from keff import cli
from keff.cli import _app
from keff.paper import records
from published_records import Truth, series_rows, write


def good(*arguments: object) -> dict[str, Any]:
    done = keff(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    return json.loads(done.stdout)


def bad(*arguments: object) -> str:
    done = keff(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("arms")
    rng = np.random.default_rng(0)
    level = rng.random((60, 1))
    for name, mix in (("sc", 0.9), ("pt", 0.3)):
        right = rng.random((60, 4)) < mix * (level > 0.4) + (1 - mix) * 0.6
        with (folder / f"{name}.jsonl").open("w") as file:
            for item, row in enumerate(right):
                line = {
                    "id": str(item),
                    "gold_answer": "4",
                    "all_answers": ["4" if one else "5" for one in row],
                }
                slots = {"slots": [1, 2, 3, 4]} if name == "pt" else {}
                file.write(json.dumps(line | slots) + "\n")
    return folder / "sc.jsonl", folder / "pt.jsonl"


@pytest.mark.slow
def test_compare_gives_the_change_and_a_table_for_people(arms: tuple[Path, Path]) -> None:
    found = good("compare", *arms)
    assert found["delta_rho"]["hi"] < 0
    assert {"delta_k_eff", "delta_majority", "delta_plurality", "corrected", "arms", "warnings"} <= set(found)
    done = keff("compare", *arms)
    assert "mean pairwise rho" in done.stdout
    # A difference of accuracies in percent would look like a ratio, as that of the correlations is.
    assert re.search(r"\n(one path|majority vote) .*[-+][\d.]+, [-+][\d.]+\] points", done.stdout)
    assert "cross-fitted" in done.stdout
    assert "share no item id" in bad("compare", arms[0], _renamed(arms[1]))
    assert "does not exist" in bad("compare", arms[0], "nothing.jsonl")


def _renamed(arm: Path) -> Path:
    other = arm.with_name("other.jsonl")
    other.write_text(arm.read_text().replace('"id": "', '"id": "x'))
    return other


@pytest.mark.slow
def test_tables_of_a_record_without_answers_leave_the_plurality_open(tmp_path: Path) -> None:
    file = tmp_path / "graded.jsonl"
    rows = ({"id": i, "correct": [(i * j) % 3 % 2 for j in range(5)]} for i in range(12))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    made = good("tables", file, "--replicates", 100)
    assert made["arms"][0]["plurality"] is made["table4"][0]["plurality_star"] is None
    assert made["arms"][0]["majority"] is not None


def test_combine_and_tables(arms: tuple[Path, Path], tmp_path: Path) -> None:
    found = good("combine", arms[1])
    assert len(found["weights"]) == 6
    assert found["gls_r"] is None
    assert {"arms", "table1", "table4", "table11"} == set(good("tables", *arms, "--replicates", 100))
    done = keff("tables", *arms, "--format", "latex", "--replicates", 100)
    assert done.stdout.count(r"\end{table") == 4
    done = keff("tables", *arms, "--format", "csv", "-o", tmp_path / "t", "--replicates", 100)
    assert sorted(file.name for file in (tmp_path / "t").iterdir()) == [
        "arms.csv",
        "table1.csv",
        "table11.csv",
        "table4.csv",
    ]


@pytest.mark.slow
def test_import_and_export(arms: tuple[Path, Path], tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out.jsonl"
    assert good("import", arms[1], "--run", run) == {"run": str(run), "items": 60, "paths": 240}
    assert good("export", run, "-o", out)["items"] == 60
    columns = out.with_suffix(".parquet")
    assert good("export", run, "-o", columns)["items"] == 60 and columns.read_bytes()[:4] == b"PAR1"
    assert "exists already" in bad("export", run, "-o", out)
    assert good("analyze", out)["c"] == good("analyze", arms[1])["c"]


@pytest.mark.slow
def test_reproduce_does_what_it_can_and_says_what_is_missing(tmp_path: Path) -> None:
    assert "wanted files such as" in bad("reproduce", tmp_path, "-o", tmp_path / "out")
    series = records.SERIES[0]
    rows = series_rows(series, Truth(0.79, 0.59, trace=5), np.random.default_rng(0))
    write(tmp_path / series.file, rows)
    found = good("reproduce", tmp_path, "-o", tmp_path / "out", "--replicates", 100, "--no-figures")
    assert set(found["tables"]) == {"table1", "table2", "table4", "table10", "table11"}
    assert len(found["missing"]) == 61 - 1 + 1
    assert (tmp_path / "out" / "table4.tex").read_text().count(r"\label{tab:table4}") == 1


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_wrong_use(tmp_path: Path) -> None:
    series = records.SERIES[0]
    rows = series_rows(series, Truth(0.79, 0.59, trace=5), np.random.default_rng(0))
    write(tmp_path / series.file, rows)
    (tmp_path / "file").write_text("")
    line = bad("reproduce", tmp_path, "-o", tmp_path / "file", "--replicates", 100, "--no-figures")
    assert "File exists: name another folder" in line


def test_a_file_that_may_not_be_read_is_bad_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def build(arguments: list[str]) -> None:
        raise PermissionError(13, "Permission denied", arguments[-1])

    monkeypatch.setattr(_app, "build", build)
    monkeypatch.setattr(sys, "argv", ["keff", "analyze", "log.jsonl"])
    with pytest.raises(SystemExit) as found:
        cli.main()
    assert (found.value.code, capsys.readouterr().err) == (2, "keff: log.jsonl: Permission denied\n")


@pytest.mark.slow
def test_columns_are_named_for_every_command_that_reads_a_table(tmp_path: Path) -> None:
    """Analyze proposes them, and what follows on the same table takes them too."""
    rng, named, files = np.random.default_rng(3), ("--columns", "id=nr,answer=reply"), list[str]()
    for name in ("a.csv", "b.csv"):
        rows = [f"q{i},{'xyz'[a]},x" for i in range(20) for a in rng.integers(0, 2 + (i % 2), 4)]
        (tmp_path / name).write_text("\n".join(["nr,reply,gold", *rows]) + "\n")
        files.append(str(tmp_path / name))
    assert good("analyze", files[0], *named)["n"] == 20
    assert good("replay", files[0], "lead_k:2", *named)["n"] == 20
    assert good("combine", files[0], *named)["n"] == 20
    assert good("compare", *files, *named)
    assert good("mix", *files, *named)
