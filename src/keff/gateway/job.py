"""One request on its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from keff.gateway.board import Tab
from keff.gateway.branches import Branch
from keff.gateway.kinds import Asked
from keff.gateway.request import Ask
from keff.gateway.spans import Span
from keff.gateway.upstream import NOBODY, Caller
from keff.gateway.vote import Vote
from keff.policy import Policy


@dataclass(slots=True)
class Job:
    """One request on its way: the ask, what follows from the plan, and the upstream calls that it makes.

    ``drawn`` paths came back and ``tokens`` were billed so far; ``limits`` are the rate limits that the
    upstream told last. ``asked`` is what the prompt says of its answer, where no plan says how it is read,
    and ``kind`` what it came to be. ``tab`` is its account with the branches of a plan that has several, of
    which ``first`` is asked first.
    """

    name: str
    ask: Ask
    policy: Policy
    stale: list[str]
    shadow: bool
    as_json: bool
    caller: Caller = NOBODY
    head: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    vote: Vote | None = None
    stop: str = ""
    paths: int = 0
    drawn: int = 0
    tokens: int = 0
    dollars: float = 0.0
    share: float | None = None
    asked: Asked | None = None
    kind: str | None = None
    limits: Mapping[str, str] = field(default_factory=dict[str, str])
    span: Span | None = None
    tab: Tab | None = None
    first: Branch | None = None

    def body(self, start: int, n: int, head: bytes | None = None) -> bytes:
        """Return the upstream body of paths ``start`` to ``start + n - 1``; a stated seed counts up."""
        count = b',"n":%d' % n if n > 1 else b""
        seed = b"" if self.ask.seed is None else b',"seed":%d' % (self.ask.seed + start)
        return (self.head if head is None else head) + count + seed + b"}"
