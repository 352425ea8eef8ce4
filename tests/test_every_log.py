"""What every log reader owes: refusing what is foreign, the torn last line, and names of what it tried."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_logs import WRITERS, paths, swe_bench
from keff import plugins
from keff.errors import LogError
from keff.log import Log, find_log
from keff.paper.records import Series
from keff.reading.open import Opening, open_record
from keff.reading.transfer import import_log
from keff.records import Note
from published_records import Truth, series_rows

FIXTURES = Path(__file__).parent / "logs" / "fixtures"
ROWS = [{"id": f"q{i}", "gold_answer": "4", "all_answers": ["4", None, "5"]} for i in range(3)]
NAMES = sorted(plugins.names("log"))
RECORDED = {
    "promptfoo": "promptfoo.json",
    "mlflow": "mlflow_traces.jsonl",
    "opentelemetry": "otel_otlp.jsonl",
}


def example(name: str, folder: Path) -> Path:  # noqa: C901 (one branch per format)
    """Return a small good log of each format."""
    file = folder / name
    if name == "keff_jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    elif name == "csv":
        file.write_text("id,answer\n" + "".join(f"q{i},{j}\n" for i in range(3) for j in range(2)))
    elif name == "jsonl":
        rows = [
            {"question_id": f"q{i}", "epoch": j, "prediction": "4", "target": "4"}
            for i in range(3)
            for j in range(2)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name == "published":
        import numpy as np

        series = Series("m", "gsm8k", (42,), 1024)
        rows = series_rows(series, Truth(0.6, 0.4, trace=10), np.random.default_rng(0), 3)
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(ROWS), file)
    elif name == "evalscope":
        score = {"value": {"acc": 1.0}, "extracted_prediction": "4", "prediction": "It is 4"}
        rows = [
            {
                "index": 2 * i + j,
                "target": "4",
                "sample_score": {"score": score, "sample_id": 2 * i + j, "group_id": i},
            }
            for i in range(3)
            for j in range(2)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name == "every_eval_ever":
        fields = {
            "evaluation_id": "e",
            "model_id": "m",
            "evaluation_name": "toy",
            "output": {"raw": ["It is 4"]},
        }
        rows = [
            fields | {"sample_id": f"q{i}", "evaluation": {"is_correct": True}}
            for i in range(3)
            for _ in range(2)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name == "lighteval":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        doc = {"query": "?", "choices": ["4"], "gold_index": [0]}
        rows = [{"doc": doc, "model_response": {"text": ["It is 4", "5"]}} for _ in range(3)]
        parquet.write_table(pyarrow.Table.from_pylist(rows), file)
    elif name == "helm":
        result = {"success": True, "completions": [{"text": "It is 4"}, {"text": "5"}]}
        states = [
            {"instance": {"id": f"q{i}"}, "train_trial_index": 0, "request": {}, "result": result}
            for i in range(3)
        ]
        file.write_text(json.dumps({"adapter_spec": {"model": "m"}, "request_states": states}))
    elif name == "openai_batch":
        body = {"model": "m", "choices": [{"message": {"content": "It is 4"}, "finish_reason": "stop"}] * 2}
        rows = [
            {"id": f"b{i}", "custom_id": f"request-{i}", "response": {"status_code": 200, "body": body}}
            for i in range(3)
        ]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name == "vllm":
        outputs = [
            {"index": j, "text": "It is 4", "token_ids": [1, 2], "finish_reason": "stop"} for j in range(2)
        ]
        rows = [{"request_id": str(i), "prompt": f"{i}?", "outputs": outputs} for i in range(3)]
        file.write_text(json.dumps(rows))
    elif name == "tau_bench":
        runs = [
            {"task_id": i, "reward": 1.0, "info": {}, "traj": [], "trial": j}
            for j in range(2)
            for i in range(3)
        ]
        file.write_text(json.dumps(runs, indent=2))
    elif name == "alpaca_eval":
        pair = {"generator_1": "a", "output_1": "x", "generator_2": "b", "output_2": "y"}
        rows = [
            pair | {"instruction": f"{i}?", "annotator": judge, "preference": 1.0 + (i + j) % 2}
            for j, judge in enumerate(("gpt4", "claude"))
            for i in range(3)
        ]
        file.write_text(json.dumps(rows, indent=2))
    elif name == "bfcl":
        rows = [{"id": f"simple_{i}", "result": [{"add": '{"a": 1}'}], "latency": 0.5} for i in range(3)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif name in RECORDED:
        return FIXTURES / "real" / RECORDED[name]
    elif name in WRITERS:
        return WRITERS[name](folder, paths())
    elif name == "swe_bench":
        return swe_bench(folder, paths())
    elif name == "inspect_samples":
        return FIXTURES / "real" / "inspect_samples_df.parquet"
    elif name == "run":
        import_log(example("keff_jsonl", folder), file)
    elif text := getattr(plugins.load("log", name), "EXAMPLE", None):
        file.write_text(text)
    else:
        pattern = {"lm_eval": "samples*.jsonl", "inspect_ai": "*.eval"}[name]
        return next(FIXTURES.glob(pattern))
    return file


@pytest.mark.parametrize("name", NAMES)
def test_only_its_own_reader_takes_a_good_log_and_gives_equal_ks(name: str, tmp_path: Path) -> None:
    file = example(name, tmp_path)
    takers = [one for one in NAMES if plugins.load("log", one).refuses(file) is None]
    # The reader of any JSON objects, tried last, may take them too.
    assert set(takers) <= {name, "jsonl"}
    log: Log = find_log(file)
    assert log.name == name
    questions = list(log.questions(file, texts=True))
    assert len({one.id for one in questions}) == len(questions) > 0
    for one in questions:
        k = len(one.answers)
        lists = (one.keys, one.correct, one.tokens, one.confidences, one.slots, one.rules, one.texts)
        assert all(values is None or len(values) == k for values in lists)


@pytest.mark.parametrize("name", NAMES)
def test_foreign_files_are_refused_with_a_reason_and_never_with_a_crash(name: str, tmp_path: Path) -> None:
    log: Log = plugins.load("log", name)
    contents = {
        "empty": b"",
        "nulls": b"\0" * 64,
        "text": b"hello\nworld\n",
        "list": b"[1]\n",
        "half": b'{"a": [' * 9,
    }
    for kind, content in contents.items():
        file = tmp_path / kind
        file.write_bytes(content)
        assert log.refuses(file), kind
    assert log.refuses(tmp_path)


def test_an_encoding_that_no_reader_takes_is_named(tmp_path: Path) -> None:
    file = tmp_path / "notes.bin"
    file.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(LogError, match="UTF-16"):
        find_log(file)


def test_of_a_table_only_the_columns_that_lack_are_named(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello\n")
    with pytest.raises(LogError) as caught:
        find_log(file)
    assert (
        "no id and no answer column found (it has: hello). Name them: --columns id=hello,answer=COLUMN"
        in str(caught.value)
    )
    assert "--format NAME" in str(caught.value)


@pytest.mark.parametrize("name", ["keff_jsonl", "lm_eval", "published"])
@pytest.mark.parametrize("cut", [1, 7, 40])
def test_a_torn_last_line_is_kept_out_and_told(name: str, cut: int, tmp_path: Path) -> None:
    whole = example(name, tmp_path)
    torn = tmp_path / whole.with_suffix(".torn").name
    torn.write_bytes(whole.read_bytes()[: -1 - cut])
    notes: list[Note] = []
    log = plugins.load("log", name)
    before, after = list(log.questions(whole)), list(log.questions(torn, tell=notes.append))
    assert [note.code for note in notes] == ["torn_line"]
    assert "(1 question)" in notes[0].message
    if name == "lm_eval":
        assert [one.id for one in after] == [one.id for one in before]
    else:
        assert [one.id for one in after] == [one.id for one in before][:-1]


@pytest.mark.parametrize("name", ["keff_jsonl", "lm_eval", "published"])
def test_bytes_that_are_no_text_are_an_error_with_their_line(name: str, tmp_path: Path) -> None:
    lines = example(name, tmp_path).read_bytes().splitlines(keepends=True)
    lines[1] = b"\xff\xfe" + lines[1]
    file = tmp_path / "bad.jsonl"
    file.write_bytes(b"".join(lines))
    with pytest.raises(LogError, match=r"bad\.jsonl:2: not UTF-8 text"):
        list(plugins.load("log", name).questions(file))


@pytest.mark.parametrize(
    ("name", "text", "nearest"),
    [
        ("a.csv", b"\xff", "csv: not UTF-8"),
        ("a.jsonl", b'{"id"', "jsonl: the first line"),
        ("a.x", b"[", "JSON"),
    ],
)
def test_a_file_in_no_format_names_the_nearest_reader_alone(
    tmp_path: Path, name: str, text: bytes, nearest: str
) -> None:
    (tmp_path / name).write_bytes(text)
    with pytest.raises(LogError, match="in no format that keff reads") as found:
        open_record(tmp_path / name)
    assert nearest in str(found.value) and str(found.value).count(": ") == 1
    assert "--format NAME says why" in str(found.value)


def test_a_named_format_is_the_only_one_tried(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="csv: the first line"):
        open_record(example("keff_jsonl", tmp_path), Opening(format="csv"))
