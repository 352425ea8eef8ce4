"""The paper in a few lines: how many paths are worth paying for, from a 0/1 array [questions, paths].

python examples/from_array.py
"""

from __future__ import annotations

import numpy as np

import keff

rng = np.random.default_rng(1)
right = rng.random((60, 16)) < rng.beta(1.2, 0.8, (60, 1))  # some questions are easy, some are hard

c = keff.c(right)
print(f"correctness correlation c = {c.text()}")
print(f"16 paths are worth {keff.k_eff(16, c).text()} independent ones; K* = {keff.k_star(c)}")
print(f"strict majority of 1, 4 and 16 paths: {keff.majority(right)[[0, 3, 15]].round(3)}")

# What is deployed is the most frequent answer, so answers say more than correctness.
answers = np.where(right, "4", rng.choice(["5", "6", "7"], right.shape))
analysis = keff.analyze(answers, gold_answer=["4"] * len(answers))
print(analysis)
print(f"plurality of 16 paths: {analysis.plurality[16]:.1%}; {analysis.decision.because}")
