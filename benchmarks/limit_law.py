"""Whether the limit law acc(K) = 1 - floor - slope/K tells more beyond the pilot than what keff has.

Pilots of min(50, n/2) questions x 8 paths of every recorded file with at least 48 paths; truth is the exact
subset average of the file at 32. Predictors of the gain over plurality@8: none, the law fitted from 4 to 8
paths, keff's own, and keff's own times w plus the law times 1 - w, with w chosen on the other families.
Then floor, slope and local diversity order of every file, fitted from all its paths.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from benchmarks.plurality_beyond_pilot import SHARED, pilot, read

from keff.stats.models.outage import diversity_order, fit_outage
from keff.stats.models.plurality_model import predict_plurality
from keff.stats.voting.plurality import plurality_at_k

TARGET = 32


def family(name: str) -> str:
    """Return the data set of a file: files of one are left out together."""
    return "_".join(name.split("_")[:2])


def rms(errors: np.ndarray, weights: np.ndarray) -> float:
    """Return the root mean square in points, each family counting alike."""
    return float(100 * np.sqrt(np.average(errors**2, weights=weights)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=4)
    draws = parser.parse_args().draws
    files: list[Path] = sorted((SHARED / "data" / "recorded").glob("*.jsonl"))
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
        for _ in range(draws):
            sample = pilot(votes, min(50, votes.n // 2), rng)
            fitted = fit_outage(sample, 4)
            line = fitted.slope.value * (1 / 8 - 1 / TARGET)
            own = predict_plurality(sample, (TARGET,))[0].gain.value
            rows.append((family(path.stem), float(curve[TARGET - 1] - curve[7]), line, own))
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
