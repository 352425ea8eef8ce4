"""Does a recommendation keep its word on workloads of a kind that it was not made from?

For every record with at least 48 paths: pilots are drawn at random, a rule is recommended from each pilot
alone, and the questions that are not in the pilot are replayed with it. The generic workload (the mixture of
answer laws, calibration, slope and price of votes) is fitted anew without the record's family; twice, with
families by data set and by who recorded them. Prints Markdown tables.

    python -m benchmarks.frontier [FOLDER] [--pilots 6]

``kept`` is the mean over workloads of the accuracy of plurality@32 that is kept, with a standard error over
workloads. *Short by 2 se* is the share of pilots after which the record falls short of what was asked by more
than two standard errors of the paired difference over its questions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.prior import fit_prior
from benchmarks.sensitivity import sensitivity
from benchmarks.workloads import CAP, FOLDER, Workload, load, pilot

from keff.analysis.recommend.aim import Aim
from keff.analysis.recommend.choose import choose
from keff.analysis.recommend.kept import cross_fitted, paths_interval, predicted
from keff.analysis.recommend.outlook import Material, Outlook, believe, gather
from keff.analysis.recommend.prior import Prior
from keff.analysis.recommend.rules import Rules
from keff.stats.votes import FloatArray, IntArray

SHARES = (0.98, 0.99, 0.995, 0.999)
BUDGETS = (6.0, 8.0, 10.0, 12.0)
AIMS = {
    **{f"retain {share:g}": Aim(retain=share) for share in SHARES},
    **{f"budget {paths:g}": Aim(budget=paths) for paths in BUDGETS},
    **{f"budget-mean {paths:g}": Aim(budget_mean=paths) for paths in BUDGETS},
    "retain 0.99, confidence 0.9": Aim(retain=0.99, confidence=0.9),
}
SIZES = ((25, 8), (50, 8), (50, 16), (100, 8), (200, 8))
ITEMS, PATHS = 50, 8

Family = Callable[[Workload], str]


@dataclass(frozen=True)
class Trial:
    """What was promised from one pilot, and what the other questions show."""

    workload: str
    helped: bool
    paths: float
    kept: float
    error: float
    promised: float
    limits: tuple[float, float]
    confidence: float
    paths_limits: tuple[float, float]


def trial(workload: Workload, known: Material, outlook: Outlook, aim: Aim, others: IntArray) -> Trial:
    """Choose from a pilot, and judge on the questions that are not in it."""
    index, _ = choose(outlook, aim)
    said = predicted(known, outlook, index, aim)
    expected = paths_interval(known, outlook, index)
    lost, top = workload.lost()[others, index], workload.top[others]
    level = max(float(top.mean()), 1e-9)
    assert expected.limits is not None and said.limits is not None
    # A pilot without one right answer at the cap is told nothing of what is kept: no interval to be held to.
    silent = outlook.level * len(np.unique(known.clusters)) < 0.5
    limits = (np.nan, np.nan) if silent else said.limits
    return Trial(
        workload.name,
        workload.helped,
        float(workload.truth.paths[others, index].mean()),
        1 - float(lost.mean()) / level,
        float(np.std(lost - lost.mean() / level * top, ddof=1) / len(top) ** 0.5 / level),
        said.value,
        limits,
        said.confidence or 0.0,
        expected.limits,
    )


def by_workload(trials: Sequence[Trial], value: Callable[[Trial], float]) -> FloatArray:
    """Return the mean of a value by workload [m]."""
    names = np.array([t.workload for t in trials])
    values = np.array([value(t) for t in trials])
    return np.array([values[names == name].mean() for name in sorted(set(names))])


def priors(long: Sequence[Workload], short: Sequence[Workload], family: Family) -> dict[str, Prior]:
    """Fit the generic workload without each family in turn."""

    def without(name: str) -> Prior:
        left_in = [[w for w in some if family(w) != name] for some in (long, short)]
        return fit_prior(*left_in)

    return {name: without(name) for name in sorted({family(w) for w in long})}


def trials(
    long: Sequence[Workload], fitted: dict[str, Prior], family: Family, size: tuple[int, int], pilots: int
) -> dict[str, list[Trial]]:
    """Recommend from random pilots of every workload, each with the prior that has not seen its family."""
    out: dict[str, list[Trial]] = {name: [] for name in AIMS}
    for workload in long:
        prior = fitted[family(workload)]
        for seed in range(pilots):
            votes, others = pilot(workload.votes, *size, seed)
            known = gather(votes, CAP, np.random.default_rng(0), prior)
            outlook = believe(known, prior)
            for name, aim in AIMS.items():
                out[name].append(trial(workload, known, outlook, aim, others))
    return out


HEAD = (
    "| aim | paths | kept % (se) | capped at 100 | worst tenth | short by 2 se | by 1 se | interval covers | "
    "its width | sure | truly | paths within |\n|---|" + "---:|" * 11
)


def row(name: str, some: Sequence[Trial]) -> str:
    """Return what one aim delivered."""
    kept = 100 * by_workload(some, lambda t: t.kept)
    share = AIMS[name].share if AIMS[name].retain else None
    count = len(kept)
    cells = [
        f"{by_workload(some, lambda t: t.paths).mean():.2f}",
        f"{kept.mean():.2f} ({kept.std(ddof=1) / count**0.5:.2f})",
        f"{np.minimum(kept, 100).mean():.2f}",
        f"{np.quantile(kept, 0.1):.2f}",
        *(_percent([t.kept + width * t.error < share for t in some]) if share else "" for width in (2, 1)),
        _percent([t.limits[0] <= t.kept <= t.limits[1] for t in some if not np.isnan(t.limits[0])]),
        f"{100 * np.nanmean([t.limits[1] - t.limits[0] for t in some]):.1f}",
        _percent([t.confidence for t in some]) if share else "",
        _percent([t.kept >= share for t in some]) if share else "",
        _percent([t.paths_limits[0] <= t.paths <= t.paths_limits[1] for t in some]),
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


def _percent(values: Sequence[float]) -> str:
    return f"{100 * np.mean(values):.0f}%"


def over_budget(name: str, some: Sequence[Trial]) -> str:
    """Return how often a budget was overspent."""
    budget = AIMS[name].budget or AIMS[name].budget_mean or 0.0
    spent = [t.paths for t in some]
    return f"| {name} | {_percent([s > budget for s in spent])} | {np.max(spent):.1f} |"


def against_single_rule(workloads: Sequence[Workload], some: Sequence[Trial]) -> str:
    """Compare with the best single rule for everybody, in hindsight, at equal mean paths."""
    names = sorted({t.workload for t in some})
    mine = [w for name in names for w in workloads if w.name == name]
    kept, mean = by_workload(some, lambda t: t.kept), by_workload(some, lambda t: t.paths).mean()
    paths = np.array([w.truth.paths.mean(axis=0) for w in mine])
    share = np.array([1 - w.lost().mean(axis=0) / max(w.top.mean(), 1e-9) for w in mine])
    best = max(_between(paths, share, mean), key=lambda values: float(values.mean()))
    gain = 100 * (kept - best)
    tenth = 100 * (np.quantile(kept, 0.1) - np.quantile(best, 0.1))
    half = 1.96 * gain.std(ddof=1) / len(gain) ** 0.5
    low, high = gain.mean() - half, gain.mean() + half
    return f"{mean:.2f} | {gain.mean():+.2f} [{low:+.2f}, {high:+.2f}] | {tenth:+.2f}"


def _between(paths: FloatArray, share: FloatArray, mean: float) -> Iterator[FloatArray]:
    """Yield what each family of rules keeps by workload, mixed from its two rules around the mean paths."""
    for family in Rules(CAP).families:
        means = paths[:, family].mean(axis=0)
        order = np.argsort(means)
        right = int(np.clip(np.searchsorted(means[order], mean), 1, len(order) - 1))
        low, high = order[right - 1] + family.start, order[right] + family.start
        gap = paths[:, high].mean() - paths[:, low].mean()
        part = float(np.clip((mean - paths[:, low].mean()) / max(gap, 1e-9), 0, 1))
        yield (1 - part) * share[:, low] + part * share[:, high]


def delivered(long: Sequence[Workload], found: dict[str, list[Trial]], left_out: str) -> None:
    """Print what was delivered against what was asked."""
    for helped, title in ((True, "the vote at 32 is right more often than one path"), (False, "it is not")):
        some = {name: [t for t in each if t.helped is helped] for name, each in found.items()}
        if some["retain 0.99"]:
            count = len({t.workload for t in some["retain 0.99"]})
            print(f"\n{count} workloads where {title}\n\n{HEAD}")
            for name, each in some.items():
                print(row(name, each))
            if helped:
                claims(some, left_out)
    print("\n| budget | overspent | at most |\n|---|---:|---:|")
    for name, each in found.items():
        if AIMS[name].budget or AIMS[name].budget_mean:
            print(over_budget(name, each))
    print("\n| aim | paths | kept more than one rule for all [95%] | worst tenth |\n|---|---:|---:|---:|")
    for name, each in found.items():
        print(f"| {name} | {against_single_rule(long, each)} |")


def claims(found: dict[str, list[Trial]], left_out: str) -> None:
    """Print what was asked and delivered, for the summary of all benchmarks."""
    for share in SHARES:
        some = found[f"retain {share:g}"]
        kept, paths = by_workload(some, lambda t: t.kept), by_workload(some, lambda t: t.paths).mean()
        print(
            f"claim: --retain {share:g}, {len(kept)} workloads, left out by {left_out}: mean accuracy kept | "
            f"{100 * kept.mean():.2f}% with {paths:.1f} paths | {100 * share:g}%"
        )


def sizes(long: Sequence[Workload], fitted: dict[str, Prior], family: Family, pilots: int) -> None:
    """Print how the promise sharpens with the pilot: on all records, and on those that have the questions."""
    for least in (50, 190, 400):
        some = [w for w in long if w.helped and w.votes.n >= least]
        if not some:
            continue
        print(f"\n{len(some)} workloads of at least {least} questions, retain 0.99\n")
        print(HEAD.replace("aim", "pilot") + "---:|")
        for size in SIZES:
            if size[0] <= 0.53 * least or size[0] == ITEMS:
                found = trials(some, fitted, family, size, pilots)
                name = "retain 0.99"
                line = row(name, found[name]).replace(name, f"{size[0]} x {size[1]}")
                sure = by_workload(found["retain 0.99, confidence 0.9"], lambda t: t.paths).mean()
                print(f"{line} 90% sure: {sure:.2f} paths |", flush=True)


def whole_records(long: Sequence[Workload], fitted: dict[str, Prior], family: Family) -> None:
    """Print what a choice from whole records keeps: on the record, cross-fitted, and their difference."""
    print(
        "\n| aim | paths | replayed % | cross-fitted % (se) | optimism | replayed below |\n|---|"
        + "---:|" * 5
    )
    for share in SHARES:
        rows = []
        for workload in long:
            prior, aim = fitted[family(workload)], Aim(retain=share)
            known = gather(workload.votes, CAP, np.random.default_rng(0), prior)
            outlook = believe(known, prior)
            index, _ = choose(outlook, aim)
            shown = 1 - workload.lost()[:, index].mean() / max(workload.top.mean(), 1e-9)
            rows.append((outlook.paths[index], shown, cross_fitted(known, aim, prior).value))
        paths, shown, kept = 100 * np.array(rows).T
        print(
            f"| retain {share:g} | {paths.mean() / 100:.2f} | {shown.mean():.2f} | {kept.mean():.2f} "
            f"({kept.std(ddof=1) / len(kept) ** 0.5:.2f}) | {(shown - kept).mean():.2f} | "
            f"{_percent([s < 100 * share - 0.05 for s in shown])} |",
            flush=True,
        )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--pilots", type=int, default=6)
    options = parser.parse_args()
    long, short = list(load(options.folder)), list(load(options.folder, short=True))
    if not long:
        print(f"skipped: no recorded generations with 48 paths a question in {options.folder}")
        return
    partitions: dict[str, Family] = {"data set": lambda w: w.data_set, "source": lambda w: w.source}
    for title, family in partitions.items():
        fitted = priors(long, short, family)
        print(f"\n## Left out by {title}: {', '.join(fitted)}", flush=True)
        for name, prior in fitted.items():
            print(f"without {name}: {prior.price}")
        delivered(long, trials(long, fitted, family, (ITEMS, PATHS), options.pilots), title)
        if title == "data set":
            print("\n## Constants set by hand")
            sensitivity(long, fitted, family, 1)
            print("\n## Pilots of other sizes")
            sizes(long, fitted, family, options.pilots)
            print("\n## Whole records")
            whole_records(long, fitted, family)


if __name__ == "__main__":
    main()
