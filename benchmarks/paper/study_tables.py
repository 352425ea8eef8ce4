"""Every cell of a study's tables once more, from what servers of known law said, by nothing of keff's.

    python -m benchmarks.paper.study_tables [--small]

Two models on stub servers (HTTP, the protocol of OpenAI) answer three benchmarks under one prompt and under
eight templates, with five seeds. Some replies are cut, before or after their answer, and some have none. The
study is drawn and reported by ``keff study``; its stores are then read with SQL alone, answers by one
expression, and all tables and figures computed by the plain loops of ``loops``. Table 10 is drawn again and
must be as near as chance leaves it; what else rests on random draws is named and left out. Tables are also
compared as printed, in Markdown and in LaTeX.

A question has theta ~ Beta with mean p and correlation c; a prompt sees the question as all others do with
chance ``SHARED``, else it has a theta of its own: c between templates is then SHARED^2 c.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betaincinv

from benchmarks.paper import loops
from benchmarks.paper.loops import Arm
from benchmarks.places import QUESTIONS
from keff.paper.records import BENCHMARKS
from keff.paper.tables import printed_tables
from keff.report.tables import render

LAWS = {"strong": (0.7, 0.5), "weak": (0.4, 0.3)}
"""Accuracy p and correlation c of each model."""
SHARED = 0.7
CUT, SILENT = 0.04, 0.03
TASKS = ("hotpotqa", "arc_challenge", "gsm8k")
DEEP, WIDE = 16, 8
"""Paths under one prompt, and under templates."""

RANDOM = re.compile(
    r"(^|\.)(gap_(lo|hi)|c_(lo|hi)|(rho|corrected)_(lo|hi)|k_star_conservative|table10\..*"
    r"|precision\..*|share_below_0\.001|draws|\w*cross_fitted|best_slot_gain)$"
)


# ---- the servers --------------------


@dataclass(frozen=True)
class Quiz:
    """One question of a benchmark: its text, its right answer, and wrong ones."""

    task: str
    text: str
    gold: str
    wrong: tuple[str, ...]


def quizzes(task: str, count: int) -> list[dict[str, Any]]:
    """Return the first rows of a benchmark, its contexts cut to two paragraphs."""
    rows = [json.loads(line) for line in (QUESTIONS / f"{task}.jsonl").read_text("utf-8").splitlines()]
    if task == "hotpotqa":
        for row in rows:
            row["context"] = {name: values[:2] for name, values in row["context"].items()}
    if task == "arc_challenge":
        rows = [row for row in rows if row["choices"]["label"] == list("ABCD")]
    return rows[:count]


def quiz(task: str, row: dict[str, Any]) -> Quiz:
    """Return a row as a question with its answers."""
    if task == "gsm8k":
        gold = row["answer"].rpartition("####")[2].strip().replace(",", "")
        return Quiz(task, row["question"], gold, tuple(str(int(gold) + step) for step in (1, 2, 5, 10)))
    if task == "arc_challenge":
        gold = row["answerKey"]
        return Quiz(task, row["question"], gold, tuple(one for one in "ABCD" if one != gold))
    return Quiz(task, row["question"], row["answer"], ("zyx", "wvut", "qponm", "qponm lkj"))


def uniform(*parts: object) -> float:
    """Return a number in (0, 1) that depends on the parts alone."""
    digest = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return (int.from_bytes(digest[:6], "big") + 0.5) / 2**48


@cache
def theta(model: str, prompt: str, text: str) -> float:
    """Return the chance of a right path on a question under a prompt."""
    p, c = LAWS[model]
    whose = "all" if uniform("shared", model, prompt, text) < SHARED else prompt
    total = (1 - c) / c
    return float(betaincinv(p * total, (1 - p) * total, uniform("theta", model, whose, text)))


def reply(model: str, asked: Quiz, prompt: str, seed: int) -> tuple[str, str]:
    """Return the text of a path and why it ended."""
    draw = [uniform(part, model, prompt, asked.text, seed) for part in ("right", "which", "end")]
    if draw[0] < theta(model, prompt, asked.text):
        answer = asked.gold
    else:
        answer = asked.wrong[int(draw[1] ** 2 * len(asked.wrong))]
    text = f"Path {seed} thinks about it. Final answer: {answer}"
    if draw[2] < CUT:
        return (f"{text}\n\nTo check", "length") if draw[2] < CUT / 2 else ("Path thinks about", "length")
    # What says no answer is one where any text is.
    silent = asked.task != "hotpotqa" and draw[2] > 1 - SILENT
    return ("I cannot work this out." if silent else text, "stop")


@dataclass
class Stub:
    """One server: the questions that it knows by their text, and what it said to whom."""

    model: str
    known: list[Quiz]
    said: Counter[tuple[str, int, str]] = field(default_factory=Counter[tuple[str, int, str]])
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the response to a chat request."""
        whole = "\n".join(message["content"] for message in body["messages"])
        (asked,) = [one for one in self.known if one.text in whole]
        prompt = whole.replace(asked.text, "")
        drawn = [reply(self.model, asked, prompt, body["seed"] + i) for i in range(body.get("n", 1))]
        with self.lock:
            self.said.update((asked.text, body["seed"] + i, text) for i, (text, _) in enumerate(drawn))
        choices = [
            {"index": i, "finish_reason": end, "message": {"role": "assistant", "content": text}}
            for i, (text, end) in enumerate(drawn)
        ]
        used = {"prompt_tokens": len(whole.split()), "completion_tokens": 12 * len(drawn)}
        return {
            "id": "x",
            "object": "chat.completion",
            "model": self.model,
            "choices": choices,
            "usage": used,
        }


@contextmanager
def serving(stub: Stub) -> Iterator[str]:
    """Run a server on a free port of 127.0.0.1 and give its base URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

        def do_GET(self) -> None:
            self.give({"object": "list", "data": [{"id": stub.model}]})

        def do_POST(self) -> None:
            self.give(stub.answer(json.loads(self.rfile.read(int(self.headers["content-length"])))))

        def give(self, value: dict[str, Any]) -> None:
            body = json.dumps(value).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            self.wfile.write(head.encode() + body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()


# ---- the study --------------------


@dataclass(frozen=True)
class Size:
    """How much is drawn."""

    models: tuple[str, ...] = tuple(LAWS)
    tasks: tuple[str, ...] = TASKS
    seeds: tuple[int, ...] = (42, 123, 456, 789, 1024)
    n: int = 20
    questions: int = 60


SMALL = Size(("strong",), ("hotpotqa", "gsm8k"), (1, 2), 8, 12)


def written(folder: Path, size: Size, addresses: dict[str, str]) -> Path:
    """Write the study and its questions."""
    lines = [f'name = "again"\nruns = "{folder / "runs"}"\nn = {size.n}\nseeds = {list(size.seeds)}']
    for model, url in addresses.items():
        lines.append(f'[[models]]\nname = "{model}"\nmodel = "{model}"\nbase_url = "{url}"')
    for task in size.tasks:
        rows = quizzes(task, size.questions)
        (folder / f"{task}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        lines.append(f'[[tasks]]\nname = "{task}"\ndata = "{task}.jsonl"')
    lines.append(f'[[arms]]\nname = "sc"\nk = {DEEP}\ntables = ["saturation", "reasoning"]')
    lines.append(f'[[arms]]\nname = "pt"\ntemplates = "all"\nk = {WIDE}\nagainst = "sc"')
    file = folder / "study.toml"
    file.write_text("\n".join(lines) + "\n")
    return file


def keff(*arguments: object) -> None:
    """Run a command; what it says is shown where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "keff", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"keff {' '.join(map(str, arguments))}: {done.stderr}")


def store_lines(folder: Path, seed: int, known: dict[str, Quiz], said: Counter[Any]) -> list[dict[str, Any]]:
    """Return what a run's store holds as lines of the published layout, read by SQL.

    Every path must be what the server said for its seed, so it is taken off ``said``.
    """
    with closing(sqlite3.connect(folder / "paths.sqlite")) as database:
        asked = database.execute("select item, messages from items order by position").fetchall()
        paths = database.execute(
            "select item, text, finish, tokens, seed from paths where error is null order by item, path, slot"
        ).fetchall()
    lines = []
    for item, messages in asked:
        whole = "\n".join(message["content"] for message in json.loads(messages))
        (own,) = [one for text, one in known.items() if text in whole]
        drawn = [path[1:] for path in paths if path[0] == item]
        said.subtract((own.text, path_seed, text) for text, _, _, path_seed in drawn)
        answers = [re.search(r"Final answer: (.*)", text) for text, *_ in drawn]
        lines.append(
            {
                "task": own.task,
                "seed": seed,
                "instance_id": own.text,
                "K": len(drawn),
                "gold_answer": own.gold,
                "all_answers": [found and found[1] for found in answers],
                "truncated": [finish == "length" for _, finish, _, _ in drawn],
                "gen_lens": [tokens for _, _, tokens, _ in drawn],
            }
        )
    return lines


def narrowed(arm: Arm, k: int) -> Arm:
    """Return an arm's first k paths."""
    names = ("all_answers", "truncated", "gen_lens")
    return Arm([line | {"K": k} | {name: line[name][:k] for name in names} for line in arm.lines])


# ---- everything again --------------------


def again(size: Size, arms: dict[tuple[str, str, str], Arm]) -> dict[str, Any]:
    """Return what ``numbers.json`` should hold."""
    benchmarks = [BENCHMARKS[task] for task in size.tasks]
    single: dict[str, list[dict[str, Any]]] = {}
    places = [(arm, task, model) for arm in ("sc", "pt") for task in size.tasks for model in size.models]
    makers: dict[str, Any] = {
        "table1": loops.table1,
        "table2": lambda arm: [loops.table2(arm)],
        "table4": lambda arm: [loops.adaptive(arm)],
        "table9": loops.table9,
        "table11": loops.table11,
        "figure2": loops.figure2,
        "saturation": loops.observed,
        "reasoning": lambda arm: [
            {"p": arm.p, "c": (c := loops.pearson(arm.y)), "ceiling": 1 / c, "truncated": arm.cut.mean()}
            | {"k_eff": loops.worth(arm.paths, c)}
            | loops.adaptive(arm)
        ],
    }
    for name, task, model in places:
        arm, about = arms[model, task, name], BENCHMARKS[task]
        row = {"task": f"{about.label} ({about.domain})", "model": model, "arm": name, "paths": arm.paths}
        row["seeds"] = len(size.seeds)
        single.setdefault("arms", []).append(row | loops.summary(arm))
        for table, make in makers.items() if name == "sc" else ():
            single.setdefault(table, []).extend(row | one for one in make(arm))
    cells, slots = [], dict[str, list[Arm]]()
    for task in size.tasks:
        for model in size.models:
            sc, pt = (narrowed(arms[model, task, name], WIDE) for name in ("sc", "pt"))
            cells.append(loops.cell(model, BENCHMARKS[task], sc, pt))
            slots.setdefault(BENCHMARKS[task].label, []).append(pt)
    points = loops.figure3(cells, benchmarks)
    pair = {"arm": "pt", "against": "sc", "paths": WIDE, "seeds": len(size.seeds)}
    paired = {
        "table3": loops.table3(cells, benchmarks),
        "table8": loops.table8(cells),
        "figure3": points,
        "templates": loops.templates(slots),
    }
    rows = single | {name: [row | pair for row in own] for name, own in paired.items()}
    reasoning = rows.pop("reasoning")
    figures = {name: rows.pop(name) for name in ("figure2", "saturation", "figure3", "templates")}
    head = loops.headline(cells, points) | {"reasoning": reasoning[0]}
    head |= {"not_in_figure3": {}} | ({"reasoning_models": reasoning} if len(reasoning) > 1 else {})
    return {"tables": rows, "figures": figures, "headline": head, "cells": [row | pair for row in cells]}


PILOT_DRAWS = 200
FAR = 5
"""Standard errors that a mean or a deviation of other random draws may be away."""


def pilots(arm: Arm, rows: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return c of the first 4 paths of n instances that are drawn again and again, with their rows."""
    own = [arm.y[rows & (arm.own == one), :4] for one in range(len(arm.instances))]
    own = [each for each in own if len(each)]
    drawn = (np.concatenate([own[one] for one in rng.integers(0, len(own), n)]) for _ in range(PILOT_DRAWS))
    found = np.array([loops.pearson(each) for each in drawn])
    return found[~np.isnan(found)]


def unlike_pilots(arm: Arm, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the numbers of Table 10 that other random draws do not give, within ``FAR`` standard errors."""
    rng = np.random.default_rng(0)
    every, first = np.ones(len(arm.y), bool), arm.seeds == arm.seeds.min()
    for row in rows:
        c, single = (pilots(arm, kept, row["n"], rng) for kept in (every, first))
        stars = np.array([loops.star(min(one, 1.0)) for one in c], float)
        # Theirs are 500 draws. The error of a deviation is that of a mean of squares.
        for values, name in ((c, "c_mean"), (stars, "k_star_mean")):
            error = values.std() * math.sqrt(1 / 500 + 1 / PILOT_DRAWS)
            if abs(values.mean() - row[name]) > FAR * error:
                yield f"table10 {name} of {row['n']}: {row[name]}, again {values.mean()}"
        # Not of K*: where c comes near 0 a single draw is most of its deviation.
        for values, name in ((c, "c_std"), (single, "single_seed_c_std")):
            squares = (values - values.mean()) ** 2
            error = squares.std() * math.sqrt(1 / 500 + 1 / PILOT_DRAWS)
            if abs(squares.mean() - row[name] ** 2) > FAR * error:
                yield f"table10 {name} of {row['n']}: {row[name]}, again {values.std()}"


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> tuple[int, Counter[str], list[str]]:
    """Return how many numbers agree, which were left out, and those that differ."""
    known, agree, left, differ = dict(loops.leaves(ours)), 0, Counter[str](), list[str]()
    for where, value in loops.leaves(theirs):
        if RANDOM.search(where):
            left[where.rpartition(".")[2]] += 1
        elif where not in known or not loops.same(where, known[where], value):
            differ.append(f"{where}: {value!r}, again {known.get(where, 'not computed')!r}")
        else:
            agree += not isinstance(value, str)
    theirs_too = dict(loops.leaves(theirs))
    differ += [
        f"{where}: missing, again {value!r}" for where, value in known.items() if where not in theirs_too
    ]
    return agree, left, differ


def printed(ours: dict[str, Any], theirs: dict[str, Any], out: Path) -> tuple[int, list[str]]:
    """Return how many files of tables hold our numbers as text, and those that do not.

    Numbers that rest on random draws are taken from ``theirs``, and those that agree: what rounding leaves of
    them may decide a last digit.
    """
    same, differ = 0, list[str]()
    tables = ours["tables"] | {"amortisation": ours["tables"]["table4"]}
    tables["table10"] = theirs["tables"]["table10"]
    for name, rows in tables.items():
        beside = theirs["tables"]["table4" if name == "amortisation" else name]
        whole = [
            mine
            | {
                key: value
                for key, value in other.items()
                if RANDOM.search(key) or (value is not None and loops.same(key, mine.get(key), value))
            }
            for mine, other in zip(rows, beside, strict=True)
        ]
        for table in printed_tables(name, whole):
            for form, ending in (("markdown", "md"), ("latex", "tex")):
                file = out / f"{table.name}.{ending}"
                text = render(table, form)  # type: ignore[arg-type]
                if file.read_text("utf-8") == text:
                    same += 1
                else:
                    differ.append(f"{file.name} is not\n{text}")
    return same, differ


@dataclass(frozen=True)
class Told:
    """What the comparison found."""

    agree: int
    files: int
    left: Counter[str]
    differ: list[str]
    covered: tuple[int, int]
    """Intervals of c that hold the law's, and all of them."""


def compared(folder: Path, size: Size) -> Told:
    """Draw and report a study, and compute everything again."""
    known = [quiz(task, row) for task in size.tasks for row in quizzes(task, size.questions)]
    stubs = {model: Stub(model, known) for model in size.models}
    with ExitStack() as running:
        addresses = {model: running.enter_context(serving(stub)) for model, stub in stubs.items()}
        file = written(folder, size, addresses)
        keff("study", "run", file)
    out = folder / "report"
    keff("study", "report", file, "-o", out, "--replicates", 200, "--no-figures")
    theirs = json.loads((out / "numbers.json").read_text("utf-8"))
    wrong = [*theirs.pop("problems"), *theirs.pop("missing")]
    theirs.pop("checks")
    texts = {one.text: one for one in known}
    arms: dict[tuple[str, str, str], Arm] = {}
    for model in size.models:
        for task in size.tasks:
            for name in ("sc", "pt"):
                runs = [(seed, folder / "runs" / model / task / f"{name}-{seed}") for seed in size.seeds]
                said = stubs[model].said
                arms[model, task, name] = Arm(
                    [line for seed, run in runs for line in store_lines(run, seed, texts, said)]
                )
        unkept = [key for key, count in stubs[model].said.items() if count]
        wrong += (
            [f"{model}: {len(unkept)} replies are not in the stores, such as {unkept[0]}"] if unkept else []
        )
    ours = again(size, arms)
    agree, left, differ = differences(ours, theirs)
    files, unlike = printed(ours, theirs, out)
    rows = theirs["tables"]["table10"]
    for (model, task, name), arm in arms.items():
        label = f"{BENCHMARKS[task].label} ({BENCHMARKS[task].domain})"
        own = [row for row in rows if (row["model"], row["task"]) == (model, label)]
        # Of a dozen questions one draw in a hundred is far from the others.
        wrong += unlike_pilots(arm, own) if name == "sc" and size.n >= 20 else []
    rows = theirs["tables"]["arms"]
    truth = [LAWS[row["model"]][1] * (1 if row["arm"] == "sc" else SHARED**2) for row in rows]
    held = sum(row["c_lo"] <= c <= row["c_hi"] for row, c in zip(rows, truth, strict=True))
    return Told(agree, files, left, [*wrong, *differ, *unlike], (held, len(rows)))


def main() -> None:
    """Print how many numbers and files agree, and name those that do not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="one model, two benchmarks, two seeds")
    size = SMALL if parser.parse_args().small else Size()
    with tempfile.TemporaryDirectory() as folder:
        told = compared(Path(folder), size)
    print(f"left out: {told.left.total():,} ({', '.join(sorted(told.left))})")
    print("\n".join(told.differ[:60]) or "every other number agrees")
    print(f"intervals of c that hold the law's: {told.covered[0]} of {told.covered[1]}")
    whole = told.agree + len(told.differ)
    print(
        f"claim: numbers of a study on stub servers computed again | {told.agree:,} of {whole:,}, "
        f"and {told.files} files of tables as printed | all"
    )


if __name__ == "__main__":
    main()
