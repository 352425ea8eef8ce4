"""A data frame with one row per path, as evaluation tools write them: say which column is what.

python examples/from_frame.py        (needs pandas or polars, and pip install -e '.[frame]')
"""

from __future__ import annotations

import numpy as np
import polars as pl

import keff

rng = np.random.default_rng(2)
question = np.repeat(np.arange(40), 12)
skill = rng.beta(1.3, 0.9, 40)[question]
frame = pl.DataFrame(
    {
        "question_id": question,
        "prediction": np.where(rng.random(480) < skill, "yes", rng.choice(["no", "maybe"], 480)),
        "target": ["yes"] * 480,
        "latency": rng.gamma(2.0, 3.0, 480),
    }
)

columns = {"id": "question_id", "answer": "prediction", "gold_answer": "target"}
analysis = keff.analyze(frame, **columns)
print(f"{analysis.n} questions x {analysis.k} paths; one path is right {analysis.p:.1%} of the time")
for k, accuracy in analysis.plurality.items():
    low, high = analysis.bands.plurality[k]
    print(f"  plurality of {k:2d}: {accuracy:.1%} [{low:.1%}, {high:.1%}]")
print(f"{analysis.decision.verdict}: {analysis.decision.policy}")

replayed = keff.replay(frame, ["fixed:4", "fixed:12", "lead_k:2,cap=12"], **columns)
for row in replayed.policies:
    print(f"{row.policy:18} {row.mean_paths:5.2f} paths keep {row.kept.percent()} of the accuracy")
