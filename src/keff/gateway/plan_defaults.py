"""What a plan's measurement belongs to: compared with what a request states, and filled in for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from keff.engines._form import effort_thinking, template_thinking
from keff.plan import Plan

LENGTHS = ("max_tokens", "max_completion_tokens")
SYSTEM_ROLES = ("system", "developer")
THINKING = ("reasoning_effort", "chat_template_kwargs", "thinking")
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "top_k": (0, -1),
    "logit_bias": ({},),
    "tools": ([],),
    "response_format": ({"type": "text"},),
}
"""Fields that change paths, with the values that do nothing."""

ENGINE_FIELDS: dict[str, dict[str, Any]] = {"llamacpp": {"top_k": 0, "min_p": 0.0}}
"""What an engine of keff says beyond the sampling of a plan, where a server's own default differs."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a plan says of the requests that it was measured on.

    ``known`` is False for a plan from a log that does not say: then nothing is compared. ``upstream`` is the
    model's name there, ``names`` all names by which it may be asked for. ``fields`` are put into a request
    that states none of their kind.
    """

    known: bool = False
    upstream: str | None = None
    names: frozenset[str] = frozenset()
    system: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    length: int | None = None
    length_field: str = "max_tokens"

    def apply(self, body: dict[str, Any]) -> list[str]:
        """Fill in a request's body, and return the names of what it states differently."""
        different = self._model(body)
        if self.known:
            different += self._system(body) + self._length(body) + self._fields(body)
        return different

    def _model(self, body: dict[str, Any]) -> list[str]:
        asked = body.get("model")
        if asked in (None, "", "keff") or asked in self.names:
            if self.upstream is not None:
                body["model"] = self.upstream
            return []
        return ["model"] if self.names else []

    def _system(self, body: dict[str, Any]) -> list[str]:
        messages = cast("list[dict[str, Any]]", body["messages"])
        stated = [message.get("content") for message in messages if message["role"] in SYSTEM_ROLES]
        if stated:
            return [] if stated == [self.system] else ["system"]
        if self.system is not None:
            body["messages"] = [{"role": "system", "content": self.system}, *messages]
        return []

    def _length(self, body: dict[str, Any]) -> list[str]:
        stated = [body[name] for name in LENGTHS if body.get(name) is not None]
        if stated:
            return [] if all(value == self.length for value in stated) else ["max_tokens"]
        if self.length is not None:
            body[self.length_field] = self.length
        return []

    def _fields(self, body: dict[str, Any]) -> list[str]:
        different: list[str] = []
        for name, value in self.fields.items():
            stated = body.get(name)
            if stated is None:
                body[name] = value
            elif not _same(stated, value):
                different.append(name)
        for name, harmless in NEUTRAL.items():
            if name not in self.fields and body.get(name) is not None and body[name] not in harmless:
                different.append(name)
        if "stop" not in self.fields and body.get("stop"):
            different.append("stop")
        return different + [
            name for name in THINKING if name not in self.fields and body.get(name) is not None
        ]


def _same(stated: Any, value: Any) -> bool:
    if isinstance(value, list) and isinstance(stated, str):
        return value == [stated]
    return stated == value


def terms_of(plan: Plan, model: str | None = None) -> Terms:
    """Return the terms of a plan; ``model`` is the model's name upstream (default: the plan's own)."""
    if plan.config is None:
        return Terms(upstream=model, names=frozenset({model} if model else ()))
    engine = cast("dict[str, Any]", plan.config.get("engine") or {})
    sampling = cast("dict[str, Any]", plan.config.get("sampling") or {})
    measured = str(engine.get("model") or "") or None
    alias = measured.removesuffix(".gguf") if measured else None
    effort = engine.get("thinking") == "effort"
    options = cast("dict[str, Any]", (plan.task or {}).get("options") or {})
    omit = set(cast("list[str]", engine.get("omit") or ()))
    return Terms(
        known=True,
        upstream=model or alias,
        names=frozenset(name for name in (model, measured, alias) if name),
        system=options.get("system"),
        fields={name: value for name, value in _stated(engine, sampling).items() if name not in omit},
        length=sampling.get("max_tokens") if "max_tokens" not in omit else None,
        length_field="max_completion_tokens" if effort else "max_tokens",
    )


def _stated(engine: Mapping[str, Any], sampling: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: sampling[name] for name in ("temperature", "top_p") if sampling.get(name) is not None
    }
    if sampling.get("stop"):
        found["stop"] = list(sampling["stop"])
    think = effort_thinking if engine.get("thinking") == "effort" else template_thinking
    found |= think(sampling.get("thinking"))
    found |= ENGINE_FIELDS.get(str(engine.get("engine")), {})
    return found | dict(cast("Mapping[str, Any]", engine.get("extra_body") or {}))
