"""The grid of studies/paper.toml gives the paper's own tables and figures, row for row.

Every cell is sampled with the fake engine at its full K, with few questions and two seeds.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.places import QUESTIONS
from keff.cli.study import command
from keff.paper import claims, records
from keff.paper.reproduce import Reproducing, Reproduction, write
from keff.paper.study import report
from keff.sampling.grid import read_study

STUDIES = Path(__file__).resolve().parents[2] / "studies"
FILES = {"math": "math500"}
SETTING = 'engine = "fake", options = { p = 0.55, c = 0.4 }'


def study_of(folder: Path) -> str:
    """Return the study with the fake engine, on local files in ``folder``."""
    text = (STUDIES / "paper.toml").read_text("utf-8")
    text = re.sub(r'engine = "vllm", model = "[^"]+"', SETTING, text)
    # Seeds may choose the same questions, and arms are compared on at least five.
    text = re.sub(r"^seeds = .*$", "seeds = [42, 123]", text, flags=re.MULTILINE)
    text = re.sub(r"^n = \d+$", "n = 5", text, flags=re.MULTILINE)
    text = text.replace('runs = "runs/paper"', f'runs = "{folder / "runs"}"')
    for name in records.BENCHMARKS:
        file = QUESTIONS / f"{FILES.get(name, name)}.jsonl"
        lines = file.read_text("utf-8").splitlines()[: 5 if name == "mbpp" else 40]
        (folder / file.name).write_text("\n".join(lines), "utf-8")
        text = text.replace(f'{{ name = "{name}" }}', f'{{ name = "{name}", data = "{file.name}" }}')
    return text


def reproduced(folder: Path) -> Reproduction:
    text = study_of(folder)
    study = folder / "paper.toml"
    # MBPP runs programs, so one model stands for the five.
    study.write_text(text.replace('name = "mbpp", data', 'name = "mbpp", n = 5, models = ["qwen7b"], data'))
    command("run", study)
    return report(read_study(study), Reproducing(replicates=200))


def keys(table: str) -> list[str]:
    """Return the columns that name a row of a table of the paper."""
    return claims.PRINTED[table][0].partition("|")[0].split()


def printed(table: str) -> list[tuple[str, ...]]:
    """Return the keys of the rows that the paper prints."""
    _, text = claims.PRINTED[table]
    rows = (line.split()[: len(keys(table))] for line in text.splitlines())
    return [tuple(word.replace("_", " ") for word in row) for row in rows]


def check_rows(found: Reproduction, table: str) -> None:
    """Check that a table has the rows of the paper's, in their order."""
    rows = [tuple(str(row[key]) for key in keys(table)) for row in found.tables[table]]
    assert rows == printed(table)
    header = claims.PRINTED[table][0].replace("|", " ").split()
    assert all(name in row for row in found.tables[table][-1:] for name in header)
    assert all({"arm", "paths", "seeds"} <= set(row) for row in found.tables[table])


@pytest.mark.integration
def test_tables_figures_appendix_and_cells_are_the_papers(tmp_path: Path) -> None:
    found = reproduced(tmp_path)
    for table in claims.PRINTED:
        check_rows(found, table)
    assert (found.missing, found.problems) == ([], [])
    assert len(found.tables["arms"]) == 2 * 56 + 3 + 2 + 1
    assert [(row["model"], row["k"]) for row in found.figures["figure2"]] == [
        (model, k) for model in ("Qwen-7B", "Llama-8B", "Mistral-7B") for k in (8, 16, 32)
    ]
    assert len(found.figures["figure3"]) <= 12
    assert len(found.cells) == 56
    assert {cell["against"] for cell in found.cells} == {"sc8"}
    appendix = found.headline["reasoning"]
    assert (appendix["model"], appendix["arm"], appendix["truncated"]) == ("Qwen3.5-9B", "sc32reasoning", 0)
    assert all(row["truncated"] is not None for row in found.tables["arms"])
    names = {file.name for file in write(found, tmp_path / "written")}
    assert "rows of each arm alone" not in (tmp_path / "written/differences.md").read_text()
    tables = {*claims.PRINTED, "arms", "amortisation"}
    own = {f"{name}{ending}" for name in tables for ending in (".tex", ".md")}
    # keff's further columns stand in a second file, where a table has any.
    more = {f"{name}_more{ending}" for name in tables for ending in (".tex", ".md")}
    assert own <= names <= own | more | {"numbers.json", "differences.md"}
    assert {"numbers.json", "differences.md", "table1_more.md", "table1_more.tex"} <= names
