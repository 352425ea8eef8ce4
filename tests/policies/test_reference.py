"""Policies against reference values that come from definitions and enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from keff.policies._table import beats_half
from keff.policies.e_value import log_e_values
from keff.policy import Policy, Stop, View, parse_policy
from keff.stats.votes import Votes
from keff.stats.voting.choose import k_star
from keff.stats.voting.correlation import pooled_c
from reference import reference


def first_stop(policy: Policy, votes: str, confidences: list[float] | None = None) -> tuple[int, Stop] | None:
    for n in range(1, len(votes) + 1):
        found = policy.decide(View(list(votes[:n]), (confidences or [])[:n]))
        if isinstance(found, Stop):
            return n, found
    return None


def test_the_posteriors_and_e_values_of_every_case() -> None:
    for args, value in reference("beats_half"):
        assert beats_half(32)[args["first"], args["second"]] == pytest.approx(value, abs=1e-12)
    for args, value in reference("log_e"):
        assert log_e_values(32)[args["first"], args["second"]] == pytest.approx(value, abs=1e-10)


def test_where_each_sequence_stops() -> None:
    for args, stop in reference("first_stop"):
        found = first_stop(parse_policy(args["rule"]), args["votes"])
        assert (found and [found[0], found[1].answer]) == stop, args


def test_answers_and_shares_by_confidence() -> None:
    for args, (answer, share) in reference("confidence_share"):
        policy = parse_policy(
            f"fixed:{len(args['votes'])},weight=confidence,temperature={args['temperature']}"
        )
        found = first_stop(policy, args["votes"], args["confidences"])
        assert found is not None and found[1].answer == answer
        assert found[1].weight == pytest.approx(share, rel=1e-12)


def test_adaptive_k_gives_the_k_of_algorithm_1() -> None:
    for args, c in reference("pooled_c_hat"):
        votes = Votes.from_correct(np.array(args["Y"], int))
        fitted = parse_policy("adaptive_k").fit(votes)  # type: ignore[attr-defined]
        assert fitted.spec == f"fixed:{k_star(c)}"
        assert pooled_c(votes) == pytest.approx(c)


def test_esc_costs_what_its_formula_says() -> None:
    """The law of the stopping window under independent votes, by enumeration of the window's chance."""
    for args, paths in reference("esc_expected_paths"):
        window, cap = args["window"], args["cap"]
        policy = parse_policy(f"esc:{window},cap={cap}")
        unanimous = sum(p**window for p in args["p"])
        stops = [n for n in range(1, cap + 1) if isinstance(policy.decide(View(["a"] * n)), Stop)]
        assert stops[0] == window
        mixed = (["a", "b"] * cap)[:cap]
        asked = [policy.decide(View(mixed[:n])).m for n in range(0, cap, window)]  # type: ignore[union-attr]
        reached = (1 - unanimous) ** np.arange(len(asked))
        assert float(reached @ asked) == pytest.approx(paths)
