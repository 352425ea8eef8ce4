"""Every estimator of the paper's tables by plain loops, by nothing of keff's.

Answers are scored here, pairs of paths are looped over, predictions come from log-gamma functions, votes over
subsets from hypergeometric sums and polynomials, tests from scipy.
"""

from __future__ import annotations

import json
import math
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import betaln, gammaln, ndtr

SAME = 1e-9
# Second derivatives by differences have some seven digits.
ROUGH = {"c_second_order": 1e-5}
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

    @property
    def paths(self) -> int:
        return self.y.shape[1]

    @property
    def ks(self) -> tuple[int, ...]:
        """The numbers of paths that the tables show."""
        return tuple(k for k in KS if k <= self.paths)


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


def anova(y: np.ndarray, units: float | None = None) -> float:
    """ICC(1) from the mean squares between and within rows, of which ``units`` are independent."""
    n, k = y.shape
    means, m = y.mean(axis=1), units or n
    between = k * ((means - y.mean()) ** 2).sum() / n * m / (m - 1)
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


def independent(arm: Arm) -> float:
    """As many independent rows would give the mean its variance, instances being the units."""
    rows, units = len(arm.own), arm.own.max() + 1
    counts = arm.y.sum(axis=1) - arm.y.sum(axis=1).mean()
    alone = sum(value * value for value in counts)
    together = sum(counts[arm.own == one].sum() ** 2 for one in range(units)) * units / (units - 1)
    return min(max(rows * alone / together, units), rows)


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
    for k in (1, *arm.ks):
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


def table2(arm: Arm) -> dict[str, Any]:
    k, c = arm.paths, {k: pearson(arm.y[:, :k]) for k in {*arm.ks, arm.paths}}
    row = {"c_pilot": c[4], "mv": first(arm.y, k).mean(), "plurality": plurality(arm, k)}
    row |= {f"k_eff_{k}": worth(k, c[k]) for k in arm.ks}
    return row | {"bb": beta_binomial(k, arm.p, c[k]), "binomial": binomial(k, arm.p)}


def adaptive(arm: Arm) -> dict[str, Any]:
    y, paths, c = arm.y, arm.paths, pearson(arm.y[:, :4])
    k = star(c)
    repeated = [name for name, count in Counter(arm.own.tolist()).items() if count > 1]
    row = {
        "c_pilot": c,
        "c_corrected": anova(y[:, :4]),
        "c_cross_run": cross_run(arm) if len(repeated) >= 30 else None,
        "k_star": k,
        "mv": first(y, paths).mean(),
        "average": subsets(y, paths).mean(),
        "plurality": plurality(arm, paths),
        "net_cost": (k + 4) / paths,
        "repaid_after": math.ceil(400 / (paths - k)) if k < paths else math.inf,
        "cost_at_1000": (400 + 1000 * k) / (1000 * paths),
    }
    kept = kept_at(arm, k)
    row |= {"mv_star": kept["mv_star"], "retained": kept["retained"]}
    row |= {"average_retained": kept["average_retained"], "average_star": None, "plurality_star": None}
    row |= {"average_gap_lo": None, "average_gap_hi": None}
    if k > paths:
        return row
    some, every = subsets(y, k), subsets(y, paths)
    gap, (lo, hi) = (some - every).mean(), clustered_t(some - every, arm.own)
    row |= {"average_gap_lo": gap + lo, "average_gap_hi": gap + hi}
    return row | {"average_star": some.mean(), "plurality_star": plurality(arm, k)}


def kept_at(arm: Arm, k: int) -> dict[str, float | None]:
    """The vote of the first k paths and what it keeps; nothing where k were not drawn."""
    if k > arm.paths:
        return dict.fromkeys(("mv_star", "retained", "average_retained"))
    votes, average = first(arm.y, k).mean(), subsets(arm.y, k).mean()
    every = first(arm.y, arm.paths).mean(), subsets(arm.y, arm.paths).mean()
    return {"mv_star": votes, "retained": votes / every[0], "average_retained": average / every[1]}


def summary(arm: Arm) -> dict[str, Any]:
    """A row of the table of arms, its c by mean squares."""
    c, k = anova(arm.y, independent(arm)), arm.paths
    row = {"n": len(arm.y), "questions": len(arm.instances), "truncated": arm.cut.mean(), "p": arm.p}
    row |= {"majority": subsets(arm.y, k).mean(), "plurality": plurality(arm, k)}
    row |= {"c": c, "rho": pearson(arm.y), "k_eff": worth(k, c), "ceiling": 1 / c if c > 0 else None}
    return row | {"k_star": star(c) if c > 0 else None}


def table9(arm: Arm) -> list[dict[str, Any]]:
    found = held_out(arm, (1, *arm.ks))
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
        for place, k in enumerate(arm.ks, 1)
    ]


def table11(arm: Arm) -> list[dict[str, Any]]:
    c = pearson(arm.y[:, :4])
    stars = {epsilon: star(c, epsilon) for epsilon in (0.01, 0.025, 0.05, 0.1)}
    return [{"epsilon": epsilon, "k_star": k, **kept_at(arm, k)} for epsilon, k in stars.items()]


def observed(arm: Arm) -> list[dict[str, Any]]:
    rows = table1(arm)
    return [{"k": row["k"], "k_eff": row["k_eff"], "c": rows[-1]["c"]} for row in rows]


def figure2(arm: Arm) -> list[dict[str, Any]]:
    ks = arm.ks[1:]
    found = held_out(arm, ks)
    return [{"k": k} | {name: column[place] for name, column in found.items()} for place, k in enumerate(ks)]


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


def cell(model: str, about: Any, sc: Arm, pt: Arm) -> dict[str, Any]:
    """One cell; ``about`` is its benchmark, with a label, a domain and an answer space."""
    before, after, k = pearson(sc.y), pearson(pt.y), sc.paths
    accuracy = pt.y.mean(axis=0), sc.y.mean(axis=0)
    block = pt.p * (1 - pt.p) / pt.y.mean(axis=1).var(ddof=1)
    answers = [line.get("all_answers") for line in sc.lines]
    known = None
    if all(answers) and "all_correct" not in sc.lines[0]:
        known = np.mean([len({one.lower() for one in line if one}) / len(line) for line in answers])
    corrected = anova(sc.y), anova(pt.y)
    return {
        "model": model,
        "benchmark": about.label,
        "domain": about.domain,
        "n_sc": len(sc.y),
        "n_pt": len(pt.y),
        "p_sc": sc.p,
        "p_pt": pt.p,
        "rho_sc": before,
        "rho_pt": after,
        "delta_rho": (after - before) / abs(before),
        "delta_k_eff": worth(k, after) - worth(k, before),
        "mv_sc": first(sc.y, k).mean(),
        "mv_pt": first(pt.y, k).mean(),
        "diversity_sc": known,
        "slot_cv": accuracy[0].std() / accuracy[0].mean(),
        "sc_slot_cv": accuracy[1].std() / accuracy[1].mean(),
        "weighted_gain": weighted_gain(pt.y),
        "sc_oracle_gain": weighted_gain(sc.y),
        "sc_oracle_expected": oracle_expected(sc),
        "block_over_vote": block / worth(k, after),
        "phi_ratio_change": over_largest(pt.y) / over_largest(sc.y) - 1,
        "corrected": (corrected[1] - corrected[0]) / abs(corrected[0]),
        "valid": sc.p >= 0.02,
    }


def table3(cells: list[dict[str, Any]], benchmarks: Iterable[Any]) -> list[dict[str, Any]]:
    rows = []
    for about in benchmarks:
        own = [one for one in cells if one["benchmark"] == about.label and one["valid"]]
        names = ("delta_rho", "delta_k_eff", "rho_sc", "rho_pt", "corrected", "phi_ratio_change")
        row = {"domain": about.domain, "benchmark": about.label, "space": about.space, "n": len(own)}
        rows.append(row | {name: np.mean([one[name] for one in own]) for name in names})
    return rows


def table8(cells: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for domain in ("QA", "Sci/MC", "Commonsense", "NLU", "Code", "Math"):
        own = [one for one in cells if one["domain"] == domain and one["valid"]]
        if not own:
            continue
        change = [one["mv_pt"] - one["mv_sc"] for one in own]
        deviation = np.std(change, ddof=1) if len(own) > 1 else None
        row = {"domain": domain, "n": len(own), "delta": np.mean(change), "delta_std": deviation}
        rows.append(row | {name: np.mean([one[name] for one in own]) for name in ("mv_sc", "mv_pt")})
    return rows


def figure3(cells: list[dict[str, Any]], benchmarks: Iterable[Any]) -> list[dict[str, Any]]:
    rows = []
    for about in benchmarks:
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

    def rank_test(method: str) -> float:
        return float(stats.mannwhitneyu(qa, maths, alternative="less", method=method).pvalue)

    def side(own: list[dict[str, Any]]) -> dict[str, Any]:
        row = {"cells": len(own)}
        row |= {"mean_cv": _mean(own, "slot_cv"), "gain": _mean(own, "weighted_gain")}
        high = [one["slot_cv"] > 0.225 for one in own]
        return row | {"share_high_cv": np.mean(high) if own else None}

    near = [one for one in cells if one["sc_slot_cv"] <= 0.24]
    ratios = [one["block_over_vote"] for one in cells if one["p_pt"] >= 0.02 and one["n_pt"] >= 20]
    tested = predictor = weighted = None
    if qa and maths:
        tested = {"n_qa": len(qa), "n_math": len(maths), "p": rank_test("exact")}
        tested["p_normal"] = rank_test("asymptotic")
    # Three points say nothing of a correlation.
    if len(points) > 3:
        fit = stats.pearsonr([one["diversity"] for one in points], [one["delta_rho"] for one in points])
        predictor = {"n": len(points), **fisher(fit, len(points))}
    if len(cells) > 3:
        fit = stats.pearsonr([one["slot_cv"] for one in cells], [one["weighted_gain"] for one in cells])
        weighted = {
            "cells": len(cells),
            **fisher(fit, len(cells)),
            "high_cv": side([one for one in cells if one["slot_cv"] > 0.225]),
            "low_cv": side([one for one in cells if one["slot_cv"] <= 0.225]),
            "low_accuracy": side([one for one in cells if one["mv_pt"] < 0.3]),
            "high_accuracy": side([one for one in cells if one["mv_pt"] >= 0.3]),
        }
    return {
        "cells": len(cells),
        "valid": len(valid),
        "reduced": sum(value < 0 for value in change),
        "not_reduced": [f"{one['model']} {one['benchmark']}" for one in valid if one["delta_rho"] >= 0],
        "mean_delta_rho": np.mean(change),
        "mean_delta_k_eff": _mean(valid, "delta_k_eff"),
        "range_delta_rho": [min(change), max(change)],
        "mann_whitney": tested,
        "predictor": predictor,
        "weighted_voting": weighted,
        "oracle": {
            "cells": len(near),
            "largest_gain": max(one["sc_oracle_gain"] for one in near),
            "mean_gain": _mean(near, "sc_oracle_gain"),
            "mean_expected_of_equal_slots": _mean(near, "sc_oracle_expected"),
        }
        if near
        else None,
        "block": {
            "cells": len(ratios),
            "mean": np.mean(ratios),
            "std": np.std(ratios),
            "largest": max(ratios),
        }
        if ratios
        else None,
    }


def _mean(rows: list[dict[str, Any]], name: str) -> float:
    return float(np.mean([row[name] for row in rows])) if rows else math.nan


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
    """Agreement to ``SAME``; JSON has no NaN and no infinity, which are null there."""
    if isinstance(ours, float) and not math.isfinite(ours):
        ours = None
    if isinstance(ours, str | None) or isinstance(theirs, str | None):
        return ours == theirs
    within = ROUGH.get(where.rpartition(".")[2], SAME)
    return math.isclose(ours, theirs, rel_tol=within, abs_tol=within)
