"""--answer-key: one function in sampler, analysis and gateway; trusted from the command line only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import keff
from keff import answers
from keff.answers.parts import workers
from keff.errors import LogError
from keff.gateway.vote.extraction import reader_of
from keff.plan import Plan
from keff.reading.open import Opening, open_record
from keff.reading.transfer import import_log
from keff.sampling.manifest import Manifest
from keff.usercode import UserCode

SOURCE = """
import time
from pathlib import Path

Path({mark!r}).write_text("ran")

def key(answer):
    if "boom" in answer:
        raise KeyError(answer)
    if "list" in answer:
        return [answer]
    if "hang" in answer:
        time.sleep(60)
    print("noise on stdout")
    return None if "none" in answer else answer.split()[-1].lower()
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(workers, "_TRUSTED", {})
    path = tmp_path / "keys.py"
    path.write_text(SOURCE.format(mark=str(tmp_path / "mark")))
    return path


def trusted(file: Path) -> str:
    return answers.key_spec(answers.trust(UserCode.parse(f"{file}:key", "answer key")), None)


def log(tmp_path: Path, *lines: list[str]) -> Path:
    path = tmp_path / "log.jsonl"
    rows = [{"id": f"q{i}", "gold_answer": "x one", "all_answers": line} for i, line in enumerate(lines)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_function_keys_answers_and_never_ends_a_reading(file: Path) -> None:
    space = answers.space(trusted(file))
    said = {text: answers.read(space, text) for text in ("the ONE", "boom", "list", "none", "a one")}
    assert said["the ONE"].key == said["a one"].key == "one"
    assert said["boom"].rule == "the answer key raises KeyError"
    assert said["list"].rule == "the answer key returns list, not str or None"
    assert said["none"].rule == "the answer key returns None"
    assert [said[text].key for text in ("boom", "list", "none")] == [None] * 3
    assert space.correct("x one", ["two", "y ONE"])


@pytest.mark.slow
def test_a_function_that_hangs_abstains_and_then_ends_in_one_line(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "KEY_SECONDS", 0.2)
    space = answers.space(trusted(file))
    assert answers.read(space, "the one").key == "one"
    assert answers.read(space, "hang 1").rule == "the answer key takes more than 0.2 s"
    space.key("hang 2")
    with pytest.raises(Exception, match=r"the answer key keys.py:key hangs or ends its process"):
        space.key("hang 3")


def test_a_run_records_name_and_hash_and_needs_the_flag_again(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = trusted(file)
    run = tmp_path / "run"
    import_log(log(tmp_path, ["a one", "b ONE", "two"], ["x", "none", "x"]), run, Opening(answer_space=spec))
    config = Manifest.read(run).config
    assert json.loads(config.task["space"].removeprefix("key:")) == {
        "code": "keys.py:key",
        "sha256": UserCode.parse(f"{file}:key", "answer key").stamp.sha256,
    }
    assert str(tmp_path) not in (run / "manifest.json").read_text()
    record = open_record(run, Opening(answer_space=spec))
    assert list(record.ballot.keys) == [("one", "one", "two"), ("x", None, "x")]
    assert record.ballot.questions[0].correct == (1, 1, 0)

    monkeypatch.setattr(workers, "_TRUSTED", {})
    (tmp_path / "mark").unlink()
    with pytest.raises(LogError, match=r"keyed by keys.py:key.*add --answer-key FILE.py:function"):
        open_record(run)
    assert not (tmp_path / "mark").exists()
    assert open_record(run, Opening(answer_space="exact")).ballot.keys[0] == ("a one", "b ONE", "two")

    file.write_text(file.read_text() + "\n# changed\n")
    changed = trusted(file)
    with pytest.raises(LogError, match="name the same file, unchanged"):
        open_record(run, Opening(answer_space=changed))


def test_a_plan_is_refused_without_the_flag_and_served_with_it(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = trusted(file)
    plan = Plan(policy="lead_k:3", space=spec, estimates={})
    reader = reader_of(plan)
    assert reader.slow
    choice = {"message": {"content": "I say: the ONE"}, "finish_reason": "stop"}
    assert reader.read(choice).key == "one"
    monkeypatch.setattr(workers, "_TRUSTED", {})
    with pytest.raises(Exception, match="add --answer-key"):
        reader_of(plan)


def test_a_log_cannot_name_a_function(file: Path, tmp_path: Path) -> None:
    row = {
        "id": "q",
        "all_answers": ["a", "b"],
        "answer_space": f'key:{{"code": "{file}:key", "sha256": ""}}',
    }
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(LogError, match="--answer-key"):
        open_record(path)
    assert not (tmp_path / "mark").exists()


@pytest.mark.slow
def test_every_command_takes_the_flag_that_a_joined_record_asks_for(file: Path, tmp_path: Path) -> None:
    first = log(tmp_path, *[["one", "the one", "two"]] * 12)
    second = first.rename(tmp_path / "first.jsonl").with_name("second.jsonl")
    second.write_text((tmp_path / "first.jsonl").read_text().replace("two", "a ONE"))
    own, both = ("--answer-key", f"{file}:key"), tmp_path / "both.jsonl"
    assert keff("join", tmp_path / "first.jsonl", second, "-o", both, *own).returncode == 0
    assert json.loads(both.read_text().splitlines()[0])["all_keys"] == ["one", "one", "two", *["one"] * 3]
    mixed = keff("mix", both, "--json", *own)
    assert mixed.returncode == 0, mixed.stderr
    assert {each["name"] for each in json.loads(mixed.stdout)["branches"]} == {"first", "second"}


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        ("os.write(3, b'[[[\\n')\n    return answer", "takes more than"),
        ("return '\\ud834'", "half a surrogate pair"),
    ],
)
def test_a_function_that_spoils_its_reply_abstains(tmp_path: Path, body: str, rule: str) -> None:
    file = tmp_path / "spoils.py"
    file.write_text(f"import os\ndef key(answer):\n    {body}\n")
    said = answers.read(answers.space(trusted(file)), "4")
    assert said.key is None
    assert rule in said.rule
