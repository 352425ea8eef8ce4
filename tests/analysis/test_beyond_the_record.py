"""What is stated of a rule against a reference: the same under any cap, and true of simulated questions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import keff
from command_line import keff as run
from keff.analysis.decision import Aim, decide
from keff.stats.votes import Votes


def workload(n: int, k: int, rng: np.random.Generator, rivals: int) -> Votes:
    """Questions whose chance of the right answer, 0, is beta; wrong answers scatter over the rivals."""
    chance = rng.beta(2, 1.5, (n, 1))
    answers = np.where(rng.random((n, k)) < chance, 0, rng.integers(1, rivals + 1, (n, k)))
    return Votes(answers, (answers == 0).astype(int))


@pytest.mark.slow
@pytest.mark.parametrize("now", [None, "lead_k:3,cap=16"])
@pytest.mark.parametrize("k", [2, 4, 8])
def test_what_is_stated_of_a_rule_does_not_depend_on_the_cap(k: int, now: str | None) -> None:
    rng = np.random.default_rng(k)
    votes = workload(60, k, rng, int(rng.choice([1, 5])))
    stated: dict[str, list[float]] = {}
    for cap in (4, 8, 32):
        known = decide(votes, Aim(), now=now, cap=cap).posterior
        assert known is not None
        for spec, loss in zip(known.specs, known.loss.tolist(), strict=True):
            stated.setdefault(spec, []).append(loss)
    shared = [losses for losses in stated.values() if len(losses) > 1]
    assert len(shared) >= 3
    for losses in shared:
        assert max(losses) - min(losses) <= 0.001


@pytest.mark.slow
def test_four_recorded_paths_decide_alike_under_any_cap(tmp_path: Path) -> None:
    """A rule within the record is replayed, whatever lies beyond; the cap adds candidates and no accuracy."""
    rng = np.random.default_rng(1)
    votes = workload(100, 4, rng, 5)
    assert votes.answers is not None
    log = tmp_path / "pilot.jsonl"
    rows = [
        {"id": i, "gold_answer": "0", "all_answers": [str(a) for a in row]}
        for i, row in enumerate(votes.answers)
    ]
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = []
    for cap in ("4", "32"):
        out = json.loads(run("analyze", str(log), "--cap", cap, "--json").stdout)
        told.append(out["decision"])
    assert told[0]["policy"] == told[1]["policy"] and told[1]["measured"]
    assert told[0]["change"]["points"] == pytest.approx(told[1]["change"]["points"])
    played = keff.replay(str(log), [told[1]["policy"], "fixed:4"])
    by_policy = {row.policy: row.accuracy.value for row in played.policies}
    measured = by_policy[told[1]["policy"]] - by_policy["fixed:4"]
    assert told[1]["change"]["points"]["value"] == pytest.approx(measured, abs=0.01)


@pytest.mark.slow
def test_a_rule_beyond_the_record_holds_the_simulated_truth() -> None:
    """Today's sixteen and rules up to 32 paths, from four: the stated change covers the true one."""
    inside: list[bool] = []
    for rivals in (1, 5):
        many = workload(20_000, 16, np.random.default_rng(9), rivals)
        assert many.answers is not None and many.correct is not None
        sixteen = keff.plurality(many.answers, gold_answer=np.zeros(many.n, int))[-1]
        true = float(sixteen - many.correct.mean())
        for seed in range(6):
            votes = workload(80, 4, np.random.default_rng([seed, rivals]), rivals)
            known = decide(votes, Aim(), now="16", cap=32, seed=seed).posterior
            assert known is not None
            low, high = np.quantile(known.population.loss[:, known.single], [0.025, 0.975])
            inside.append(bool(low <= true <= high))
    assert sum(inside) >= 10  # of twelve, at 95%: fewer in 0.2%


def test_a_record_with_times_leaves_out_what_has_none_and_says_how_to_include_it() -> None:
    rng = np.random.default_rng(3)
    votes = workload(60, 4, rng, 5)
    timed = Votes(votes.answers, votes.correct, seconds=rng.gamma(4, 1, (60, 4)))
    for slower, expected in ((1.0, True), (None, False)):
        decision = decide(timed, Aim(budget=6.0, slower=slower), cap=32).decision
        assert decision.measured == expected
        assert decision.time is not None
        assert ("--slower any" in decision.time) == expected
