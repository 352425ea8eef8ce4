"""The policy of one request: the plan's, or the one that the request asks for."""

from __future__ import annotations

import asyncio
import warnings
from collections import OrderedDict
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from functools import cache
from typing import cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from keff import plugins
from keff.errors import PlanError, PolicyError, unknown
from keff.gateway.http.errors import Problem
from keff.gateway.http.request import SYSTEM_ROLES, Wish
from keff.narrow import Fields, fields
from keff.plan import Plan
from keff.policy import Branching, Policy, PolicyWarning, check_fitted, parse_policy
from keff.policy.spec import PolicySpec
from keff.protocol.server import LENGTHS, SEEDS, Parameters, effort_thinking, template_thinking
from keff.protocol.values import Object
from keff.records import frozen
from keff.sampling.manifest import Config
from keff.stats.voting.calibration import Calibration

# Fields that change paths, with the values that do nothing.
NEUTRAL: dict[str, tuple[object, ...]] = {
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "top_k": (0, -1),
    "logit_bias": ({},),
    "tools": ([],),
    "response_format": ({"type": "text"},),
    "stop": ([], ""),
    "reasoning_effort": (),
    "chat_template_kwargs": (),
    "thinking": (),
}

# Fields of an upstream call that the gateway decides itself.
OURS = frozenset({"messages", "n", *SEEDS, "stream", "stream_options", "keff"})

# What an engine of keff says beyond the sampling of a plan, where a server's own default differs.
ENGINE_FIELDS: dict[str, Object] = {"llamacpp": {"top_k": 0, "min_p": 0.0}}


@frozen
class PlanTerms:
    """Model, prompt and sampling under which a plan was measured.

    ``known`` is False for a plan from a log that does not say: then nothing is compared. ``upstream`` is the
    model's name there, ``names`` all names by which it may be asked for. ``fields`` are put into a request
    that states none of their kind. ``parameters`` are what the server taught the pilot about fields.
    """

    known: bool = False
    upstream: str | None = None
    names: frozenset[str] = frozenset()
    system: str | None = None
    fields: Fields = field(default_factory=Object)
    length: int | None = None
    length_field: str = "max_tokens"
    parameters: Parameters = field(default_factory=dict[str, "str | None"])

    def apply(self, body: Object) -> list[str]:
        """Fill missing fields of a body from the plan; returns the names of fields that differ."""
        different = self._model(body)
        if self.known:
            different += self._system(body) + self._length(body) + self._fields(body)
        return different

    def _model(self, body: Object) -> list[str]:
        asked = body.get("model")
        if asked in (None, "", "keff") or asked in self.names:
            if self.upstream is not None:
                body["model"] = self.upstream
            return []
        return ["model"] if self.names else []

    def _system(self, body: Object) -> list[str]:
        messages = cast("list[Object]", body["messages"])
        stated = [message.get("content") for message in messages if message["role"] in SYSTEM_ROLES]
        if stated:
            return [] if stated == [self.system] else ["system"]
        if self.system is not None:
            body["messages"] = [{"role": "system", "content": self.system}, *messages]
        return []

    def _length(self, body: Object) -> list[str]:
        stated = [body[name] for name in LENGTHS if body.get(name) is not None]
        if stated:
            return [] if all(value == self.length for value in stated) else ["max_tokens"]
        if self.length is not None:
            body[self.length_field] = self.length
        return []

    def _fields(self, body: Object) -> list[str]:
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
        return different


def _same(stated: object, value: object) -> bool:
    if isinstance(value, list) and isinstance(stated, str):
        return value == [stated]
    return stated == value


class _Sampling(BaseModel):
    """Sampling fields of a plan that a gateway uses."""

    model_config = ConfigDict(strict=True)

    temperature: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(default=None, ge=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1)
    stop: list[str] = Field(default_factory=list[str])
    thinking: int | None = Field(default=None, ge=0)


class _Engine(BaseModel):
    """Engine fields of a plan that a gateway uses."""

    model_config = ConfigDict(strict=True)

    engine: str | None = None
    model: str | None = None
    thinking: str | None = None
    extra_body: dict[str, JsonValue] | None = None
    omit: list[str] | None = None


class _Measured(BaseModel):
    model_config = ConfigDict(strict=True)

    engine: _Engine = _Engine()
    sampling: _Sampling = _Sampling()
    system: str | None = None


def _measured(plan: Plan) -> _Measured:
    """Return the engine and sampling that a plan was measured with.

    Raises PlanError for one that was changed by hand or cannot be served.
    """
    config = plan.config or {}
    if plan.fingerprint is not None and _fingerprint(config) != plan.fingerprint:
        raise PlanError("the plan's configuration is not the one of its fingerprint: make the plan again")
    parts = {name: config[name] for name in ("engine", "sampling") if name in config}
    system = fields(fields(plan.task).get("options")).get("system")
    try:
        measured = _Measured.model_validate({**parts, "system": system})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PlanError(f"the plan cannot be served: {where}: {first['msg']}") from None
    decided = sorted(OURS & (measured.engine.extra_body or {}).keys())
    if decided:
        raise PlanError(
            f"the plan cannot be served: its extra_body sets {decided[0]}, which a gateway decides"
        )
    return measured


def _fingerprint(config: Object) -> str | None:
    try:
        return Config.model_validate(config).fingerprint
    except ValidationError:
        return None


def terms_of(plan: Plan, model: str | None = None) -> PlanTerms:
    """Return the terms of a plan; ``model`` is the model's name upstream (default: the plan's own).

    Raises PlanError for a plan that was changed by hand, or that holds what no request can.
    """
    if plan.config is None:
        # Each branch brings its own model: by one of their names, or by keff's, all of them are asked.
        names = (model, *(name for branch in plan.branches for name in (branch.name, branch.model)))
        return PlanTerms(upstream=model, names=frozenset(name for name in names if name))
    measured = _measured(plan)
    engine, sampling = measured.engine, measured.sampling
    alias = engine.model.removesuffix(".gguf") if engine.model else None
    omit = set(engine.omit or ())
    return PlanTerms(
        known=True,
        upstream=model or alias,
        names=frozenset(name for name in (model, engine.model, alias) if name),
        system=measured.system,
        fields={name: value for name, value in _stated(engine, sampling).items() if name not in omit},
        length=sampling.max_tokens if "max_tokens" not in omit else None,
        length_field="max_completion_tokens" if engine.thinking == "effort" else "max_tokens",
        parameters={name: other for name, other in plan.parameters.items() if "logprobs" not in name},
    )


def _stated(engine: _Engine, sampling: _Sampling) -> Object:
    given = {"temperature": sampling.temperature, "top_p": sampling.top_p, "stop": sampling.stop or None}
    stated: Object = {name: value for name, value in given.items() if value is not None}
    think = effort_thinking if engine.thinking == "effort" else template_thinking
    stated |= think(sampling.thinking)
    stated |= ENGINE_FIELDS.get(str(engine.engine), {})
    return stated | (engine.extra_body or {})


# What a view in a gateway carries; ``branches`` too where the plan has them.
SERVABLE = frozenset({"answers", "confidence"})

UNCALIBRATED = "needs a calibration of its confidence: keff analyze RECORD -o plan.json makes a plan with one"

# How many policies of requests are kept, and up to which cap.
#
# A client with a wish of its own does not pay for a table each time; larger ones are made anew, so that they
# fill no memory.
KEPT, KEPT_CAP = 8, 32


def policy_of_plan(
    spec: str, branches: Collection[str] = (), calibrations: Mapping[str, Calibration] | None = None
) -> Policy:
    """Return the policy of a plan with these branches; raises PlanError if it cannot be served."""
    try:
        return servable(spec, branches, calibrations)
    except PolicyError as error:
        raise PlanError(f"the plan's policy cannot be served: {error}") from None


def servable(spec: str, branches: Collection[str], calibrations: Mapping[str, Calibration] | None) -> Policy:
    """Return the policy of a spec, if a gateway with these branches can follow it; raises PolicyError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PolicyWarning)
        try:
            policy = parse_policy(spec, calibrations)
        except (ValueError, TypeError, OverflowError) as error:
            raise PolicyError(f"policy {spec!r}: {error}") from error
    check_fitted(policy)
    asked = policy.branches if isinstance(policy, Branching) else ()
    if missing := [name for name in asked if name not in branches]:
        raise PolicyError(f"{spec} asks the branch {missing[0]}, which the plan does not have")
    if "calibration" in policy.needs:
        raise PolicyError(f"{spec} {UNCALIBRATED}")
    if lacking := policy.needs - (SERVABLE | {"branches"} if asked else SERVABLE):
        raise PolicyError(f"{spec} needs {', '.join(sorted(lacking))}, which a gateway does not have")
    return policy


class RequestPolicies:
    """Builds and caches the policies that requests ask for, in one thread.

    It checks a policy before it builds it, and keeps only a few, because a table grows with the cube of
    its cap. A client that asks for another policy with every request shares the thread with others like
    it, and slows down nobody else.
    """

    def __init__(
        self, branches: Collection[str] = (), calibrations: Mapping[str, Calibration] | None = None
    ) -> None:
        self._branches, self._calibrations = branches, calibrations
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="policies")
        self._kept: OrderedDict[str, Policy] = OrderedDict()

    async def settled(self, plan: Policy, wish: Wish, most: int) -> Policy:
        """Return the policy of a request: the plan's, or the one it asks for.

        Raises Problem (400) for a wrong one, or for more than ``most`` paths.
        """
        if not (wish.k or wish.policy or wish.cap):
            return plan
        try:
            spec = str(_asked(plan, wish, most))
            if spec not in self._kept:
                loop = asyncio.get_running_loop()
                policy = await loop.run_in_executor(
                    self._thread, servable, spec, self._branches, self._calibrations
                )
                if policy.cap > most:
                    raise _too_many(policy.cap, most)
                if policy.cap > KEPT_CAP:
                    return policy
                self._kept[spec] = policy
        except PolicyError as error:
            raise Problem(400, str(error), param="keff.policy", code="invalid_policy") from None
        self._kept.move_to_end(spec)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._kept[spec]

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _asked(plan: Policy, wish: Wish, most: int) -> PolicySpec:
    """Return the policy spec that a request asks for, its size checked before it is built."""
    if wish.k is not None:
        spec = PolicySpec("fixed", wish.k)
    else:
        spec = PolicySpec.parse("fixed:1" if wish.policy == "off" else wish.policy or plan.spec)
        if spec.name not in _names():
            raise PolicyError(unknown("policy", spec.name, sorted(_names())))
        spec = spec if wish.cap is None else spec.with_cap(wish.cap)
    for size in (spec.cap, spec.options.get("cap")):
        if isinstance(size, int | float) and size > most:
            raise _too_many(int(min(size, 1e9)), most)
    return spec


def _too_many(asked: int, most: int) -> Problem:
    line = f"{asked} paths are more than the {most} that this gateway allows"
    return Problem(400, line, param="keff", code="too_many_paths")


@cache
def _names() -> frozenset[str]:
    return frozenset(plugins.names("policy"))
