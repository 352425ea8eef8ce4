"""How well a pilot of 8 paths predicts the plurality at 16 and 32 paths, on recorded runs of real models.

From every recorded file with at least 48 paths per question, pilots of min(50, n/2) and min(100, n/2) items
are drawn at random, 8 paths each. The truth is the exact subset average over all items and paths of the file.
Prints the error of the predicted gain over plurality@8 and of the level in percentage points, for

    none       no gain: plurality@8 itself
    1/k        a line through plurality@4..8 of the pilot against 1/k, carried on
    1/sqrt(k)  the same through plurality@2..8 against 1/sqrt(k)
    mixture    the answer model with a free-form law of theta and g (maximum likelihood) for each item
    model      keff.stats.models.plurality_model

The level's error is mostly which items the pilot drew; "whole" scales it to an endless population by
dividing by sqrt(1 - m/n), and does likewise when counting coverage. No constant was fitted to a file.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.places import RECORDED
from keff.stats.models import plurality_model
from keff.stats.models.answer_model import AnswerModel
from keff.stats.votes import Votes
from keff.stats.voting.plurality import plurality_at_k

PILOT_PATHS, TARGETS, LEAST_PATHS = 8, (16, 32), 48
METHODS = ("none", "1/k", "1/sqrt(k)", "mixture", "model")


def abstains(name: str, answer: str | None) -> bool:
    """Return whether a recorded answer is none: empty, or no letter of a choice question."""
    if answer is None or answer == "":
        return True
    return ("gpqa" in name and answer not in "ABCD") or (name.startswith("renze") and answer == "N")


def read(path: Path) -> Votes | None:
    """Return the votes of a recorded file cut to its shortest row, or None when that is too short."""
    with path.open() as lines:
        rows = [json.loads(line) for line in lines]
    k = min(len(row["all_answers"]) for row in rows)
    if k < LEAST_PATHS:
        return None
    answers = np.full((len(rows), k), -1)
    for i, row in enumerate(rows):
        seen: dict[str, int] = {}
        for j, answer in enumerate(row["all_answers"][:k]):
            if not abstains(path.name, answer):
                answers[i, j] = seen.setdefault(answer, len(seen))
    correct = np.array([row["all_correct"][:k] for row in rows]) * (answers >= 0)
    return Votes(answers, correct)


def pilot(votes: Votes, items: int, rng: np.random.Generator) -> Votes:
    """Draw items without replacement, and 8 of the paths of each at random."""
    chosen = rng.choice(votes.n, items, replace=False)
    columns = rng.permuted(np.tile(np.arange(votes.k), (items, 1)), axis=1)[:, :PILOT_PATHS]
    rows = votes.take(chosen)
    return Votes(
        np.take_along_axis(rows.answered(), columns, 1), np.take_along_axis(rows.scored(), columns, 1)
    )


def line(curve: NDArray[np.float64], first: int, power: float) -> list[float]:
    """Return gains read off a least-squares line of the curve against k^-power."""
    k = np.arange(first, PILOT_PATHS + 1)
    slope = np.polyfit(k**-power, curve[first - 1 :], 1)[0]
    return [float(slope * (target**-power - PILOT_PATHS**-power)) for target in TARGETS]


def mixture(votes: Votes) -> list[float]:
    """Return gains of the answer model with a free-form law of theta and g, by EM from a flat start."""
    model = AnswerModel(votes, max(TARGETS))
    likelihood = model.posterior / model.prior
    weight = np.full(model.prior.size, 1 / model.prior.size)
    for _ in range(300):
        weight *= (1 / (likelihood @ weight)) @ likelihood / votes.n
    posterior = likelihood * weight
    posterior /= posterior.sum(axis=1, keepdims=True)
    return [float(np.sum(model.step(k) * posterior) / votes.n) for k in TARGETS]


@dataclass
class Trial:
    """One pilot: the true and the predicted gains, and the 95% intervals as (centre, half width)."""

    file: str
    share: float
    miss: float
    truth: NDArray[np.float64]
    gains: dict[str, list[float]]
    intervals: NDArray[np.float64]
    levels: NDArray[np.float64]


def trials(name: str, votes: Votes, size: int, draws: int, rng: np.random.Generator) -> Iterator[Trial]:
    curve = plurality_at_k(votes)
    truth = curve[np.array(TARGETS) - 1] - curve[PILOT_PATHS - 1]
    m = min(size, votes.n // 2)
    for _ in range(draws):
        sample = pilot(votes, m, rng)
        seen = plurality_at_k(sample)
        forecasts = plurality_model.predict_plurality(sample, TARGETS)
        gains = {
            "none": [0.0] * len(TARGETS),
            "1/k": line(seen, 4, 1.0),
            "1/sqrt(k)": line(seen, 2, 0.5),
            "mixture": mixture(sample),
            "model": [f.gain.value for f in forecasts],
        }
        yield Trial(
            file=name,
            share=1 - m / votes.n,
            miss=float(seen[-1] - curve[PILOT_PATHS - 1]),
            truth=truth,
            gains=gains,
            intervals=np.array([[f.gain.lo, f.gain.value, f.gain.hi] for f in forecasts]),
            levels=np.array([[f.plurality.lo, f.plurality.value, f.plurality.hi] for f in forecasts])
            - curve[PILOT_PATHS - 1],
        )


def rms(x: NDArray[np.float64]) -> float:
    return float(100 * np.sqrt(np.mean(x**2)))


def covered(limits: NDArray[np.float64], truth: NDArray[np.float64], scale: NDArray[np.float64]) -> float:
    """Return how often lo <= truth <= hi, after shrinking the interval about its value by ``scale``."""
    lo, value, hi = limits.T
    inside = (truth >= value - (value - lo) * scale - 1e-12) & (truth <= value + (hi - value) * scale + 1e-12)
    return float(100 * inside.mean())


def summary(runs: list[Trial], size: int) -> None:
    share, miss = np.array([r.share for r in runs]), np.array([r.miss for r in runs])
    for j, k in enumerate(TARGETS):
        truth = np.array([r.truth[j] for r in runs])
        print(
            f"\n@{k}, pilots of min({size}, n/2) items, {len(runs)} pilots; mean true gain "
            f"{100 * truth.mean():.2f}"
        )
        print("  predictor   gain: rmse   bias   closer than none   level: rmse   whole")
        for name in METHODS:
            error = np.array([r.gains[name][j] for r in runs]) - truth
            closer = 100 * np.mean(np.abs(error) < np.abs(truth))
            level = rms(miss + error), rms((miss + error) / np.sqrt(share))
            print(
                f"  {name:10s} {rms(error):10.2f} {100 * error.mean():6.2f} {closer:16.0f}% "
                f"{level[0]:13.2f} {level[1]:7.2f}"
            )
        for name, limits, target in (
            ("gain", np.array([r.intervals[j] for r in runs]), truth),
            ("level", np.array([r.levels[j] for r in runs]), truth),
        ):
            width = 100 * float(np.mean(limits[:, 2] - limits[:, 0]))
            plain, whole = (
                covered(limits, target, np.ones(len(runs))),
                covered(limits, target, np.sqrt(share)),
            )
            print(
                f"  95% interval of the {name:5s}: covers {plain:.1f}%, whole {whole:.1f}%, mean "
                f"width {width:.2f}"
            )


def claims(runs: list[Trial], size: int) -> None:
    """Print what is known of the gain at the last target."""
    truth = np.array([r.truth[-1] for r in runs])
    none, model = (rms(np.array([r.gains[name][-1] for r in runs]) - truth) for name in ("none", "model"))
    limits = np.array([r.intervals[-1] for r in runs])
    what = f"gain of plurality at {TARGETS[-1]} over {PILOT_PATHS} paths, pilots of {size}"
    print(f"{what}: error of the model {model:.2f}, of no model {none:.2f} points")
    print(f"{what}: its 95% interval covers {covered(limits, truth, np.ones(len(runs))):.0f}%")


def by_file(runs: list[Trial], most: int | None) -> None:
    """Print the files with the largest error of the model (``most`` None: all)."""
    print(
        "\nGain at 32 paths by file, worst first: truth, mean prediction, RMSE of none, of the "
        "model, coverage"
    )

    def error(name: str) -> float:
        return rms(np.array([r.gains["model"][-1] - r.truth[-1] for r in runs if r.file == name]))

    for name in sorted(dict.fromkeys(r.file for r in runs), key=error, reverse=True)[:most]:
        mine = [r for r in runs if r.file == name]
        truth, guess = mine[0].truth[-1], np.array([r.gains["model"][-1] for r in mine])
        limits = np.array([r.intervals[-1] for r in mine])
        hit = covered(limits, np.full(len(mine), truth), np.ones(len(mine)))
        print(
            f"  {name[:58]:58s} {100 * truth:6.2f} {100 * guess.mean():6.2f} "
            f"{100 * abs(truth):6.2f} {rms(guess - truth):6.2f} {hit:5.0f}%"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=30)
    parser.add_argument("--all", action="store_true", help="list every file, not the worst eight")
    options = parser.parse_args()
    paths = sorted(RECORDED.glob("*.jsonl"))
    files = {p.stem: votes for p in paths if (votes := read(p)) is not None}
    rng = np.random.default_rng(11)
    for size in (50, 100):
        runs = [t for name, v in files.items() for t in trials(name, v, size, options.draws, rng)]
        summary(runs, size)
        claims(runs, size)
    by_file(runs, None if options.all else 8)


if __name__ == "__main__":
    main()
