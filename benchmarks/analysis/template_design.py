"""Which templates, and how many paths of each: chosen on half of the questions, measured on the other half.

Recorded: gpt-3.5-turbo under five prompts on 100 questions, ten paths each at temperature 0.7. Every
allocation of K paths to the prompts is a design; its plurality is averaged over random choices of the
recorded paths. 200 random halvings; the designs are chosen by their plurality on the one half, or by the
margin law (accuracies and correlations of the prompts: mean margin over its standard deviation).
"""

from __future__ import annotations

import json
from itertools import product

import numpy as np

from benchmarks.places import RECORDED
from keff.stats.branches.covariance import block_correlation, branch_covariances
from keff.stats.votes import Votes

STEM, HEAT = "renze_comprehensive-100_gpt-35-turbo_", 0.7
PROMPTS = ("baseline", "chain_of_thought", "composite", "domain_expert", "self_recitation")
BUDGETS, DRAWS, HALVINGS = (5, 8), 60, 200


def recorded() -> tuple[np.ndarray, np.ndarray]:
    """Return answers [5, n, 10] as letters' places, -1 for none, and the gold ones [n]."""
    answers, gold = [], []
    for prompt in PROMPTS:
        lines = (RECORDED / f"{STEM}{prompt}.jsonl").read_text("utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        letters = [
            [a for a, heat in zip(row["all_answers"], row["all_temperatures"], strict=True) if heat == HEAT]
            for row in rows
        ]
        answers.append([["ABCDE".find(a) if a else -1 for a in row] for row in letters])
        gold = ["ABCDE".find(row["gold_answer"]) for row in rows]
    return np.array(answers), np.array(gold)


def measured(
    answers: np.ndarray, gold: np.ndarray, designs: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the plurality of every design on every question [n, designs]."""
    votes = (answers[..., None] == np.arange(5)).astype(np.int16)  # [5, n, 10, letters]
    credit = np.zeros((gold.size, len(designs)))
    for _ in range(DRAWS):
        order = rng.permuted(np.tile(np.arange(answers.shape[2]), (*answers.shape[:2], 1)), axis=2)
        drawn = np.take_along_axis(votes, order[..., None], axis=2)
        sums = np.concatenate([np.zeros_like(drawn[:, :, :1]), drawn.cumsum(axis=2)], axis=2)
        for place, design in enumerate(designs):
            counts = sum(sums[prompt, :, taken] for prompt, taken in enumerate(design))
            top = counts.max(axis=1, keepdims=True)
            leads = (counts == top) & (top > 0)
            right = leads[np.arange(gold.size), gold]
            credit[:, place] += right / np.maximum(leads.sum(axis=1), 1)
    return credit / DRAWS


def margin_law(correct: np.ndarray, designs: np.ndarray) -> np.ndarray:
    """Return mean margin over its standard deviation of every design, from correctness [5, n, 10]."""
    known = branch_covariances(list(correct))
    mean = designs @ (known.p - 0.5) / designs.sum(axis=1)
    paths = np.einsum("da,ab,db->d", designs, known.latent, designs)
    noise = designs @ (known.variance - np.diag(known.latent))
    return mean / np.sqrt((paths + noise) / designs.sum(axis=1) ** 2)


def main() -> None:
    answers, gold = recorded()
    correct = (answers == gold[:, None]).astype(np.int64)
    n = gold.size
    columns = np.concatenate(list(correct), axis=1)
    law = block_correlation(Votes(None, columns, np.repeat(np.arange(5), answers.shape[2])))
    print(f"c within {law.within.text()}, between {law.between.text()}, difference {law.difference.text()}")
    rng = np.random.default_rng(37)
    for k in BUDGETS:
        designs = np.array([d for d in product(range(k + 1), repeat=5) if sum(d) == k])
        credit = measured(answers, gold, designs, rng)
        single = np.flatnonzero(designs.max(axis=1) == k)
        even = int(np.argmin(np.square(designs - k / 5).sum(axis=1)))
        means = credit.mean(axis=0)
        best = int(means.argmax())
        singles = ", ".join(f"{PROMPTS[int(designs[s].argmax())]} {means[s]:.1%}" for s in single)
        print(f"\nK = {k}: {len(designs)} designs; one prompt: {singles}; spread evenly {means[even]:.1%}")
        print(f"best of all in hindsight {designs[best].tolist()} {means[best]:.1%}")
        gains: dict[str, np.ndarray] = {}
        times: dict[str, np.ndarray] = {}
        for _ in range(HALVINGS):
            half = rng.permutation(n)[: n // 2]
            rest = np.setdiff1d(np.arange(n), half)
            base = single[credit[half][:, single].mean(axis=0).argmax()]
            law_of = margin_law(correct[:, half], designs)
            chosen = {
                "by plurality": int(credit[half].mean(axis=0).argmax()),
                "by the margin law": int(law_of.argmax()),
                "spread evenly": even,
                "one prompt, by plurality": int(base),
            }
            for name, pick in chosen.items():
                gains.setdefault(name, np.zeros(n))[rest] += credit[rest, pick]
                times.setdefault(name, np.zeros(n))[rest] += 1
        scores = {name: gain / times[name] for name, gain in gains.items()}
        for name, score in scores.items():
            apart = score - scores["one prompt, by plurality"]
            error = float(apart.std(ddof=1) / np.sqrt(n))
            print(
                f"{name:26s} {score.mean():6.1%} on left-out questions, "
                f"{100 * apart.mean():+.1f} (se {100 * error:.1f})"
            )


if __name__ == "__main__":
    main()
