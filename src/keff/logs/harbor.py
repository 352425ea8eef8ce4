"""Jobs of Harbor: a folder with the result.json of every trial; the trials of a task are its paths."""

from __future__ import annotations

from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.foreign import ScoreOptions
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at, seconds_between


class Harbor(ScoreOptions, FieldReader):
    """Reader of a job's folder, or of all below a folder: ``JOB/TRIAL/result.json``.

    An agent's work has no answer to vote on, so correctness alone is kept. The verdict is the verifier's
    ``reward``, its only value, or the one that ``scorer`` names; one that is neither 0 nor 1 is right from
    ``threshold`` on. Trials that the verifier did not score are left out and counted. Each agent with its
    model is a branch.
    """

    name = "harbor"
    table = FieldTable(
        signs=("task_name", "trial_name", "task_checksum"),
        files="**/result.json",
        fields={
            "id": "task_name",
            "model": lambda row: _branch(row),
            "tokens": "agent_result/n_output_tokens",
            "prompt_tokens": "agent_result/n_input_tokens",
            "cached_tokens": "agent_result/n_cache_tokens",
            "seconds": lambda row: _seconds(row),
        },
        scores="verifier_result/rewards",
        main=lambda _: "reward",
        left_out={"has no reward": lambda row: not at(row, "verifier_result/rewards")},
        own=("id", "trial_name"),
        model="agent_info/model_info/name",
    )


def _branch(row: Row) -> str:
    """Return the name of a trial's agent and model."""
    names = at(row, "agent_info/name"), at(row, "agent_info/model_info/name")
    return " ".join(str(name) for name in names if name)


def _seconds(row: Row) -> float | None:
    """Return how long the agent worked; None where its result does not say."""
    return seconds_between(at(row, "agent_execution/started_at"), at(row, "agent_execution/finished_at"))


log = Harbor
