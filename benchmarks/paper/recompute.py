"""Every number of a reproduction once more, from the lines of the records, by nothing of keff's.

Writes complete records in the published layout, reproduces them, and computes tables, figures, cells and the
numbers of the text again: answers are scored here, pairs of paths are looped over, predictions come from
log-gamma functions, votes over subsets from hypergeometric sums and polynomials, tests from scipy. Those that
rest on random draws, or on the lower limit of c, are named and left out.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import string
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln, ndtr

from keff.paper import records as published
from keff.paper.reproduce import Reproducing, reproduce
from tests.rigs.published_records import write_all

SAME = 1e-9
# Second derivatives by differences have some seven digits.
ROUGH = {"c_second_order": 1e-5}
RANDOM = re.compile(
    r"(^|\.)(gap_(lo|hi)|(rho|corrected)_(lo|hi)|k_star_conservative|table10\..*"
    r"|precision\..*|share_below_0\.001|draws|\w*cross_fitted|best_slot_gain|intervals_with_zero)$"
)
KS = (4, 8, 16, 32)


# ---- the records --------------------


def number(text: str) -> float:
    return float(text.replace(",", "").removesuffix("."))


def words(text: str) -> list[str]:
    bare = "".join(one for one in text.lower() if one not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", bare).split()


def f1(answer: str, gold: str) -> float:
    ours, theirs = words(answer), words(gold)
    both = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * both / (len(ours) + len(theirs)) if both else 0.0


def right(task: str, answer: str | None, gold: str) -> bool:
    if answer is None:
        return False
    if task == "gsm8k":
        return abs(number(answer) - number(gold)) <= 1e-3
    if task == "hotpotqa":
        return f1(answer, gold) >= 0.5
    return answer.strip().lower() == gold.strip().lower()


class Arm:
    """Rows of one arm: 0/1 scores [n, K], seeds, instances, and what votes (None abstains)."""

    def __init__(self, lines: list[dict[str, Any]]) -> None:
        task, self.lines = lines[0]["task"], lines
        self.seeds = np.array([line["seed"] for line in lines])
        names = [line["instance_id"] for line in lines]
        self.instances = list(dict.fromkeys(names))
        self.own = np.array([self.instances.index(name) for name in names])
        self.cut = np.array([line.get("truncated") or [False] * line["K"] for line in lines])
        self.y = np.array([self._scores(task, line) for line in lines]) * ~self.cut
        self.p = float(self.y.mean())

    @staticmethod
    def _scores(task: str, line: dict[str, Any]) -> list[bool]:
        if "all_correct" in line:
            return [bool(one) for one in line["all_correct"]]
        if "all_f1s" in line:
            return [one >= 0.5 for one in line["all_f1s"]]
        return [right(task, answer, line["gold_answer"]) for answer in line["all_answers"]]

    def part(self, rows: np.ndarray) -> Arm:
        return Arm([line for line, kept in zip(self.lines, rows, strict=True) if kept])


def arms(file: Path) -> dict[tuple[str, str], Arm]:
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in map(json.loads, file.read_text("utf-8").splitlines()):
        parts.setdefault((line["task"], line["method"]), []).append(line)
    return {name: Arm(lines) for name, lines in parts.items()}


# ---- estimators --------------------


def pairs(y: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    return combinations(y.T.astype(float), 2)  # type: ignore[return-value]


def phi(a: np.ndarray, b: np.ndarray) -> float:
    spread = a.std() * b.std()
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread else math.nan


def pearson(y: np.ndarray) -> float:
    known = [value for value in (phi(a, b) for a, b in pairs(y)) if not math.isnan(value)]
    return float(np.mean(known)) if known else math.nan


def eq3(y: np.ndarray) -> float:
    p = y.mean()
    return float(np.mean([(a * b).mean() - p * p for a, b in pairs(y)]) / (p * (1 - p)))


def anova(y: np.ndarray) -> float:
    """ICC(1) from the mean squares between and within questions."""
    n, k = y.shape
    means = y.mean(axis=1)
    between = k * ((means - y.mean()) ** 2).sum() / (n - 1)
    within = ((y - means[:, None]) ** 2).sum() / (n * (k - 1))
    return float((between - within) / (between + (k - 1) * within))


def second_order(y: np.ndarray) -> float:
    """Eq. 3 less its leading bias, with the second derivatives of (w - u^2) / (u - u^2) by differences."""
    n, k = y.shape
    s = y.sum(axis=1)
    sample = np.stack([s / k, s * (s - 1) / (k * (k - 1))])
    at, spread, h = sample.mean(axis=1), np.cov(sample), 1e-4

    def g(u: float, w: float) -> float:
        return (w - u * u) / (u - u * u)

    u, w = at
    uu = (g(u + h, w) - 2 * g(u, w) + g(u - h, w)) / h**2
    uw = (g(u + h, w + h) - g(u + h, w - h) - g(u - h, w + h) + g(u - h, w - h)) / (4 * h * h)
    return eq3(y) - (uu * spread[0, 0] / 2 + uw * spread[0, 1]) / n


def worth(k: int, c: float) -> float:
    return k / (1 + (k - 1) * c)


def first(y: np.ndarray, k: int) -> np.ndarray:
    """The strict majority of the first k paths, half at a tie."""
    votes = 2 * y[:, :k].sum(axis=1) - k
    return (np.sign(votes) + 1) / 2


def log_choose(n: int, k: int) -> float:
    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def upper_half(mass: Callable[[int], float], k: int) -> float:
    return sum(mass(j) * (0.5 if 2 * j == k else 1.0) for j in range((k + 1) // 2, k + 1))


@cache
def of_subsets(s: int, n: int, k: int) -> float:
    """The majority of k of n paths of which s are right, over all subsets: hypergeometric."""
    return upper_half(lambda j: math.comb(s, j) * math.comb(n - s, k - j) / math.comb(n, k), k)


def subsets(y: np.ndarray, k: int) -> np.ndarray:
    return np.array([of_subsets(int(s), y.shape[1], k) for s in y.sum(axis=1)])


def binomial(k: int, p: float) -> float:
    return upper_half(lambda j: math.comb(k, j) * p**j * (1 - p) ** (k - j), k)


def beta_binomial(k: int, p: float, c: float) -> float:
    if c <= 0:
        return binomial(k, p)
    a, b = p * (1 - c) / c, (1 - p) * (1 - c) / c
    return upper_half(
        lambda j: math.exp(log_choose(k, j) + float(betaln(j + a, k - j + b) - betaln(a, b))), k
    )


@cache
def wins(own: int, others: tuple[int, ...], silent: int, k: int) -> float:
    """The chance, ties shared, that an answer held by ``own`` paths leads among k drawn without return."""
    total = 0.0
    for m in range(1, min(own, k) + 1):
        # State: paths drawn from the others, and how many of them tie.
        state = {(0, 0): 1.0}
        for count in others:
            step: dict[tuple[int, int], float] = {}
            for (drawn, ties), ways in state.items():
                for j in range(min(count, m) + 1):
                    key = (drawn + j, ties + (j == m))
                    step[key] = step.get(key, 0.0) + ways * math.comb(count, j)
            state = step
        for (drawn, ties), ways in state.items():
            rest = k - m - drawn
            if 0 <= rest <= silent:
                total += math.comb(own, m) * ways * math.comb(silent, rest) / (1 + ties)
    return total / math.comb(own + sum(others) + silent, k)


def plurality(arm: Arm, k: int) -> float:
    """Answers of one meaning vote as one: all right ones here, and wrong ones by their text."""
    credit = []
    for line, scores, cuts in zip(arm.lines, arm.y, arm.cut, strict=True):
        held = Counter(
            None if answer is None or cut else "right" if score else re.sub(r"\W", "", answer.lower())
            for answer, score, cut in zip(line["all_answers"], scores, cuts, strict=True)
        )
        silent, own = held.pop(None, 0), held.pop("right", 0)
        credit.append(wins(own, tuple(sorted(held.values())), silent, k))
    return float(np.mean(credit))


def star(c: float, epsilon: float = 0.025) -> int:
    return 32 if c <= 0 else max(1, math.ceil((math.sqrt((1 - c) / epsilon) - 1) / c + 1 - 1e-12))


def clustered_t(values: np.ndarray, own: np.ndarray) -> tuple[float, float]:
    """The limits of a mean around it, instances being the units: t with their number less one."""
    units = own.max() + 1
    sums = [(values[own == one] - values.mean()).sum() for one in range(units)]
    error = math.sqrt(units / (units - 1) * np.square(sums).sum()) / len(values)
    lo, hi = stats.t.interval(0.95, units - 1)
    return float(lo * error), float(hi * error)


def cross_run(arm: Arm) -> float:
    """Pairs of paths of one instance under different seeds."""
    met = total = 0.0
    for one in range(len(arm.instances)):
        counts = arm.y[arm.own == one].sum(axis=1)
        for a, b in combinations(counts, 2):
            met += a * b
            total += arm.y.shape[1] ** 2
    return (met / total - arm.p**2) / (arm.p * (1 - arm.p))


def held_out(arm: Arm, ks: tuple[int, ...]) -> dict[str, list[float]]:
    order = np.arange(len(arm.instances))
    np.random.default_rng(2026).shuffle(order)
    half = np.isin(arm.own, order[: len(order) // 2])
    found: dict[str, list[float]] = {}
    for k in ks:
        both = []
        for fit, test in ((half, ~half), (~half, half)):
            pilot, seen = arm.y[fit][:, :4], first(arm.y[test], k).mean()
            bb, alone = beta_binomial(k, pilot.mean(), pearson(pilot)), binomial(k, pilot.mean())
            both.append((seen, bb, alone, abs(bb - seen), abs(alone - seen)))
        for name, value in zip(
            ("observed", "bb", "binomial", "bb_error", "binomial_error"), np.mean(both, axis=0), strict=True
        ):
            found.setdefault(name, []).append(float(value))
    return found


# ---- tables --------------------


def table1(arm: Arm) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    tokens = np.array([line["gen_lens"] for line in arm.lines])
    for k in (1, *KS):
        y = arm.y[:, :k]
        means = [y[arm.seeds == seed].mean() for seed in sorted(set(arm.seeds))]
        row: dict[str, Any] = {"k": k, "p": np.mean(means), "p_std": np.std(means, ddof=1), "k_eff": 1.0}
        row["tokens"] = tokens[:, :k].sum(axis=1).mean()
        if k > 1:
            c = pearson(y)
            row |= {"c": c, "agree": np.mean([(a == b).mean() for a, b in pairs(y)]), "k_eff": worth(k, c)}
            row |= {"c_eq3": eq3(y), "c_corrected": anova(y), "c_second_order": second_order(y)}
            row |= {"ceiling": 1 / c, "percent_of_ceiling": 100 * worth(k, c) * c}
        rows.append(row)
    return rows


def table2(names: dict[str, str], arm: Arm) -> dict[str, Any]:
    c = {k: pearson(arm.y[:, :k]) for k in KS}
    row = names | {"c_pilot": c[4], "mv": first(arm.y, 32).mean(), "plurality": plurality(arm, 32)}
    row |= {f"k_eff_{k}": worth(k, c[k]) for k in KS}
    return row | {"bb": beta_binomial(32, arm.p, c[32]), "binomial": binomial(32, arm.p)}


def adaptive(arm: Arm) -> dict[str, Any]:
    y, c = arm.y, pearson(arm.y[:, :4])
    k = star(c)
    if k >= 32:
        raise SystemExit("the records are drawn so that K* is below 32")
    votes, all_votes = first(y, k).mean(), first(y, 32).mean()
    some, every = subsets(y, k), subsets(y, 32)
    gap, (lo, hi) = (some - every).mean(), clustered_t(some - every, arm.own)
    return {
        "average_gap_lo": gap + lo,
        "average_gap_hi": gap + hi,
        "c_pilot": c,
        "c_corrected": anova(y[:, :4]),
        "c_cross_run": cross_run(arm),
        "k_star": k,
        "mv_star": votes,
        "mv": all_votes,
        "retained": votes / all_votes,
        "net_cost": (k + 4) / 32,
        "repaid_after": math.ceil(400 / (32 - k)),
        "cost_at_1000": (400 + 1000 * k) / 32000,
        "average_star": some.mean(),
        "average": every.mean(),
        "average_retained": some.mean() / every.mean(),
        "plurality_star": plurality(arm, k),
        "plurality": plurality(arm, 32),
    }


def table9(arm: Arm) -> list[dict[str, Any]]:
    found = held_out(arm, (1, *KS))
    return [
        {
            "k": k,
            "mv": first(arm.y, k).mean(),
            "bb_error": found["bb_error"][place],
            "binomial_error": found["binomial_error"][place],
            "average": subsets(arm.y, k).mean(),
            "gain": found["observed"][place] - found["observed"][0],
            "bb_gain": found["bb"][place] - found["bb"][0],
        }
        for place, k in enumerate(KS, 1)
    ]


def table11(names: dict[str, str], arm: Arm) -> list[dict[str, Any]]:
    c, rows = pearson(arm.y[:, :4]), []
    for epsilon in (0.01, 0.025, 0.05, 0.1):
        k = star(c, epsilon)
        row = names | {"epsilon": epsilon, "k_star": k, "mv_star": None, "retained": None}
        row["average_retained"] = None
        if k <= 32:
            row["mv_star"] = first(arm.y, k).mean()
        if k < 32:
            row["retained"] = first(arm.y, k).mean() / first(arm.y, 32).mean()
            row["average_retained"] = subsets(arm.y, k).mean() / subsets(arm.y, 32).mean()
        rows.append(row)
    return rows


# ---- the matrix --------------------


def weighted_gain(y: np.ndarray) -> float:
    """Accuracies of slots as weights, learned and judged on the same rows, against equal ones."""
    margin = (2 * y - 1) @ y.mean(axis=0)
    credit = np.where(np.abs(margin) < 1e-9, 0.5, margin > 0)
    return float((credit - first(y, y.shape[1])).mean())


def over_largest(y: np.ndarray) -> float:
    """Mean of each pair's correlation over the largest that its two accuracies allow."""
    ratios = []
    for a, b in pairs(y):
        low, high = sorted((a.mean(), b.mean()))
        if low > 0 and high < 1:
            ratios.append(phi(a, b) / math.sqrt(low * (1 - high) / (high * (1 - low))))
    return float(np.mean(ratios))


def oracle_expected(arm: Arm) -> float:
    p, k, n = arm.p, arm.y.shape[1], len(arm.y)
    c = min(max(anova(arm.y), 0.0), 1.0)
    a, b = p * (1 - c) / c, (1 - p) * (1 - c) / c
    tie = math.exp(log_choose(k, k // 2) + float(betaln(k / 2 + a, k / 2 + b) - betaln(a, b)))
    return tie * (float(ndtr(0.5 * math.sqrt(k / (n * p * (1 - p) * (1 - c))))) - 0.5)


def cell(model: str, task: str, sc: Arm, pt: Arm) -> dict[str, Any]:
    about, before, after = published.BENCHMARKS[task], pearson(sc.y), pearson(pt.y)
    accuracy = pt.y.mean(axis=0), sc.y.mean(axis=0)
    block = pt.p * (1 - pt.p) / pt.y.mean(axis=1).var(ddof=1)
    answers = [line.get("all_answers") for line in sc.lines]
    known = None
    if all(answers) and "all_correct" not in sc.lines[0]:
        known = np.mean([len({one.lower() for one in line if one}) / len(line) for line in answers])
    corrected = anova(sc.y), anova(pt.y)
    return {
        "model": published.MODELS[model],
        "benchmark": about.label,
        "domain": about.domain,
        "n_sc": len(sc.y),
        "n_pt": len(pt.y),
        "p_sc": sc.p,
        "p_pt": pt.p,
        "rho_sc": before,
        "rho_pt": after,
        "delta_rho": (after - before) / abs(before),
        "delta_k_eff": worth(8, after) - worth(8, before),
        "mv_sc": first(sc.y, 8).mean(),
        "mv_pt": first(pt.y, 8).mean(),
        "diversity_sc": known,
        "slot_cv": accuracy[0].std() / accuracy[0].mean(),
        "sc_slot_cv": accuracy[1].std() / accuracy[1].mean(),
        "weighted_gain": weighted_gain(pt.y),
        "sc_oracle_gain": weighted_gain(sc.y),
        "sc_oracle_expected": oracle_expected(sc),
        "block_over_vote": block / worth(8, after),
        "phi_ratio_change": over_largest(pt.y) / over_largest(sc.y) - 1,
        "corrected": (corrected[1] - corrected[0]) / abs(corrected[0]),
        "valid": sc.p >= 0.02,
    }


def table3(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for about in published.BENCHMARKS.values():
        own = [one for one in cells if one["benchmark"] == about.label and one["valid"]]
        names = ("delta_rho", "delta_k_eff", "rho_sc", "rho_pt", "corrected", "phi_ratio_change")
        row = {"domain": about.domain, "benchmark": about.label, "space": about.space, "n": len(own)}
        rows.append(row | {name: np.mean([one[name] for one in own]) for name in names})
    return rows


def table8(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for domain in ("QA", "Sci/MC", "Commonsense", "NLU", "Code", "Math"):
        own = [one for one in cells if one["domain"] == domain and one["valid"]]
        change = [one["mv_pt"] - one["mv_sc"] for one in own]
        row = {"domain": domain, "n": len(own), "delta": np.mean(change), "delta_std": np.std(change, ddof=1)}
        rows.append(row | {name: np.mean([one[name] for one in own]) for name in ("mv_sc", "mv_pt")})
    return rows


def figure3(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for about in published.BENCHMARKS.values():
        own = [one for one in cells if one["benchmark"] == about.label]
        known = [one["diversity_sc"] for one in own if one["diversity_sc"] is not None]
        if known:
            change = np.mean([one["delta_rho"] for one in own if one["valid"]])
            row = {"benchmark": about.label, "domain": about.domain}
            rows.append(row | {"diversity": np.mean(known), "delta_rho": change})
    return rows


def templates(found: dict[str, list[Arm]]) -> list[dict[str, Any]]:
    rows = []
    for label, own in found.items():
        each = [
            [[1.0 if a is b else phi(a, b) for b in slots] for a in slots]
            for slots in (list(arm.y.T.astype(float)) for arm in own)
        ]
        rows.append({"benchmark": label, "cells": len(own), "matrix": np.mean(each, axis=0).tolist()})
    return rows


def fisher(fit: Any, n: int) -> dict[str, float]:
    """A correlation with its p-value and the 95% interval that is normal on the scale of atanh."""
    at, half = math.atanh(fit.statistic), float(stats.norm.ppf(0.975)) / math.sqrt(n - 3)
    lo, hi = math.tanh(at - half), math.tanh(at + half)
    return {"r": fit.statistic, "p": fit.pvalue, "r_lo": lo, "r_hi": hi}


def headline(cells: list[dict[str, Any]], points: list[dict[str, Any]]) -> dict[str, Any]:
    valid = [one for one in cells if one["valid"]]
    change = [one["delta_rho"] for one in valid]
    qa, maths = ([one["delta_rho"] for one in valid if one["domain"] == name] for name in ("QA", "Math"))
    fit = stats.pearsonr([one["diversity"] for one in points], [one["delta_rho"] for one in points])
    slots = stats.pearsonr([one["slot_cv"] for one in cells], [one["weighted_gain"] for one in cells])

    def normal(method: str) -> float:
        return float(stats.mannwhitneyu(qa, maths, alternative="less", method=method).pvalue)

    def side(own: list[dict[str, Any]]) -> dict[str, Any]:
        row = {"cells": len(own)}
        row |= {"mean_cv": _mean(own, "slot_cv"), "gain": _mean(own, "weighted_gain")}
        high = [one["slot_cv"] > 0.225 for one in own]
        return row | {"share_high_cv": np.mean(high) if own else None}

    near = [one for one in cells if one["sc_slot_cv"] <= 0.24]
    ratios = [one["block_over_vote"] for one in cells if one["p_pt"] >= 0.02 and one["n_pt"] >= 20]
    three = {row["benchmark"]: row for row in table3(cells)}
    own = next(one for one in cells if (one["model"], one["benchmark"]) == ("Qwen-32B", "MATH"))
    numbers: dict[str, Any] = {
        "cells": len(cells),
        "valid": len(valid),
        "reduced": sum(value < 0 for value in change),
        "not_reduced": [f"{one['model']} {one['benchmark']}" for one in valid if one["delta_rho"] >= 0],
        "mean_delta_rho": np.mean(change),
        "mean_delta_k_eff": _mean(valid, "delta_k_eff"),
        "range_delta_rho": [min(change), max(change)],
        "mann_whitney": {"n_qa": len(qa), "n_math": len(maths), "p": normal("exact")}
        | {"p_normal": normal("asymptotic")},
        "predictor": {"n": len(points), **fisher(fit, len(points))},
        "weighted_voting": {
            "cells": len(cells),
            **fisher(slots, len(cells)),
            "high_cv": side([one for one in cells if one["slot_cv"] > 0.225]),
            "low_cv": side([one for one in cells if one["slot_cv"] <= 0.225]),
            "low_accuracy": side([one for one in cells if one["mv_pt"] < 0.3]),
            "high_accuracy": side([one for one in cells if one["mv_pt"] >= 0.3]),
        },
        "oracle": {
            "cells": len(near),
            "largest_gain": max(one["sc_oracle_gain"] for one in near),
            "mean_gain": _mean(near, "sc_oracle_gain"),
            "mean_expected_of_equal_slots": _mean(near, "sc_oracle_expected"),
        },
        "block": {
            "cells": len(ratios),
            "mean": np.mean(ratios),
            "std": np.std(ratios),
            "largest": max(ratios),
        },
        "math_qwen32b": {"delta_rho": own["delta_rho"]},
    }
    for domain in ("QA", "Code"):
        parts = [row["delta_rho"] for row in three.values() if row["domain"] == domain]
        numbers[f"domain_{domain}"] = {"delta_rho": np.mean(parts)}
    for name, labels in (
        ("choice", ("ARC-C", "MMLU", "HellaSwag", "WinoGrande")),
        ("math", ("GSM8K", "MATH")),
    ):
        parts = [three[label]["delta_rho"] for label in labels]
        numbers[f"range_{name}"] = {"least": max(parts), "most": min(parts)}
    return numbers


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([row[name] for row in rows])) if rows else math.nan


def again(root: Path) -> dict[str, Any]:
    """Return what ``numbers.json`` should hold, but for the numbers that rest on random draws."""
    names = {series: _names(series) for series in published.SERIES}
    read = {series: arms(root / series.file)[series.task, "sc"] for series in published.SERIES}
    thinking = arms(root / published.REASONING.file)["gsm8k", "sc"]
    gsm8k = [series for series in published.SERIES if series.task == "gsm8k"]
    two = []
    for series in gsm8k:
        found = held_out(read[series], KS[1:])
        for place, k in enumerate(KS[1:]):
            values = {name: column[place] for name, column in found.items()}
            two.append(names[series] | {"k": k} | values)
    cells, slots = [], dict[str, list[Arm]]()
    for file, model, tasks in published.matrix_files():
        parts = arms(root / file)
        for task in tasks:
            sc, pt = parts[task, "sc"], parts[task, "sc_prompttpl"]
            cells.append(cell(model, task, sc, pt))
            slots.setdefault(published.BENCHMARKS[task].label, []).append(pt)
    order = [about.label for about in published.BENCHMARKS.values()]
    cells.sort(key=lambda one: order.index(one["benchmark"]))
    points = figure3(cells)
    four = [names[series] | adaptive(read[series]) for series in published.SERIES]
    head = headline(cells, points)
    c = pearson(thinking.y)
    head["reasoning"] = {"p": thinking.p, "c": c, "ceiling": 1 / c, "k_eff": worth(32, c)}
    head["reasoning"] |= {"truncated": thinking.cut.mean()} | adaptive(thinking) | _names(published.REASONING)
    last = [row for row in two if row["k"] == 32]
    for where, rows, keys in (
        ("adaptive_k", four, ("repaid_after", "cost_at_1000", "net_cost", "retained")),
        ("held_out", last, ("bb_error", "binomial_error")),
    ):
        head[where] = {f"{key}_least": min(row[key] for row in rows) for key in keys}
        head[where] |= {f"{key}_most": max(row[key] for row in rows) for key in keys}
    head["not_in_figure3"] = dict.fromkeys(("MBPP", "CruxEval"), "scores only, no answers")
    return {
        "tables": {
            "table1": [names[published.SERIES[0]] | row for row in table1(read[published.SERIES[0]])],
            "table2": [table2(names[series], read[series]) for series in gsm8k],
            "table3": table3(cells),
            "table4": four,
            "table8": table8(cells),
            "table9": [_names(published.REASONING) | row for row in table9(thinking)],
            "table11": [row for series in gsm8k for row in table11(names[series], read[series])],
        },
        "figures": {
            "figure2": two,
            "saturation": [names[series] | row for series in gsm8k for row in observed(read[series])],
            "figure3": points,
            "templates": templates({label: slots[label] for label in order}),
        },
        "headline": head,
        "cells": cells,
    }


def _names(series: published.Series) -> dict[str, str]:
    about = published.BENCHMARKS[series.task]
    return {"task": f"{about.label} ({about.domain})", "model": published.MODELS[series.model]}


def observed(arm: Arm) -> list[dict[str, Any]]:
    rows = table1(arm)
    return [{"k": row["k"], "k_eff": row["k_eff"], "c": rows[-1]["c"]} for row in rows]


def leaves(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every number, text and unknown of nested values, by its place."""
    if isinstance(value, dict):
        for name, below in value.items():
            yield from leaves(below, f"{where}.{name}" if where else str(name))
    elif isinstance(value, list):
        for place, below in enumerate(value):
            yield from leaves(below, f"{where}.{place}")
    else:
        yield where, value


def same(where: str, ours: Any, theirs: Any) -> bool:
    """Agreement to ``SAME``; JSON has no NaN, so that an undefined number is null there."""
    if isinstance(ours, float) and math.isnan(ours):
        ours = None
    if isinstance(ours, str | None) or isinstance(theirs, str | None):
        return ours == theirs
    within = ROUGH.get(where.rpartition(".")[2], SAME)
    return math.isclose(ours, theirs, rel_tol=within, abs_tol=within)


def main() -> None:
    """Print how many numbers agree, by table, and name those that do not."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=1, help="sets of records, each drawn anew")
    wanted = parser.parse_args().seeds
    counts, differ, random = Counter[str](), list[str](), Counter[str]()
    for seed in range(wanted):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            write_all(root, seed, trace=5)
            numbers = reproduce(root, Reproducing(replicates=50)).numbers()
            known = dict(leaves(again(root)))
        for name in ("missing", "problems", "checks"):
            numbers.pop(name)
        for where, theirs in leaves(numbers):
            table = ".".join(where.split(".")[: 1 if where.startswith(("cells", "headline")) else 2])
            if RANDOM.search(where):
                random[where.rpartition(".")[2]] += 1
            elif where not in known or not same(where, known[where], theirs):
                differ.append(f"{where}: {theirs!r}, again {known.get(where, 'not computed')!r}")
            elif not isinstance(theirs, str):
                counts[table] += 1
    for table, count in sorted(counts.items()):
        print(f"{table:22} {count:6,}")
    names = ", ".join(sorted(name for name in random if not name.isdigit()))
    print(f"left out: {random.total():,} ({names})")
    print("\n".join(differ) or "every other number agrees")
    total = counts.total()
    print(f"claim: numbers of the reproduction computed again | {total:,} of {total + len(differ):,} | all")


if __name__ == "__main__":
    main()
