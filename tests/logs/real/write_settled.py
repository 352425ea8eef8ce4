"""Write a log of inspect_ai whose epochs keff's policy stopped; needs inspect_ai, and keff on the path.

    python write_settled.py OUT

``KEFF_PATH`` names folders that are searched after the environment's own: keff's sources and its packages.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import match
from inspect_ai.solver import generate
from write_inspect import QUESTIONS

sys.path += os.environ["KEFF_PATH"].split(os.pathsep)

from keff.analysis.early_stopping import StopWhenSettled

EPOCHS = 12


def main(out: Path) -> None:
    samples = [Sample(id=name, input=text, target=gold) for name, text, gold in QUESTIONS]
    task = Task(
        dataset=MemoryDataset(samples),
        solver=generate(),
        scorer=match(numeric=True),
        epochs=EPOCHS,
        early_stopping=StopWhenSettled("lead_k:2", answer_space="numeric"),
    )
    config = GenerateConfig(max_tokens=64)
    (log,) = eval(
        task,
        model="drawer/toy",
        log_dir=str(out / "settled"),
        display="none",
        max_samples=1,
        **config.model_dump(exclude_none=True),
    )
    assert log.status == "success", log.error
    Path(log.location.removeprefix("file://")).replace(out / "inspect_settled.eval")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
