"""The configuration that the header of an inspect_ai log states: what a measurement from it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from keff.logs._narrow import inner, real

# The beginning of a task's version where another tool asked the questions.
RECORDED = "recorded by "

SAMPLING = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_tokens",
    "seed": "seed",
    "reasoning_tokens": "thinking",
}
# Fields that change paths, and stand in a request under the same name.
BODY = ("presence_penalty", "frequency_penalty", "top_k", "reasoning_effort", "logit_bias")


def configuration(about: Mapping[str, object], task: str | None) -> dict[str, object]:
    """Return the configuration as a run's manifest would hold it; what the header does not state is absent.

    inspect names a model as ``provider/name``; the name is what a server is asked for.
    """
    spec, said = inner(about, "eval"), _generation(about)
    provider, slash, name = str(spec.get("model") or "").partition("/")
    engine: dict[str, object] = {"engine": f"{provider} (inspect_ai)" if slash else "inspect_ai"}
    engine |= {"model": name if slash else provider, "base_url": spec.get("model_base_url")}
    body = {field: said[field] for field in BODY if said.get(field) is not None}
    extra = said.get("extra_body")
    body |= cast("dict[str, object]", extra) if isinstance(extra, dict) else {}
    sampling = {ours: said[theirs] for theirs, ours in SAMPLING.items() if said.get(theirs) is not None}
    stop = said.get("stop_seqs")
    return {
        "engine": {field: value for field, value in engine.items() if value}
        | ({"extra_body": body} if body else {}),
        "task": {"name": task or str(spec.get("task") or ""), "version": f"{RECORDED}inspect_ai"},
        "sampling": sampling | ({"stop": stop} if stop else {}),
        "templates": [0],
        "prompt": "",
    }


def _generation(about: Mapping[str, object]) -> dict[str, object]:
    """Return the generation settings: those of the task, over which those of the call stand."""
    settings = inner(about, "plan", "config"), inner(about, "eval", "model_generate_config")
    return {name: value for part in settings for name, value in part.items() if value is not None}


def options(about: Mapping[str, object]) -> dict[str, object]:
    """Return the options of the task: the system message, of the generation settings or of a solver."""
    steps: object = inner(about, "plan").get("steps")
    systems = [
        inner(cast("Mapping[str, object]", step), "params").get("template")
        for step in (cast("list[object]", steps) if isinstance(steps, list) else [])
        if isinstance(step, Mapping) and cast("Mapping[str, object]", step).get("solver") == "system_message"
    ]
    system = "\n\n".join(
        text
        for text in (_generation(about).get("system_message"), *systems)
        if isinstance(text, str) and text
    )
    return {"system": system} if system else {}


def expected(spec: Mapping[str, object]) -> int:
    """Return how many samples the log should hold, 0 where the header does not say."""
    try:
        samples = int(real(inner(spec, "dataset").get("samples") or 0))
        return samples * int(real(inner(spec, "config").get("epochs") or 1))
    except (TypeError, ValueError, OverflowError):
        return 0
