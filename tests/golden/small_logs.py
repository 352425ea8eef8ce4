"""Small logs of every format and answer space that keff reads, and of every kind of bad file.

A case is two logs of one kind, ``a`` and ``b``: two models on the same questions. All is drawn by
``random.Random.random`` from the name of the case, so a case added or removed changes no other.
"""

from __future__ import annotations

import csv
import io
import json
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import agent_logs

QUESTIONS, PATHS = 12, 4


@dataclass(frozen=True)
class Space:
    """Answers of one space: a gold one, spellings equal to it, and others (the last may say nothing)."""

    gold: str
    right: tuple[str, ...]
    wrong: tuple[str | None, ...]


NUMERIC = Space("12", ("12", "12", "12.0", "12"), ("13", "14", "1,200", None))
SPACES = {
    "binary": Space("yes", ("yes", "Yes", "true"), ("no", "No.", None)),
    "choice": Space("B", ("B", "(b)", "B."), ("A", "C", "(D)", "")),
    "code": Space(
        "def f():\n    return 1", ("def f():\n    return 1", "def f():\n\n    return 1"), ("f = 2",)
    ),
    "date": Space("2024-03-05", ("2024-03-05", "March 5th, 2024"), ("2023-03-05", "03/04/2024")),
    "exact": Space("blue", ("blue",), ("Blue", "green", " blue")),
    "json": Space('{"a": 1, "b": "x"}', ('{"a": 1, "b": "x"}', '{"b": "x", "a": 1.0}'), ('{"a": 2}', "{")),
    "label:labels=billing,refund,other": Space("refund", ("refund", "Refund"), ("billing", "unknown")),
    "list:inner=numeric": Space("1, 2", ("1, 2", "[1, 2.0]"), ("2, 1", "1", "none")),
    "literal": Space("{1, 2}", ("{1, 2}", "{2, 1}"), ("[1, 2]", "{1", "3")),
    "math": Space(r"\frac{1}{2}", (r"\frac{1}{2}", "0.5", "1/2"), ("x+1", "2", r"\frac{2}{3}")),
    "numeric": Space("1000000", ("1000000", "1,000,000", "1 000 000", "1_000_000"), ("10", "0x1F", "<5")),
    "quantity": Space("5 km", ("5 km", "5000 m"), ("5 m", "3 miles", "5")),
    "set:inner=text": Space("red, blue", ("red, blue", "Blue, red"), ("red", "green, red", None)),
    "sql": Space("SELECT a FROM t", ("SELECT a FROM t", "select  a from t"), ("SELECT b FROM t", "no")),
    "text": Space("queen", ("The Queen.", "queen"), ("king", "C++", "a queen bee", None)),
}


@dataclass(frozen=True)
class Asked:
    """A question with the answers of one model, and what each path took."""

    id: str
    text: str
    gold: str
    answers: list[str | None]
    correct: list[int]
    tokens: list[int]
    seconds: list[float]
    confidences: list[float]
    cluster: str

    @property
    def texts(self) -> list[str]:
        return ["I do not know" if answer is None else f"The answer is {answer}" for answer in self.answers]

    def row(self, *lists: str) -> dict[str, Any]:
        """Return the question as one line of keff's own JSONL."""
        more = {f"all_{name}": getattr(self, name) for name in lists}
        return {"id": self.id, "gold_answer": self.gold, "all_answers": self.answers, **more}


def asked(case: str, side: str, space: Space, n: int = QUESTIONS, k: int = PATHS) -> list[Asked]:
    """Draw the questions of one log: easy and hard ones, b somewhat better than a and dearer."""
    shared, own = random.Random(case), random.Random(f"{case} {side}")
    found = list[Asked]()
    for number in range(n):
        ease = min(0.98, 0.1 + 1.1 * shared.random() ** 0.7 + (0.05 if side == "b" else 0.0))
        correct = [int(own.random() < ease) for _ in range(k)]
        pools = [space.right if right else space.wrong for right in correct]
        found.append(
            Asked(
                id=f"q{number}",
                text=f"What is {number} and {number}?",
                gold=space.gold,
                answers=[pool[int(own.random() * len(pool))] for pool in pools],
                correct=correct,
                tokens=[50 + int(own.random() * 200) * (2 if side == "b" else 1) for _ in range(k)],
                seconds=[round(0.5 + 3 * own.random(), 2) for _ in range(k)],
                confidences=[round((0.4 if right else 0.1) + 0.5 * own.random(), 3) for right in correct],
                cluster=f"c{number // 2}",
            )
        )
    return found


# A writer gets the file it may write (or a folder of that name), the questions, and the side.
Writer = Callable[[Path, Sequence[Asked], str], Path]


def lines(file: Path, rows: Any) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def whole(file: Path, value: object) -> Path:
    file.write_text(json.dumps(value), "utf-8")
    return file


def paths(questions: Sequence[Asked]) -> Iterator[tuple[Asked, int]]:
    return ((one, place) for one in questions for place in range(len(one.answers)))


def keff_jsonl(*lists: str, gold: bool = True, **more: Callable[[Asked], object]) -> Writer:
    def write(file: Path, questions: Sequence[Asked], side: str) -> Path:
        rows = [
            one.row(*lists) | {name: of(one) for name, of in more.items()} | {"model": f"model-{side}"}
            for one in questions
        ]
        return lines(file, rows if gold else [{**row, "gold_answer": None} for row in rows])

    return write


def table(rows: Sequence[Mapping[str, Any]], head: str = "") -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=";" if head else ",", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return head + text.getvalue()


def path_rows(questions: Sequence[Asked]) -> list[dict[str, Any]]:
    return [
        {"id": one.id, "answer": one.answers[j], "gold_answer": one.gold, "tokens": one.tokens[j]}
        for one, j in paths(questions)
    ]


def numbered(questions: Sequence[Asked]) -> list[dict[str, Any]]:
    return [
        {"id": one.id, "gold_answer": one.gold}
        | {f"answer_{j + 1}": answer for j, answer in enumerate(one.answers)}
        for one in questions
    ]


def csv_of(rows: Callable[[Sequence[Asked]], Sequence[Mapping[str, Any]]], head: str = "") -> Writer:
    def write(file: Path, questions: Sequence[Asked], side: str) -> Path:
        del side
        file = file.with_suffix(".csv")
        file.write_text(table(rows(questions), head), "utf-8")
        return file

    return write


def own_names(file: Path, questions: Sequence[Asked], side: str) -> Path:
    del side
    return lines(
        file,
        (
            {"question_id": one.id, "epoch": j, "prediction": one.answers[j], "target": one.gold}
            for one, j in paths(questions)
        ),
    )


def columns(file: Path, questions: Sequence[Asked], side: str) -> Path:
    del side
    rows = path_rows(questions)
    return whole(file.with_suffix(".json"), {name: [row[name] for row in rows] for name in rows[0]})


def scores(file: Path, questions: Sequence[Asked], side: str) -> Path:
    del side
    return lines(file, ({"id": one.id, "score": one.confidences[j]} for one, j in paths(questions)))


def parquet(file: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    file = file.with_suffix(".parquet")
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), file)
    return file


def parquet_lists(file: Path, questions: Sequence[Asked], side: str) -> Path:
    del side
    return parquet(file, [one.row("tokens") for one in questions])


def parquet_rows(file: Path, questions: Sequence[Asked], side: str) -> Path:
    del side
    return parquet(file, path_rows(questions))


def published(file: Path, questions: Sequence[Asked], side: str) -> Path:
    return lines(
        file,
        (
            {
                "model_slug": f"model-{side}",
                "method": "sc",
                "task": "gsm8k",
                "K": len(one.answers),
                "seed": seed,
                "instance_id": f"gsm8k_{one.id}",
                "gold_answer": one.gold,
                "all_answers": one.answers,
                "gen_lens": one.tokens,
                "truncated": [answer is None for answer in one.answers],
                "max_new_tokens": 512,
            }
            for seed in (42, 43)
            for one in questions
        ),
    )


def evalscope(file: Path, questions: Sequence[Asked], side: str) -> Path:
    del side
    rows = list[dict[str, Any]]()
    for group, one in enumerate(questions):
        for answer, right, text in zip(one.answers, one.correct, one.texts, strict=True):
            score = {"value": {"acc": float(right)}, "extracted_prediction": answer, "prediction": text}
            sample = {"score": score, "sample_id": len(rows), "group_id": group}
            rows.append({"index": len(rows), "target": one.gold, "sample_score": sample})
    return lines(file, rows)


def every_eval_ever(file: Path, questions: Sequence[Asked], side: str) -> Path:
    return lines(
        file,
        (
            {
                "evaluation_id": "e",
                "model_id": f"model-{side}",
                "evaluation_name": "sums",
                "sample_id": one.id,
                "output": {"raw": [one.texts[j]]},
                "evaluation": {"is_correct": bool(one.correct[j])},
            }
            for one, j in paths(questions)
        ),
    )


def lighteval(file: Path, questions: Sequence[Asked], side: str) -> Path:
    del side
    rows = [
        {
            "doc": {"query": one.text, "choices": [one.gold], "gold_index": [0]},
            "model_response": {"text": one.texts},
        }
        for one in questions
    ]
    return parquet(file, rows)


def helm(file: Path, questions: Sequence[Asked], side: str) -> Path:
    states = [
        {
            "instance": {
                "id": one.id,
                "input": {"text": one.text},
                "references": [{"output": {"text": one.gold}, "tags": ["correct"]}],
            },
            "train_trial_index": 0,
            "request": {},
            "result": {"success": True, "completions": [{"text": text} for text in one.texts]},
        }
        for one in questions
    ]
    return whole(
        file.with_suffix(".json"), {"adapter_spec": {"model": f"model-{side}"}, "request_states": states}
    )


def openai_batch(file: Path, questions: Sequence[Asked], side: str) -> Path:
    rows = list[dict[str, Any]]()
    for one in questions:
        choices = [{"message": {"content": text}, "finish_reason": "stop"} for text in one.texts]
        usage = {"prompt_tokens": 20, "completion_tokens": sum(one.tokens)}
        body = {"model": f"model-{side}", "choices": choices, "usage": usage}
        response = {"status_code": 200, "body": body}
        rows.append({"id": f"batch-{one.id}", "custom_id": one.id, "response": response})
    return lines(file, rows)


def vllm(file: Path, questions: Sequence[Asked], side: str) -> Path:
    del side
    rows = [
        {
            "request_id": one.id,
            "prompt": one.text,
            "prompt_token_ids": [1, 2, 3],
            "outputs": [
                {"index": j, "text": text, "token_ids": [7] * one.tokens[j], "finish_reason": "stop"}
                for j, text in enumerate(one.texts)
            ],
        }
        for one in questions
    ]
    return whole(file.with_suffix(".json"), rows)


def tau_bench(file: Path, questions: Sequence[Asked], side: str) -> Path:
    del side
    rows = [
        {"task_id": int(one.id[1:]), "reward": float(one.correct[j]), "info": {}, "traj": [], "trial": j}
        for one, j in paths(questions)
    ]
    return whole(file.with_suffix(".json"), rows)


def bfcl(file: Path, questions: Sequence[Asked], side: str) -> Path:
    """Write one run, of one path each, with its score file beside it."""
    model = file.with_suffix("")
    named = [(f"simple_{one.id[1:]}", one) for one in questions]
    results = model / "result" / f"model-{side}" / "BFCL_v4_simple_result.json"
    verdicts = model / "score" / f"model-{side}" / "BFCL_v4_simple_score.json"
    results.parent.mkdir(parents=True)
    verdicts.parent.mkdir(parents=True)
    failed = [{"id": name, "valid": False} for name, one in named if not one.correct[0]]
    head = {"accuracy": 0.5, "correct_count": len(questions) - len(failed), "total_count": len(questions)}
    lines(verdicts, [head, *failed])
    return lines(
        results,
        (
            {"id": name, "result": [{"add": json.dumps({"a": one.answers[0]})}], "latency": one.seconds[0]}
            for name, one in named
        ),
    )


def lm_eval(file: Path, questions: Sequence[Asked], side: str) -> Path:
    folder = file.with_suffix("") / f"model-{side}"
    folder.mkdir(parents=True)
    rows = [
        {
            "doc_id": number,
            "doc": {"question": one.text, "answer": f"#### {one.gold}"},
            "target": f"#### {one.gold}",
            "arguments": {
                "gen_args_0": {"arg_0": one.text, "arg_1": {"until": ["\n\n"], "temperature": 0.7}}
            },
            "resps": [one.texts],
            "filtered_resps": [one.texts[0]],
            "filter": "first",
            "metrics": ["exact_match"],
            "exact_match": float(one.correct[0]),
        }
        for number, one in enumerate(questions)
    ]
    return lines(folder / "samples_gsm8k_2026-11-21T05-03-42.723868.jsonl", rows)


def inspect_header(side: str) -> dict[str, Any]:
    about = {"task": "sums", "model": f"model-{side}", "config": {"epochs": PATHS}, "created": "2026-11-21"}
    return {"version": 2, "status": "success", "eval": about, "plan": {}, "results": {}, "stats": {}}


def inspect_samples(questions: Sequence[Asked]) -> list[dict[str, Any]]:
    return [
        {
            "id": one.id,
            "epoch": j + 1,
            "input": one.text,
            "target": one.gold,
            "output": {
                "completion": one.texts[j],
                "usage": {"input_tokens": 20, "output_tokens": one.tokens[j]},
            },
            "scores": {"match": {"value": "C" if one.correct[j] else "I", "answer": one.answers[j]}},
            "total_time": one.seconds[j],
        }
        for one, j in paths(questions)
    ]


def inspect_json(file: Path, questions: Sequence[Asked], side: str) -> Path:
    return whole(file.with_suffix(".json"), inspect_header(side) | {"samples": inspect_samples(questions)})


def inspect_eval(file: Path, questions: Sequence[Asked], side: str) -> Path:
    file = file.with_suffix(".eval")
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("header.json", json.dumps(inspect_header(side)))
        for sample in inspect_samples(questions):
            packed.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
    return file


def inspect_frame(file: Path, questions: Sequence[Asked], side: str) -> Path:
    rows = [
        {
            "sample_id": f"{sample['id']}/{sample['epoch']}",
            "id": sample["id"],
            "epoch": sample["epoch"],
            "target": sample["target"],
            "input": sample["input"],
            "model": f"model-{side}",
            "score_match": sample["scores"]["match"]["value"],
        }
        for sample in inspect_samples(questions)
    ]
    return parquet(file, rows)


def promptfoo(file: Path, questions: Sequence[Asked], side: str) -> Path:
    results = [
        {
            "id": f"{one.id}-{j}",
            "latencyMs": 1000 * one.seconds[j],
            "prompt": {"raw": one.text},
            "promptIdx": 0,
            "provider": {"id": f"model-{side}", "label": ""},
            "response": {"output": one.texts[j], "tokenUsage": {"prompt": 20, "completion": one.tokens[j]}},
            "success": bool(one.correct[j]),
            "testCase": {"vars": {"q": one.id}, "assert": [{"type": "contains", "value": one.gold}]},
            "vars": {"q": one.id},
        }
        for one, j in paths(questions)
    ]
    return whole(
        file.with_suffix(".json"), {"evalId": "eval-1", "results": {"version": 3, "results": results}}
    )


def mlflow(file: Path, questions: Sequence[Asked], side: str) -> Path:
    del side
    rows = list[dict[str, Any]]()
    for one, j in paths(questions):
        judged = [
            {"assessment_name": "expected", "expectation": {"value": one.gold}},
            {"assessment_name": "correctness", "feedback": {"value": bool(one.correct[j])}},
        ]
        usage = {"input_tokens": 20, "output_tokens": one.tokens[j]}
        span = {
            "parent_span_id": None,
            "attributes": {
                "mlflow.spanInputs": json.dumps({"question": one.text}),
                "mlflow.spanOutputs": json.dumps(one.texts[j]),
            },
        }
        info = {
            "trace_id": f"tr-{one.id}-{j}",
            "state": "OK",
            "trace_metadata": {"mlflow.trace.tokenUsage": json.dumps(usage)},
            "assessments": judged,
            "execution_duration_ms": 1000 * one.seconds[j],
        }
        rows.append({"info": info, "data": {"spans": [span]}})
    return lines(file, rows)


def opentelemetry(file: Path, questions: Sequence[Asked], side: str) -> Path:
    def said(role: str, text: str) -> str:
        return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])

    rows = [
        {
            "name": "chat",
            "context": {"trace_id": f"t{one.id}-{j}", "span_id": f"s{j}"},
            "attributes": {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": f"model-{side}",
                "gen_ai.input.messages": said("user", one.text),
                "gen_ai.output.messages": said("assistant", one.texts[j]),
                "gen_ai.usage.output_tokens": one.tokens[j],
            },
            "events": [
                {
                    "name": "gen_ai.evaluation.result",
                    "attributes": {
                        "gen_ai.evaluation.name": "exact",
                        "gen_ai.evaluation.score.label": "pass" if one.correct[j] else "fail",
                    },
                }
            ],
        }
        for one, j in paths(questions)
    ]
    return lines(file, rows)


def of_an_agent(write: agent_logs.Write) -> Writer:
    """Return the writer of the logs that have a draw of their own, of which each side gets other paths."""

    def written(file: Path, questions: Sequence[Asked], side: str) -> Path:
        del questions
        folder = file.with_suffix("")
        folder.mkdir()
        # Some writers lose a path of the first and the third question.
        whole = [(i, j) for i, j in agent_logs.paths() if i not in (0, agent_logs.FAILED[0])]
        return write(folder, [(i, j) for i, j in whole if (j < 2) == (side == "a")])

    return written


@dataclass(frozen=True)
class Case:
    """Two logs of one kind: ``options`` for every command, ``more`` for some; ``imported`` as runs."""

    write: Writer
    options: str = ""
    more: Mapping[str, str] = field(default_factory=lambda: BRIEF)
    space: Space = NUMERIC
    shape: tuple[int, int] = (QUESTIONS, PATHS)
    imported: bool = False


# Less to compute where a case is about how a log is read; others replay all rules and mix up to 32 paths.
BRIEF = {"replay": "lead_k:2 fixed:3", "mix": "--cap 4"}
FULL: Mapping[str, str] = {}
AIMED = {"analyze": "--retain 0.95 --now 4", "mix": "--cap 8"}


def in_turn(one: Asked) -> list[int]:
    return [place % 3 for place in range(len(one.answers))]


def mixed(one: Asked) -> list[str]:
    return [("small", "large")[place % 2] for place in range(len(one.answers))]


PRICES = '["model-a"]\nprompt = 0.1\noutput = 1.0\n["model-b"]\nprompt = 0.2\noutput = 3.0\n'
KEY = "def key(answer):\n    return answer.strip().rstrip('.0') or None\n"
PRICED = dict.fromkeys(("analyze", "replay", "mix"), "--prices prices.toml")
KEYED = dict.fromkeys(("analyze", "replay", "noise", "compare", "audit"), "--answer-key keys.py:key")

CASES: dict[str, Case] = {
    "keff_jsonl": Case(keff_jsonl(), more=FULL, shape=(20, 5)),
    "keff_jsonl_costs": Case(keff_jsonl("tokens", "seconds", "correct"), more=PRICED, shape=(20, 5)),
    "keff_jsonl_confidences": Case(keff_jsonl("confidences", "tokens"), more=FULL, shape=(30, 6)),
    "keff_jsonl_clusters": Case(keff_jsonl(cluster=lambda one: one.cluster), more=FULL, shape=(20, 5)),
    "keff_jsonl_slots": Case(keff_jsonl(slots=in_turn), shape=(20, 6)),
    "keff_jsonl_branches": Case(keff_jsonl(branches=mixed), shape=(20, 8)),
    "keff_jsonl_no_gold": Case(keff_jsonl(gold=False)),
    "keff_jsonl_aim": Case(keff_jsonl("tokens"), more=AIMED, shape=(40, 8)),
    "keff_jsonl_two_paths": Case(keff_jsonl(), shape=(12, 2)),
    "keff_jsonl_few": Case(keff_jsonl(), shape=(4, 3)),
    "csv": Case(csv_of(path_rows), more=FULL, shape=(20, 5)),
    "csv_numbered": Case(csv_of(numbered)),
    "csv_semicolon": Case(csv_of(path_rows, "sep=;\n")),
    "jsonl": Case(own_names, "--answer-space numeric"),
    "jsonl_columns": Case(columns),
    "jsonl_scores": Case(scores),
    "parquet_lists": Case(parquet_lists),
    "parquet_rows": Case(parquet_rows),
    "published": Case(published, shape=(12, 8)),
    "evalscope": Case(evalscope),
    "every_eval_ever": Case(every_eval_ever, "--answer-space numeric"),
    "lighteval": Case(lighteval, "--answer-space numeric"),
    "helm": Case(helm, "--answer-space numeric"),
    "openai_batch": Case(openai_batch, "--answer-space numeric"),
    "vllm": Case(vllm, "--answer-space numeric"),
    "tau_bench": Case(tau_bench),
    "bfcl": Case(bfcl),
    "lm_eval": Case(lm_eval),
    "inspect_json": Case(inspect_json),
    "inspect_eval": Case(inspect_eval),
    "inspect_samples": Case(inspect_frame),
    "promptfoo": Case(promptfoo, "--answer-space numeric"),
    "mlflow": Case(mlflow, "--answer-space numeric"),
    "opentelemetry": Case(opentelemetry, "--answer-space numeric"),
    **{
        write.__name__: Case(of_an_agent(write), "--answer-space numeric")
        for write in (*agent_logs.WRITERS.values(), agent_logs.swe_bench)
    },
    "run": Case(keff_jsonl("tokens", "seconds"), imported=True),
    "answer_key": Case(keff_jsonl(), more=KEYED),
    **{
        f"space_{name.partition(':')[0]}": Case(keff_jsonl(), f"--answer-space {name} --rescore", space=space)
        for name, space in SPACES.items()
    },
}

GOOD = json.dumps({"id": "q0", "gold_answer": "4", "all_answers": ["4", "5"]}).encode() + b"\n"
BAD: dict[str, tuple[str, bytes]] = {
    "empty": ("a.jsonl", b""),
    "prose": ("a.txt", b"hello\nworld\n"),
    "html": ("a.csv", b"<!doctype html><html><body>Not found</body></html>\n"),
    "half_a_line": ("a.jsonl", GOOD + b'{"id": "q1", "gold_answer"\n' + GOOD.replace(b"q0", b"q2")),
    "id_twice": ("a.jsonl", GOOD + GOOD),
    "not_utf8": ("a.jsonl", GOOD + b"\xff\xfe" + GOOD.replace(b"q0", b"q1")),
    "lists_of_unequal_length": ("a.jsonl", GOOD.replace(b"}", b', "all_correct": [1]}')),
    "answers_no_list": ("a.jsonl", GOOD.replace(b'["4", "5"]', b'"4"')),
    "correct_is_seven": ("a.jsonl", GOOD.replace(b"}", b', "all_correct": [1, 7]}')),
    "tokens_are_words": ("a.jsonl", GOOD.replace(b"}", b', "all_tokens": ["many", 3]}')),
    "csv_without_answer": ("a.csv", b"id,comment\nq0,good\n"),
    "csv_of_other_width": ("a.csv", b"id,answer\nq0,4,5,6\n"),
    "no_zip": ("a.eval", b"PK\x03\x04 not really"),
    "nested_too_deep": ("a.jsonl", b'{"a": ' * 5000),
    "json_list": ("a.json", b"[1, 2, 3]"),
}
