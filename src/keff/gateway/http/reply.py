"""The reply to a voted request: a path with the winning answer, total usage, and the vote."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

from keff.gateway.vote.vote import Outcome, PathResult
from keff.narrow import Fields, fields
from keff.policy import best_checked
from keff.protocol.reply import Counts, counts_of
from keff.protocol.responses import response_of, response_usage
from keff.protocol.values import MOST_TOKENS, Object, count, text_of
from keff.records import stable_hash

# Headers are kept short; the whole key stands in the body's keff object.
LONGEST_KEY = 200


def winner(outcome: Outcome, reply: str) -> PathResult:
    """Return the path to show: one with the winning answer, else the first of the last branch asked.

    Of a checker the one that passed.

    ``shortest`` is by characters of the visible text, the first among equals.
    """
    if outcome.stop.kind == "verdict":
        return outcome.paths[best_checked([path.confidence for path in outcome.paths])]
    if outcome.stop.answer is None:
        return next(path for path in outcome.paths if path.branch == outcome.paths[-1].branch)
    holders = [path for path in outcome.paths if path.key == outcome.stop.answer] or list(outcome.paths)
    if reply == "first":
        return holders[0]
    return min(holders, key=lambda path: len(text_of(fields(path.choice["message"]).get("content"))))


def total_usage(paths: Iterable[PathResult]) -> tuple[Object, Counts]:
    """Return the usage billed upstream, added up field by field, and its counts; each response once.

    Each is counted by itself: servers, and branches, may write in different dialects.
    """
    bodies = {id(path.body): path.body for path in paths}
    total, prompt, cached, output = Object(), 0, 0, 0
    for body in bodies.values():
        _add_usage(total, fields(body.get("usage")))
        bill = counts_of(body.get("usage"))
        prompt, cached, output = prompt + bill.prompt, cached + bill.cached, output + (bill.output or 0)
    told = {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    return total | told, Counts(prompt, cached, output)


def _add_usage(total: Object, more: Fields, *, details: bool = True) -> None:
    """Add the numbers of a usage to a total, ``details`` one level deep; absurd ones are skipped."""
    for name, value in more.items():
        before = total.get(name)
        if isinstance(value, dict):
            if not details or isinstance(before, int | float):
                continue
            total[name] = inner = fields(before)
            _add_usage(inner, cast("Object", value), details=False)
        elif not isinstance(before, dict) and (amount := _amount(value)) is not None:
            total[name] = amount + _number(before)


def _number(value: object) -> int | float:
    return value if isinstance(value, int | float) else 0


def _amount(value: object) -> int | float | None:
    """Return a usage number (tokens, dollars or seconds), or None for any other value."""
    return value if isinstance(value, float) and 0 <= value <= MOST_TOKENS else count(value)


def votes_of(paths: Sequence[PathResult]) -> dict[str, int]:
    """Return the votes of each answer, most first; long answers are cut and end in their hash."""
    counts = Counter(path.key for path in paths if path.key is not None)
    return {shown_key(key): count for key, count in counts.most_common()}


def shown_key(key: str) -> str:
    """Return a vote key as shown in replies."""
    return key if len(key) <= LONGEST_KEY else f"{key[:LONGEST_KEY]}...#{stable_hash(key)[:12]}"


def vote_share(outcome: Outcome) -> float:
    """Return the winner's share of the votes; 0 without a winner."""
    keys = [path.key for path in outcome.paths if path.key is not None]
    return keys.count(outcome.stop.answer) / len(keys) if keys and outcome.stop.answer is not None else 0.0


def vote_object(
    outcome: Outcome,
    policy: str,
    stale: Sequence[str],
    bill: Counts,
    uncounted: int,
    dollars: float | None,
) -> Object:
    """Return the ``keff`` object of a reply."""
    stop = outcome.stop
    answer = None if stop.answer is None else shown_key(stop.answer)
    return {
        "policy": policy,
        "answer": answer,
        "votes": votes_of(outcome.paths),
        "share": vote_share(outcome),
        "weight": {"value": stop.weight, "kind": stop.kind},
        "paths": len(outcome.paths),
        "abstentions": outcome.abstentions,
        "unread": outcome.unread,
        "undecided_by": "unread" if outcome.undecided else None,
        "repeated": outcome.repeated,
        "unused": len(outcome.unused),
        "failed": outcome.failed,
        "cancelled": outcome.cancelled,
        "stop": outcome.cause,
        "stop_reason": stop.reason,
        "stale_plan": list(stale),
        "cost": {
            "prompt_tokens": bill.prompt,
            "cached_tokens": bill.cached,
            "completion_tokens": bill.output or 0,
            "uncounted_answers": uncounted,
            "dollars": dollars,
        },
    }


def all_paths(paths: Sequence[PathResult]) -> list[Object]:
    """Return every path that was consumed, in launch order, with its vote."""
    return [
        {
            "answer": None if path.key is None else shown_key(path.key),
            "unread": path.unread,
            "message": path.choice.get("message"),
            "finish_reason": path.choice.get("finish_reason"),
        }
        for path in paths
    ]


def completion(name: str, paths: Sequence[PathResult], usage: Fields, vote: Fields) -> Object:
    """Return the chat reply: the response of the first path, with these paths as its choices.

    ``name`` if it has no id.
    """
    return {
        "id": name,
        "created": int(time.time()),
        **paths[0].body,
        "object": "chat.completion",
        "choices": [{**path.choice, "index": index} for index, path in enumerate(paths)],
        "usage": usage,
        "keff": vote,
    }


def response(
    name: str,
    path: PathResult,
    usage: Fields,
    vote: Fields,
    asked: Fields | None = None,
) -> Object:
    """Return the Responses reply: the shown path's response with the usage of all paths.

    ``asked`` is the request where the path answers a chat request that stands for it.
    """
    own = path.body.get("response")
    if asked is not None:
        own = response_of(name, path.choice, path.body.get("model"), asked)
    return {
        "id": name,
        "object": "response",
        "created_at": int(time.time()),
        **fields(own),
        "usage": response_usage(usage),
        "keff": vote,
    }
