"""Reading the twelve benchmarks with the real package ``datasets`` from a stand-in for the hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from hub_server import hub, repository
from keff import plugins

pytestmark = pytest.mark.integration

pytest.importorskip("datasets", reason="reading the hub needs datasets: pip install 'keff[data]'")

FILES = {
    "arc_challenge": "arc_challenge",
    "boolq": "boolq",
    "cruxeval": "cruxeval",
    "drop": "drop",
    "gsm8k": "gsm8k",
    "hellaswag": "hellaswag",
    "hotpotqa": "hotpotqa",
    "math": "math500",
    "mbpp": "mbpp",
    "mmlu": "mmlu",
    "triviaqa": "triviaqa",
    "winogrande": "winogrande",
}
ROWS = 12
READ = """
import json, sys
from keff import plugins
from keff.errors import TaskError
from keff.task import items
for name, options in json.loads(sys.argv[1]):
    task = plugins.load("task", name, **options)
    try:
        found = [(item.id, item.gold, item.cluster, list(item.messages)) for item in items(task)]
    except TaskError as error:
        found = str(error)
    print(json.dumps([name, found]))
"""


def read(address: str, cache: Path, *tasks: tuple[str, dict[str, str]]) -> dict[str, object]:
    """Read tasks in a process that takes the address for the hub: ``datasets`` looks once, when imported."""
    place = {"HF_ENDPOINT": address, "HF_HOME": str(cache), "HF_HUB_DISABLE_TELEMETRY": "1"}
    command = [sys.executable, "-c", READ, json.dumps(tasks)]
    done = subprocess.run(
        command, env=os.environ | place, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(line) for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def slices(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """The first rows of every benchmark as local files."""
    folder, found = tmp_path_factory.mktemp("slices"), {}
    for task, name in FILES.items():
        found[task] = folder / f"{name}.jsonl"
        with (data / "benchmarks" / f"{name}.jsonl").open(encoding="utf-8") as lines:
            found[task].write_text("".join(islice(lines, ROWS)), encoding="utf-8")
    yield found


def test_all_twelve_from_the_hub_are_what_they_are_from_a_file(
    slices: dict[str, Path], tmp_path: Path
) -> None:
    sets = {task: plugins.load("task", task).data_set for task in slices}
    repositories = {
        one.hub: repository(one.config, one.splits[0], slices[task].read_bytes())
        for task, one in sets.items()
    }
    with hub(repositories) as address:
        there = read(address, tmp_path / "cache", *((task, {}) for task in slices))
    here = read("", tmp_path / "none", *((t, {"data": str(f)}) for t, f in slices.items()))
    assert there == here
    assert all(isinstance(found, list) and len(found) == ROWS for found in there.values())


def test_passages_are_streamed_when_asked_for(data: Path, tmp_path: Path) -> None:
    file = data / "benchmarks" / "triviaqa_rc_with_context.jsonl"
    with hub({"mandarjoshi/trivia_qa": repository("rc", "validation", file.read_bytes())}) as address:
        there = read(address, tmp_path, ("triviaqa", {"config": "rc"}))
    assert there == read(address, tmp_path, ("triviaqa", {"config": "rc", "data": str(file)}))
    assert not list(tmp_path.rglob("*.arrow"))


def test_what_the_hub_lacks_is_one_line_with_the_way_out(tmp_path: Path) -> None:
    with hub({"openai/gsm8k": repository("main", "train", b'{"question": "1+1?"}\n')}) as address:
        found = read(address, tmp_path, ("gsm8k", {"split": "train"}), ("mmlu", {}))
    assert "openai/gsm8k main train: row 1" in str(found["gsm8k"]) and "answer" in str(found["gsm8k"])
    line = str(found["mmlu"])
    assert "cannot be read from the hub" in line and "--data FILE.jsonl" in line and "\n" not in line
