"""How single rules and the recommendation fare on recorded generations of real models.

For every record with at least 48 paths: the rules are replayed on all its questions, and pilots of
min(50, n/2) questions x 8 paths are drawn at random, a policy is recommended from each pilot alone, and the
other questions are replayed (below 60 questions: the same ones). The generic prior is fitted anew without
the record and its kin (the same source and question set). Nothing else is left out: the family of
candidates, the least price of a vote's share and the width of the stated interval were chosen on these
same records, so the rows of the recommendation are somewhat flattering. Prints Markdown tables.

    python -m benchmarks.frontier [FOLDER] [--pilots 4] [--paths 8] [--prior]

``--prior`` prints the fitted prior of all records instead: the numbers of ``keff.analysis.recommend.prior``.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from keff.analysis.recommend import Aim, advise
from keff.analysis.recommend.forecast import candidates, forecast
from keff.analysis.recommend.prior import Belief, Line, Prior
from keff.analysis.replay.outcomes import expectations, run
from keff.policies._table import Table
from keff.policy import parse_policy
from keff.reading.open import Opening, open_record
from keff.stats.correlation import agreement_items
from keff.stats.draws import Draws, permuted
from keff.stats.mixture import COMPONENTS, partition_log_law, vote_counts
from keff.stats.plurality import plurality_at_k_items
from keff.stats.verdict import judge_voting
from keff.stats.votes import FloatArray, Votes

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "recorded"
SHARES = (0.98, 0.99, 0.995, 0.999, 0.9995)
CAP, ORDERS, PILOT_ITEMS, PILOT_PATHS = 32, 80, 50, 8
SINGLES = (
    *(f"fixed:{k}" for k in (1, 3, 5, 8, 12, 16)),
    *(f"lead_k:{k}" for k in (2, 3, 4)),
    *(f"adaptive_consistency:{t}" for t in (0.8, 0.87, 0.9, 0.95, 0.97, 0.99)),
    "adaptive_consistency:0.95,rule=dirichlet",
    *(f"esc:{w}" for w in (3, 4, 5)),
    "e_value:0.05",
    *(f"budget:{k}" for k in (1.1, 1.5, 2, 2.5, 3, 4, 5)),
    *(f"pilot_budget:{t}" for t in (0.94, 0.972, 0.98, 0.992)),
    "adaptive_k",
    "adaptive_k:form=conservative",
    "curtailed",
)
AIMS = {
    **{f"retain {share:g}": Aim(retain=share) for share in SHARES},
    **{f"budget {paths}": Aim(budget=paths) for paths in (6, 8, 10, 12)},
}


@dataclass
class Cell:
    """One record, its random orders, what its votes are worth, and the outcomes that were asked for.

    ``close_calls`` is the share and the accuracy that rules of 2 to 8 paths lose, on average.
    """

    name: str
    votes: Votes
    draws: Draws
    whole: FloatArray
    calibration: float
    slope: float
    close_calls: tuple[float, float]
    known: dict[str, tuple[FloatArray, FloatArray]] = field(default_factory=dict)

    @property
    def kin(self) -> str:
        parts = self.name.split("_")
        return "_".join(parts[:-1]) if parts[0] == "boinf" else self.name

    def outcome(self, spec: str) -> tuple[FloatArray, FloatArray]:
        """Return the paths and the accuracy of each question [n]."""
        if spec not in self.known:
            found = expectations(run(parse_policy(spec), self.draws), self.draws, CAP)
            assert found.accuracy is not None
            self.known[spec] = found.paths, found.accuracy
        return self.known[spec]

    def pilot(self, seed: int, paths: int) -> tuple[Votes, FloatArray]:
        """Return a random pilot, and the questions to judge it on."""
        rng = np.random.default_rng([seed, 11])
        items = rng.choice(self.votes.n, min(PILOT_ITEMS, self.votes.n // 2), replace=False)
        columns = rng.random((len(items), self.votes.k)).argsort(axis=1)[:, :paths]
        answers = np.take_along_axis(self.votes.answered()[items], columns, axis=1)
        correct = np.take_along_axis(self.votes.scored()[items], columns, axis=1)
        others = np.setdiff1d(np.arange(self.votes.n), items) if self.votes.n >= 60 else items
        return Votes(answers, correct, closed=self.votes.closed), others


def load(file: Path) -> Cell | None:
    votes = open_record(file, Opening(None, None, None)).ballot.votes
    if votes.k < 48 or votes.correct is None or votes.slots is not None or "multimodel" in file.stem:
        return None
    votes = Votes(votes.answers, votes.correct, closed=votes.closed)
    draws = permuted(votes, CAP, ORDERS, np.random.default_rng(7))
    assert draws.tallies.credit is not None
    whole = draws.tallies.credit[:, :, CAP].mean(axis=1, dtype=np.float64)
    calibration = float(votes.scored().mean() / agreement_items(votes).mean())
    return Cell(file.stem, votes, draws, whole, calibration, _slope(votes), _close_calls(votes, draws, whole))


def _slope(votes: Votes) -> float:
    """The accuracy gained from one path to the cap, per share gained, over the whole record."""
    gain = plurality_at_k_items(votes)[:, CAP - 1].mean() - votes.scored().mean()
    counts, _ = vote_counts(votes)
    shares = np.sort(counts / votes.k, axis=1)[:, ::-1]
    return float(gain / max((shares[:, 0] - np.square(shares).sum(axis=1)).mean(), 1e-9))


def _close_calls(votes: Votes, draws: Draws, whole: FloatArray) -> tuple[float, float]:
    found = forecast(votes, CAP, np.random.default_rng(0))
    some = np.flatnonzero((found.paths >= 2) & (found.paths <= 8))[::4]
    _, right = _replayed([found.candidates.tables[one] for one in some], draws)
    return float(found.loss[some].mean()), float(whole.mean() - right.mean())


def fit_prior(cells: list[Cell]) -> Prior:
    """Fit the generic prior to 32 paths of every question, each record counted once."""
    laws, weights = [], []
    for cell in cells:
        order = np.random.default_rng(0).permutation(cell.votes.k)[:CAP]
        law = partition_log_law(vote_counts(cell.votes.paths(order))[0])
        laws.append(np.exp(law - law.max(axis=1, keepdims=True)))
        weights.append(np.full(len(law), 1 / len(law) / len(cells)))
    law, weight = np.concatenate(laws), np.concatenate(weights)
    share = np.full(len(COMPONENTS), 1 / len(COMPONENTS))
    for _ in range(500):
        each = law * share
        each /= each.sum(axis=1, keepdims=True)
        share = 0.02 / len(COMPONENTS) + weight @ each
        share /= share.sum()
    calibration, slope = np.array([(cell.calibration, cell.slope) for cell in cells]).T
    loss, lost = np.array([cell.close_calls for cell in cells]).T
    even = np.ones(len(cells))
    return Prior(
        share,
        Belief(float(calibration.mean()), float(calibration.std(ddof=1))),
        _line(calibration, slope, even),
        # Where more share is lost, what it cost is known better.
        _line(slope, lost / loss, loss),
    )


def _line(x: FloatArray, y: FloatArray, weight: FloatArray) -> Line:
    """Fit y over x by least squares; ``weight`` says how precise each y is."""
    columns = np.stack([np.ones(len(x)), x], axis=1)
    intercept, gradient = np.linalg.lstsq(columns * weight[:, None], y * weight, rcond=None)[0]
    left = (y - intercept - gradient * x) * weight
    spread = np.sqrt(np.square(left).sum() / np.square(weight).sum() * len(x) / (len(x) - 2))
    return Line(float(intercept), float(gradient), float(spread))


@dataclass
class Tally:
    """What one rule or aim did, pilot by pilot."""

    cells: list[str] = field(default_factory=list)
    paths: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    covered: list[bool] = field(default_factory=list)

    def add(
        self, cell: Cell, spec: str, items: FloatArray, expected: tuple[float, float] | None = None
    ) -> None:
        paths, accuracy = cell.outcome(spec)
        here, whole = accuracy[items], cell.whole[items]
        self.cells.append(cell.name)
        self.paths.append(float(paths[items].mean()))
        self.kept.append(float(here.sum() / max(whole.sum(), 1e-9)))
        rng = np.random.default_rng(3)
        times = rng.multinomial(len(items), np.full(len(items), 1 / len(items)), 400)
        self.upper.append(float(np.quantile(times @ here / np.maximum(times @ whole, 1e-9), 0.95)))
        if expected is not None:
            self.covered.append(expected[0] <= float(here.mean()) <= expected[1])

    def line(self, name: str) -> str:
        names = sorted(set(self.cells))
        own = np.array(self.cells)
        paths = np.array([np.mean(np.array(self.paths)[own == cell]) for cell in names])
        kept = 100 * np.array([np.mean(np.array(self.kept)[own == cell]) for cell in names])
        fine = [100 * np.mean(np.array(self.upper) >= share) for share in (0.98, 0.99, 0.995)]
        cells = [f"{paths.mean():.1f}", f"{kept.mean():.2f}", f"{np.quantile(kept, 0.1):.2f}"]
        cells += [f"{share:.0f}" for share in fine]
        cells.append(f"{100 * np.mean(self.covered):.0f}" if self.covered else "")
        return f"| {name} | " + " | ".join(cells) + " |"


HEAD = (
    "| policy | mean paths | kept % | worst tenth % | not refuted .98 % | .99 % | .995 % | covered % |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|"
)


def singles(cells: list[Cell], pilots: int) -> None:
    print(HEAD)
    for name in SINGLES:
        tally = Tally()
        for cell in cells:
            for seed in range(pilots):
                pilot, others = cell.pilot(seed, 4 if name.startswith("adaptive_k") else PILOT_PATHS)
                policy = parse_policy(name)
                fitted = policy.fit(pilot) if name.startswith(("adaptive_k", "pilot_budget")) else policy  # type: ignore[attr-defined]
                tally.add(cell, fitted.spec, others)
        print(tally.line(f"`{name}`"), flush=True)


def recommended(cells: list[Cell], judged: list[Cell], pilots: int, paths: int) -> None:
    print("\n" + HEAD)
    priors: dict[str, Prior] = {}
    tallies = {name: Tally() for name in AIMS}
    for cell in judged:
        if cell.kin not in priors:
            priors[cell.kin] = fit_prior([other for other in cells if other.kin != cell.kin])
        for seed in range(pilots):
            pilot, others = cell.pilot(seed, paths)
            verdict = judge_voting(pilot, CAP).verdict
            found = forecast(pilot, CAP, np.random.default_rng(0), priors[cell.kin])
            for name, aim in AIMS.items():
                advice = advise(pilot, found, aim, verdict)
                assert advice.expected is not None
                limits = advice.expected.lo or 0.0, advice.expected.hi or 1.0
                tallies[name].add(cell, advice.policy, others, limits)
    for name, tally in tallies.items():
        line = tally.line(name)
        print(line, flush=True)
        paths, kept, worst = line.split(" | ")[1:4]
        where = (
            f"{len(judged)} records of "
            f"{'60 questions or more' if judged[0].votes.n >= 60 else '30 questions'}"
        )
        print(
            f"claim: --{name}, {where}: accuracy kept, worst tenth | {kept}%, {worst}% with {paths} paths | "
        )


def oracle(cells: list[Cell]) -> None:
    """Print the fewest paths of a choice among the candidates that knows every record's answers."""
    tables = candidates(CAP).tables
    fewest = np.array([_fewest(cell, tables) for cell in cells])
    names = ", ".join(
        f"{paths:.1f} to keep {share:g}" for share, paths in zip(SHARES, fewest.mean(0), strict=True)
    )
    print(f"\nA choice that knows all answers: {names} on every record (mean paths)")


def _fewest(cell: Cell, tables: list[Table]) -> list[float]:
    paths, right = _replayed(tables, cell.draws)
    return [float(paths[right >= share * cell.whole.mean()].min()) for share in SHARES]


def _replayed(tables: list[Table], draws: Draws) -> tuple[FloatArray, FloatArray]:
    """Return the mean paths and the accuracy of each table [C]."""
    tallies, n = draws.tallies, np.arange(CAP + 1)
    assert tallies.credit is not None
    at = (n * (CAP + 1) + tallies.v1) * (CAP + 1) + tallies.v2
    stops = [table.ravel()[at].argmax(axis=2) for table in tables]
    right = [np.take_along_axis(tallies.credit, stop[..., None], 2).mean() for stop in stops]
    return np.array([stop.mean() for stop in stops]), np.array(right, float)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--pilots", type=int, default=4)
    parser.add_argument("--paths", type=int, default=PILOT_PATHS, help="of the recommendation's pilots")
    parser.add_argument("--prior", action="store_true")
    options = parser.parse_args()
    cells = [cell for file in sorted(options.folder.glob("*.jsonl")) if (cell := load(file))]
    if not cells:
        print(f"skipped: no recorded generations with 48 paths per question in {options.folder}")
        return
    if options.prior:
        prior = fit_prior(cells)
        print(np.round(prior.weights, 3).tolist(), prior.calibration, prior.slope, prior.price)
        return
    large, small = (
        [cell for cell in cells if cell.votes.n >= 60],
        [cell for cell in cells if cell.votes.n < 60],
    )
    for title, some in (("at least 60 questions", large), ("below 60, judged on the pilot's own", small)):
        print(f"\n### The recommendation, {len(some)} records of {title}")
        oracle(some)
        recommended(cells, some, options.pilots, options.paths)
    for title, some in (("at least 60 questions", large), ("below 60, judged on the pilot's own", small)):
        print(f"\n### Single rules, {len(some)} records of {title}\n")
        singles(some, options.pilots)


if __name__ == "__main__":
    main()
