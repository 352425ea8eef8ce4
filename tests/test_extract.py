"""The records that tests read are all here, as pinned, and hold facts only."""

from __future__ import annotations

import gzip
import importlib.util
import json
import random
import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.places import unpacked

DATA = Path(__file__).resolve().parent / "data"
SCRIPTS = DATA.parents[1] / "scripts"


@cache
def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_file_is_here_as_it_was_pinned() -> None:
    assert (DATA / "SHA256SUMS").read_text("utf-8") == script("write_extract").checksums()
    assert sum(file.stat().st_size for file in DATA.glob("*/*.gz")) < 3_000_000


def test_every_file_has_a_source() -> None:
    named = re.findall(r"`([\w*.-]+)`", (DATA / "SOURCES.md").read_text("utf-8"))
    for file in DATA.glob("*/*.gz"):
        stem = file.name.removesuffix(".gz").removesuffix(".jsonl")
        assert any(re.fullmatch(name.replace("*", ".*"), stem) for name in named), stem


@pytest.mark.slow
def test_recordings_hold_no_text_of_a_question() -> None:
    known = {*script("write_extract").FACTS, "meta"}
    for file in (DATA / "recorded").glob("*.jsonl.gz"):
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                assert row.keys() <= known and row.get("meta", {}).keys() <= {"rm_score"}
                assert row["id"] and len(row["all_answers"]) == len(row["all_correct"])


@pytest.mark.slow
def test_invented_rows_and_reference_values_are_what_their_scripts_make(tmp_path: Path) -> None:
    extract, reference = script("write_extract"), script("write_reference")
    for name, made in extract.MADE.items():
        extract.write(tmp_path / name, made(random.Random(name)))
        kept = (DATA / "benchmarks" / f"{name}.jsonl.gz").read_bytes()
        assert gzip.decompress((tmp_path / name).read_bytes()) == gzip.decompress(kept)
    assert reference.text() == reference.REFERENCE.read_text("utf-8")


def test_what_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="part of the repository"):
        unpacked(tmp_path, tmp_path / "unpacked")
