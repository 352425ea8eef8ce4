"""Tables 3 and 8, Figure 3 and the headline tests, from the measured cells of the matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from keff.paper import records
from keff.paper.cell import FLOOR, Changing, MatrixCell
from keff.paper.records import PaperBenchmark
from keff.paper.saturation import TableRows
from keff.records import Json

# Where the paper divides its cells: by the spread of slot accuracies, and by the vote under templates.
CV_SPLIT = 0.225
MV_SPLIT = 0.3
CV_BOUND = 0.24
BLOCK_ROWS = 20
# The level of the paper's rank tests.
SIGNIFICANT = 1e-3
# With three points r has no interval: hardly any value would say anything.
FEWEST_POINTS = 4
CHANGES: tuple[Changing, ...] = ("rho", "corrected")


def table3(cells: Sequence[MatrixCell]) -> TableRows:
    """Table 3: mean changes by benchmark over valid cells; ours: the change of the bias-corrected c."""
    rows: TableRows = []
    for about, own in _by_benchmark(cells):
        valid = [cell for cell in own if cell.valid]
        names = ("delta_rho", "delta_k_eff", "rho_sc", "rho_pt", "corrected", "phi_ratio_change")
        row = {"domain": about.domain, "benchmark": about.label, "space": about.space, "n": len(valid)}
        rows.append(row | _means(valid, **{name: name for name in names}))
    return rows


def table8(cells: Sequence[MatrixCell]) -> TableRows:
    """Table 8: majority vote of both arms by domain, over valid cells."""
    rows: TableRows = []
    valid = [cell for cell in cells if cell.valid]
    for domain in dict.fromkeys((*records.DOMAINS, *sorted(cell.about.domain for cell in valid))):
        own = [cell for cell in valid if cell.about.domain == domain]
        change = np.array([cell.mv_pt - cell.mv_sc for cell in own])
        if own:
            rows.append(
                {"domain": domain, "n": len(own)}
                | _means(own, mv_sc="mv_sc", mv_pt="mv_pt")
                | {
                    "delta": change.mean(),
                    "delta_std": change.std(ddof=1) if change.size > 1 else math.nan,
                }
            )
    return rows


def figure3(cells: Sequence[MatrixCell]) -> TableRows:
    """Figure 3: mean answer diversity and mean change of rho by benchmark."""
    return [
        {"benchmark": about.label, "domain": about.domain, "diversity": diversity, "delta_rho": change}
        for about, diversity, change in _points(cells)
        if not math.isnan(diversity + change)
    ]


def not_in_figure3(cells: Sequence[MatrixCell]) -> dict[str, Json]:
    """Return the benchmarks left out of Figure 3, and why."""
    return {
        about.label: "scores only, no answers" if math.isnan(diversity) else "no valid cell"
        for about, diversity, change in _points(cells)
        if math.isnan(diversity + change)
    }


def _by_benchmark(cells: Sequence[MatrixCell]) -> Iterator[tuple[PaperBenchmark, list[MatrixCell]]]:
    """Yield each benchmark with its cells."""
    for about in dict.fromkeys(cell.about for cell in cells):
        yield about, [cell for cell in cells if cell.about == about]


def _points(cells: Sequence[MatrixCell]) -> Iterator[tuple[PaperBenchmark, float, float]]:
    """Yield each benchmark with the mean diversity of its cells and the mean change of its valid ones."""
    for about, own in _by_benchmark(cells):
        diversity = _mean([cell.diversity_sc for cell in own])
        yield about, diversity, _mean([cell.delta_rho for cell in own if cell.valid])


def templates(cells: Sequence[MatrixCell]) -> TableRows:
    """Mean correlations [K, K] of template slots by benchmark over its valid cells.

    NaN where none is defined.

    Benchmarks of one answer space share their templates, so a slot is one prompt within a benchmark.
    """
    rows: TableRows = []
    for about, own in _by_benchmark(cells):
        slots = [cell.slots for cell in own if cell.valid]
        if slots and len({each.shape for each in slots}) == 1:
            mean = np.ma.masked_invalid(slots).mean(axis=0).filled(math.nan)
            rows.append({"benchmark": about.label, "cells": len(slots), "matrix": mean.tolist()})
    return rows


def headline(cells: Sequence[MatrixCell]) -> dict[str, Json]:
    """Return the counts and tests of the paper's text."""
    valid = [cell for cell in cells if cell.valid]
    if not valid:
        return {}
    change = [cell.delta_rho for cell in valid]
    return {
        "cells": len(cells),
        "valid": len(valid),
        "reduced": sum(value < 0 for value in change),
        "not_reduced": [f"{c.model} {c.about.label}" for c in valid if c.delta_rho >= 0],
        "mean_delta_rho": _mean(change),
        "mean_delta_k_eff": _mean([cell.delta_k_eff for cell in valid]),
        "range_delta_rho": [min(change), max(change)],
        "mann_whitney": _mann_whitney(valid),
        "precision": _precision(valid),
        "predictor": _predictor(cells),
        "not_in_figure3": not_in_figure3(cells),
        "weighted_voting": _weighted_voting(cells),
        "oracle": _oracle(cells),
        "block": _blocks(cells),
    }


def _mann_whitney(valid: Sequence[MatrixCell]) -> dict[str, Json] | None:
    """Return the test whether rho falls more on QA than on Math cells, also on bootstrapped cells."""
    qa = [cell for cell in valid if cell.about.domain == "QA"]
    math_cells = [cell for cell in valid if cell.about.domain == "Math"]
    if not qa or not math_cells:
        return None
    from scipy.stats import mannwhitneyu  # loads for a second

    x, y = ([cell.delta_rho for cell in side] for side in (qa, math_cells))
    test: dict[str, Json] = {"n_qa": len(qa), "n_math": len(math_cells)}
    test["p_normal"] = mannwhitneyu(x, y, alternative="less", method="asymptotic").pvalue
    test["p"] = mannwhitneyu(x, y, alternative="less", method="exact").pvalue
    draws = [np.stack([cell.draws for cell in side], axis=1) for side in (qa, math_cells)]
    whole = ~np.isnan(draws[0]).any(axis=1) & ~np.isnan(draws[1]).any(axis=1)
    left, right = (side[whole] for side in draws)
    again = mannwhitneyu(left, right, alternative="less", axis=1, method="asymptotic").pvalue
    return test | {"share_below_0.001": float(np.mean(again < SIGNIFICANT)), "draws": int(whole.sum())}


def _precision(valid: Sequence[MatrixCell]) -> dict[str, Json]:
    """Return the widths of the cells' intervals of both changes, and how many exclude zero."""
    precision: dict[str, Json] = {}
    for name in CHANGES:
        known = [limits for limits in (cell.limits(name) for cell in valid) if limits is not None]
        widths = [hi - lo for lo, hi in known]
        precision[name] = {
            "cells": len(known),
            "withheld": len(valid) - len(known),
            "median_width": np.median(widths) if widths else None,
            "iqr": np.quantile(widths, [0.25, 0.75]).tolist() if widths else None,
            "exclude_zero": sum(lo > 0 or hi < 0 for lo, hi in known),
        }
    return precision


def _pearson(x: Sequence[float], y: Sequence[float]) -> dict[str, Json]:
    """Return a correlation with its p-value and Fisher's 95% interval."""
    from scipy.stats import pearsonr

    test = pearsonr(x, y)
    lo, hi = test.confidence_interval()
    return {"r": test.statistic, "p": test.pvalue, "r_lo": lo, "r_hi": hi}


def _predictor(cells: Sequence[MatrixCell]) -> dict[str, Json] | None:
    points = [(x, y) for _, x, y in _points(cells) if not math.isnan(x + y)]
    if len(points) < FEWEST_POINTS:
        return None
    x, y = zip(*points, strict=True)
    return {"n": len(points), **_pearson(x, y)}


def _weighted_voting(cells: Sequence[MatrixCell]) -> dict[str, Json] | None:
    known = [cell for cell in cells if not math.isnan(cell.slot_cv)]
    if len(known) < FEWEST_POINTS:
        return None
    return {
        "cells": len(known),
        **_pearson([cell.slot_cv for cell in known], [cell.weighted_gain for cell in known]),
        "high_cv": _side([cell for cell in known if cell.slot_cv > CV_SPLIT]),
        "low_cv": _side([cell for cell in known if cell.slot_cv <= CV_SPLIT]),
        "low_accuracy": _side([cell for cell in known if cell.mv_pt < MV_SPLIT]),
        "high_accuracy": _side([cell for cell in known if not cell.mv_pt < MV_SPLIT]),
    }


def _side(kept: Sequence[MatrixCell]) -> dict[str, Json]:
    high = [float(cell.slot_cv > CV_SPLIT) for cell in kept]
    return {"cells": len(kept), "share_high_cv": _mean(high)} | _means(
        kept,
        mean_cv="slot_cv",
        gain="weighted_gain",
        gain_cross_fitted="weighted_gain_cross_fitted",
        best_slot_gain="best_slot_gain",
    )


def _oracle(cells: Sequence[MatrixCell]) -> dict[str, Json] | None:
    near = [cell for cell in cells if cell.sc_slot_cv <= CV_BOUND]
    if not near:
        return None
    return {"cells": len(near), "largest_gain": max(cell.sc_oracle_gain for cell in near)} | _means(
        near,
        mean_gain="sc_oracle_gain",
        mean_expected_of_equal_slots="sc_oracle_expected",
        mean_gain_cross_fitted="sc_gain_cross_fitted",
    )


def _blocks(cells: Sequence[MatrixCell]) -> dict[str, Json] | None:
    usable = [cell for cell in cells if cell.p_pt >= FLOOR and cell.n_pt >= BLOCK_ROWS]
    ratios = np.array([cell.block_over_vote for cell in usable if math.isfinite(cell.block_over_vote)])
    if not ratios.size:
        return None
    return {
        "cells": int(ratios.size),
        "mean": ratios.mean(),
        "std": ratios.std(),
        "largest": ratios.max(),
    }


def _means(cells: Sequence[MatrixCell], **columns: str) -> dict[str, Json]:
    """Return means over cells of some numbers, renamed."""
    return {name: _mean([getattr(cell, column) for cell in cells]) for name, column in columns.items()}


def _mean(values: Sequence[float | None]) -> float:
    kept = [value for value in values if value is not None and not math.isnan(value)]
    return float(np.mean(kept)) if kept else math.nan
