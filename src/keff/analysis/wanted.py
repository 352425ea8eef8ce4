"""Keywords of ``keff.analyze`` and ``keff.replay``, the same as the command line's options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

from keff.analysis.decision import Aim
from keff.analysis.estimates import Settings
from keff.analysis.money import Pace, Tariff
from keff.analysis.replay import Replaying
from keff.analysis.terms import Terms
from keff.errors import UsageError
from keff.policy.spec import MAX_CAP
from keff.sampling.cost import Price


class Wanted(TypedDict, total=False):
    """Keywords of an analysis: aim, prices, reference policy and limits.

    ``now`` is what you draw today, a number of paths or a policy (default: what was recorded). ``cap`` is
    the most paths that you would pay for. State one aim: ``retain`` (the share of today's accuracy to
    keep; ``sure`` is with which probability on this workload), ``budget`` (mean paths),
    ``budget_dollars``, or ``value_per_correct`` with ``cost_per_path``. ``slower`` limits the median and
    the 95th percentile of the time to answer, as parts of today's (default 1; "any"). ``prices`` is a
    table or a TOML file, ``volume`` the number of questions to come. ``pace`` gives seconds if none are
    recorded ("0.5+60": to the first token, and tokens per second). ``epsilon`` is the paper's. ``rule``
    "adaptive_k" deploys the paper's K* instead of the decision's rule; it is compared with ``now``, else
    with K_max paths (``cap``, or 32). ``false_accept`` is the share of wrong answers that a checker
    passes.
    """

    now: int | str | None
    cap: int | None
    retain: float | None
    sure: float | None
    budget: float | None
    budget_dollars: float | None
    value_per_correct: float | None
    cost_per_path: float | None
    slower: float | Literal["any"] | None
    prices: str | Path | Mapping[str, Price | Mapping[str, float]] | None
    volume: int | None
    pace: str | None
    epsilon: float
    seed: int
    rule: Literal["adaptive_k"] | None
    false_accept: float | None


WANTED = tuple(Wanted.__annotations__)


def settings_of(words: Mapping[str, Any], settings: Settings | None = None) -> Settings:
    """Return the settings from keywords; raises UsageError where settings are given too."""
    given = {name: value for name, value in words.items() if value is not None}
    if settings is not None:
        if given:
            raise UsageError(f"settings hold every choice: leave out {', '.join(given)}")
        return settings
    cap = given.get("cap")
    if cap is not None and not 1 <= cap <= MAX_CAP:
        raise UsageError(f"cap must be 1 to {MAX_CAP}, not {cap}")
    epsilon = given.get("epsilon", 0.025)
    if not 0 < epsilon < float("inf"):
        raise UsageError(f"epsilon must be above 0, not {epsilon:g}")
    if given.get("rule", "adaptive_k") != "adaptive_k":
        raise UsageError(f"rule is adaptive_k, the paper's, or left out: not {given['rule']!s:.40}")
    return Settings(
        rule=given.get("rule"),
        epsilon=epsilon,
        k_max=cap or 32,
        cap=cap,
        seed=given.get("seed", 0),
        aim=aim_of(given),
        terms=terms_of(given),
        false_accept=given.get("false_accept"),
    )


def replaying_of(given: Mapping[str, Any], model: str | None, settings: Replaying | None = None) -> Replaying:
    """Return the settings of a replay of ``model`` from keywords or command-line options.

    Raises UsageError where settings are given too.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if settings is not None:
        if given:
            raise UsageError(f"settings hold every choice: leave out {', '.join(given)}")
        return settings
    terms, own = terms_of(given), ("cap", "random_slots", "seed")
    return Replaying(
        now=terms.now,
        tariff=terms.tariff,
        pace=terms.pace,
        model=model,
        aim=aim_of(given),
        **{name: given[name] for name in own if name in given},
    )


def aim_of(given: Mapping[str, Any]) -> Aim:
    """Return the aim from keywords or command-line options."""
    same = ("retain", "budget", "value_per_correct", "cost_per_path")
    words = {name: given.get(name) for name in same}
    return Aim(confidence=given.get("sure"), slower=slower_of(given.get("slower", 1.0)), **words)


def terms_of(given: Mapping[str, Any]) -> Terms:
    """Return prices and today's policy from keywords or command-line options."""
    return Terms(
        now=str(given["now"]) if "now" in given else None,
        tariff=tariff_of(given["prices"]) if "prices" in given else None,
        volume=given.get("volume"),
        budget_dollars=given.get("budget_dollars"),
        pace=Pace.of(given["pace"]) if "pace" in given else None,
    )


def slower_of(bound: float | str) -> float | None:
    """Return the bound on time as a part of today's; None for ``any``; raises UsageError."""
    if bound == "any":
        return None
    try:
        return float(bound)
    except ValueError:
        raise UsageError(f"slower is a number of times today's time, or any: not {bound!s:.40}") from None


def tariff_of(prices: str | Path | Mapping[str, Any]) -> Tariff:
    """Return a price table from a TOML file or a mapping; raises UsageError."""
    # Checking a table takes pydantic, whose import takes longer than most analyses.
    from keff.sampling.price_table import prices_of, read_prices

    if isinstance(prices, str | Path):
        return Tariff(read_prices(Path(prices)), str(prices))
    return Tariff(prices_of(prices, "prices"))
