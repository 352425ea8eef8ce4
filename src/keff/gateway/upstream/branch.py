"""One branch of a plan as it is served: what it is sent, at which server."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from keff.gateway.upstream.fleet import Fleet
from keff.gateway.upstream.server import ClientHeaders
from keff.gateway.vote.plan_defaults import SYSTEM_ROLES
from keff.narrow import is_array
from keff.plan import BranchPlan
from keff.protocol.sharing import Sharing
from keff.sampling.cost import Price

log = logging.getLogger("keff.gateway")

Body = Mapping[str, object]


@dataclass(slots=True, kw_only=True)
class Branch:
    """One branch: its plan, its server, what its tokens cost, and how many paths one call may ask for.

    ``open``: a client's own key goes to its server, which is the gateway's ``--upstream`` and has none.
    ``answered_as`` is another name under which its model answered.
    """

    plan: BranchPlan
    upstream: Fleet
    price: Price | None
    sharing: Sharing
    open: bool
    answered_as: str | None = None

    @property
    def name(self) -> str:
        """The name in the policy."""
        return self.plan.name

    def body(self, asked: Body) -> dict[str, object]:
        """Return a request's body as this branch is asked: its model, prompt and sampling."""
        plan, body = self.plan, dict(asked)
        for name in ("model", "temperature", "top_p", "reasoning_effort"):
            if (value := getattr(plan, name)) is not None:
                body[name] = value
        if plan.max_tokens is not None:
            body.pop("max_completion_tokens", None)
            body["max_tokens"] = plan.max_tokens
        messages = cast("Sequence[Mapping[str, object]]", body["messages"])
        body["messages"] = with_prompt(messages, plan.system, plan.template)
        return body

    def headers(self, caller: ClientHeaders) -> dict[str, str]:
        """Return the headers of a call; a client's own key goes to no other server."""
        return self.upstream.headers(caller.at(trusted=self.open))

    def note_model(self, answered: object) -> None:
        """Say once when the server answers under another name than the model that was measured."""
        asked = self.plan.model
        if asked is None or not isinstance(answered, str) or same_model(asked, answered):
            return
        if answered != self.answered_as:
            self.answered_as = answered[:200]
            told = {"event": "another model", "branch": self.name, "asked": asked, "answered": answered[:200]}
            log.warning(json.dumps(told))


def same_model(asked: str, answered: str) -> bool:
    """Return whether two names are of one model: equal, or one is the other with a date or a path."""
    a, b = (name.removesuffix(".gguf").rpartition("/")[2] for name in (asked, answered))
    return a == b or b.startswith((f"{a}-20", f"{a}:", f"{a}@"))


def with_prompt(
    messages: Sequence[Mapping[str, object]], system: str | None, template: str | None
) -> list[Mapping[str, object]]:
    """Return messages with a system message, and with a template around the last user message.

    A template that holds ``{question}`` replaces the message, with the question in its place; any other
    stands before it, after a blank line. Content in parts gets its first text so.
    """
    told = list(messages)
    if system is not None:
        told = [message for message in told if message.get("role") not in SYSTEM_ROLES]
        told.insert(0, {"role": "system", "content": system})
    if template is None:
        return told
    for place in range(len(told) - 1, -1, -1):
        if told[place].get("role") == "user":
            told[place] = {**told[place], "content": _framed(told[place].get("content"), template)}
            break
    return told


def _framed(content: object, template: str) -> object:
    if is_array(content):
        before, _, after = template.partition("{question}")
        first, last = ([{"type": "text", "text": text}] if text.strip() else [] for text in (before, after))
        return [*first, *content, *last]
    if "{question}" in template:
        return template.replace("{question}", str(content))
    return f"{template}\n\n{content}"
