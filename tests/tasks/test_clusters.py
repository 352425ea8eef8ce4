"""Items that share a passage, a twin or a question share a cluster, on real rows and on made ones."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from keff import plugins
from keff.task import items


def load(name: str, rows: list[dict], folder: Path, **options: object):
    file = folder / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return plugins.load("task", name, data=str(file), **options)


def blank(sentence: str, one: str = "cup", two: str = "plate", answer: str = "1") -> dict:
    return {"sentence": sentence, "option1": one, "option2": two, "answer": answer}


def test_winogrande_twins(tmp_path: Path) -> None:
    rows = [
        blank("The cup fell on the plate and the _ was whole."),
        blank("The cup fell on the plate and the _ was broken.", answer="2"),
        blank("The cup fell on the plate and the _ was chipped."),
        blank("Ann left because the _ was dirty and she had none to eat from that day."),
        blank("Ann left because the _ was dirty and she had none to eat from that day.", "mug", "plate"),
    ]
    found = [item.cluster for item in items(load("winogrande", rows, tmp_path))]
    assert found[0] == found[1]
    assert len(set(found)) == 4


def test_winogrande_twins_of_the_real_rows_differ_little_and_swap_the_answer(data: Path) -> None:
    file = data / "benchmarks" / "winogrande.jsonl"
    clusters: dict[str, list] = {}
    for item in items(plugins.load("task", "winogrande", data=str(file))):
        clusters.setdefault(item.cluster, []).append(item)
    pairs = [each for each in clusters.values() if len(each) == 2]
    assert max(map(len, clusters.values())) == 2
    assert len(pairs) > 30
    swapped = sum(
        set(one.meta["options"]) == set(two.meta["options"])
        and one.meta["options"]["AB".index(one.gold)] != two.meta["options"]["AB".index(two.gold)]
        for one, two in pairs
    )
    assert swapped == len(pairs)


def test_passages_are_clusters(data: Path) -> None:
    for name, column in (("boolq", "passage"), ("drop", "section_id")):
        file = data / "benchmarks" / f"{name}.jsonl"
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        sizes = Counter(item.cluster for item in items(plugins.load("task", name, data=str(file))))
        assert sorted(sizes.values()) == sorted(Counter(row[column] for row in rows).values())
        assert max(sizes.values()) > 1


def test_a_repeated_question_of_triviaqa_is_one_cluster(data: Path, tmp_path: Path) -> None:
    file = data / "benchmarks" / "triviaqa.jsonl"
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()[:3]]
    found = list(items(load("triviaqa", [*rows, rows[1]], tmp_path)))
    assert found[3].id == f"{found[1].id}#2"
    assert found[3].cluster == found[1].id
    assert found[3].messages == found[1].messages


def test_the_evidence_of_triviaqa_is_shown_only_on_request(data: Path) -> None:
    file = str(data / "benchmarks" / "triviaqa_rc_with_context.jsonl")
    bare = list(items(plugins.load("task", "triviaqa", data=file)))
    full = list(items(plugins.load("task", "triviaqa", data=file, config="rc", context_chars=500)))
    for one, two in zip(bare, full, strict=True):
        assert (one.id, one.gold) == (two.id, two.gold)
        question = one.messages[0]["content"]
        content = two.messages[0]["content"]
        assert content.startswith("Context:\n")
        assert content.endswith(question)
        assert 400 < len(content) - len(question) <= 500 + len("Context:\n\n\n")


def test_numbered_options_are_lettered(tmp_path: Path) -> None:
    row = {"id": "x", "question": "Which?", "choices": {"text": ["p", "q", "r"], "label": ["1", "2", "3"]}}
    (item,) = items(load("arc_challenge", [{**row, "answerKey": "3"}], tmp_path))
    assert item.gold == "C"
    assert item.messages[0]["content"] == "Question: Which?\nA. p\nB. q\nC. r"
    (unlabelled,) = items(load("arc_challenge", [{**row, "answerKey": ""}], tmp_path))
    assert unlabelled.gold is None
