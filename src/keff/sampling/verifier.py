"""Verifiers that rate paths: the user's function, or a reward model at a URL."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import httpx2

from keff.errors import PlanError, UsageError
from keff.narrow import Object, fields, is_array, items
from keff.policies.retry import reads_verdicts
from keff.policy import Policy, calibrated, check_fitted, confidence_of, parse_policy
from keff.policy.weighting import LOGPROBS
from keff.protocol.values import text_of
from keff.records import Item, Message, stable_hash
from keff.sampling.store import Run
from keff.stats.votes import CONFIDENCE
from keff.task import Task
from keff.usercode import VERIFIER, VERIFIER_FLAGS, Stamp, UserCode, require_same_code

if TYPE_CHECKING:
    from keff.plan import Plan

# Paths that are rated at once: a reward model of one GPU batches about so many.
AT_ONCE = 8

# How long one rating may take, by the clock. A busy server needs a generous limit.
SECONDS = 60.0

# After so many ratings in a row that took longer it is set aside: paths would wait for nothing. A path tries
# it again after this rest, and after longer ones the more have failed: a thread that hangs cannot be stopped.
MOST_LATE, REST = 3, 300.0


# Rates a text that answers a prompt, with what should be a number.
RatingFunction: TypeAlias = Callable[[Sequence[Message], str], Awaitable[object]]


@dataclass
class Verifier:
    """Rates paths concurrently with a time limit; a failed rating is NaN, and counted.

    ``stamp`` names it, with the hash of the function's file or of the URL: its version.
    """

    stamp: Stamp
    rates: RatingFunction
    seconds: float = SECONDS
    failures: Counter[str] = field(default_factory=Counter[str])
    _late: int = 0
    _tried: float = 0.0
    _places: asyncio.Semaphore | None = field(default=None, repr=False)

    async def rate(self, messages: Sequence[Message], text: str) -> tuple[float, float]:
        """Return the confidence in a path (NaN on failure), and the seconds taken."""
        # Made where it is used: a verifier travels to the processes of a gateway.
        self._places = self._places or asyncio.Semaphore(AT_ONCE)
        async with self._places:
            value, begun = float("nan"), time.monotonic()
            if begun < self._tried + REST * (self._late // MOST_LATE):
                self.failures[f"is set aside: {MOST_LATE} in a row took more"] += 1
                return value, 0.0
            self._tried = begun
            try:
                async with asyncio.timeout(self.seconds):
                    rating = await self.rates(messages, text)
                if not isinstance(rating, Real):  # True and False are 1 and 0
                    why = f"returns {type(rating).__name__}, not a number"
                else:
                    value = float(rating)
                    why = f"returns {value}, not a number"
                self._late = 0
            except TimeoutError:
                why = f"takes more than {self.seconds:g} s"
                self._late += 1
                if self._late == MOST_LATE:
                    line = (
                        f"the verifier {self.stamp.name} {why}, {MOST_LATE} times in a row: it is set aside"
                    )
                    logging.getLogger("keff").warning(
                        f"{line} for {REST:g} s, and its paths are ordinary votes"
                    )
            except Exception as error:  # whatever somebody else's code raises must not end a run
                why = f"raises {type(error).__name__}"
            spent = time.monotonic() - begun
        if not math.isfinite(value):
            value = float("nan")
            self.failures[why] += 1
        return value, spent

    def failure_line(self) -> str | None:
        """Return a line on failed ratings; None without any."""
        if not self.failures:
            return None
        reasons = ", ".join(f"{why} ({count})" for why, count in self.failures.most_common(3))
        return f"the verifier {self.stamp.name} {reasons}: these paths are ordinary votes"


async def rate_paths(run: Run, task: Task, verifier: Verifier) -> int:
    """Rate every completed path not yet rated by this version; returns how many.

    A path on which the verifier fails is not kept, so that the next call tries it again.
    """
    done, items = 0, run.items()
    # Paths of several items at once: with few paths of each most places would stay empty.
    while several := list(islice(items, AT_ONCE)):
        done += await rate_items(run, task, verifier, several)
    return done


async def rate_items(run: Run, task: Task, verifier: Verifier, several: Sequence[Item]) -> int:
    """Rate the completed paths of some items as ``rate_paths`` does."""
    version = verifier.stamp.sha256
    owed = [
        (item, one)
        for item in several
        for known in [run.ratings(item.id, version)]
        for one in run.kept(item.id)
        if (one.path.slot, one.path.index, one.path.attempt) not in known
    ]
    found = await asyncio.gather(
        *(verifier.rate(task.messages(item, one.path.slot), one.completion.text) for item, one in owed)
    )
    kept = [(one.path, *of) for (_, one), of in zip(owed, found, strict=True) if of[0] == of[0]]
    run.add_ratings(kept, version)
    return len(kept)


def verifier_of(function: str | None, url: str | None) -> Verifier | None:
    """Return the verifier of ``--verifier`` or ``--verifier-url``; raises UsageError for both."""
    if function is not None and url is not None:
        raise UsageError("give --verifier or --verifier-url, not both")
    if function is not None:
        code = UserCode.parse(function, "verifier")
        return Verifier(code.stamp, OwnFunction(partial(code.load, "verifier")))
    if url is None:
        return None
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--verifier-url {url}: write http://HOST:PORT/score, /classify or /pooling")
    return Verifier(Stamp(url, stable_hash(url)), RewardModel(url))


def check_rated(plan: Plan, policy: Policy, stamp: Stamp | None) -> None:
    """Raise PlanError or UsageError where the confidence that a plan's policy reads is unavailable.

    A run of keff says what rated its paths. Of another record nobody knows what its column is: without a
    verifier it passes for a log-probability only where no number of it is above 0.
    """
    name = confidence_of(policy)
    if name is None or name in LOGPROBS:
        return
    code = fields(fields((plan.task or {}).get("code")).get(VERIFIER))
    recorded = Stamp(str(code["name"]), str(code["sha256"])) if code else None
    require_same_code("the plan", VERIFIER, recorded, stamp)
    held = calibrated(policy)
    if stamp is not None:
        return
    if reads_verdicts(policy):
        raise UsageError(f"{policy.spec} tries again until a checker passes: name it with {VERIFIER_FLAGS}")
    if held is None or held.calibration is None:
        return
    above = held.calibration.informs and held.calibration.confidences[-1] > 0
    if name != CONFIDENCE or above:
        raise PlanError(
            f"the plan's policy {policy.spec} reads a confidence that is not a log-probability: say what "
            f"rates paths, with {VERIFIER_FLAGS}"
        )


def rule_of(text: str) -> Policy:
    """Return the policy of a spec, or of a ``plan.json`` with its calibrations.

    Raises UsageError for a plan whose rule weighs paths by a verifier: a run rates them when all are drawn.
    """
    if not text.endswith(".json"):
        policy = parse_policy(text)
        check_fitted(policy)
        return policy
    from keff.plan import Plan

    plan = Plan.read(Path(text))
    policy = parse_policy(plan.policy, plan.calibrations)
    if reads_verdicts(policy):
        return policy
    try:
        check_rated(plan, policy, None)
    except (PlanError, UsageError):
        line = f"{text}: {plan.policy} reads a verifier, which rates a run's paths when all are drawn"
        raise UsageError(f"{line}: keff serve --plan {text} asks it path by path") from None
    return policy


def slots_of(text: str) -> tuple[int, ...]:
    """Return the prompt templates of a ``plan.json``, which its paths take in turn; none of a spec."""
    if not text.endswith(".json"):
        return ()
    from keff.plan import Plan

    return Plan.read(Path(text)).slots


def prompt_of(messages: Sequence[Message]) -> str:
    """Return the messages joined into one prompt, as a verifier sees it."""
    return "\n\n".join(text_of(message.get("content")) for message in messages)


@dataclass
class OwnFunction:
    """The user's ``function(prompt, text)``, with all rights of this process: awaited, or in a thread."""

    load: Callable[[], Callable[..., object]]

    async def __call__(self, messages: Sequence[Message], text: str) -> object:
        """Return the function's rating."""
        function = self.load()
        if inspect.iscoroutinefunction(function):
            return await cast("Awaitable[object]", function(prompt_of(messages), text))
        done = Future[object]()
        # Begun: who waits no longer leaves it to itself.
        done.set_running_or_notify_cancel()

        def work() -> None:
            try:
                done.set_result(function(prompt_of(messages), text))
            except Exception as error:
                done.set_exception(error)

        # A thread that nobody waits for: one that hangs must not keep the process from its end.
        threading.Thread(target=work, daemon=True, name="verifier").start()
        return await asyncio.wrap_future(done)


@dataclass
class RewardModel:
    """A reward or classify endpoint in vLLM's form: ``/score``, ``/classify`` or ``/pooling``."""

    url: str
    _client: httpx2.AsyncClient | None = None

    async def __call__(self, messages: Sequence[Message], text: str) -> object:
        """Return the reply's rating; of several classes, the last one's."""
        # ``Verifier.rate`` has the limit of time.
        self._client = self._client or httpx2.AsyncClient(timeout=None)
        if self.url.endswith("/score"):
            body: Object = {"text_1": prompt_of(messages), "text_2": text}
        elif self.url.endswith("/classify"):
            body = {"input": f"{prompt_of(messages)}\n\n{text}"}
        else:
            said = {"role": "assistant", "content": text}
            body = {"messages": [*(dict(message) for message in messages), said]}
        reply = await self._client.post(self.url, json=body)
        reply.raise_for_status()
        return _rating(reply.json())


def _rating(body: object) -> object:
    """Return the rating in a reply: a score, the last class's probability, a pooled value."""
    found = fields(body)
    part = fields([found, *items(found.get("data"))][-1])
    told = (part[name] for name in ("score", "reward", "probs", "data") if part.get(name) is not None)
    value = next(told, None)
    while is_array(value) and value:
        value = value[-1]
    return value
