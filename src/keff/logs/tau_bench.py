"""Results of tau-bench and tau2-bench: the trials of a task, right or wrong by their reward."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import NoteSink, ignore
from keff.logs.parts.field_table import FieldReader, FieldTable, number_at
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at, number_or_none
from keff.narrow import Fields

# Both benches call a reward this near to 1 a success.
NEARLY = 1e-6
REWARD = ("reward_info/reward", "reward")


class TauBench(FieldReader):
    """Reader of tau-bench's list of runs and of tau2-bench's ``results.json`` with its simulations.

    A conversation has no answer to vote on, so correctness alone is kept: a reward of 1, or of at least
    ``threshold``, is right. Simulations without a reward are left out and counted.
    """

    name = "tau_bench"
    table = FieldTable(
        signs=("task_id", "reward", "trial", "traj"),
        names=("timestamp", "info", "tasks"),
        # Of a folder of simulations the file beside it keeps what each was worth.
        rows=("simulations", "simulation_index"),
        fields={
            "id": "task_id",
            "seconds": number_at("duration"),
        },
        left_out={"has no reward": lambda row: number_or_none(at(row, *REWARD)) is None},
        model="info/agent_info/llm",
    )

    def __init__(self, threshold: float | None = None) -> None:
        self.threshold = 1 - NEARLY if threshold is None else threshold

    def scores_in(self, row: Row) -> Fields:
        """Return the reward."""
        return {"reward": at(row, *REWARD)}

    def rows_in(self, path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
        """Yield (place, row) of every simulation, in the order of their trials."""
        runs = list(super().rows_in(path, tell))
        trials = [number_or_none(run.get("trial")) for _, run in runs]
        if 0 < trials.count(None) < len(trials):
            raise LogError(f"{runs[trials.index(None)][0]}: it has no trial, and others have one")
        # Files are written as conversations end.
        yield from (run for _, run in sorted(zip(trials, runs, strict=True), key=lambda pair: pair[0] or 0.0))


log = TauBench
