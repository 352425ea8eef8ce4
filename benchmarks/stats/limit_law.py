"""Whether the limit law acc(K) = 1 - floor - slope/K tells more beyond the pilot than what keff has.

Pilots of min(50, n/2) questions x 8 paths of every recorded file with at least 48 paths; truth is the exact
subset average of the file at 32. Predictors of the gain over plurality@8: none, the law fitted from 4 to 8
paths, keff's own, and keff's own times w plus the law times 1 - w, with w chosen on the other families.
Then floor, slope and local diversity order of every file, fitted from all its paths; ``--figure`` draws the
excess over the floor of the files with the most questions by their paths.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.places import RECORDED, ROOT
from benchmarks.stats.plurality_beyond_pilot import pilot, read
from keff.records import Estimate
from keff.report.figures import figure, layer, quantity, series
from keff.report.vega import svg_of
from keff.stats.intervals import interval_mean
from keff.stats.models.plurality_model import predict_plurality
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.alike import vote_patterns
from keff.stats.voting.plurality import plurality_at_k, plurality_at_k_patterns

TARGET = 32
SHOWN = 5
FIGURE = ROOT / "docs" / "assets" / "plurality-limit.svg"

# Paths from which on the law is fitted at the earliest: below, more than the nearest rival is in the way.
LEAST = 4


@dataclass(frozen=True, slots=True)
class OutageLaw:
    """acc(K) = 1 - floor - slope/K, fitted from ``first`` to ``last`` paths.

    ``floor`` is the outage that no number of paths removes: questions whose right answer is not the most
    frequent one. ``slope`` is (f v)'(0)/2 with f the density over questions of the margin of the right answer
    over its strongest rival, and v the variance of one path's vote for that margin; negative where the curve
    falls to its limit. Both have 95% intervals over clusters of questions.
    """

    floor: Estimate
    slope: Estimate
    first: int
    last: int

    def accuracy(self, k: ArrayLike) -> FloatArray:
        """Return the accuracy of the plurality of ``k`` paths, within [0, 1]."""
        return np.clip(1 - self.floor.value - self.slope.value / np.asarray(k, float), 0, 1)

    @property
    def falls(self) -> bool | None:
        """Whether the curve falls to its limit; None where the interval of the slope holds 0."""
        if self.slope.lo is None or self.slope.hi is None or self.slope.lo <= 0 <= self.slope.hi:
            return None
        return self.slope.hi < 0


def fit_outage(votes: Votes, first: int | None = None) -> OutageLaw:
    """Fit the limit law by least squares of each question's plurality in 1/K, from ``first`` paths on.

    ``first`` is half the recorded paths, at least 4, unless given. Floor and slope are means over questions
    of linear functions of their curves, so their intervals are those of means. Assumes exchangeable paths.
    Raises ValueError with fewer than two numbers of paths to fit.
    """
    last = votes.k
    first = max(LEAST, last // 2) if first is None else first
    if not 1 <= first < last:
        raise ValueError(f"the law needs two numbers of paths to fit: from {first} to {last} there are none")
    curves = plurality_at_k_patterns(votes)[vote_patterns(votes).back, first - 1 :]
    level, slope = np.linalg.pinv(np.stack([np.ones(curves.shape[1]), -1 / np.arange(first, last + 1)], 1))
    floor = interval_mean(1 - curves @ level, votes.clusters)
    return OutageLaw(floor, interval_mean(curves @ slope, votes.clusters), first, last)


def diversity_order(curve: ArrayLike, floor: float) -> FloatArray:
    """Return the local diversity order [K-1] of an accuracy curve [K]: how steeply outage falls to its floor.

    -d log(1 - acc(K) - floor) / d log K between neighbours. It tends to 1 for any law of margins with a
    density at 0, and grows without bound where no margin is near 0; NaN where the curve is beyond its floor.
    """
    above = 1 - np.asarray(curve, np.float64) - floor
    k = np.arange(1, above.size + 1, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.diff(np.log(np.where(above > 0, above, np.nan))) / np.diff(np.log(k))


def family(name: str) -> str:
    """Return the data set of a file: files of one are left out together."""
    return "_".join(name.split("_")[:2])


def rms(errors: np.ndarray, weights: np.ndarray) -> float:
    """Return the root mean square in points, each family counting alike."""
    return float(100 * np.sqrt(np.average(errors**2, weights=weights)))


def excess(name: str, curve: np.ndarray, floor: float) -> list[dict[str, object]]:
    """Return the outage beyond the floor by the number of paths, where there is any."""
    ks = [k for k in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48) if k <= curve.size]
    return [
        {"record": name[:40].replace("_", " "), "paths": k, "excess": float(1 - curve[k - 1] - floor)}
        for k in ks
        if 1 - curve[k - 1] - floor > 5e-4
    ]


def draw(rows: list[dict[str, object]]) -> None:
    """Draw the outage beyond its floor, with the slope of diversity order 1 beside it."""
    scale = {"scale": {"type": "log", "nice": False, "padding": 6}}
    line = [{"paths": k, "excess": 0.3 / k} for k in (2, 48)]
    names = list(dict.fromkeys(str(row["record"]) for row in rows))
    axes = {
        "x": quantity("paths", "paths per question", **scale),
        "y": quantity("excess", "outage beyond its floor", **scale),
    }
    spec = figure(
        [
            layer({"type": "line", "point": True}, rows, axes | {"color": series("record", names)}),
            layer({"type": "line", "strokeDash": [4, 3], "color": "#7f7f7f"}, line, axes),
        ],
        height=210,
    )
    FIGURE.write_text(svg_of(spec), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--figure", action="store_true", help=f"write {FIGURE}")
    given = parser.parse_args()
    draws = given.draws
    drawn: dict[str, tuple[float, list[dict[str, object]]]] = {}
    files: list[Path] = sorted(RECORDED.glob("*.jsonl"))
    rng = np.random.default_rng(37)
    rows: list[tuple[str, float, float, float]] = []
    print(f"{'file':58s} {'floor':>16s} {'slope':>20s}  order at 8, 16, 32")
    for path in files:
        votes = read(path)
        if votes is None:
            continue
        curve, law = plurality_at_k(votes), fit_outage(votes)
        order = diversity_order(curve, law.floor.value)
        floor, slope = (f"{e.value:.3f} [{e.lo:.3f}, {e.hi:.3f}]" for e in (law.floor, law.slope))
        print(
            f"{path.stem[:58]:58s} {floor} {slope}  " + " ".join(f"{order[k - 2]:5.2f}" for k in (8, 16, 32))
        )
        width = (law.floor.hi or 1.0) - (law.floor.lo or 0.0)
        if width < drawn.get(family(path.stem), (1.0, []))[0]:
            drawn[family(path.stem)] = width, excess(path.stem, curve, law.floor.value)
        for _ in range(draws):
            sample = pilot(votes, min(50, votes.n // 2), rng)
            fitted = fit_outage(sample, 4)
            line = fitted.slope.value * (1 / 8 - 1 / TARGET)
            own = predict_plurality(sample, (TARGET,))[0].gain.value
            rows.append((family(path.stem), float(curve[TARGET - 1] - curve[7]), line, own))
    if given.figure:
        # The families whose curves stand above their floor longest.
        longest = sorted((own for _, own in drawn.values()), key=len, reverse=True)[:SHOWN]
        draw([row for own in longest for row in own])
    names = np.array([row[0] for row in rows])
    truth, line, own = np.array([row[1:] for row in rows]).T
    weights = np.array([1 / np.sum(names == name) for name in names])
    mixed = np.empty(truth.size)
    for name in dict.fromkeys(names):
        rest = names != name
        apart = own[rest] - line[rest]
        w = float(
            np.clip(
                np.sum(weights[rest] * apart * (truth[rest] - line[rest])) / np.sum(weights[rest] * apart**2),
                0,
                1,
            )
        )
        mixed[~rest] = w * own[~rest] + (1 - w) * line[~rest]
        print(f"without {name}: weight of keff's own {w:.2f}")
    found = {"none": np.zeros(truth.size), "limit law": line, "keff": own, "mixed, left out": mixed}
    for label, guess in found.items():
        print(
            f"gain at {TARGET} over 8, {len(rows)} pilots, {label:16s} "
            f"RMSE {rms(guess - truth, weights):.2f} points"
        )
    print(
        f"claim: gain of plurality at {TARGET} over 8 paths, mixed with the limit law on left-out families, "
        "against keff alone | "
        f"{rms(mixed - truth, weights):.2f}, {rms(own - truth, weights):.2f} points | reported"
    )


if __name__ == "__main__":
    main()
