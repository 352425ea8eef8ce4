"""One truth: a quantity of a record has one value, whatever command or page states it.

The walk goes through every command on one record, collects each number with the name of its quantity, and
finds no two values for one, rounding apart.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator
from html import unescape
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import keff
from benchmarks.places import RECORDED
from docs_pages import REPO
from how_many import examples
from keff.analysis.decision import Aim
from keff.analysis.results.decision import Decision, Seconds
from keff.analysis.terms import Terms
from keff.records import Interval

NOW = "8"
SETTINGS = keff.Settings(aim=Aim(), terms=Terms(now=NOW))

# What a figure is, the name of the place that states it, and its value with its limits.
Figure = tuple[str, str, Interval]


def exact(value: float) -> Interval:
    return Interval(value, None, None, "")


def of_analysis(file: Path) -> Iterator[Figure]:
    found = keff.analyze(file, SETTINGS)
    if found.single is not None:
        yield "accuracy of one path", "analyze: single", found.single
    if found.c is not None:
        yield "c", "analyze", found.c
    for k in found.majority or ():
        share = found.curve_at(found.plurality, k)
        if share is not None:
            yield f"accuracy of fixed:{k}", "analyze: plurality", share
    for point in found.curve:
        rule = f"fixed:{point.paths}"
        if point.accuracy is not None:
            yield f"accuracy of {rule}", "analyze: curve", point.accuracy
        yield from of_seconds(rule, "analyze: curve", point.seconds)
    if found.decision.verdict is not None:
        yield from of_seconds(found.decision.policy, "analyze: seconds", found.seconds)
        yield from of_decision(found.decision)


def of_seconds(rule: str, where: str, seconds: Seconds | None) -> Iterator[Figure]:
    if seconds is not None and seconds.p50 is not None and seconds.p95 is not None:
        yield f"median seconds of {rule}", where, seconds.p50
        yield f"p95 seconds of {rule}", where, seconds.p95


def of_decision(decision: Decision) -> Iterator[Figure]:
    rule = decision.policy
    for name, figure in (
        ("paths", decision.expected_paths),
        ("tokens", decision.expected_tokens),
        ("expected kept", decision.kept),
        ("expected accuracy", decision.accuracy),
    ):
        if figure is not None:
            yield f"{name} of {rule}", "analyze: decision", exact(figure.value)
    gain = re.search(r"voting (helped|hurt) by ([\d.]+) points on these questions", decision.because)
    if gain is not None and rule != "fixed:1":
        sign = 1 if gain[1] == "helped" else -1
        yield f"measured gain of {rule}", "analyze: because", exact(sign * float(gain[2]) / 100)


def of_replay(file: Path) -> Iterator[Figure]:
    rules = ["fixed:1", "fixed:2", "fixed:8", "lead_k:2,cap=8", "curtailed:cap=8"]
    found = keff.replay(file, rules, now=NOW)
    assert found.decision is not None
    once = found["fixed:1"].accuracy
    for row in found.policies:
        if row.accuracy is not None:
            yield f"accuracy of {row.policy}", "replay", row.accuracy
            if row.policy == "fixed:1":
                yield "accuracy of one path", "replay: fixed:1", row.accuracy
            elif once is not None and row.policy == found.decision.policy:
                gain = round(row.accuracy.value - once.value, 3)
                yield f"measured gain of {row.policy}", "replay: difference of rows", exact(gain)
        if row.kept is not None:
            yield f"kept of {row.policy}", "replay", row.kept
        yield f"paths of {row.policy}", "replay", exact(row.mean_paths)
        if row.mean_tokens is not None:
            yield f"tokens of {row.policy}", "replay", exact(row.mean_tokens)
        yield from of_seconds(row.policy, "replay", row.seconds)
        if row.expected_kept is not None and row.policy == found.decision.policy:
            yield f"expected kept of {row.policy}", "replay", exact(row.expected_kept)


def of_noise(file: Path) -> Iterator[Figure]:
    found = keff.noise(file)
    yield "accuracy of one path", "noise: score", found.score
    for name, shares in (("pass@1", found.pass_at_k), ("pass^1", found.pass_hat_k)):
        if shares is not None:
            yield "accuracy of one path", f"noise: {name}", shares[1]
    if found.c is not None:
        yield "c", "noise", found.c


def of_audit(file: Path) -> Iterator[Figure]:
    yield "accuracy of one path", "audit: score", keff.audit(file).score


def of_mix(file: Path, folder: Path) -> Iterator[Figure]:
    """The record as a branch beside another one: the answers of other questions, all of them wrong."""
    rows = list(map(json.loads, file.read_text("utf-8").splitlines()))
    other = folder / "shifted.jsonl"
    wrong = [
        row | {"all_answers": last["all_answers"], "all_correct": [0] * len(last["all_answers"])}
        for row, last in zip(rows, [rows[-1], *rows[:-1]], strict=True)
    ]
    for row in wrong:
        for name in [name for name, values in row.items() if name.startswith("all_") and values is None]:
            del row[name]
    other.write_text("".join(json.dumps(row) + "\n" for row in wrong))
    found = keff.mix(file, other, names=["own", "other"], cap=int(NOW))
    yield "accuracy of one path", "mix: branch", found.branches[0].p
    yield "c", "mix: branch", found.branches[0].c
    for line in found.singles:
        if line.branches == ("own",):
            rule = line.policy.removeprefix("cascade:own(").removesuffix(")")
            yield f"accuracy of {rule}", "mix: single", line.accuracy
            yield f"{found.cost_unit} of {rule}", "mix: single", exact(line.cost.value)


def of_atlas(file: Path) -> Iterator[Figure]:
    """The record's line in the documentation, from which README.md and its tables are written."""
    entries = json.loads((REPO / "docs" / "atlas" / "atlas.json").read_text("utf-8"))["entries"]
    (own,) = (entry for entry in entries if entry["name"] == file.stem)
    rule, today = own["policy"], own["today"]
    measured = {"accuracy of one path": "p", "c": "c", f"accuracy of fixed:{today}": "vote"}
    expected = {f"paths of {rule}": "mean_paths", f"expected kept of {rule}": "kept"}
    for name, field in (measured | expected).items():
        if own[field] is not None:
            value = Interval(**own[field])
            yield name, f"atlas: {field}", exact(value.value) if name in expected else value


def of_compare(file: Path, folder: Path) -> Iterator[Figure]:
    """The record against itself with the paths of each question in another order, and fewer of them."""
    rows = file.read_text("utf-8").splitlines()
    other = folder / "other.jsonl"
    rng = np.random.default_rng(0)
    turned = []
    for line in rows:
        row = json.loads(line)
        order = rng.permutation(len(row["all_answers"]))[: max(len(row["all_answers"]) // 2, 2)]
        turned.append(
            {
                k: [v[i] for i in order] if k.startswith("all_") and isinstance(v, list) else v
                for k, v in row.items()
            }
        )
    other.write_text("".join(json.dumps(row) + "\n" for row in turned))
    found = keff.compare(file, other)
    assert isinstance(found, keff.Comparison | keff.ScoreComparison) and found.better is not None
    assert found.better.scores is not None
    first, second = found.better.scores
    yield "change of one path to the other arm", "compare: better", found.better.difference
    yield "accuracy of one path", "compare: scores", exact(first)
    equal = len({len(json.loads(line)["all_answers"]) for line in rows}) == 1
    assert isinstance(found, keff.Comparison) == equal
    if not isinstance(found, keff.Comparison):  # scores alone
        return
    yield "accuracy of one path", "compare: arm", exact(found.arms[0].p)
    yield "change of one path to the other arm", "compare: table", found.delta_p
    yield "change of one path to the other arm", "compare: difference of scores", exact(second - first)
    yield (
        "change of one path to the other arm",
        "compare: difference of arms",
        exact(found.arms[1].p - found.arms[0].p),
    )


def of_report(file: Path, folder: Path) -> Iterator[Figure]:
    """What a reader of the page sees: its tables by their heads, in percent with one digit."""
    page = keff.write_report(file, folder / "page.html", SETTINGS).read_text("utf-8")
    for table in re.findall(r"<table.*?</table>", page, re.DOTALL):
        rows = [
            [
                unescape(re.sub(r"<[^>]+>", " ", cell)).strip()
                for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
            ]
            for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)
        ]
        head = [cell.lower() for cell in rows[0]] if rows else []
        for row in rows[1:]:
            policy = re.search(r"[a-z_]+:[\w.,=]+", row[0]) if row else None
            if policy is None:
                continue
            cells = dict(zip(head, row, strict=False))
            for name, unit in (("accuracy", 100.0), ("paths", 1.0), ("tokens", 1.0)):
                value = re.match(r"[\d.,]+", cells.get(name, ""))
                if value is not None:
                    yield (
                        f"{name} of {policy[0]}",
                        f"report: {name}",
                        exact(float(value[0].replace(",", "")) / unit),
                    )


def walked(file: Path, folder: Path) -> dict[str, list[tuple[str, Interval]]]:
    """Return every figure of a record by its name."""
    found: dict[str, list[tuple[str, Interval]]] = defaultdict(list)
    rows = list(map(json.loads, file.read_text("utf-8").splitlines()))
    labelled = all(row.get("all_correct") is not None for row in rows)
    places = [of_analysis(file), of_replay(file), of_report(file, folder)]
    for place in [*places, of_audit(file), of_mix(file, folder)] if labelled else places:
        for name, where, value in place:
            found[name].append((where, value))
    # Of questions with unequally many paths a vote has the first of each, and a score has all.
    paths = "" if len({len(row["all_answers"]) for row in rows}) == 1 else " (all paths)"
    for place in [of_noise(file), of_compare(file, folder)] if labelled else []:
        for name, where, value in place:
            found[name + paths].append((where, value))
    return found


def apart(one: Interval, other: Interval, *, rounded: bool) -> bool:
    """Whether two figures are two values; where both have limits, these too."""
    slack = 0.0006 if rounded else 1e-6
    pairs = [(one.value, other.value)]
    if one.limits is not None and other.limits is not None:
        pairs += zip(one.limits, other.limits, strict=True)
    return any(
        not math.isclose(a, b, rel_tol=6e-3 if rounded and max(abs(a), abs(b)) > 1 else 1e-6, abs_tol=slack)
        for a, b in pairs
        if not (math.isnan(a) and math.isnan(b))
    )


def contradictions(found: dict[str, list[tuple[str, Interval]]]) -> list[str]:
    """Return what has two values, in words."""
    told = []
    for name, figures in found.items():
        for (where, one), (there, other) in combinations(figures, 2):
            rounded = any(
                place.startswith(("report", "analyze: because", "replay: diff", "atlas"))
                for place in (where, there)
            )
            if apart(one, other, rounded=rounded):
                told.append(f"{name}: {one.text('.4f')} ({where}), {other.text('.4f')} ({there})")
    return told


QUICK = ("boinf_aime2024_Phi-4-reasoning", "cruxeval_output_phind_t0.8", "game24_gpt-4_cot")


def records() -> list[Path]:
    return sorted(file for file in RECORDED.glob("*.jsonl") if "multimodel" not in file.name)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_no_quantity_of_a_record_has_two_values(name: str, tmp_path: Path) -> None:
    found = walked(RECORDED / f"{name}.jsonl", tmp_path)
    for what, where, value in of_atlas(RECORDED / f"{name}.jsonl"):
        found[what].append((where, value))
    assert len(found) > 20
    assert contradictions(found) == []


def shortened(file: Path, folder: Path) -> Path:
    """Return a copy of a record of its first 60 questions and 16 paths: a second or two."""
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()[:60]]
    out = folder / file.name
    out.write_text(
        "".join(
            json.dumps({key: value[:16] if isinstance(value, list) else value for key, value in row.items()})
            + "\n"
            for row in rows
        )
    )
    return out


def test_the_walk_has_all_records() -> None:
    assert len(records()) == 60


# Where a share of the examples of tests is drawn, so many of the records: one of each four, for instance.
STEP = len(records()) // examples(len(records())) if records() else 1


@pytest.mark.integration
@pytest.mark.parametrize("file", records()[::STEP], ids=lambda file: file.stem)
def test_no_quantity_of_any_record_has_two_values(file: Path, tmp_path: Path) -> None:
    assert contradictions(walked(shortened(file, tmp_path), tmp_path)) == []
