"""Reading rows: local files, the hub, and what goes wrong with either."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pyarrow
import pyarrow.parquet
import pytest

from keff import plugins
from keff.errors import PluginError, TaskError
from keff.task import items, select
from keff.tasks._base import read_file

ROWS = [{"question": f"What is {i} + {i}?", "answer": f"So\n#### {2 * i:,}"} for i in range(900, 1300)]


def test_parquet_and_jsonl_give_the_same_items(tmp_path: Path) -> None:
    lines, table = tmp_path / "rows.jsonl", tmp_path / "rows.parquet"
    lines.write_text("\n\n".join(map(json.dumps, ROWS)), "utf-8-sig")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), table)
    one, two = (list(items(plugins.load("task", "gsm8k", data=str(each)))) for each in (lines, table))
    assert one == two
    assert len(one) == len(ROWS)
    assert one[200].gold == "2200"


def test_nested_columns_survive_parquet(data: Path, tmp_path: Path) -> None:
    source = data / "benchmarks" / "hotpotqa.jsonl"
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()[:20]]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "rows.parquet")
    one = plugins.load("task", "hotpotqa", data=str(tmp_path / "rows.parquet"))
    assert list(items(one)) == [one.to_item(row) for row in rows]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('{"question": "a"', ":2: not a JSON line"),
        ("[1, 2]", ":2: expected a JSON object, found list"),
        ("7", ":2: expected a JSON object, found int"),
        ("[" * 100_000, ":2: not a JSON line"),
    ],
)
def test_a_bad_line_is_named(content: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(json.dumps(ROWS[0]) + "\n" + content + "\n", "utf-8")
    with pytest.raises(TaskError, match=f"bad.jsonl{says}"):
        list(read_file(file))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.jsonl").write_bytes(b'{"question": "\xff\xfe"}')
    with pytest.raises(TaskError, match=r"binary\.jsonl: cannot be read"):
        list(read_file(tmp_path / "binary.jsonl"))
    (tmp_path / "not.parquet").write_text("question,answer")
    with pytest.raises(TaskError, match=r"not\.parquet: not a readable Parquet file"):
        list(read_file(tmp_path / "not.parquet"))
    with pytest.raises(TaskError, match=r"rows\.csv: data files end in \.jsonl .* or \.parquet"):
        read_file(tmp_path / "rows.csv")
    with pytest.raises(TaskError, match="no such file"):
        read_file(tmp_path / "gone.jsonl")


def hub(monkeypatch: pytest.MonkeyPatch, load) -> None:
    """Put a stand-in for the package ``datasets`` in the place of the real one."""
    module = ModuleType("datasets")
    module.load_dataset = load  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", module)


def test_an_unreachable_hub_says_how_to_use_a_local_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_names, **_options):
        raise ConnectionError("Couldn't reach 'openai/gsm8k' on the Hub\nTraceback and more")

    hub(monkeypatch, load)
    with pytest.raises(
        TaskError, match=r"openai/gsm8k main test cannot be read .*--data FILE\.jsonl"
    ) as caught:
        select(plugins.load("task", "gsm8k"), 3)
    assert "\n" not in str(caught.value)


def test_without_the_extra_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(PluginError, match=r"--data FILE.*pip install .*\[data\]'"):
        select(plugins.load("task", "gsm8k"), 3)
