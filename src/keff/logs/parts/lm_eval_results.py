"""What the results file beside samples of lm-evaluation-harness says: model, generation settings, choices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import cast

from keff.errors import LogError
from keff.logs.parts.lines import Row, loads
from keff.logs.parts.values import inner

STAMP = re.compile(r"\d{4}-\d{2}-\d{2}T[\d.:-]+(?=\.jsonl$)")
# The results file holds settings and scores, no samples: larger ones are something else.
MOST_RESULTS = 64 * 2**20

# Generation arguments of the harness -> the sampling of a configuration.
SAMPLING = {
    "temperature": "temperature",
    "top_p": "top_p",
    "max_gen_toks": "max_tokens",
    "max_tokens": "max_tokens",
    "seed": "seed",
}


def results_of(path: Path) -> Row:
    """Return the results file of the same run (``results_<time>.json`` beside the samples); else empty."""
    stamp = STAMP.search(path.name)
    file = path.with_name(f"results_{stamp[0]}.json") if stamp else None
    if file is None or not file.is_file() or file.stat().st_size > MOST_RESULTS:
        return {}
    try:
        content = loads(file.read_bytes().decode("utf-8-sig"))
    except (ValueError, RecursionError, OSError) as error:
        raise LogError(
            f"{file}: not JSON ({error}); without this file beside it the log is read too"
        ) from None
    return cast("Row", content) if isinstance(content, dict) else {}


def model_name(said: Row) -> str | None:
    """Return the name of the model."""
    arguments = inner(said, "config", "model_args")
    for name in (said.get("model_name"), arguments.get("model"), arguments.get("pretrained")):
        if isinstance(name, str) and name:
            return name
    return None


def configuration(said: Row, task: str, row: Row) -> dict[str, object]:
    """Return engine, sampling and the rest of a configuration; what nobody states is absent.

    The arguments of the first request are what was asked for in the end; else those of the task's settings.
    """
    asked = inner(row, "arguments", "gen_args_0", "arg_1") or inner(
        said, "configs", task, "generation_kwargs"
    )
    sampling = {ours: asked[theirs] for theirs, ours in SAMPLING.items() if asked.get(theirs) is not None}
    if asked.get("do_sample") is False:
        sampling["temperature"] = 0.0
    until = asked.get("until")
    stop = [until] if isinstance(until, str) else until
    arguments = inner(said, "config", "model_args")
    engine: dict[str, object] = {
        "engine": f"{inner(said, 'config').get('model') or 'lm_eval'} (lm_eval)",
        "model": model_name(said),
        "base_url": arguments.get("base_url"),
    }
    return {
        "engine": {name: value for name, value in engine.items() if value},
        "sampling": sampling | ({"stop": stop} if isinstance(stop, list) and stop else {}),
        "templates": [0],
        "prompt": "",
    }


def choices_of(said: Row, task: str) -> Sequence[str] | None:
    """Return the choices that are the same for every question, as ``doc_to_choice`` lists them."""
    choices = inner(said, "configs", task).get("doc_to_choice")
    if not isinstance(choices, list) or not all(
        isinstance(choice, str) for choice in cast("list[object]", choices)
    ):
        return None
    return cast("list[str]", choices)


def target_of(target: object, choices: Sequence[str] | None) -> object:
    """Return the gold answer; an index into the choices becomes the choice.

    The harness writes the index as text. A target that is itself one of the choices is taken as it is.
    """
    if choices is None or target in choices or not isinstance(target, str | int) or isinstance(target, bool):
        return target
    text = str(target).strip()
    return choices[int(text)] if text.isdigit() and int(text) < len(choices) else target
