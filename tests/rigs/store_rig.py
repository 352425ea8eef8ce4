"""Run folders with a few paths."""

from __future__ import annotations

from pathlib import Path as File

from keff.records import Completion, Path
from keff.sampling.manifest import Config
from keff.sampling.store import Run
from keff.sampling.store.rows import path_seed

CONFIG = Config(
    engine={"name": "fake", "model": "m"},
    task={"name": "starter", "version": "1"},
    sampling={"temperature": 0.7, "seed": 0},
    prompt="abc",
)


def make(folder: File, **changes: object) -> Run:
    return Run.write(folder / "run", CONFIG.model_copy(update=changes), n=2, k=4)


def done(index: int, *, item: str = "a", slot: int = 0, attempt: int = 0, text: str = "42") -> Path:
    return Path(item, slot, index, attempt, path_seed(0, item, slot, index), Completion(text, tokens=3))


def failed(index: int, attempt: int = 0) -> Path:
    return Path("a", 0, index, attempt, 7, error="HTTP 500")
