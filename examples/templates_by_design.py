"""Which prompt templates, how many paths of each: chosen on a pilot, judged on questions that did not choose.

python examples/templates_by_design.py

Three prompts are asked the same questions. Two are good at different ones; the third is weak. `keff compare`
says what another template adds over another path of the same one, `keff mix` what is worth drawing.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

import keff

rng = np.random.default_rng(4)
questions, paths = 120, 8
common = rng.normal(0.5, 1.2, questions)


def pilot(own: float, skill: float) -> list[list[str]]:
    """Draw answers of one prompt: ease of a question that all prompts share, and some of its own."""
    ease = common + skill + rng.normal(0, own, questions)
    right = rng.random((questions, paths)) < 1 / (1 + np.exp(-ease))[:, None]
    wrong = rng.choice(["A", "C", "D"], (questions, paths), p=[0.6, 0.3, 0.1])
    return np.where(right, "B", wrong).tolist()


def log(file: Path, rows: list[list[str]]) -> str:
    """Write one line per question."""
    lines = ({"id": f"q{i}", "gold_answer": "B", "all_answers": row} for i, row in enumerate(rows))
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(file)


with tempfile.TemporaryDirectory() as folder:
    prompts = {"plain": (0.8, 0.0), "steps": (0.8, 0.2), "verify": (0.8, -1.0)}
    files = [log(Path(folder) / f"{name}.jsonl", pilot(*law)) for name, law in prompts.items()]
    better = keff.compare(files[0], files[1]).better
    print(better.line())
    for name, file in zip(prompts, files, strict=True):
        alone = keff.analyze(file)
        print(f"{name}: one path is right {alone.p:.0%} of the time, c = {alone.c.value:.2f}")
    mixed = keff.mix(*files)

print(f"{mixed.advice.verdict}: {mixed.advice.plan.policy}")
print(mixed.advice.because)
