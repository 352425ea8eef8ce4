"""Confidences in the decision: what pays is recommended, what is noise is not, and the plan holds it."""

from __future__ import annotations

import csv
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.analysis.confidence import LAWS, outcomes, paths_at, simulated
from benchmarks.places import RECORDED
from command_line import keff
from keff.analysis.combine import judged
from keff.analysis.decision import Aim, decide
from keff.analysis.decision.chain import candidate_rules
from keff.analysis.decision.confidences import rated_paths
from keff.analysis.decision.outcomes import replay_rules
from keff.analysis.decision.posterior import posterior_of
from keff.analysis.decision.prior import generic_ratios
from keff.analysis.money import Tariff, rates
from keff.analysis.replay import Replaying, replay
from keff.analysis.results.decision import confidence_sentences
from keff.analysis.walks import expectations, run
from keff.errors import PolicyError, UsageError
from keff.plan import Plan
from keff.policy import confidence_of, parse_policy
from keff.reading.open import open_record
from keff.reading.source import record_of
from keff.sampling.cost import Price
from keff.sampling.price_table import read_prices
from keff.stats.votes import Votes
from keff.stats.voting.calibrate import calibrate
from keff.stats.voting.calibration import Calibration
from keff.stats.voting.draws import permute_paths


def scored(seed: int, n: int = 100, k: int = 8, lift: float = 2.0) -> Votes:
    rng = np.random.default_rng(seed)
    hard = rng.normal(0.8, 1.5, (n, 1))
    right = (rng.random((n, k)) < 1 / (1 + np.exp(-hard))).astype(int)
    answers = np.where(right, 0, rng.integers(1, 4, (n, k)))
    return Votes(answers, right, confidences=lift * right + rng.normal(size=(n, k)) + 0.5 * hard)


@pytest.mark.slow
def test_a_good_confidence_pays_and_is_recommended() -> None:
    decided = decide(scored(0), Aim())
    (found,) = decided.confidences
    assert found.pays is True and found.gain_at_equal_cost is not None
    assert found.auc.value > 0.85 and found.gain_at_equal_cost.value > 0.01
    assert confidence_of(parse_policy(decided.decision.policy)) == "confidence"
    expected = decided.decision.expected_paths
    plain = decide(replace(scored(0), confidences=None), Aim()).decision.expected_paths
    assert expected is not None and plain is not None
    assert expected.value < 0.7 * plain.value
    assert "pay: at equal cost" in found.sentence()


@pytest.mark.slow
def test_several_confidences_are_told_apart() -> None:
    votes = scored(1)
    assert votes.confidences is not None
    noise = np.random.default_rng(0).normal(size=votes.confidences.shape)
    votes = Votes(votes.answers, votes.correct, named={"judge": votes.confidences, "length": noise})
    worth = decide(votes, Aim()).confidences
    judge, length = worth
    assert (judge.name, judge.pays, length.pays) == ("judge", True, False)
    assert "confidence=judge" in str(judge.policy)
    told = [*confidence_sentences(worth)]
    assert told[0].startswith("Your confidences judge pay: ")
    assert told[1].startswith("Your confidences length do not help here (AUC 0.")
    beyond = [*confidence_sentences([replace(judge, gain_at_equal_cost=None, name=name) for name in "ab"])]
    assert len(beyond) == 1 and beyond[0].startswith("Your confidences tell right paths from wrong ones, but")


@pytest.mark.slow
def test_what_is_missing_is_counted_and_the_sign_is_said() -> None:
    votes = scored(2)
    assert votes.confidences is not None
    given = -votes.confidences
    given[:, 0] = np.nan
    given[0, 1] = np.inf
    (found,) = decide(replace(votes, confidences=given), Aim()).confidences
    assert (found.sign, found.unknown) == (-1, 101)
    assert "lower is better" in found.sentence()
    assert "101 paths have none and count as ordinary votes" in found.sentence()


@pytest.mark.slow
def test_reliability_points_lie_near_the_diagonal() -> None:
    (found,) = decide(scored(3, n=400), Aim()).confidences
    assert len(found.reliability) == 10
    assert sum(point.paths for point in found.reliability) == 3200
    assert max(abs(point.chance - point.right) for point in found.reliability) < 0.12


@pytest.mark.slow
def test_a_few_questions_that_show_nothing_leave_it_open() -> None:
    (few,) = decide(scored(8, n=12, lift=0.0), Aim()).confidences
    (many,) = decide(scored(8, n=600, lift=0.0), Aim()).confidences
    assert few.pays is None and "so few questions" in few.sentence()
    assert many.pays is False and "do not help here" in many.sentence()


def test_a_confidence_that_no_path_has_is_said_to_say_nothing() -> None:
    votes = scored(10, n=20)
    (none,) = rated_paths(replace(votes, confidences=np.full((votes.n, votes.k), np.nan)), 8).worth
    assert none.pays is None and "known on no question for both" in none.sentence()


def test_rules_that_give_up_are_candidates_on_confidences_that_tell() -> None:
    rules = [rule.spec for rule in rated_paths(scored(0), 8).rules]
    assert "budget:1.4,b=8,cap=8,weight=log_odds,give_up=0.3" in rules


@pytest.mark.slow
def test_beyond_the_record_their_worth_is_not_said() -> None:
    (found,) = decide(scored(9), Aim(), now="16").confidences
    assert found.gain_at_equal_cost is None and found.reliability
    assert "only up to the recorded number of paths" in found.sentence()


def test_without_labels_or_confidences_there_is_nothing_to_say() -> None:
    votes = scored(4)
    assert decide(replace(votes, correct=None), Aim()).confidences == ()
    assert decide(replace(votes, confidences=None), Aim()).confidences == ()


def log(folder: Path, votes: Votes, **more: object) -> Path:
    assert votes.answers is not None and votes.correct is not None and votes.confidences is not None
    path = folder / "scored.jsonl"
    lines = [
        {
            "id": str(place),
            "all_answers": list(map(str, votes.answers[place].tolist())),
            "all_correct": votes.correct[place].tolist(),
            "confidence.judge": votes.confidences[place].tolist(),
            **more,
        }
        for place in range(votes.n)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.slow
@pytest.mark.usefixtures("decided_once")
def test_named_confidences_of_a_log_come_into_plan_and_page(tmp_path: Path) -> None:
    path = log(tmp_path, scored(5))
    said = keff("analyze", path, "-o", tmp_path / "plan.json", "--json")
    assert said.returncode == 0, said.stderr
    (found,) = json.loads(said.stdout)["confidences"]
    assert (found["name"], found["pays"]) == ("judge", True)
    plan = Plan.read(tmp_path / "plan.json")
    assert set(plan.calibrations) == {"judge"}
    assert "calibration" not in parse_policy(plan.policy, plan.calibrations).needs
    assert keff("report", path, "-o", tmp_path / "page.html").returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert "What paths know about themselves" in page
    assert 'data-chart="reliability"' in page
    replayed = keff("replay", path, "--policy", "switch:0.8,cap=8,confidence=judge", "--json")
    assert json.loads(replayed.stdout)["policies"][0]["mean_paths"] < 5


@pytest.mark.parametrize(
    ("given", "says"),
    [([1, 2], "a number for each path"), (["x"] * 8, "must hold numbers only"), ("high", "must be a list")],
)
def test_bad_confidences_of_a_log_are_one_line(tmp_path: Path, given: object, says: str) -> None:
    said = keff("analyze", log(tmp_path, scored(6, n=12), **{"confidence.judge": given}))
    assert said.returncode == 2
    assert says in " ".join(said.stderr.split())


def test_infinite_confidences_of_a_log_are_read(tmp_path: Path) -> None:
    path = log(tmp_path, scored(7, n=12), all_confidences=[float("inf")] * 8)
    votes = open_record(path).ballot.votes
    assert votes.confidences is not None
    assert np.isinf(votes.confidences).all()


NAMES = ("confidence.judge", "all_confidences.judge")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["jsonl", "csv", "paths.csv", "parquet", "export.parquet", "frame"])
def test_named_confidences_are_read_from_every_form_of_log(tmp_path: Path, form: str, name: str) -> None:
    votes = scored(6, n=12)
    rows = [json.loads(line) for line in log(tmp_path, votes).read_text().splitlines()]
    rows = [{key.replace(NAMES[0], name): value for key, value in row.items()} for row in rows]
    path = tmp_path / f"other.{form}"
    if form == "csv":
        cells = [
            [json.dumps(value) if isinstance(value, list) else value for value in row.values()]
            for row in rows
        ]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([list(rows[0]), *cells])
    elif form == "paths.csv":
        paths = [
            (row["id"], *path)
            for row in rows
            for path in zip(row["all_answers"], row["all_correct"], row[name], strict=True)
        ]
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([("id", "answer", "correct", name), *paths])
    elif form == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(
            pytest.importorskip("pyarrow").Table.from_pylist(rows), path
        )
    else:
        path = path if form == "jsonl" else tmp_path / "plain.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if form == "export.parquet":
        pytest.importorskip("pyarrow")
        assert keff("export", path, "-o", tmp_path / "other.parquet").returncode == 0
        path = tmp_path / "other.parquet"
    frame = form == "frame"
    record = record_of(pytest.importorskip("pandas").DataFrame(rows), {}) if frame else open_record(path)
    assert list(record.ballot.votes.rated) == ["judge"]
    np.testing.assert_array_equal(record.ballot.votes.rated["judge"], votes.confidences)


def test_a_question_without_confidences_leaves_those_of_the_others(tmp_path: Path) -> None:
    rows = [json.loads(line) for line in log(tmp_path, scored(6, n=12)).read_text().splitlines()]
    for row in rows[1:]:
        row["all_confidences"] = row["confidence.judge"]
    path = tmp_path / "some.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    votes = open_record(path).ballot.votes
    assert votes.confidences is not None and np.isnan(votes.confidences[0]).all()
    np.testing.assert_array_equal(votes.confidences[1:], votes.named["judge"][1:])


def test_a_confidence_that_no_policy_could_name_is_refused(tmp_path: Path) -> None:
    said = keff("analyze", log(tmp_path, scored(6, n=12), **{"confidence.my judge": [1.0] * 8}))
    assert said.returncode == 2
    assert "letters, digits, dots and dashes, not 'my judge'" in " ".join(said.stderr.split())


def test_weights_by_confidence_take_an_infinite_one_for_a_missing_one() -> None:
    """As they were, the other paths of the question had no weight at all, or combining ended."""
    votes, found = scored(7, n=40), list[object]()
    for other in (np.inf, -np.inf, np.nan):
        assert votes.confidences is not None
        given = votes.confidences.copy()
        given[:, 0] = other
        changed = replace(votes, confidences=given)
        rule = parse_policy("fixed:4,weight=confidence,temperature=1")
        draws = permute_paths(changed, 4, 20, np.random.default_rng(0))
        credit = run(rule, draws).credit
        assert credit is not None
        weighted = next(row for row in judged(changed, 0)[0] if row.scheme == "confidence")
        found.append((credit.tolist(), weighted))
    assert found[0] == found[1] == found[2]


def test_a_rule_on_a_confidence_that_no_path_has_is_refused() -> None:
    """Its votes would all abstain: nothing would ever be right."""
    votes = scored(10, n=20)
    votes = replace(votes, confidences=np.full((votes.n, votes.k), np.nan))
    with pytest.raises(PolicyError, match="for each path, and these records have none"):
        replay(votes, ["fixed:4,weight=confidence,temperature=1"], np.random.default_rng(0), Replaying())


@pytest.mark.slow
def test_a_rule_of_six_paths_that_gives_up_saves_where_scores_are_weak() -> None:
    law, own = LAWS[2], "budget:1.1,b=8,cap=6,weight=log_odds,give_up=0.4"
    votes = simulated(30, 0.6, 1_500, law=law)
    rules = [*candidate_rules(8), parse_policy("fixed:4"), *rated_paths(votes, 8).rules]
    right, cost = outcomes(votes, rules, 0, 30)
    means, paths = right.mean(axis=0), cost.mean(axis=0)
    wanted = float(means[len(candidate_rules(8))])
    others = np.array([rule.spec != own for rule in rules])
    assert others.sum() == len(rules) - 1
    assert paths_at(means, paths, wanted) < 0.992 * paths_at(means[others], paths[others], wanted)


@pytest.mark.slow
def test_the_reward_model_record_switches_at_its_first_good_path(tmp_path: Path) -> None:
    rows = [
        json.loads(line)
        for line in (RECORDED / "qwen25math_math100_rm.jsonl").read_text("utf-8").splitlines()
    ]
    for row in rows:
        row["all_confidences"] = row.pop("meta")["rm_score"]
    path = tmp_path / "rm.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    decided = decide(open_record(path).ballot.votes, Aim())
    expected = decided.decision.expected_paths
    assert decided.decision.policy.startswith("switch:")
    assert expected is not None and expected.value < 2.35  # lead_k:2 without the reward model
    worth = decided.confidences[0]
    # Expected to pay, and with a hundred questions not yet beyond doubt: its interval begins just below 0.
    assert worth.pays is not False
    assert worth.gain_at_equal_cost is not None and worth.gain_at_equal_cost.value > 0.01


def rated_votes(n: int = 200) -> Votes:
    votes, rng = scored(10, n=n), np.random.default_rng(0)
    seconds = rng.gamma(2.0, 1.0, (n, 8))
    return replace(votes, seconds=seconds, named={"rating_seconds": rng.gamma(2.0, 0.5, (n, 8))})


TARIFF = Tariff({"m": Price(path=1.0, second=0.1), "verifier": Price(path=0.25, second=0.5)}, "prices.toml")


@pytest.mark.slow
def test_a_rule_that_reads_a_verifier_waits_for_it_and_pays_it() -> None:
    votes, specs = rated_votes(), ["fixed:4,weight=log_odds", "fixed:4", "switch:0.8,cap=4", "lead_k:2,cap=4"]
    told = replay(votes, specs, np.random.default_rng(0), Replaying(tariff=TARIFF)).policies
    weighed, fixed, switched, plain = told
    rating, seconds = votes.named["rating_seconds"], votes.seconds
    assert seconds is not None
    assert weighed.dollars is not None and fixed.dollars is not None
    # Four paths each with 0.25 dollars a rating and 0.5 a second of it, beside what four paths cost alone.
    assert weighed.dollars.value - fixed.dollars.value == pytest.approx(1 + 2 * rating.mean(), rel=1e-2)
    assert weighed.seconds is not None and fixed.seconds is not None
    four = [list(pick) for pick in itertools.combinations(range(8), 4)]
    longest = np.stack([(seconds + rating)[:, pick].max(axis=1) for pick in four])
    assert weighed.seconds.p50 is not None and fixed.seconds.p50 is not None
    assert weighed.seconds.p50.value == pytest.approx(np.median(longest), rel=0.02)
    assert fixed.seconds.p50.value < weighed.seconds.p50.value
    # Rounds of one path: each waits for its rating; and the rule that reads none is as it is without any.
    assert switched.dollars is not None and plain.dollars is not None
    each = 1 + 0.1 * seconds.mean() + 0.25 + 0.5 * rating.mean()
    assert switched.dollars.value == pytest.approx(each * switched.mean_paths, rel=0.05)
    bare = replay(
        replace(votes, named={}, confidences=None),
        [specs[3]],
        np.random.default_rng(0),
        Replaying(tariff=TARIFF),
    )
    assert bare.policies[0].dollars is not None
    assert plain.dollars.value == pytest.approx(bare.policies[0].dollars.value, rel=1e-2)


def test_a_path_in_flight_is_paid_to_the_model_for_its_own_part() -> None:
    votes = Votes(
        np.zeros((1, 2), int),
        np.ones((1, 2), int),
        confidences=np.ones((1, 2)),
        seconds=np.array([[1.0, 4.0]]),
    )
    votes = replace(votes, named={"rating_seconds": np.full((1, 2), 2.0)})
    held = {"confidence": Calibration((0.0, 1.0), (0.1, 0.95), (0.5, 1.5), 0.6)}
    policy = parse_policy("switch:0.9,cap=2,in_flight=2,order=arrival", held)
    draws = permute_paths(votes, 2, 4, np.random.default_rng(0))
    walks = run(policy, draws)
    assert walks.wait is not None and walks.wait.tolist() == [[3.0] * 4]
    # At 3 s one path is rated (all of its 1 s is paid), and the other has run 3 of its 4 s.
    assert expectations(walks, draws, 2).busy == pytest.approx([4.0])
    assert expectations(walks, draws, 2).rated == pytest.approx([1.0])


@pytest.mark.slow
def test_a_dear_verifier_is_priced_in_the_decision_and_told() -> None:
    votes = rated_votes(100)
    cheap, dear = (
        decide(votes, Aim(slower=None), rates=rates(votes, "m", Tariff({**TARIFF.prices, "verifier": price})))
        for price in (Price(path=0.01), Price(path=20.0))
    )
    assert confidence_of(parse_policy(cheap.decision.policy)) == "confidence"
    assert confidence_of(parse_policy(dear.decision.policy)) is None
    (found,) = dear.confidences
    assert (found.rating_dollars, found.rating_seconds) == (20.0, pytest.approx(1.0, rel=0.1))
    assert "A rating takes 1" in found.sentence() and "costs $20" in found.sentence()
    assert len(dear.confidences) == 1  # the seconds are no confidence


def test_seconds_of_ratings_are_read_where_a_log_has_them(tmp_path: Path) -> None:
    votes = rated_votes(20)
    path = log(
        tmp_path,
        votes,
        all_confidences=[1.0] * 8,
        all_seconds=[1.0] * 8,
        **{"confidence.rating_seconds": [0.5] * 8},
    )
    prices = tmp_path / "prices.toml"
    prices.write_text("[m]\npath = 1\n[verifier]\nsecond = 2\n")
    found = open_record(path).ballot.votes
    assert set(found.rated) == {"confidence", "judge"}
    priced = rates(found, None, Tariff(read_prices(prices)))
    assert priced.rating is not None and priced.rating.tolist() == [1.0] * 20
    bare = replace(found, named={})
    with pytest.raises(UsageError, match="prices seconds of the verifier"):
        rates(bare, None, Tariff(read_prices(prices)))
    assert bare.confidences is not None
    assert rates(replace(bare, confidences=-bare.confidences), "m", TARIFF).rating is None


@pytest.mark.slow
def test_the_posterior_knows_how_much_a_calibration_hangs_on_its_questions() -> None:
    """The stated spread of mean paths by the calibration is that over calibrations of other pilots."""
    rule, reference = parse_policy("switch:0.8,cap=8,else=log_odds"), parse_policy("fixed:8")
    few, many = (replay_rules(scored(11, n=n), [parse_policy("fixed:1"), rule], reference) for n in (40, 640))
    assert not few.calibration_error[:, [0, 2]].any()  # rules that read none
    # Sixteen times the questions leave about a quarter of the error.
    assert np.all(many.calibration_error[:, 1] < 0.6 * few.calibration_error[:, 1])
    judge = scored(12, n=1500)
    assert judge.confidences is not None
    draws = permute_paths(judge, 8, 4, np.random.default_rng(0))
    paths = []
    for seed in range(20, 50):
        pilot = scored(seed, n=40)
        assert pilot.confidences is not None
        held = {"confidence": calibrate(pilot, pilot.confidences)}
        paths.append(run(parse_policy(rule.spec, held), draws).stop.mean())
    assert 0.5 < few.calibration_error[1, 1] / np.std(paths) < 2
    ratios = generic_ratios([parse_policy("fixed:1"), rule, reference])
    wide = posterior_of(few, ratios, 8)
    narrow = posterior_of(replace(few, calibration_error=np.zeros((2, 3))), ratios, 8)
    assert wide.population.paths[:, 1].std() > narrow.population.paths[:, 1].std()
    assert wide.population.paths[:, 1].mean() == pytest.approx(narrow.population.paths[:, 1].mean())
