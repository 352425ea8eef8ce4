"""Plans over branches: exact accuracies, the choice between them, and claims that cover."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from keff.analysis.mix.choose import ERRORS, MixAim, PlanChoice, PlanTable, choose, claims_of
from keff.analysis.mix.drop import LOOKS, beaten
from keff.analysis.mix.orders import draw_orders
from keff.analysis.mix.prices import path_costs
from keff.analysis.mix.search import CandidatePlan, pairs, replay_cascade, singles, triples, undominated
from keff.analysis.mix.shrink import expected_gains, reliability
from keff.analysis.mix.study import MixSettings, combine_branches, escalation
from keff.errors import PolicyError, UsageError
from keff.policies.cascade import Cascade
from keff.policy import Sample, View, parse_policy
from keff.reading.join import Aligned, AlignedBranch
from keff.sampling.cost import Price
from keff.stats.votes import FloatArray, Votes

pytestmark = pytest.mark.slow

NAMES = ("small", "large")


def group(
    n: int, k: int, seed: int, p: tuple[float, ...] = (0.6, 0.85), tokens: tuple[float, ...] = (100, 1000)
) -> Aligned:
    """Branches whose chance of being right is p moved by a common difficulty; three wrong answers."""
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(0, 1.2, n)
    branches: list[AlignedBranch] = []
    for number, (chance, size) in enumerate(zip(p, tokens, strict=True)):
        theta = 1 / (1 + np.exp(-(np.log(chance / (1 - chance)) * 1.4 + difficulty)))
        right = rng.random((n, k)) < theta[:, None]
        answers = np.where(right, 0, rng.integers(1, 4, (n, k)))
        votes = Votes(answers, right.astype(int), tokens=rng.gamma(9, size / 9, (n, k)))
        keys = tuple(tuple(str(code) for code in row) for row in answers.tolist())
        branches.append(AlignedBranch(f"b{number}" if len(p) > 2 else NAMES[number], None, votes, keys, ()))
    credit = np.tile([1.0, 0, 0, 0], (n, 1))
    return Aligned(tuple(map(str, range(n))), tuple(branches), credit, np.arange(n), "exact", ())


def by_hand(policy: Cascade, aligned: Aligned, item: int) -> tuple[float, float]:
    """Average a cascade over every order of every branch's few paths, live."""
    spent: list[float] = []
    right: list[float] = []
    codes = [branch.votes.answered()[item].tolist() for branch in aligned.branches]
    from itertools import permutations

    for small, large in product(permutations(codes[0]), permutations(codes[1])):
        queues = {"small": list(small), "large": list(large)}
        keys: list[str | None] = []
        asked: list[str] = []
        while isinstance(decision := policy.decide(View(keys, branches=asked)), Sample):
            for branch in decision.branches:
                keys.append(str(queues[branch].pop(0)))
                asked.append(branch)
        spent.append(sum(1.0 if name == "small" else 10.0 for name in asked))
        right.append(float(decision.answer == "0"))
    return float(np.mean(right)), float(np.mean(spent))


@pytest.mark.parametrize("keep", ["votes", "fresh"])
def test_a_replayed_cascade_is_the_average_over_all_orders(keep: str) -> None:
    aligned = group(6, 3, seed=1)
    policy = parse_policy(f"cascade:small(lead_k:2,cap=2)/large(lead_k:2,cap=3),keep={keep}")
    assert isinstance(policy, Cascade)
    costs = [np.full((6, 3), price) for price in (1.0, 10.0)]
    orders = draw_orders(aligned, costs, 3, np.random.default_rng(0))
    accuracy, cost = replay_cascade(policy, orders, aligned.names)
    for item in range(6):
        right, spent = by_hand(policy, aligned, item)
        assert cost[item] == pytest.approx(spent, abs=0.15 * spent + 1e-9)
        assert accuracy[item] == pytest.approx(right, abs=0.15)


def test_the_search_replays_as_each_policy_does_alone() -> None:
    aligned = group(30, 8, seed=2, p=(0.6, 0.7, 0.85), tokens=(100, 300, 1000))
    orders = draw_orders(aligned, path_costs(aligned, None).paths, 8, np.random.default_rng(0))
    plans = [*singles(orders, aligned.names), *pairs(orders, aligned.names)]
    plans += triples(orders, aligned.names, plans)
    assert {plan.kind for plan in plans} == {"single", "cascade"} and max(len(p.branches) for p in plans) == 3
    for plan in plans[:: max(1, len(plans) // 40)]:
        policy = parse_policy(plan.spec)
        assert isinstance(policy, Cascade)
        accuracy, cost = replay_cascade(policy, orders, aligned.names)
        np.testing.assert_allclose(accuracy, plan.accuracy, rtol=1e-5)
        np.testing.assert_allclose(cost, plan.cost, rtol=1e-5)


def test_one_path_of_a_branch_is_its_accuracy_and_cost() -> None:
    aligned = group(40, 8, seed=3)
    orders = draw_orders(aligned, path_costs(aligned, None).paths, 8, np.random.default_rng(0))
    single = next(plan for plan in singles(orders, aligned.names) if plan.spec == "cascade:small(fixed:1)")
    votes = aligned.branches[0].votes
    assert votes.tokens is not None
    assert single.accuracy.mean() == pytest.approx(votes.p, abs=0.02)
    assert single.cost.mean() == pytest.approx(votes.tokens.mean(), rel=0.02)


def drawn_from_an_urn(n: int, k: int, p: float, c: float, seed: int) -> Aligned:
    """One branch twice over: right by a beta law of mean p and correlation c, wrong answers of a urn too."""
    rng = np.random.default_rng(seed)
    theta = rng.beta(p * (1 - c) / c, (1 - p) * (1 - c) / c, n)
    right = rng.random((n, k)) < theta[:, None]
    # Wrong answers scatter as tables of a Chinese restaurant, seat by seat.
    answers = np.zeros((n, k), int)
    for row in range(n):
        seated: list[int] = []
        for at in np.flatnonzero(~right[row]):
            alone = rng.random() * (len(seated) + (1 - p) * (1 - c) / c) >= len(seated)
            seated.append(1 + len(set(seated)) if alone else seated[rng.integers(len(seated))])
            answers[row, at] = seated[-1]
    votes = Votes(answers, right.astype(int), tokens=np.full((n, k), 10.0))
    keys = tuple(tuple(map(str, row)) for row in answers.tolist())
    branch = AlignedBranch("small", None, votes, keys, ())
    credit = np.eye(1, k + 1).repeat(n, axis=0)
    return Aligned(tuple(map(str, range(n))), (branch,), credit, np.arange(n), "exact", ())


def test_predicted_paths_vote_as_drawn_ones_do() -> None:
    """Of 4 paths of each question, plans of 8 are judged as by all 8, within what 3,000 questions tell."""
    whole = drawn_from_an_urn(3000, 8, 0.55, 0.4, seed=5)
    (branch,) = whole.branches
    pilot = replace(whole, branches=(replace(branch, votes=branch.votes.paths(np.arange(4))),))
    tables: list[dict[str, CandidatePlan]] = []
    for given in (whole, pilot):
        orders = draw_orders(given, path_costs(given, None).paths, 32, np.random.default_rng(0))
        tables.append({plan.spec: plan for plan in singles(orders, given.names)})
    true, predicted = tables
    assert true.keys() == predicted.keys() and "cascade:small(lead_k:4,cap=8)" in true
    for spec, plan in true.items():
        gap = predicted[spec].accuracy - plan.accuracy
        error = gap.std() / len(gap) ** 0.5
        assert abs(gap.mean()) < 3 * error + 1e-3, spec
        assert predicted[spec].cost.mean() == pytest.approx(plan.cost.mean(), rel=0.02)
    gain = (
        true["cascade:small(lead_k:4,cap=8)"].accuracy.mean() - true["cascade:small(fixed:1)"].accuracy.mean()
    )
    assert gain > 0.03  # there is something to predict


def test_paths_are_predicted_from_4_to_8_and_recorded_ones_stay() -> None:
    for k, cap in ((3, 3), (4, 8), (7, 8), (9, 9)):
        given = group(50, k, seed=4)
        costs = path_costs(given, None).paths
        orders = draw_orders(given, costs, 32, np.random.default_rng(0))
        assert {order.cap for order in orders.branches} == {cap}
        plain = draw_orders(given, costs, k, np.random.default_rng(0)).branches[0]
        np.testing.assert_array_equal(orders.branches[0].codes[:, :k], plain.codes)
        assert (np.diff(orders.branches[0].spent, axis=1) > 0).all()


def test_a_plan_of_predicted_paths_says_so() -> None:
    aim = MixAim(value_per_correct=1e6, cost_per_path=1.0)
    said: list[bool] = []
    for k in (4, 8):
        found = combine_branches(group(150, k, seed=3, p=(0.55, 0.6)), MixSettings(aim=aim))
        said.append("predicted_paths" in [note.code for note in found.warnings])
        assert said[-1] == ("predicted" in found.advice.plan.accuracy.method)
    assert said == [True, False]


def plans(accuracy: list[list[float]], cost: list[float]) -> PlanTable:
    made = [
        CandidatePlan(
            f"p{i}", "single" if i < 2 else "cascade", (i,), np.array(row, float), np.full(len(row), price)
        )
        for i, (row, price) in enumerate(zip(accuracy, cost, strict=True))
    ]
    return PlanTable.of(made, [99] * 9, np.arange(len(accuracy[0])))


def test_baselines_are_the_best_single_plan_and_the_cheapest_near_it() -> None:
    half = [1.0] * 200 + [0.0] * 200
    near = [0.0] * 30 + [1.0] * 170 + [0.0] * 171 + [1.0] * 29
    choice = choose(plans([half, near], [1e4, 1.0]), MixAim())
    assert (choice.best, choice.cheap, choice.taken) == (0, 1, 1)
    # Beside a branch that is far off the same difference is more likely to be real.
    apart = choose(plans([half, near, [0.0] * 400], [1e4, 1.0, 0.1]), MixAim())
    assert (apart.best, apart.cheap, apart.taken) == (0, 1, 0)
    # On 40 questions near may lose ten points, whatever it saves: the default does not gamble.
    few = np.r_[0:4, 40:56, 200:217, 397:400]
    assert choose(plans([half, near], [1e4, 1.0]).take(few, np.arange(len(few))), MixAim()).taken == 0


def test_of_equals_the_cheapest_is_the_baseline() -> None:
    same = [1.0] * 20 + [0.0] * 20
    choice = choose(plans([same, same], [10.0, 1.0]), MixAim())
    assert choice.best == choice.cheap == choice.taken == 1


def test_differences_between_branches_are_shrunk_by_what_the_pilot_can_tell() -> None:
    """Branches of one accuracy differ by luck only; far apart, or on many questions, they really differ."""
    rng = np.random.default_rng(2)

    def real(n: int, accuracies: tuple[float, ...]) -> float:
        draws = [
            reliability((rng.random((4, n)) < np.array(accuracies)[:, None]) * 1.0, np.arange(n))
            for _ in range(99)
        ]
        return float(np.median(draws))

    alike, apart = (0.7,) * 4, (0.3, 0.5, 0.7, 0.9)
    assert real(50, alike) < 0.35 < 0.85 < real(50, apart)
    assert real(50, alike) < real(2000, alike)
    copies = rng.random((3, 20)) < 0.5
    twice = np.repeat(copies, 2, axis=1) * 1.0
    assert reliability(twice, np.repeat(np.arange(20), 2)) == pytest.approx(
        reliability(copies * 1.0, np.arange(20))
    )


def expected_gain(plans: list[CandidatePlan]) -> tuple[FloatArray, float]:
    """Return what each plan is expected to gain over the first, and the reliability of the branches."""
    seen = np.array([plan.accuracy for plan in plans])
    ids = np.arange(seen.shape[1])
    return expected_gains(plans, seen, ids, 0)


def test_a_cascade_is_expected_to_lose_what_its_branches_let_expect() -> None:
    strong, weak = np.array([1.0] * 30 + [0.0] * 10), np.array([1.0] * 14 + [0.0] * 26)
    lucky = strong.copy()
    made = [
        CandidatePlan("cascade:a(fixed:1)", "single", (0,), strong, np.full(40, 10.0)),
        CandidatePlan("cascade:b(fixed:1)", "single", (1,), weak, np.full(40, 1.0)),
        CandidatePlan("cascade:b(fixed:1)/a(fixed:1)", "cascade", (1, 0), lucky, np.full(40, 3.0)),
    ]
    gain, real = expected_gain(made)
    assert 0.5 < real < 1 and gain[0] == 0
    assert gain[1] == pytest.approx(real * (weak - strong).mean())
    # It differs nowhere on the pilot, and is believed there; where it differs, its branches speak.
    assert gain[2] == pytest.approx(0)
    lucky[[0, 1, 30, 31, 32]] = 1 - lucky[[0, 1, 30, 31, 32]]
    made[2] = CandidatePlan(made[2].spec, "cascade", (1, 0), lucky, made[2].cost)
    gain, _ = expected_gain(made)
    assert (lucky - strong).mean() > 0 > gain[2]
    table = PlanTable.of(made, [99] * 9, np.arange(40))
    assert choose(table, MixAim()).taken == 0


def test_aims() -> None:
    table = plans([[1.0] * 9 + [0.0], [1.0] * 8 + [0.0] * 2, [1.0] * 5 + [0.0] * 5], [10.0, 4.0, 1.0])
    assert choose(table, MixAim(retain=0.85)).taken == 1
    assert choose(table, MixAim(budget=9.0)).taken == 1
    assert choose(table, MixAim(value_per_correct=1000)).taken == 0
    assert choose(table, MixAim(value_per_correct=0.1)).taken == 2
    with pytest.raises(PolicyError, match="cheapest"):
        choose(table, MixAim(budget=0.5))
    with pytest.raises(PolicyError, match="one aim"):
        MixAim(retain=0.9, budget=3)


def test_the_frontier_holds_no_dominated_plan() -> None:
    table = plans([[1.0, 1.0], [1.0, 0.0], [1.0, 0.5], [0.0, 0.0]], [10.0, 2.0, 3.0, 4.0])
    assert [plan.spec for plan in undominated(table.plans)] == ["p1", "p2", "p0"]
    # Of equal cost, up to single precision, the more accurate one stays.
    table = plans([[1.0, 0.0], [1.0, 0.5], [0.0, 0.0]], [2.0, 2.0 + 1e-7, 1.0])
    assert [plan.spec for plan in undominated(table.plans)] == ["p2", "p1"]


def test_claims_of_a_fixed_choice_cover_the_truth() -> None:
    """Where the choice is always the same the claim is a paired comparison: its 90% interval covers 90%."""
    rng = np.random.default_rng(5)
    hits = np.zeros(2)
    for _ in range(200):
        n = 60
        base = rng.random(n)
        cost: FloatArray = rng.gamma(2, 1, (2, n))
        accuracy = np.stack([base, base + rng.normal(0.02, 0.2, n)])
        table = table_of(accuracy, cost * np.array([[1], [0.5]]))
        chosen = PlanChoice(0, 0, 1)
        against = claims_of(table, chosen, lambda _, c=chosen: c, rng).best
        ratio, gain = against.intervals()
        assert None not in (ratio.lo, ratio.hi, gain.lo, gain.hi)
        hits += [ratio.lo <= 0.5 <= ratio.hi, gain.lo <= 0.02 <= gain.hi]  # type: ignore[operator]
    # Resamples of a fixed choice add the variance of their own noise: a little more than 90%.
    assert np.all(hits / 200 > 0.84) and np.all(hits / 200 < 0.99)


def test_the_best_of_many_equal_plans_is_not_flattered() -> None:
    """Forty plans of one accuracy: the pilot's best looks points better than it is, the claim does not."""
    rng = np.random.default_rng(6)
    seen, claimed, covered = [], [], 0
    for _ in range(60):
        accuracy = rng.random((41, 80)) < 0.7
        table = table_of(accuracy * 1.0, np.ones((41, 80)), single=1)

        def best(part: PlanTable) -> PlanChoice:
            return PlanChoice(0, 0, 1 + int(np.argmax(part.mean_accuracy[1:])))

        choice = best(table)
        found = claims_of(table, choice, best, rng)
        _, gain = found.best.intervals()
        seen.append(float(table.mean_accuracy[choice.taken] - table.mean_accuracy[0]))
        claimed.append(gain.value)
        covered += gain.lo <= 0 <= gain.hi  # type: ignore[operator]
    assert np.mean(seen) > 0.08
    assert abs(np.mean(claimed)) < 0.5 * np.mean(seen) and covered / 60 > 0.8


def table_of(accuracy: FloatArray, cost: FloatArray, single: int = 99) -> PlanTable:
    made = [
        CandidatePlan(f"p{i}", "single" if i < single else "cascade", (i,), accuracy[i], cost[i])
        for i in range(len(accuracy))
    ]
    return PlanTable.of(made, [99] * 9, np.arange(accuracy.shape[1]))


def test_a_branch_that_is_better_and_cheaper_is_enough() -> None:
    found = combine_branches(group(120, 8, seed=6, p=(0.9, 0.6), tokens=(50, 1000)), MixSettings(cap=8))
    assert found.advice.verdict == "one branch is enough"
    assert found.advice.plan.branches == ("small",)
    assert "dominates" in [note.code for note in found.warnings]


def test_findings_have_the_contract() -> None:
    found = combine_branches(group(40, 8, seed=7), MixSettings(cap=8)).to_dict()
    assert {
        "n",
        "branches",
        "c_between",
        "frontier",
        "best_single",
        "cheap_single",
        "recommendation",
        "warnings",
    } <= set(found)
    assert {"name", "p", "c", "tokens", "cost"} <= set(found["branches"][0])
    advice = found["recommendation"]
    assert {
        "verdict",
        "policy",
        "accuracy",
        "cost",
        "cost_ratio",
        "accuracy_difference",
        "questions_needed",
        "because",
    } <= set(advice)
    for interval in (advice["cost_ratio"], advice["accuracy_difference"]):
        assert interval["lo"] <= interval["value"] <= interval["hi"]
    parse_policy(advice["policy"])
    assert all(
        a["cost"]["value"] <= b["cost"]["value"]
        for a, b in zip(found["frontier"], found["frontier"][1:], strict=False)
    )


def test_a_tiny_pilot_is_too_small() -> None:
    found = combine_branches(group(10, 8, seed=8), MixSettings(cap=8))
    assert found.advice.verdict == "pilot too small" and found.advice.questions_needed == 6


def test_the_same_seed_finds_the_same() -> None:
    aligned = group(30, 8, seed=9)
    assert (
        combine_branches(aligned, MixSettings(cap=8)).to_dict()
        == combine_branches(aligned, MixSettings(cap=8)).to_dict()
    )


def test_prices() -> None:
    aligned = group(20, 4, seed=10)
    costs = path_costs(
        aligned, {"small": Price(prompt=0, output=2), "large": Price(prompt=0, output=1, path=3)}
    )
    tokens = [branch.votes.tokens for branch in aligned.branches]
    assert costs.unit == "dollars" and tokens[0] is not None and tokens[1] is not None
    np.testing.assert_allclose(costs.paths[0], tokens[0] * 2e-6)
    np.testing.assert_allclose(costs.paths[1], tokens[1] * 1e-6 + 3)
    with pytest.raises(UsageError, match="no price for large"):
        path_costs(aligned, {"small": Price(prompt=0, output=2)})
    with pytest.raises(UsageError, match="costs 0"):
        path_costs(aligned, {"small": Price(prompt=0, output=0), "large": Price(prompt=0, output=0)})
    free = path_costs(aligned, {"small": Price(), "large": Price(path=1)})
    assert [note.code for note in free.notes] == ["free_branch"]
    flat = path_costs(aligned, None, per_path=0.5)
    assert flat.unit == "dollars" and all(bool((paid == 0.5).all()) for paid in flat.paths)
    with pytest.raises(UsageError, match="keep one"):
        path_costs(aligned, {"small": Price(), "large": Price(path=1)}, per_path=0.5)
    with pytest.raises(UsageError, match="cost-per-path 0"):
        path_costs(aligned, None, per_path=0)


def test_where_a_cascade_passes_questions_on() -> None:
    """Questions on which the first branch never agrees with itself all go on; those it knows stay."""
    aligned = group(60, 8, seed=3)
    orders = draw_orders(
        aligned, [np.ones(b.votes.scored().shape) for b in aligned.branches], 8, np.random.default_rng(4)
    )
    found = escalation("cascade:small(lead_k:2,cap=4)/large(fixed:1),keep=fresh", orders, aligned)
    assert found.branches == ("small", "large") and found.reach[0] == 1
    passed = {row.lo: row.passed for row in found.by_difficulty if row.passed is not None}
    weights = [row.questions for row in found.by_difficulty if row.passed is not None]
    assert found.reach[1] == pytest.approx(np.average(list(passed.values()), weights=weights))
    assert passed[0.8] < 0.1 < max(passed.values())


def worth_of(accuracy: FloatArray, cost: FloatArray) -> PlanTable:
    return table_of(accuracy, cost, single=2)


def test_worth_leaves_the_best_single_plan_for_a_gain_beyond_its_error_only() -> None:
    rng = np.random.default_rng(3)
    base = rng.random(200)
    noise = rng.normal(0, 0.1, 200)
    noise -= noise.mean()
    error = noise.std(ddof=1) / np.sqrt(200)
    for gain, taken in ((0.9 * ERRORS * error, 0), (1.1 * ERRORS * error, 2)):
        rule = worth_of(np.array([base, base - 0.3, base + noise + gain]), np.ones((3, 200)))
        assert rule.at(1e4) == taken


def test_what_a_plan_gains_on_one_path_is_shrunk_and_the_path_itself_is_not() -> None:
    rng = np.random.default_rng(5)
    for n in (20, 4_000):
        one, other = (rng.random((2, n)) < 0.5).astype(float)
        gaining = np.where(rng.random(n) < 0.2, 1.0, one)
        rows = one, gaining, other, np.maximum(one, other)
        kinds = ("single", (0,)), ("single", (0,)), ("single", (1,)), ("cascade", (0, 1))
        made = [
            CandidatePlan(f"p{i}", kind, branches, row, np.ones(n))  # type: ignore[arg-type]
            for i, ((kind, branches), row) in enumerate(zip(kinds, rows, strict=True))
        ]
        table = PlanTable.of(made, [99] * 9, np.arange(n))
        seen, expected = table.mean_accuracy, table.expected
        q = np.array([seen[0], seen[0], seen[2], (seen[0] + seen[2]) / 2])
        prior = q + np.array([0, 0.2, 0, 0.3]) * q * (1 - q)
        assert expected[[0, 2]] == pytest.approx(seen[[0, 2]])
        for place in (1, 3):
            assert min(prior[place], seen[place]) <= expected[place] <= max(prior[place], seen[place])
        closer = np.abs(expected - seen)[[1, 3]] < np.abs(expected - prior)[[1, 3]]
        assert closer.tolist() == [n > 1_000] * 2


def test_what_was_predicted_must_pass_what_was_measured() -> None:
    """A plan of predicted paths is taken by worth, for a gain of an error; under other aims none of them."""
    rng = np.random.default_rng(3)
    right = rng.random((3, 400)) < np.array([[0.5], [0.5], [0.9]])
    specs = ("cascade:a(fixed:1)", "cascade:a(lead_k:2,cap=3)", "cascade:a(lead_k:4,cap=8)")
    made = [
        CandidatePlan(spec, "single", (0,), row.astype(float), np.full(400, price))
        for spec, row, price in zip(specs, right, (1.0, 2.0, 0.5), strict=True)
    ]
    for recorded, free in ((4, 0), (8, 2)):
        table = PlanTable.of(made, [recorded], np.arange(400))
        assert table.measured.tolist() == [True, True, recorded == 8]
        assert table.at(100) == 2
        for aim in (MixAim(), MixAim(retain=0.5), MixAim(budget=1.5)):
            assert choose(table, aim).taken in ((2,) if free else (0, 1))
    assert CandidatePlan("mix:a(k=3,weight=1)/b(k=8)", "mix", (1, 0), right, right).within([8, 3])
    assert not CandidatePlan("mix:a(k=3,weight=1)/b(k=8)", "mix", (0, 1), right, right).within([4, 4])


def test_the_curve_names_every_change_of_plan() -> None:
    rows = np.ones((2, 40)) * np.array([[0.6], [0.9]])
    rule = worth_of(rows, np.ones((2, 40)) * np.array([[1.0], [7.0]]))
    assert [plan for _, plan in rule.curve] == [0, 1]
    # The dearer plan pays from 6 / .3 = 20.
    assert rule.pays_from(1) == pytest.approx(20) and rule.pays_from(0) == 0
    assert 20 <= rule.curve[1][0] <= 20 * 10 ** (1 / 16)
    assert rule.at(19) == 0 and rule.at(21) == 1
    assert worth_of(rows[::-1], np.ones((2, 40)) * np.array([[1.0], [7.0]])).pays_from(1) is None


def test_the_default_does_not_gamble() -> None:
    steady, doubtful = np.full(50, 0.8), np.tile([1.0, 0.58], 25)
    rule = worth_of(np.array([steady, doubtful, steady - 0.01]), np.ones((3, 50)))
    assert rule.gambles(1, 0) and not rule.gambles(2, 0)


def test_a_budget_holds_on_new_questions_in_nine_of_ten() -> None:
    rng = np.random.default_rng(4)
    over = 0
    for _ in range(400):
        cost = rng.gamma(2, 0.5, (1, 60))
        budget = float(cost.mean() + 1.2816 * cost.std(ddof=1) / np.sqrt(60))
        rule = worth_of(np.ones((1, 60)), cost)
        assert rule.within(budget * 1.0001)[0] and not rule.within(budget * 0.9999)[0]
        over += budget < 1.0
    assert over / 400 < 0.16


def test_records_that_are_read_wrongly_are_refused_or_named() -> None:
    aligned = group(30, 4, seed=11)
    wrong = replace(
        aligned.branches[0], votes=replace(aligned.branches[0].votes, correct=np.zeros((30, 4), int))
    )
    one = replace(aligned, branches=(wrong, aligned.branches[1]))
    assert "never_right" in [note.code for note in combine_branches(one, MixSettings(cap=4)).warnings]
    silent = replace(wrong, votes=replace(wrong.votes, answers=np.full((30, 4), -1)))
    mute = replace(aligned, branches=(silent, aligned.branches[1]))
    assert "never_answers" in [note.code for note in combine_branches(mute, MixSettings(cap=4)).warnings]
    with pytest.raises(UsageError, match="answer-space"):
        combine_branches(replace(aligned, branches=(wrong, wrong)), MixSettings(cap=4))


def test_worth_needs_prices() -> None:
    aim = MixSettings(cap=4, aim=MixAim(value_per_correct=1.0))
    with pytest.raises(UsageError, match="--prices"):
        combine_branches(group(30, 4, seed=12), aim)
    with pytest.raises(UsageError, match="--prices"):
        combine_branches(group(30, 4, seed=12), MixSettings(cap=4, aim=MixAim(budget=1.0)))
    # Where prices exist no cost of a path is asked for; where it is given, tokens price nothing.
    prices = {"small": Price(path=1), "large": Price(path=3)}
    for settings in (
        replace(aim, prices=prices),
        replace(aim, aim=MixAim(value_per_correct=1.0, cost_per_path=0.1)),
    ):
        assert combine_branches(group(30, 4, seed=12), settings).cost_unit == "dollars"


def test_a_free_branch_is_no_reason_to_lose_more_accuracy_than_a_cheap_one() -> None:
    prices = {"small": Price(path=0), "large": Price(path=1)}
    found = combine_branches(group(200, 4, seed=13, p=(0.5, 0.9)), MixSettings(cap=4, prices=prices))
    assert "large" in found.advice.plan.branches
    assert found.advice.plan.accuracy.value > found.best_single.accuracy.value - 0.03
    assert np.isfinite(found.advice.by_model) and np.isfinite(found.advice.by_cascade)
    prices = {"small": Price(path=1), "large": Price(path=0)}
    free = combine_branches(group(60, 4, seed=13, p=(0.5, 0.9)), MixSettings(cap=4, prices=prices))
    assert free.advice.plan.branches == ("large",) and free.advice.plan.cost.value == 0


def test_pilots_of_an_exam_are_told_how_little_they_say() -> None:
    codes = [note.code for note in combine_branches(group(30, 4, seed=14), MixSettings(cap=4)).warnings]
    assert "few_questions" in codes
    codes = [note.code for note in combine_branches(group(60, 4, seed=14), MixSettings(cap=4)).warnings]
    assert "few_questions" not in codes


def test_the_verdict_never_denies_what_the_frontier_shows() -> None:
    """What is cheaper than the plan and more accurate on the pilot is named as declined, with the reason.

    And what costs more is not said to save, however dear a right answer is.
    """
    prices = {f"b{number}": Price(path=path) for number, path in enumerate((0.1, 0.3, 1.0))}
    dear = MixSettings(cap=4, aim=MixAim(value_per_correct=1e4), prices=prices)
    verdicts = set[str]()
    for seed in range(8):
        aligned = group(60, 4, seed, p=(0.7, 0.72, 0.8), tokens=(100, 300, 1000))
        found = combine_branches(aligned, dear if seed > 3 else MixSettings(cap=4))
        assert found.advice.cost_ratio.value < 1 or "saves" not in found.advice.verdict
        verdicts.add(found.advice.verdict)
        taken = found.advice.plan
        better = [
            line.policy
            for line in found.frontier
            if line.cost.value < taken.cost.value * 0.999
            and line.accuracy.value > taken.accuracy.value + 1e-5
        ]
        assert not better or any(policy in found.advice.because for policy in better)
        product = found.advice.by_model * found.advice.by_cascade
        assert product == pytest.approx(taken.cost.value / found.best_single.cost.value, rel=1e-4)
    assert "does not save" in verdicts


def test_the_pilot_is_paid_back_by_what_the_plan_saves() -> None:
    found = combine_branches(group(120, 8, seed=6, p=(0.9, 0.6), tokens=(50, 1000)), MixSettings(cap=8))
    aligned = group(120, 8, seed=6, p=(0.9, 0.6), tokens=(50, 1000))
    spent = sum(float(cost.sum()) for cost in path_costs(aligned, None).paths)
    assert found.pilot_cost == pytest.approx(spent)
    saved = found.best_single.cost.value - found.advice.plan.cost.value
    assert found.pays_back == (None if saved <= 0 else np.ceil(spent / saved))


def first(whole: Aligned, n: int) -> Aligned:
    branches = tuple(replace(b, votes=b.votes.take(np.arange(n))) for b in whole.branches)
    return replace(whole, branches=branches, clusters=whole.clusters[:n])


def test_the_table_of_plans_says_from_which_worth_each_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    found = combine_branches(group(80, 4, 3), MixSettings(cap=4))
    assert len(found.by_worth) > 1
    lines = list(found.statements())[-1].splitlines()
    for change in found.by_worth:
        (row,) = (line for line in lines if line.startswith(f"{change.plan.policy} "))
        assert row.split("  ")[-1].strip() == found.amount(change.worth)


def test_dropping_errs_as_seldom_as_stated() -> None:
    """Of pilots looked at after 12, 25 and 50 questions: a dear branch is dropped by what it is worth."""

    def dropped(cheap: float, dear: float, pilots: int = 150) -> float:
        count = 0
        for seed in range(pilots):
            whole = group(50, 4, seed, p=(cheap, dear), tokens=(100, 1000))
            costs = path_costs(whole, None).paths
            looks = (beaten(first(whole, n), [paid[:n] for paid in costs]) for n in LOOKS)
            count += any(looks)
        return count / pilots

    # In the long run .16 and .04 (benchmarks/constants/mix_constants.py); two standard errors of 150 pilots.
    assert dropped(0.6, 0.65) < 0.22 and dropped(0.6, 0.7) < 0.07
    assert dropped(0.7, 0.5) > 0.9


def test_the_cheapest_branch_is_never_dropped() -> None:
    worst = group(50, 4, 1, p=(0.1, 0.9, 0.8), tokens=(100, 1000, 5000))
    assert beaten(worst, path_costs(worst, None).paths) == {"b2": "b1"}


def test_a_branch_that_is_poor_by_the_path_and_good_by_its_vote_is_kept() -> None:
    """Large is right in two of four paths on every question, and its wrong answers never agree."""
    small = np.where(np.arange(50)[:, None] < 30, 0, 1).repeat(4, axis=1)
    large = np.tile([0, 0, 2, 3], (50, 1))
    aligned = group(50, 4, 0)
    branches = tuple(
        replace(branch, votes=Votes(codes, (codes == 0).astype(int), tokens=branch.votes.tokens))
        for branch, codes in zip(aligned.branches, (small, large), strict=True)
    )
    costs = path_costs(aligned, None).paths
    assert beaten(replace(aligned, branches=branches), costs) == {}
    # Were its wrong answers one and the same, its vote would be a coin: worse than small.
    coin = replace(branches[1], votes=replace(branches[1].votes, answers=np.minimum(large, 2)))
    assert beaten(replace(aligned, branches=(branches[0], coin)), costs) == {"large": "small"}
