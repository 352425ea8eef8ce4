"""Results of tau-bench and tau2-bench: the trials of a task, right or wrong by their reward."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Tell
from keff.logs.parts.foreign import PathReader, UsableRows
from keff.logs.parts.lines import Row, first_object, head_of, objects, whole_json
from keff.logs.parts.values import at, number_or_none, optional_text
from keff.narrow import entries

# Fields of a run of tau-bench, and names in the head of a file of tau2-bench: by these the formats are known.
FIRST = ("task_id", "reward", "trial")
SECOND = (b'"agent_info"', b'"user_info"')
# Both benches call a reward this near to 1 a success.
NEARLY = 1e-6


class TauBench(PathReader):
    """Reader of tau-bench's list of runs and of tau2-bench's ``results.json`` with its simulations.

    A conversation has no answer to vote on, so correctness alone is kept: a reward of 1, or of at least
    ``threshold``, is right. Simulations without a reward are left out and counted.
    """

    name = "tau_bench"

    def __init__(self, threshold: float | None = None) -> None:
        self.threshold = 1 - NEARLY if threshold is None else threshold

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        head = head_of(path)
        if head.startswith(b"{") and all(name in head for name in SECOND):
            return None
        row = first_object(path) if head.startswith(b"[") else "not an array"
        if isinstance(row, str) or not set(FIRST) <= set(row):
            return "neither an array of task_id, reward and trial nor an object with agent_info and user_info"
        return None

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        if not head_of(path).startswith(b"{"):  # an array names no model
            return LogInfo()
        return LogInfo(model=optional_text(at(whole_json(path), "info/agent_info/llm")))

    def collect(self, kept: UsableRows, path: Path, tell: Tell) -> None:
        """Collect the simulations that have a reward."""
        for where, run in _runs(path, tell):
            reward = number_or_none(at(run, "reward_info/reward", "reward"))
            if run.get("task_id") is None:
                raise LogError(f"{where}: it has no task_id")
            if reward is None:
                kept.left_out["has no reward"] += 1
                continue
            kept.add(
                where,
                {
                    "id": run["task_id"],
                    "correct": int(reward >= self.threshold),
                    "seconds": number_or_none(run.get("duration")),
                },
                [run["task_id"], run.get("trial")],
            )


def _runs(path: Path, tell: Tell) -> Iterator[tuple[str, Row]]:
    if head_of(path).startswith(b"["):
        runs = list(objects(path, tell))
    else:
        # Of a folder of simulations the file beside it keeps what each was worth.
        simulations = at(whole_json(path), "simulations", "simulation_index")
        runs = [(f"{path}: simulation {number}", run) for number, run in enumerate(entries(simulations), 1)]
    trials = [number_or_none(run.get("trial")) for _, run in runs]
    if 0 < trials.count(None) < len(trials):
        raise LogError(f"{runs[trials.index(None)][0]}: it has no trial, and others have one")
    # Files are written as conversations end: trials in the order of their numbers.
    yield from (run for _, run in sorted(zip(trials, runs, strict=True), key=lambda pair: pair[0] or 0.0))


log = TauBench
