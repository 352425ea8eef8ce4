"""Self-consistency for one question, with any AsyncOpenAI client, under a stopping policy."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from keff.answers import SLOW_SPACES, UNREAD, Space, of_unknown_options, read, space
from keff.errors import EngineError, UsageError
from keff.narrow import Fields, fields
from keff.plugins import import_extra
from keff.policies.retry import reads_verdicts
from keff.policy import (
    Policy,
    RunningVote,
    Stop,
    View,
    WeightKind,
    cancel_running,
    confidence_of,
    for_one_model,
    parse_policy,
    run_vote,
    tally,
    undecided,
    weighs,
)
from keff.policy import in_flight as flying
from keff.policy.weighting import logprob_of
from keff.protocol.reply import PathSource, choices_of, completions, repeats, source_of, with_answer
from keff.protocol.server import SEEDS, greedy_field, seed_of_path
from keff.protocol.values import question_of
from keff.records import AnswerSpace, Completion, Finding, Message, Result, frozen
from keff.sampling.verifier import OwnFunction, Verifier, verifier_of
from keff.usercode import Stamp


class ChatClient(Protocol):
    """Protocol of ``openai.AsyncOpenAI``: ``client.chat.completions.create``."""

    @property
    def chat(self) -> Any:
        """The chat resource."""
        ...


@frozen
class Verdict(Result):
    """The outcome of a vote.

    ``answer`` is a canonical key (None: nobody gave one), ``weight`` the strength named by ``kind``
    (``vote_share``, ``posterior``, ``e_value``, ``weighted_share`` or ``verdict``), ``paths`` how many were
    drawn, ``abstentions`` how many of them gave no answer, ``reason`` why sampling stopped. ``unread`` more
    had an answer that could not be read (a worker process was lost); ``undecided``: these could turn the
    vote.
    """

    answer: str | None
    weight: float
    kind: WeightKind
    paths: int
    abstentions: int
    reason: str
    unread: int = 0
    undecided: bool = False

    @classmethod
    def of(
        cls, keys: Sequence[str | None], stop: Stop, unread: int = 0, *, weighted: bool = False
    ) -> Verdict:
        """Return the verdict of a policy's stop after these votes."""
        abstentions = sum(key is None for key in keys) - unread
        turned = undecided(keys, unread, stop.answer, weighted=weighted)
        return cls(stop.answer, stop.weight, stop.kind, len(keys), abstentions, stop.reason, unread, turned)


@frozen
class Consensus(Finding):
    """Result of a live vote: the verdict, and the counted paths in order.

    ``keys`` are the canonical answers of the paths (None abstains), ``completions`` the paths themselves.
    ``cancelled`` paths were cancelled when the vote stopped; ``tokens`` leaves out what they had
    generated. A cache gave ``repeated`` paths again, so keff does not count them.
    """

    verdict: Verdict
    keys: tuple[str | None, ...]
    completions: tuple[Completion, ...]
    cancelled: int = 0
    repeated: int = 0

    @property
    def answer(self) -> str | None:
        """The canonical answer that won; None when no path gave one."""
        return self.verdict.answer

    @property
    def text(self) -> str | None:
        """The whole text of the first path that gave the answer; of a checker's the last one."""
        if self.answer is None:
            return None
        places = [place for place, key in enumerate(self.keys) if key == self.answer]
        return self.completions[places[-1 if self.verdict.kind == "verdict" else 0]].text

    @property
    def tokens(self) -> int:
        """The output tokens of the counted paths."""
        return sum(path.tokens for path in self.completions)

    def line(self) -> str:
        """Return the answer, its vote share, and the paths and tokens used."""
        won = self.verdict
        return f"{won.answer!r} with {won.kind} {won.weight:.2f} after {won.paths} paths: {won.reason}"

    def rows(self) -> list[tuple[str, str, str]]:
        """Return one table row per path."""
        paths = zip(self.keys, self.completions, strict=True)
        body = [
            (str(place), "–" if key is None else key, str(path.tokens))
            for place, (key, path) in enumerate(paths)
        ]
        return [("path", "answer", "tokens"), *body]


def _text(answer: object) -> str:
    """Return an answer of type text; raises UsageError for other types."""
    if isinstance(answer, str):
        return answer
    raise UsageError(
        f"vote takes answers as text, or None, not {type(answer).__name__}: [str({answer!r}), ...]"
    )


def vote(answers: Iterable[str | None], space: AnswerSpace = "exact") -> Verdict:
    """Return the plurality of answers, compared in an answer space.

    None, and answers that the space cannot read, abstain. Of tied answers the first seen wins. ``weight``
    is the winner's share of the votes cast. Raises UsageError for a single text and for answers that are
    not texts, TaskError for an unknown space.

    Example: ``keff.vote(["42", "41", "42.0"], space="numeric").answer == "42"``.
    """
    if isinstance(answers, str):
        raise UsageError(f"vote takes a list of answers, not one text: [{answers[:40]!r}, ...]")
    read = _space(space)
    keys = [None if answer is None else read.key(_text(answer)) for answer in answers]
    seen = tally(keys)
    reason = (
        "no answers"
        if seen.leader is None
        else "a tie, the first seen wins"
        if seen.v1 == seen.v2
        else "plurality"
    )
    return Verdict.of(keys, Stop(seen.leader, seen.share, "vote_share", reason))


async def self_consistency(
    client: ChatClient,
    messages: str | Sequence[Message],
    policy: str | Policy = "lead_k:3",
    *,
    space: AnswerSpace = "exact",
    in_flight: int = 1,
    verifier: Callable[[str, str], object] | str | None = None,
    **request: object,
) -> Consensus:
    """Answer one question by the vote of as many paths as the policy asks for.

    ``client`` is any AsyncOpenAI client, and ``request`` goes to its ``chat.completions.create``
    unchanged (``model=``, ``temperature=``, ``max_tokens=``). Without ``model`` keff takes the server's
    only one. ``space`` says how to read answers from the texts and compare them. Texts that were cut or
    refused abstain unless they state an answer. ``verifier`` rates each path: a function of prompt and
    text, or the URL of a reward model. ``retry:m`` needs one, and takes the text of a path as its answer
    if the space finds none.

    Votes count in launch order unless the policy says ``order=arrival``. With ``in_flight=W`` in the
    policy W paths run at once, and keff cancels those that still run when it stops. (The argument
    ``in_flight=W`` writes that key, in launch order, and warns.) Raises EngineError when the server fails
    after the client's own retries, UsageError for wrong use.

    Example: ``await keff.self_consistency(client, "What is 6 x 7?", space="numeric", model="my-model")``.
    """
    import_extra("openai", "self_consistency")
    from openai import OpenAI, OpenAIError

    if isinstance(client, OpenAI):
        raise UsageError("self_consistency takes an asynchronous client: openai.AsyncOpenAI(...)")
    rule = parse_policy(policy) if isinstance(policy, str) else policy
    for_one_model(rule, "self_consistency")
    if in_flight > 1:
        rule = flying(rule, min(in_flight, rule.cap))
        warnings.warn(f"in_flight is a key of the policy: {rule.spec}", DeprecationWarning, stacklevel=2)
    if request.get("n") not in (None, 1):
        raise UsageError(f"the policy says how many paths are drawn ({rule.spec}): leave n out")
    if greedy := greedy_field({**request, **fields(request.get("extra_body"))}):
        if rule.cap > 1:
            warnings.warn(f"{greedy} gives one and the same path: one is drawn", stacklevel=2)
        rule = parse_policy("fixed:1")
    if "confidence" in rule.needs and verifier is None:
        request.setdefault("logprobs", True)
    try:
        request["model"] = request.get("model") or await _only_model(client)
        talk = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        asked = {"messages": talk, **request}

        async def draw(index: int) -> Fields:
            response = await client.chat.completions.create(**_of_path(asked, index))
            # A page in HTML comes as a string, and a stream as no answer at all.
            return fields(response.model_dump()) if hasattr(response, "model_dump") else {}

        reading = of_unknown_options(space, question_of(talk))
        rate = None if verifier is None else partial(_verifier(verifier).rate, talk)
        found, _ = await PathsOfQuestion(draw, rule, reading, rate).run()
        return found
    except OpenAIError as error:
        raise EngineError(f"the server failed: {error}") from error


def self_consistency_sync(
    client: ChatClient, messages: str | Sequence[Message], policy: str | Policy = "lead_k:3", **options: Any
) -> Consensus:
    """Synchronous ``self_consistency``, with the same options, for code without an event loop.

    Each call opens connections of its own, so an ``http_client`` given to an AsyncOpenAI is not used.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_own_connections(client, messages, policy, options))
    raise UsageError("an event loop is running already: await keff.self_consistency(...) instead")


async def _own_connections(
    client: ChatClient, messages: str | Sequence[Message], policy: str | Policy, options: dict[str, Any]
) -> Consensus:
    import_extra("openai", "self_consistency_sync")
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    if not isinstance(client, AsyncOpenAI):
        return await self_consistency(client, messages, policy, **options)
    # Connections belong to the event loop that opened them, and this one ends with the call.
    async with client.copy(http_client=DefaultAsyncHttpxClient()) as own:
        return await self_consistency(own, messages, policy, **options)


def _space(name: AnswerSpace) -> Space:
    # A list of answers does not say how many options a question had: any label may be an answer.
    return space(name, labels=tuple("ABCDEFGHIJ")) if name == "choice" else space(name)


def _verifier(given: Callable[[str, str], object] | str) -> Verifier:
    """Return the verifier of a function or URL."""
    if isinstance(given, str):
        found = verifier_of(None, given)
        assert found is not None
        return found
    stamp = Stamp(getattr(given, "__qualname__", "verifier"), "")
    return Verifier(stamp, OwnFunction(lambda: given))


async def _only_model(client: Any) -> str:
    names = [str(model.id) for model in (await client.models.list()).data]
    if len(names) != 1:
        raise UsageError(f"say which model: model=... (the server has {', '.join(names) or 'none'})")
    return names[0]


class _Path(NamedTuple):
    """A drawn path: its vote key, what came, from where, whether its answer is unread, and its rating."""

    key: str | None
    completion: Completion
    source: PathSource
    unread: bool = False
    rating: float = float("nan")


@frozen
class PathsOfQuestion:
    """Draws and counts the paths of one question as the policy asks.

    ``call`` returns the chat response of the path at a launch position, and ``rate`` the rating of a text by
    a verifier, with its seconds (None: confidences are log-probabilities).
    """

    call: Callable[[int], Awaitable[Fields]]
    policy: Policy
    space: Space
    rate: Callable[[str], Awaitable[tuple[float, float]]] | None = None

    async def run(self) -> tuple[Consensus, list[int]]:
        """Draw until the policy stops, then cancel paths in flight; also returns where counted paths were."""
        checked = reads_verdicts(self.policy)
        if checked and self.rate is None:
            raise UsageError(f"{self.policy.spec} tries again until a checker passes: give verifier=")
        drawn: dict[int, _Path] = {}
        running: dict[asyncio.Task[None], Sequence[int]] = {}

        async def draw(place: int) -> None:
            path = await self._path(place)
            if self.rate is not None:
                told, _ = await self.rate(path.completion.text)
                unread = checked and path.key is None
                path = path._replace(rating=told, key=path.completion.text if unread else path.key)
            drawn[place] = path

        def view(places: Sequence[int]) -> View:
            paths = [drawn[place] for place in places]
            name = confidence_of(self.policy)
            read = [
                logprob_of(path.completion.logprobs, name) if self.rate is None else path.rating
                for path in paths
            ]
            distinct = _without_repeats(paths)
            keys = tuple(path and path.key for path in distinct)
            unread = sum(path is not None and path.unread for path in distinct)
            return View(keys, read if "confidence" in self.policy.needs else (), unread=unread)

        vote = RunningVote(self.policy, view)
        try:
            await run_vote(vote, lambda places: (([place], draw(place)) for place in places), running)
        finally:
            cancelled = await cancel_running(running)
        assert vote.stop is not None
        came = _without_repeats([drawn[place] for place in vote.counted])
        places = [place for place, path in zip(vote.counted, came, strict=True) if path is not None]
        paths = [path for path in came if path is not None]
        keys = tuple(path.key for path in paths)
        unread = sum(path.unread for path in paths)
        verdict = Verdict.of(keys, vote.stop, unread, weighted=weighs(self.policy))
        completions = tuple(path.completion for path in paths)
        return Consensus(verdict, keys, completions, cancelled, came.count(None)), places

    async def _path(self, index: int) -> _Path:
        start = time.monotonic()
        body = await self.call(index)
        choices = choices_of(body)[:1]
        (path,), source = completions(body, choices, time.monotonic() - start), source_of(body, choices[0])
        if path.refusal:
            return _Path(None, path, source)
        reading = partial(read, self.space, path.text, truncated=path.finish in ("length", "cancelled"))
        found = await asyncio.to_thread(reading) if self.space.name in SLOW_SPACES else reading()
        told = replace(path, logprobs=with_answer(path.logprobs, found.answer))
        return _Path(found.key, told, source, found.rule == UNREAD)


def _without_repeats(paths: Sequence[_Path]) -> list[_Path | None]:
    """Return the paths, None for one that repeats an earlier one."""
    again = repeats([path.source for path in paths])
    return [None if same else path for path, same in zip(paths, again, strict=True)]


def _of_path(request: Fields, index: int) -> dict[str, Any]:
    """Return the request of a path: one seed for all would draw one path again and again."""
    own = _with_seeds(request, index)
    if body := fields(request.get("extra_body")):
        own["extra_body"] = _with_seeds(body, index)
    return own


def _with_seeds(request: Fields, index: int) -> dict[str, Any]:
    """Return a request with the seeds of its path."""
    seeds = {name: request.get(name) for name in SEEDS}
    return {
        **request,
        **{name: seed_of_path(seed, index) for name, seed in seeds.items() if isinstance(seed, int)},
    }
