"""traces.jsonl of verifiers since its version 1: one episode per line, with the trace of every agent."""

from __future__ import annotations

from keff.logs.parts.field_table import FieldReader, FieldTable
from keff.logs.parts.foreign import ScoreOptions
from keff.logs.parts.lines import Row
from keff.logs.parts.values import at, inner, number_or_none, spoken
from keff.narrow import Fields, entries


class VerifiersTraces(ScoreOptions, FieldReader):
    """Reader of the ``traces.jsonl`` that an evaluation by verifiers appends its episodes to.

    Traces of one task are its paths; each model and agent is a branch. Their score is the reward, the
    weighted sum of named ones: it is right or wrong where it is 0 or 1, or by ``threshold``; ``scorer`` names
    one reward or metric. Traces that did not succeed are left out and counted.
    """

    name = "verifiers_traces"
    table = FieldTable(
        signs=("task", "traces", "env"),
        paths="traces",
        fields={
            "id": ("traces/task/key", "traces/task/hash", "traces/task/data/idx"),
            "model": lambda row: _branch(row),
            "question": lambda row: spoken(at(row, "traces/task/data/prompt/-1", "traces/task/data/prompt")),
            "text": lambda row: _last_answer(row),
            "tokens": "traces/num_output_tokens",
            "prompt_tokens": "traces/num_input_tokens",
            "seconds": lambda row: _seconds(row),
            "truncated": lambda row: int(at(row, "traces/calls/-1/finish_reason") == "length"),
        },
        scores=lambda row: _scores(inner(row, "traces")),
        main=lambda _: "reward",
        left_out={"did not succeed": lambda row: at(row, "traces/ok") is not True},
        own="traces/id",
        model="traces/0/agent/config/model",
    )


def _scores(trace: Fields) -> Fields:
    """Return a trace's reward and its parts; without one where a part was not scored."""
    parts = inner(trace, "rewards")
    values = {name: number_or_none(at(part, "score")) for name, part in parts.items()}
    weights = {name: number_or_none(at(part, "weight")) for name, part in parts.items()}
    known = {name: value for name, value in values.items() if value is not None}
    # verifiers adds up what was scored.
    total = sum(value * (weights[name] or 0) for name, value in known.items())
    return {**inner(trace, "metrics"), **values, "reward": total if known else None}


def _branch(row: Row) -> str:
    """Return the name of a trace's branch: its model, and its agent where that has a name of its own."""
    agent = at(row, "traces/agent/name")
    model = str(at(row, "traces/agent/config/model"))
    return model if agent in (None, "agent") else f"{model} {agent}"


def _last_answer(row: Row) -> str | None:
    """Return the last message that the model said."""
    nodes = entries(at(row, "traces/nodes"))
    said = [node.get("message") for node in nodes if node.get("sampled") is True]
    return spoken(said[-1]) if said else None


def _seconds(row: Row) -> float | None:
    begin, end = (number_or_none(at(row, f"traces/timing/agent/{name}")) for name in ("start", "end"))
    return end - begin if begin is not None and end else None


log = VerifiersTraces
