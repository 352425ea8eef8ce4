"""Sources of paths (prompts, judges, models): what is stated of others, of other designs, and of panels.

    KEFF_SHARED=../shared python -m benchmarks.stats.sources [--turns N]

Simulated: right and wrong by a logit of question, source and their interaction. Recorded: every record whose
paths are sources (LLMBar: prompts and orders; MedAgents: methods; MMLU-Pro: models); of each, sources and
questions are drawn, and others, that were not among them, are the truth. Nothing is fitted on any of them.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import keff
from benchmarks.places import records_folder
from keff.analysis.panel import learners, panel_of
from keff.reading.open import Opening, Record, open_record
from keff.stats import sources as stats
from keff.stats.branches.pairwise import c_of_judges
from keff.stats.branches.slots import slot_accuracies
from keff.stats.branches.weights import weighted_vote
from keff.stats.repeats import run_to_run
from keff.stats.sources import SourceScores
from keff.stats.votes import FloatArray, Votes
from keff.stats.voting.correlation import pooled_c

# Records whose paths are sources, by family.
FILES = {
    "LLMBar": "more/llmbar_*_panel.jsonl",
    "MedAgents": "more/medhard_*_methods.jsonl",
    "MMLU-Pro": "recorded/mmlupro_multimodel_votes.jsonl",
}
QUESTIONS = 100


def scores_of(right: FloatArray, names: str = "s") -> SourceScores:
    """Return the paths of right and wrong [n, S]."""
    question, source = np.indices(right.shape)
    labels = tuple(f"{names}{number}" for number in range(right.shape[1]))
    return SourceScores(question.ravel(), source.ravel(), right.ravel().astype(np.float64), labels)


def simulated(turns: int, rng: np.random.Generator) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the coverage of what is stated of simulated sources, by their number and spread."""
    for size in (4, 8, 16):
        for spread in (0.0, 0.3, 0.8):
            yield f"{size} sources, sd {spread} logits", _coverage(size, spread, turns, rng)


def _coverage(size: int, spread: float, turns: int, rng: np.random.Generator) -> dict[str, float]:
    law = rng.standard_normal((4000, 1)) * 1.5 + 0.8
    many = 1 / (
        1 + np.exp(-(law + spread * rng.standard_normal(400) + 0.7 * rng.standard_normal((4000, 400))))
    )
    truth = {
        "mean": many.mean(),
        "sd": float(many.mean(axis=0).std()) if spread else 0.0,
        "pass^2": _both(many),
        "c": (_both(many) - many.mean() ** 2) / (many.mean() * (1 - many.mean())),
    }
    hits: dict[str, list[bool]] = {}
    for _ in range(turns):
        own = rng.choice(400, size + 1, replace=False)
        rows = rng.choice(4000, QUESTIONS, replace=False)
        right = (rng.random((QUESTIONS, size + 1)) < many[np.ix_(rows, own)]).astype(float)
        seen, other = scores_of(right[:, :-1]), float(right[:, -1].mean())
        found = stats.source_variance(seen)
        assert found is not None
        said = {
            "a new source's score": (stats.new_source(seen, found), other),
            "mean score": (stats.mean_score(stats.score_spread(seen, found), QUESTIONS), truth["mean"]),
            "sd between sources": (stats.source_sd(seen, found), truth["sd"]),
            "pass^2": (stats.over_sources(seen, lambda some: stats.all_right(some, 2)), truth["pass^2"]),
            "c of two sources": (stats.correlation(seen, found), truth["c"]),
        }
        for name, (interval, true) in said.items():
            lo, hi = interval.limits or (-math.inf, math.inf)
            hits.setdefault(name, []).append(lo - 1e-9 <= true <= hi + 1e-9)
    return {name: float(np.mean(each)) for name, each in hits.items()}


def _both(many: FloatArray) -> float:
    """Return the chance that two different sources are both right."""
    total, size = many.sum(axis=1), many.shape[1]
    return float(((total**2 - (many**2).sum(axis=1)) / (size * (size - 1))).mean())


def worth_of_judges(turns: int, rng: np.random.Generator) -> Iterator[tuple[str, float]]:
    """Yield how often K_eff of simulated judges holds that of endless questions, by the answers they give."""
    shares = {
        "all answer": lambda size: np.ones(size),
        "half of the answers": lambda size: np.full(size, 0.5),
        "a fifth to all": lambda size: np.linspace(0.2, 1, size),
    }
    for size, n, spread in itertools.product((3, 5, 9), (50, 200), (0.0, 0.6, 1.2)):
        logit = rng.normal(0.9, 1.3, (100_000, 1)) + spread * rng.standard_normal(size)
        chance = 1 / (1 + np.exp(-(logit + 0.5 * spread * rng.standard_normal(logit.shape))))
        right = (rng.random(chance.shape) < chance).astype(np.int64)
        true = pooled_c(Votes.from_correct(right))
        for answers, share in shares.items():
            held = list[bool]()
            for _ in range(turns):
                rows, given = rng.choice(len(right), n, replace=False), rng.random((n, size)) < share(size)
                # K_eff is a decreasing function of c, cut where c is below 0.
                lo, hi = c_of_judges(right[rows], given, np.arange(n)).limits or (-math.inf, math.inf)
                held.append(lo <= max(true, 0.0) and true <= max(hi, 0.0))
            yield f"{size} judges, {n} questions, sd {spread} logits, {answers}", float(np.mean(held))


def mixes(turns: int, rng: np.random.Generator) -> dict[str, float]:
    """Return how often ``keff mix`` holds the accuracy of a model under other prompts, by ``--sources``.

    Two models, each under six prompts drawn for it, on 60 questions; the plan that asks the model once.
    """
    hits: dict[str, list[bool]] = {}
    questions = rng.normal(0, 1.2, 4000)

    def chance(level: float, rows: FloatArray, prompts: int) -> FloatArray:
        return 1 / (1 + np.exp(-(level + rows[:, None] + 0.7 * rng.standard_normal(prompts))))

    levels = {"small": 0.2, "large": 0.9}
    truth = {name: float(chance(level, questions, 1000).mean()) for name, level in levels.items()}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(turns):
            rows, files = rng.choice(questions, 60), list[Path]()
            for name, level in levels.items():
                right = rng.random((60, 6)) < chance(level, rows, 6)
                files.append(Path(folder) / f"{name}.csv")
                lines = (f"q{n},t{s},{'BA'[int(right[n, s])]},A" for n, s in np.ndindex(60, 6))
                files[-1].write_text("\n".join(("id,template,answer,gold_answer", *lines)))
            for kind in ("fixed", "random"):
                for line in keff.mix(*files, sources=kind).singles:
                    (name,) = line.branches
                    if line.policy == f"cascade:{name}(fixed:1)":
                        lo, hi = line.accuracy.limits or (0.0, 1.0)
                        hits.setdefault(f"{name}, {kind}", []).append(lo <= truth[name] <= hi)
    return {what: float(np.mean(each)) for what, each in hits.items()}


def recorded() -> Iterator[tuple[str, Record]]:
    """Yield the records whose paths are sources, with their families; none where they are not there."""
    folder = records_folder()
    for family, pattern in FILES.items():
        for file in sorted(folder.glob(pattern)):
            names = file.with_suffix(".voters.json")
            how = Opening(branches=str(names)) if names.is_file() else Opening()
            record = open_record(file, how)
            ballot = record.ballot
            votes = replace(ballot.votes, slots=np.arange(ballot.votes.k))
            yield family, replace(record, ballot=replace(ballot, votes=votes))


def left_out(right: FloatArray, turns: int, rng: np.random.Generator) -> dict[str, float]:
    """Return coverage of left-out sources, and stated over true standard errors of other designs."""
    n, k = right.shape
    half = k // 2
    new, repeats, widths = list[bool](), list[bool](), list[float]()
    stated, true = np.zeros((turns, 2)), np.zeros((turns, 2))
    for turn in range(turns):
        rows, columns = rng.permutation(n)[: 2 * QUESTIONS], rng.permutation(k)
        first, again = rows[:QUESTIONS], rows[QUESTIONS:]
        own, others = columns[: min(8, k - 1)], columns[min(8, k - 1) :]
        seen = scores_of(right[np.ix_(first, own)])
        found = stats.source_variance(seen)
        assert found is not None
        lo, hi = stats.new_source(seen, found).limits or (0.0, 1.0)
        other = right[first][:, others].mean(axis=0)
        new += ((lo <= other) & (other <= hi)).tolist()
        widths.append(hi - lo)
        # What is said where the sources are taken for repeats of one: a run around the mean of these.
        alone = run_to_run(seen.repeats())
        assert alone is not None
        reach = 1.96 * alone.value * math.sqrt(1 + 1 / own.size)
        repeats += (np.abs(other - seen.score.mean()) <= reach).tolist()
        size = min(4, half)
        one, two = columns[:size], columns[size : 2 * size]
        score = right[np.ix_(first, one)].mean()
        stated[turn] = [
            found.standard_error(again.size, size) ** 2,
            found.standard_error(QUESTIONS, size, same_questions=True) ** 2,
        ]
        true[turn] = [
            (score - right[np.ix_(again, two)].mean()) ** 2 / 2,
            (score - right[np.ix_(first, two)].mean()) ** 2 / 2,
        ]
    ratio = np.sqrt(stated.mean(axis=0) / true.mean(axis=0))
    return {
        "new source": float(np.mean(new)),
        "width": float(np.mean(widths)),
        "as repeats": float(np.mean(repeats)),
        "new questions": float(ratio[0]),
        "same questions": float(ratio[1]),
    }


def panels(record: Record, turns: int, rng: np.random.Generator) -> dict[str, float]:
    """Return what panels gain over the best judge on the other half, in points, by turns."""
    votes, ballot = record.ballot.votes, record.ballot
    rule = "binary" if votes.answers is None else "plurality"
    gains, all_judges, taken, apart = [], [], 0, []
    names = tuple(map(str, range(votes.k)))
    for _ in range(turns):
        rows = rng.permutation(votes.n)
        half, rest = np.sort(rows[: votes.n // 2]), np.sort(rows[votes.n // 2 :])
        kept = [Record(record.path, record.info, ballot.take(part), names) for part in (half, rest)]
        found, other = panel_of(kept[0]), panel_of(kept[1])
        test = votes.take(rest)
        best = test.scored()[:, int(np.argmax(slot_accuracies(votes.take(half))))].mean()
        all_judges.append(100 * (weighted_vote(test, np.ones(votes.k), rule).mean() - best))
        gain = 0.0
        if found.recommended is not None:
            taken += 1
            weights = learners(votes.k)[found.recommended.vote](votes.take(half))
            gain = 100 * (weighted_vote(test, weights, rule).mean() - best)
        gains.append(gain)
        one, two = found.k_eff, other.k_eff
        if one is not None and two is not None and one.limits and two.limits:
            reach = math.hypot(one.limits[1] - one.limits[0], two.limits[1] - two.limits[0]) / 2
            apart.append(abs(one.value - two.value) <= reach)
    return {
        "recommended": float(np.mean(gains)),
        "taken": taken / turns,
        "all judges": float(np.mean(all_judges)),
        "K_eff of halves": float(np.mean(apart)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=400)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--mixes", type=int, default=100)
    options = parser.parse_args()
    rng = np.random.default_rng(61)
    for name, found in simulated(options.turns, rng):
        print(f"{name:28s}", "  ".join(f"{what} {share:.1%}" for what, share in found.items()))
    covered = dict(worth_of_judges(options.turns, rng))
    for name, share in covered.items():
        print(f"{name:60s} K_eff {share:.1%}")
    least, most = min(covered.values()), max(covered.values())
    print(f"claim: K_eff of simulated judges inside its 95% interval | {least:.1%} to {most:.1%} | 93 to 97%")
    for what, share in mixes(options.mixes, rng).items():
        print(f"mix, {what} prompts: accuracy under other prompts inside {share:.1%}")
    if "KEFF_SHARED" not in os.environ:
        print("the records with sources are in the shared folder: KEFF_SHARED=../shared")
    others, gains = list[float](), list[float]()
    for family, record in recorded():
        right = record.ballot.votes.scored().astype(float)
        found = left_out(right, options.turns, rng)
        about = f"{family:10s} {Path(record.path).stem[:24]:24s} {right.shape[0]} x {right.shape[1]}"
        print(
            f"{about}: another source {found['new source']:.1%} (± {50 * found['width']:.1f} points;"
            f" as repeats {found['as repeats']:.1%}), stated over true standard error"
            f" {found['new questions']:.2f} on new questions, {found['same questions']:.2f} on the same"
        )
        told = panels(record, options.splits, rng)
        others.append(found["new source"])
        gains.append(told["recommended"])
        print(
            f"    panel against the best judge {told['recommended']:+.2f} points (taken {told['taken']:.0%});"
            f" all judges {told['all judges']:+.2f}; K_eff of halves within limits"
            f" {told['K_eff of halves']:.0%}"
        )
    if not others:
        return
    new = f"{min(others):.1%} to {max(others):.1%}"
    print(f"claim: score of a left-out prompt, method or model inside its 95% interval | {new} | 90 to 98%")
    gained = f"{min(gains):+.2f} to {max(gains):+.2f}"
    print(f"claim: points of a recommended panel over the best judge, other half | {gained} | at least -0.5")


if __name__ == "__main__":
    main()
