"""Estimates -> the rows that each chart of the report page draws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from keff.stats.betabinomial import betabinom_logpmf, majority_curve, majority_limit
from keff.stats.diversity import k_eff
from keff.stats.votes import FloatArray, Votes

Estimates = Mapping[str, Any]
Rows = list[dict[str, Any]]
Datasets = dict[str, Rows]

PLURALITY, PLURALITY_AHEAD = "plurality, measured", "plurality, predicted"
MAJORITY, MAJORITY_MODEL = "majority, measured", "majority, beta-binomial model"
INDEPENDENT = "majority, if paths were independent"
SERIES = (PLURALITY, PLURALITY_AHEAD, MAJORITY, MAJORITY_MODEL, INDEPENDENT)
"""Lines of the saturation chart, in the order of the legend."""

MOST_POINTS, MOST_BINS = 24, 21


def shown_ks(k: int, odd: bool = False) -> list[int]:
    """Return about 24 of the numbers 1..k, denser where they are small; odd ones and k if asked.

    Majority is the same at 2m - 1 and 2m votes: a line through the odd ones has no steps.
    """
    spread = np.rint(np.geomspace(1, max(k, 1), MOST_POINTS)).astype(int).tolist()
    powers = [2**power for power in range(k.bit_length())]
    return sorted({min(step | 1, k) if odd else step for step in [*spread, *powers]})


def part(found: Estimates, *names: str) -> Estimates:
    """Return a nested part of the estimates, empty where it was left null."""
    for name in names:
        found = found.get(name) or {}
    return found


def usable_c(found: Estimates) -> float | None:
    """Return c as the beta-binomial model takes it, or None where it is undefined."""
    if found["c"] is None or _missing(found["c"]["value"]):
        return None
    return min(max(found["c"]["value"], 0.0), 1.0)


def saturation(found: Estimates, k_max: int) -> Datasets:
    """Return measured curves with bands, models, whiskers, the interval of K* and the limit of majority."""
    seen = [
        {"k": k, "series": label, "value": found[name][str(k)], "lo": low, "hi": high}
        for name, label, odd in (("plurality", PLURALITY, False), ("majority", MAJORITY, True))
        if found[name]
        for k in shown_ks(found["k"], odd)
        for low, high in [found["bands"][name][str(k)]]
    ]
    ahead = _plurality_ahead(found)
    star, c = found["k_star"], usable_c(found)
    shade = [
        {"from": max(star["lo"] - 0.4, 1), "to": star["hi"] + 0.4, "lo": star["lo"], "hi": star["hi"]}
        for _ in range(star is not None)
    ]
    limit = [] if c is None else [{"value": majority_limit(found["p"], c)}]
    return rounded(
        {
            "seen": seen,
            "model": [*ahead, *_models(found, c, max(k_max, found["k"]))],
            "whisker": ahead[1:],
            "bounds": _bounds(found),
            "star": shade,
            "limit": limit,
        }
    )


def _plurality_ahead(found: Estimates) -> Rows:
    """Start at the last measured K, then what is predicted beyond it."""
    forecasts = part(found, "predicted", "plurality")
    beyond = [int(k) for k in forecasts if int(k) > found["k"]]
    if not beyond:
        return []
    start = {"k": found["k"], "series": PLURALITY_AHEAD, "value": found["plurality"][str(found["k"])]}
    return [start, *({"k": k, "series": PLURALITY_AHEAD, **_limits(forecasts[str(k)])} for k in beyond)]


def _limits(one: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one[name] for name in ("value", "lo", "hi")}


def _models(found: Estimates, c: float | None, top: int) -> Rows:
    if found["p"] is None:
        return []
    curves = {INDEPENDENT: 0.0} | ({} if c is None else {MAJORITY_MODEL: c})
    rows: Rows = []
    for label, correlation in curves.items():
        curve = majority_curve(top, found["p"], correlation)
        rows += [{"k": k, "series": label, "value": curve[k - 1]} for k in shown_ks(top, odd=True)]
    return rows


def _bounds(found: Estimates) -> Rows:
    limits = part(found, "predicted", "bounds")
    return [{"k": int(k), "lo": low, "hi": high} for k, (low, high) in limits.items()]


def worth(found: Estimates, k_max: int) -> Datasets:
    """Return K_eff at 1..k_max with its band, the line of independent paths, and the ceiling."""
    c = found["c"]
    if c is None or _missing(c["value"]):
        return {}
    top = max(k_max, found["k"])
    ends = [c["value"], *(c[name] if not _missing(c[name]) else c["value"] for name in ("hi", "lo"))]
    rows = [
        {"k": k, "value": v, "lo": low, "hi": high}
        for k in shown_ks(top)
        for v, low, high in [[min(float(k_eff(k, end)), 4.0 * top) for end in ends]]
    ]
    highest = min(max(rows[-1]["hi"], 2.0), top)
    ceiling = found["ceiling"]["value"]
    return rounded(
        {
            "worth": rows,
            "ideal": [{"k": 1, "value": 1}, {"k": highest, "value": highest}],
            "ceiling": [{"value": ceiling, **_ceiling_ends(found)}]
            if _finite(ceiling) and ceiling < 2 * highest
            else [],
        }
    )


def _ceiling_ends(found: Estimates) -> dict[str, str]:
    low, high = (found["ceiling"][name] for name in ("lo", "hi"))
    return {"range": f"{_two(low)} to {_two(high)}"}


def _two(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}" if math.isfinite(value) else "∞"


def difficulty(votes: Votes, found: Estimates) -> Datasets:
    """Return the histogram of items by their share of right paths, with what two models expect in each bin."""
    if votes.correct is None:
        return {}
    k, hist = votes.k, votes.hist
    width = math.ceil((k + 1) / MOST_BINS)
    starts = list(range(0, k + 1, width))
    c = usable_c(found)
    models = {"expected": c, "independent": 0.0}
    pmf = {
        name: votes.n * np.exp(betabinom_logpmf(k, votes.p, value))
        for name, value in models.items()
        if value is not None
    }
    rows: Rows = []
    for start in starts:
        stop = min(start + width, k + 1)
        named = f"{start}" if stop == start + 1 else f"{start} to {stop - 1}"
        rows.append(
            {
                "from": max(start - 0.45, -0.45) / k,
                "to": (stop - 0.55) / k,
                "middle": (start + stop - 1) / 2 / k,
                "right": f"{named} of {k}",
                "items": int(hist[start:stop].sum()),
                **{name: float(_sum(law, start, stop)) for name, law in pmf.items()},
            }
        )
    return rounded({"difficulty": rows})


def _sum(law: FloatArray, start: int, stop: int) -> float:
    return float(law[start:stop].sum())


def frontier(found: Estimates, votes: Votes, replayed: Mapping[str, Any] | None) -> Datasets:
    """Return accuracy against cost of fixed K, measured and predicted, of replayed policies and of the advice."""
    if not found["plurality"]:
        return {}
    unit = 1.0 if votes.tokens is None or np.isnan(votes.tokens).any() else float(votes.tokens.mean())
    curve = [
        {
            "k": k,
            "cost": k * unit,
            "value": found["plurality"][str(k)],
            "what": f"always {k} paths",
            "mark": _mark(k),
        }
        for k in shown_ks(found["k"])
    ]
    ahead = [
        {
            **row,
            "cost": row["k"] * unit,
            "what": f"always {row['k']} paths, predicted",
            "mark": _mark(row["k"]),
        }
        for row in _plurality_ahead(found)
    ]
    advice = found["recommendation"]
    rules = [_rule(row, unit, advice["policy"]) for row in (replayed or {"policies": ()})["policies"]]
    if not any(row["chosen"] for row in rules) and advice["expected_plurality"]:
        paths = advice["expected_paths"]
        place = {"policy": advice["policy"], "cost": paths * unit, "paths": paths, "chosen": True}
        rules.append({**place, **_limits(advice["expected_plurality"])})
    return rounded({"curve": curve, "ahead": ahead, "rules": rules})


def _mark(k: int) -> str:
    return str(k) if k & (k - 1) == 0 else ""


def _rule(row: Mapping[str, Any], unit: float, chosen: str) -> dict[str, Any]:
    cost = row["mean_paths"] if unit == 1.0 or row["mean_tokens"] is None else row["mean_tokens"]
    place = {"policy": row["policy"], "cost": cost, "paths": row["mean_paths"]}
    return {**place, **_limits(row["accuracy"]), "chosen": row["policy"] == chosen}


def stability(found: Estimates) -> Datasets:
    """Return how often the answer after k paths is that of all recorded paths: needs no labels."""
    if not found["flip"]:
        return {}
    ks = shown_ks(found["k"])
    return rounded({"same": [{"k": k, "value": 1 - found["flip"][str(k)]} for k in ks]})


ARM_CHANGES = (
    ("delta_rho", "correlation (relative)"),
    ("delta_p", "one path"),
    ("delta_majority", "majority vote"),
    ("delta_plurality", "plurality"),
)


def arms(compared: Mapping[str, Any]) -> Datasets:
    """Return the forest of changes between two arms, and the template slots of the second."""
    changes = [
        {"change": label, **_limits(compared[name])} for name, label in ARM_CHANGES if compared.get(name)
    ]
    return rounded({"changes": changes}) | slots(compared["arms"][1]["slots"])


def slots(table: Sequence[Estimates] | None) -> Datasets:
    """Return accuracy and missing answers of each template slot; nothing under one prompt."""
    rows = [
        {"slot": str(one["slot"]), "accuracy": one["accuracy"], "failures": one["extraction_failures"]}
        for one in table or ()
    ]
    return rounded({"slots": rows}) if rows else {}


def rounded(data: Mapping[str, Sequence[Mapping[str, Any]]]) -> Datasets:
    """Return datasets with numbers short enough to draw, and null for what is not finite."""
    return {
        name: [{key: _short(value) for key, value in row.items()} for row in rows]
        for name, rows in data.items()
    }


def _short(value: Any) -> Any:
    if isinstance(value, bool | str) or value is None:
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None


def _missing(value: float | None) -> bool:
    return value is None or math.isnan(value)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
