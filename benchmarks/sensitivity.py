"""What the constants that are set by hand do to the promise: each alone, made smaller and larger.

The families of rules' prices are learned without the family that is judged; these six are not. ``frontier``
prints the table: one simulated pilot serves all variants, so differences are those of the constant alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

import numpy as np
from benchmarks.workloads import CAP, Workload, pilot

from keff.analysis.recommend import kept, outlook
from keff.analysis.recommend.aim import Aim
from keff.analysis.recommend.choose import choose
from keff.analysis.recommend.outlook import believe, gather
from keff.analysis.recommend.prior import Price, Prior

ITEMS, PATHS = 50, 8

VARIANTS: dict[str, tuple[ModuleType | None, str, float]] = {
    "as it is": (None, "", 0.0),
    "least price .15 of the accuracy, not .3": (outlook, "LEAST_PRICE", 0.15),
    "least price .6": (outlook, "LEAST_PRICE", 0.6),
    "price at its mean, not its 90% limit": (None, "trusted", 0.0),
    "price at its 97.5% limit": (None, "trusted", 1.96),
    "noise of questions 0.9, not 1.8": (kept, "QUESTION_NOISE", 0.9),
    "noise of questions 3.6": (kept, "QUESTION_NOISE", 3.6),
    "unseen share .01, not .02": (outlook, "UNSEEN", 0.01),
    "unseen share .04": (outlook, "UNSEEN", 0.04),
    "variance of paths 1, not 1.5": (outlook, "PATHS_VARIANCE", 1.0),
    "variance of paths 3": (outlook, "PATHS_VARIANCE", 3.0),
    "model error of paths 0, not .05": (outlook, "PATHS_MODEL", 0.0),
    "model error of paths .1": (outlook, "PATHS_MODEL", 0.1),
}
AIMS = {"0.98": Aim(retain=0.98), "0.99": Aim(retain=0.99), "0.999": Aim(retain=0.999), "8": Aim(budget=8)}


@contextmanager
def variant(place: ModuleType | None, name: str, value: float) -> Iterator[None]:
    """Put one constant in place of another; ``trusted`` counts standard errors of the mean price."""
    if not name:
        yield
        return
    where, what = (Price, "trusted") if place is None else (place, name)
    before = vars(where)[what]
    changed = property(lambda price: price.mean + value * price.error) if place is None else value
    setattr(where, what, changed)
    try:
        yield
    finally:
        setattr(where, what, before)


def sensitivity(
    long: Sequence[Workload], fitted: dict[str, Prior], family: Callable[[Workload], str], pilots: int
) -> None:
    """Print the table over the workloads that voting helps."""
    rows: dict[str, list[list[float]]] = {name: [] for name in VARIANTS}
    for workload in (w for w in long if w.helped):
        prior = fitted[family(workload)]
        each: dict[str, list[list[float]]] = {name: [] for name in VARIANTS}
        for seed in range(pilots):
            votes, others = pilot(workload.votes, ITEMS, PATHS, seed)
            known = gather(votes, CAP, np.random.default_rng(0), prior)
            top, paths = workload.top[others], workload.truth.paths[others].mean(axis=0)
            share = 1 - workload.lost()[others].mean(axis=0) / max(float(top.mean()), 1e-9)
            for name, change in VARIANTS.items():
                with variant(*change):
                    view, line = believe(known, prior), list[float]()
                    for aim in AIMS.values():
                        rule, _ = choose(view, aim)
                        said = kept.predicted(known, view, rule, aim).limits or (0.0, 1.0)
                        mean = kept.paths_interval(known, view, rule).limits or (1.0, float(CAP))
                        line += [paths[rule], share[rule], said[0] <= share[rule] <= said[1]]
                        line += [mean[0] <= paths[rule] <= mean[1], paths[rule] > (aim.budget or np.inf)]
                each[name].append(line)
        for name, lines in each.items():
            rows[name].append(np.mean(lines, axis=0).tolist())
    print(
        "\n| constant | .98: paths, kept | .99 | .999 | kept's interval covers | paths' covers "
        "| `--budget 8` overspent |\n|---|" + "---:|" * 6
    )
    for name, lines in rows.items():
        table = np.mean(lines, axis=0).reshape(len(AIMS), 5)
        shown = [f"{paths:.1f}, {100 * part:.2f}%" for paths, part, *_ in table[:3]]
        covers, spans = 100 * table[:3, 2].mean(), 100 * table[:, 3].mean()
        print(
            f"| {name} | {' | '.join(shown)} | {covers:.0f}% | {spans:.0f}% | {100 * table[3, 4]:.0f}% |",
            flush=True,
        )
