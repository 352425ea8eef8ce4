"""The constants of `keff mix` and of its pilots, chosen with whole families of records left out.

    python -m benchmarks.constants mix_constants [DATA] [options]

Pilots and options as in `benchmarks/analysis/mix.py`. What plans gain is fitted; the margin of worth, and how
far gains are shrunk, are those of least regret on the other families; the stakes of the default those that
lose the least accuracy beyond half a standard error of one pilot, and cost the least; what dropping gives up
is that of least regret among those whose pilots cost three quarters of full ones at most, where a pilot has
the questions of every look. Before that, simulated, how often a pilot drops a branch by how much more
accurate than a cheaper one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from benchmarks.analysis.mix import (
    WORTHS,
    Group,
    Known,
    Pilot,
    at_margin,
    known_pilots,
    parser,
    regrets,
)
from keff.analysis.mix.choose import DEFAULT_VALUE_PER_CORRECT
from keff.analysis.mix.drop import LOOKS, expected_loss
from keff.analysis.mix.shrink import Law, paths_of, votes_of
from keff.stats.votes import FloatArray

MARGINS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 1e9)
GRID = {
    "apart": (0.01, 0.015, 0.02),
    "apart_of_several": (0.015, 0.02, 0.03),
    "last": (0.3, 0.4, 0.5),
}
OTHER_STAKES = (10.0, 20.0, 30.0, 50.0, 100.0, 1000.0)
DROPS = (0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05)
DEAREST = 0.75
"""A pilot that drops branches costs at most this part of a full one."""
FLOOR = 0.15
"""Points below which a standard error is not taken for smaller, in what the grid is judged by."""


def outcome(pilots: Sequence[Pilot], stakes: float) -> FloatArray:
    """Return cost over A's, gain over A in points, and its mean error, of the default at some stakes."""
    best = [pilot.default.best for pilot in pilots]
    taken = [p.table.default(place, stakes) for p, place in zip(pilots, best, strict=True)]
    paid, paid_best = (
        np.mean([p.paid[at] for p, at in zip(pilots, places, strict=True)]) for places in (taken, best)
    )
    gain = np.mean([p.true[at] - p.true[b] for p, at, b in zip(pilots, taken, best, strict=True)])
    error = np.mean([p.gain_error[at] for p, at in zip(pilots, taken, strict=True)])
    return np.array([paid / paid_best, 100 * gain, 100 * error], np.float64)


def badness(rows: FloatArray, weights: FloatArray) -> float:
    """Return what the grid minimises: errors lost beyond a half, and a quarter of the log cost."""
    lost = np.clip(-rows[:, 1] / np.maximum(rows[:, 2], FLOOR) - 0.5, 0, 20)
    return float((weights * (lost + 0.25 * np.log(rows[:, 0]))).sum())


def family_weights(known: Sequence[Group], without: str = "") -> FloatArray:
    """Return weights of groups that give each family the same, and one none."""
    families = [group.family for group in known]
    raw = np.array([0.0 if family == without else 1 / families.count(family) for family in families])
    return raw / raw.sum()


def told(rows: FloatArray) -> str:
    """Return the geometric mean of costs, the mean gain, and how many groups fall short of A by an error."""
    short = int((rows[:, 1] < -rows[:, 2]).sum())
    return f"{np.exp(np.log(rows[:, 0]).mean()):.2f} | {rows[:, 1].mean():+.2f} | {short} of {len(rows)} |"


def print_gains(known: Known) -> None:
    """Print what plans gain over one path, over (1 - 1/m) q(1 - q), with each family left out.

    q is the accuracy of such a path, m the most paths of a plan; beside it the standard deviation of what
    plans gain beyond that.
    """
    rows = {group: _gains(pilots[0]) for group, pilots in known.items()}
    for family in dict.fromkeys(group.family for group in known):
        weights = family_weights(list(known), family)
        told: list[str] = []
        for kind in (0, 1):
            base, gain, weight = np.concatenate(
                [
                    np.vstack([found[kind], np.full(found[kind].shape[1], w / found[kind].shape[1])])
                    for found, w in zip(rows.values(), weights, strict=True)
                ],
                axis=1,
            )
            slope = float((weight * base * gain).sum() / (weight * base**2).sum())
            told.append(f"{slope:.2f} ({np.sqrt((weight * (gain - slope * base) ** 2).sum()):.3f})")
        print(f"without {family}: votes of one branch {told[0]}, plans of several {told[1]}")


def _gains(pilot: Pilot) -> tuple[FloatArray, FloatArray]:
    """Return (1 - 1/m) q(1 - q) and gain [2, P] of votes of one branch, and of plans of several."""
    table, votes = pilot.table, votes_of(pilot.table.plans)
    q = paths_of(table.plans, table.accuracy, table.answered)[0] @ pilot.path
    rows = np.array([votes * q * (1 - q), pilot.on_all[0] - q])
    return rows[:, table.single & (votes > 0)], rows[:, ~table.single]


def print_margins(known: Known) -> None:
    """Print the regret of each margin of worth, and which one the other families choose."""
    tried = {margin: regrets(known, at_margin(margin)) for margin in MARGINS}
    for margin, regret in tried.items():
        print(f"| {margin:g} errors | " + " | ".join(f"{value:.2f}" for value in regret.mean(axis=0)) + " |")
    for family in dict.fromkeys(group.family for group in known):
        weights = family_weights(list(known), family)
        best = min(MARGINS, key=lambda m, w=weights: float(w @ tried[m].mean(axis=1)))
        print(f"without {family}: {best:g} errors")


def print_drops(known: Known) -> None:
    """Print cost and regret of pilots by what dropping gives up, and which one the other families choose.

    Of all groups, and of those whose pilots have the questions of every look, by which it is chosen.
    """
    full = {group: pilots for group, pilots in known.items() if len(pilots[0].ids) >= LOOKS[-1]}
    for some in (known, full):
        listed = list(some)
        rows = {
            m: np.column_stack(
                [
                    [np.mean([p.dropping(m)[1] for p in own]) for own in some.values()],
                    regrets(some, lambda p, w, m=m: p.after_dropping(w, m)),
                ]
            )
            for m in DROPS
        }
        print(f"\n{len(some)} groups")
        for given_up, found in rows.items():
            print(f"| {given_up:g} | " + " | ".join(f"{value:.2f}" for value in found.mean(axis=0)) + " |")
    out: FloatArray = np.zeros((len(listed), 6))
    for family in dict.fromkeys(group.family for group in listed):
        weights = family_weights(listed, family)
        cheap = [m for m in DROPS if weights @ rows[m][:, 0] <= DEAREST]
        best = min(cheap, key=lambda m, w=weights: float(w @ rows[m][:, 1:].mean(axis=1)))
        here = np.array([group.family == family for group in listed])
        out[here] = rows[best][here]
        print(f"without {family}: {best:g}")
    print("chosen by the other families: " + " | ".join(f"{value:.2f}" for value in out.mean(axis=0)))


def print_laws(known: Known) -> None:
    """Print the regret by what a plan's gain is shrunk by, and what the other families choose."""
    laws = [Law(**dict(zip(GRID, values, strict=True))) for values in product(*GRID.values())]
    tried = {law: regrets(known, under(law)) for law in laws}
    out: FloatArray = np.zeros_like(tried[laws[0]])
    print("\n" + "".join(f"| {name} " for name in GRID) + "".join(f"| V = {worth:g} " for worth in WORTHS))
    for law, regret in tried.items():
        values = [getattr(law, name) for name in GRID]
        print("| " + " | ".join(f"{value:g}" for value in values) + f" | {means(regret)} |")
    for family in dict.fromkeys(group.family for group in known):
        weights = family_weights(list(known), family)
        best = min(laws, key=lambda law, w=weights: float(w @ tried[law].mean(axis=1)))
        here = np.array([group.family == family for group in known])
        out[here] = tried[best][here]
        print(f"without {family}: " + ", ".join(f"{name} {getattr(best, name):g}" for name in GRID))
    print(f"chosen by the other families: {means(out)}")


def under(law: Law) -> Callable[[Pilot, float], int]:
    """Return the rule of worth under another prior."""
    return lambda pilot, worth: replace(pilot.table, law=law).best_at(worth)


def means(rows: FloatArray) -> str:
    """Return the means of columns as cells of a table."""
    return " | ".join(f"{value:.2f}" for value in rows.mean(axis=0))


def print_stakes(known: Known) -> None:
    """Print what the default costs and gains by its stakes, and which the other families choose."""
    listed = list(known)
    every = {
        s: np.array([outcome(known[group], s) for group in listed])
        for s in (DEFAULT_VALUE_PER_CORRECT, *OTHER_STAKES)
    }
    print("\n| stakes | cost over A | points | short |\n|--:|--:|--:|--:|")
    out: FloatArray = np.zeros((len(listed), 3))
    for stakes, rows in every.items():
        print(f"| {stakes:g} | {told(rows)}")
    for family in dict.fromkeys(group.family for group in listed):
        best = min(every, key=lambda s, f=family: badness(every[s], family_weights(listed, f)))
        here = np.array([group.family == family for group in listed])
        out[here] = every[best][here]
        print(f"without {family}: {best:g}")
    print(f"chosen by the other families: {told(out)}")


def print_dropping(pilots: int = 10_000) -> None:
    """Print how often a dear branch is dropped by how much more accurate than a cheaper one of .6 it is.

    Four paths of each question; difficulty common to both, normal on the logits with a deviation of 1.2.
    """
    rng = np.random.default_rng(0)
    least = [_least_loss(0.6 + points / 100, pilots, rng) for points in (0, 2, 5, 10, 20)]
    print("\n| given up | times the cost | equal | 2 points better | 5 | 10 | 20 |\n" + "|--:" * 7 + "|")
    for given_up, dear in product(DROPS, (2, 10)):
        shares = [float((loss < given_up * dear / (1 + dear)).mean()) for loss in least]
        print(f"| {given_up:g} | {dear} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")


def _least_loss(p: float, pilots: int, rng: np.random.Generator) -> FloatArray:
    """Return the least expected loss, over the looks of each pilot, without a branch of accuracy p."""
    hard = rng.normal(0, 1.2, (pilots, LOOKS[-1]))
    (path, vote), (rival_path, rival_vote) = (_drawn(chance, hard, rng) for chance in (0.6, p))
    leads = path - rival_path, vote - rival_vote
    by_look = [
        np.maximum(*(expected_loss(lead[:, :size], np.arange(size)) for lead in leads)) for size in LOOKS
    ]
    return np.min(by_look, axis=0)


def _drawn(chance: float, hard: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return the accuracy of a path and of the vote of four, wrong answers being three alike."""
    # 1.35 makes the mean over this difficulty about the chance itself.
    theta = 1 / (1 + np.exp(-(1.35 * np.log(chance / (1 - chance)) + hard)))
    wrong = (1 - theta) / 3
    counts = rng.multinomial(4, np.stack([theta, wrong, wrong, wrong], axis=-1))
    most = counts == counts.max(axis=-1, keepdims=True)
    return counts[..., 0] / 4, most[..., 0] / most.sum(axis=-1)


def main() -> None:
    """Print the tables."""
    given = parser(__doc__).parse_args()
    print_dropping()
    if known := known_pilots(given):
        print_gains(known)
        print_margins(known)
        print_laws(known)
        print_stakes(known)
        print_drops(known)


if __name__ == "__main__":
    main()
