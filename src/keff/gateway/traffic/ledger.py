"""Traffic ledger: votes of requests, the drift profile and the drift alarm; beside it the vote log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from keff.errors import UsageError
from keff.gateway.options import Options
from keff.gateway.traffic.monitor import SHADOW_DRAWS, Monitor, StateFile, save_profile
from keff.gateway.traffic.traffic import PER_REQUEST, Learner, Traffic
from keff.plan import Plan
from keff.policy import Policy, cancel_running, gave_up
from keff.protocol.values import Object


class VoteLog:
    """Appends votes of requests to a file.

    Answers are canonical keys: equal where they are equal texts. They are redacted to 1, 2, ... within a
    request unless ``answers`` is True. Neither questions nor texts of paths are ever written.
    """

    def __init__(self, file: Path, *, answers: bool = False) -> None:
        self._file, self._answers = file, answers
        try:
            self._out = file.open("a", encoding="utf-8", buffering=1)
        except OSError as error:
            raise UsageError(f"vote_log {file}: {error.strerror}") from None

    def write(self, name: str, keys: Sequence[str | None], **rest: object) -> None:
        """Append one request; raises OSError."""
        shown = list(keys) if self._answers else redacted(keys)
        row = {"id": name, "answer_space": "exact", "all_answers": shown, **rest}
        self._out.write(json.dumps(row, separators=(",", ":")) + "\n")

    def close(self) -> None:
        """Close the file; data that a full disk refused is lost."""
        with contextlib.suppress(OSError):
            self._out.close()


def redacted(keys: Sequence[str | None]) -> list[str | None]:
    """Return the keys replaced by 1, 2, ... in order of appearance; None stays."""
    names: dict[str, str] = {}
    return [None if key is None else names.setdefault(key, str(len(names) + 1)) for key in keys]


log = logging.getLogger("keff.gateway")


@dataclass(slots=True, kw_only=True)
class TrafficLedger:
    """What a gateway has seen since its start.

    ``learned`` says that the profile comes from traffic, not from a pilot. Such a profile never holds
    free text, so free text is not compared with it. A plan made from the traffic has the answer space
    ``space`` and at most ``cap`` paths. ``decision`` is that of the served plan.
    """

    policy: Policy
    monitor: Monitor | None = None
    learner: Learner | None = None
    state: StateFile | None = None
    traffic: Traffic = field(default_factory=Traffic)
    learned: bool = False
    space: str = PER_REQUEST
    cap: int = 32
    decision: Object = field(default_factory=dict[str, object])

    @property
    def few_shadows(self) -> bool:
        """Whether shadow requests are needed for the profile only."""
        return self.learner is not None and self.learner.shadow_only

    def add_vote(
        self, keys: tuple[str | None, ...], kind: str | None, cause: str, failed: int, *, regular: bool
    ) -> None:
        """Record a request answered by a vote: its votes in launch order, and how it ended.

        ``regular`` says that it is one of those that the plan, or the operator's policy, describes.
        """
        self.traffic.add_vote(keys, kind, cause, failed)
        compared = cause == "policy" or (cause == "free_text" and not self.learned)
        compared = compared or gave_up(self.policy, keys)
        if not regular or not compared:
            return
        if self.monitor is not None:
            if not self.monitor.shadow_only:
                self.observe(keys, stopped=cause == "policy")
        elif self.learner is not None and not self.learner.shadow_only:
            self.learn(self.learner, keys)

    def add_shadow(self, keys: tuple[str | None, ...]) -> None:
        """Record all votes of a shadow request, also those drawn after its reply."""
        if self.few_shadows and self.learner is not None:
            if len(keys) >= self.learner.m:
                self.learn(self.learner, keys)
            return
        self.traffic.drawn.append(keys)
        if self.monitor is not None and self.monitor.shadow_only and len(keys) >= self.monitor.m:
            self.observe(keys)

    def observe(self, keys: Sequence[str | None], *, stopped: bool = False) -> None:
        """Pass a request's votes to the drift alarm; the policy stopped after ``stopped`` of them."""
        if self.monitor is not None:
            self.monitor.observe(keys, stopped=stopped)

    def learn(self, learner: Learner, keys: Sequence[str | None]) -> None:
        """Add a request to the profile; once it is complete, the drift alarm begins."""
        profile = learner.observe(keys)
        if profile is None:
            return
        self.learner = None
        plan = Plan(policy=self.policy.spec, estimates={}, profile=profile)
        self.monitor = Monitor(plan, self.policy, self.state)
        log.info(json.dumps({"event": "profile", "requests": len(profile.votes), "paths": profile.paths}))
        if self.state is not None:
            save_profile(self.state, self.policy, profile)

    async def close(self) -> None:
        """Save the alarm's state and release its file."""
        if self.monitor is not None:
            self.monitor.save()
        if self.state is not None:
            self.state.close()


# Shadow requests drawn on at once; while there are as many, no new request becomes one.
MOST_SHADOWS = 16


class Shadows:
    """Chooses shadow requests, before their votes are seen, and draws their extra paths."""

    def __init__(self, options: Options, ledger: TrafficLedger, rng: np.random.Generator) -> None:
        self._options, self._ledger, self._rng = options, ledger, rng
        self._votes = self._paths = self._shadows = self._after = 0
        self.running: set[asyncio.Task[None]] = set()

    @property
    def wanted(self) -> int:
        """The number of paths to which a shadow request is drawn."""
        return SHADOW_DRAWS if self._ledger.few_shadows else self._options.shadow_paths

    def chosen(self) -> bool:
        """Return whether the next request is a shadow request.

        On average shadows cost ``shadow_budget`` of what the replies cost.
        """
        if len(self.running) >= MOST_SHADOWS:
            return False
        mean = self._paths / self._votes if self._votes else 1.0
        # Paths in flight at the stop go on, too, so that a shadow may draw more than is wanted of it.
        after = max(self.wanted - mean, self._after / self._shadows if self._shadows else 0.0)
        return float(self._rng.random()) * after < self._options.shadow_budget * mean

    def count(self, paths: int) -> None:
        """Add the cost of a reply to the total that bounds the shadows' share."""
        self._votes += 1
        self._paths += paths

    def drew(self, paths: int) -> None:
        """Count a shadow request that drew so many paths after its reply."""
        self._shadows += 1
        self._after += paths

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Start drawing a request's extra paths in the background."""
        task = asyncio.create_task(work)
        self.running.add(task)
        task.add_done_callback(self.running.discard)

    async def close(self) -> None:
        """Cancel all shadow draws."""
        await cancel_running(self.running)
