"""Panels of judges: agreement, independent judges, who is redundant, and whom to ask."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import keff
from command_line import keff as command
from keff.analysis.results.combination import Panel
from keff.errors import UsageError


def table(file: Path, verdicts: np.ndarray, gold: list[str] | None) -> Path:
    """Write a row per judge and question, judge after judge; none for a verdict of None."""
    lines = ["id,judge,answer" + (",gold_answer" if gold else "")]
    for judge, question in itertools.product(range(verdicts.shape[1]), range(len(verdicts))):
        if verdicts[question, judge] is None:
            continue
        end = f",{gold[question]}" if gold else ""
        lines.append(f"q{question},judge {'abcdefgh'[judge]},{verdicts[question, judge]}{end}")
    file.write_text("\n".join(lines) + "\n")
    return file


def verdicts(accuracies: list[float], n: int = 200, seed: int = 0) -> tuple[np.ndarray, list[str]]:
    """Return verdicts A or B [n, K] of judges who err independently, and the gold answers."""
    rng = np.random.default_rng(seed)
    gold = rng.choice(["A", "B"], n)
    right = rng.random((n, len(accuracies))) < accuracies
    other = np.where(gold == "A", "B", "A")
    return np.where(right, gold[:, None], other[:, None]), gold.tolist()


def panel_of(file: Path) -> Panel:
    found = keff.combine(file).panel
    assert found is not None
    return found


def c_by_definition(right: np.ndarray) -> float:
    """Return 1 - (half the chance that two judges differ on a question) / (that on two), each pair alike."""
    n, k = right.shape
    within = [np.nanmean((right[:, i] - right[:, j]) ** 2) for i, j in itertools.combinations(range(k), 2)]
    apart = [
        np.nanmean(((right[:, [i]] - right[:, j]) ** 2)[~np.eye(n, dtype=bool)])
        for i, j in itertools.product(range(k), repeat=2)
    ]
    return float(1 - np.mean(within) / np.mean(apart))


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_agreement_and_worth_are_those_of_their_definitions(tmp_path: Path, share: float) -> None:
    """Where all is judged, and where half of the cells are missing."""
    said, gold = verdicts([0.9, 0.8, 0.7, 0.7])
    said[:, 3] = np.where(np.arange(200) < 150, said[:, 2], said[:, 3])
    given = np.random.default_rng(1).random(said.shape) < share
    found = panel_of(table(tmp_path / "judges.csv", np.where(given, said, None), gold))
    alike = np.array(
        [
            [
                (row[i] == row[j]) if both[i] and both[j] else np.nan
                for i, j in itertools.permutations(range(4), 2)
            ]
            for row, both in zip(said, given, strict=True)
        ]
    )
    agree = np.mean([np.nanmean(row) for row in alike if not np.all(np.isnan(row))])
    assert found.agreement.value == pytest.approx(agree)
    chance = sum(np.mean(said[given] == letter) ** 2 for letter in "AB")
    kappa = (agree - chance) / (1 - chance)
    assert found.k_eff_agreement.value == pytest.approx(4 / (1 + 3 * kappa))
    right = np.where(given, said == np.array(gold)[:, None], np.nan)
    whole = 4 / (1 + 3 * c_by_definition(right))
    assert found.k_eff is not None and found.k_eff.limits is not None
    assert found.k_eff.value == pytest.approx(whole)
    assert found.k_eff.limits[0] < whole < found.k_eff.limits[1]
    judges = sorted(found.judges, key=lambda judge: judge.name)
    for place, judge in enumerate(judges):
        others = np.delete(np.arange(4), place)
        # Three are worth at most three, also where chance makes c negative.
        left = min(3 / (1 + 2 * c_by_definition(right[:, others])), 3)
        assert judge.adds == pytest.approx(whole - left)
        pairs = [
            both
            for both, (i, _) in zip(alike.T, itertools.permutations(range(4), 2), strict=True)
            if i == place
        ]
        assert judge.agreement == pytest.approx(np.mean([np.nanmean(pair) for pair in pairs]))
        assert judge.accuracy is not None
        assert judge.accuracy.value == pytest.approx(np.nanmean(right[:, place]))
        assert judge.answered == pytest.approx(given[given.any(axis=1), place].mean())
    assert (judges[2].nearest, judges[3].nearest) == ("judge d", "judge c")


def test_a_judge_who_abstains_is_like_one_who_was_not_asked(tmp_path: Path) -> None:
    """Neither is wrong: a judge of 90% who answers half of the questions is no worse for it."""
    said, gold = verdicts([0.7, 0.9, 0.7, 0.7, 0.7])
    given = np.random.default_rng(2).random(said.shape) < [1, 0.5, 1, 1, 0.3]
    silent = panel_of(table(tmp_path / "silent.csv", np.where(given, said, ""), gold))
    absent = panel_of(table(tmp_path / "absent.csv", np.where(given, said, None), gold))
    assert silent == absent
    assert silent.best == "judge b" and silent.best_accuracy == pytest.approx(0.9, abs=0.05)
    assert silent.k_eff is not None and silent.k_eff.limits is not None
    assert silent.k_eff.limits[1] <= 5 and silent.k_eff.value > 3.5
    # What a vote gains is judged where judge b answered, with those who answered there.
    right = (said == np.array(gold)[:, None])[given[:, 1]]
    margin = (given[given[:, 1]] * (2 * right - 1)).sum(axis=1)
    vote = np.where(margin == 0, 0.5, margin > 0).mean()
    assert silent.votes[0].accuracy == pytest.approx(vote, abs=0.01)
    done = command("combine", tmp_path / "absent.csv")
    assert done.returncode == 0
    assert "questions lack the path of some slot or judge and count in the panel" in " ".join(
        done.stderr.split()
    )


def test_equal_judges_who_err_apart_beat_the_best_one(tmp_path: Path) -> None:
    found = panel_of(table(tmp_path / "judges.csv", *verdicts([0.75] * 7, 300)))
    assert found.recommended is not None and len(found.recommended.judges) > 2
    # Seven votes of 75% are right in 92.9% of questions.
    whole = next(vote for vote in found.votes if vote.vote == "vote of all")
    assert whole.accuracy == pytest.approx(0.929, abs=0.045)
    assert found.k_eff is not None and found.k_eff.limits is not None
    # No seven judges are worth more than seven, whatever chance makes of c.
    assert 5 < found.k_eff.limits[0] < found.k_eff.limits[1] == 7


def test_copies_of_a_judge_add_nothing_and_the_best_is_asked_alone(tmp_path: Path) -> None:
    said, gold = verdicts([0.8])
    found = panel_of(table(tmp_path / "judges.csv", np.repeat(said, 3, axis=1), gold))
    assert found.k_eff is not None and found.k_eff.value == pytest.approx(1.0)
    assert found.k_eff_agreement.value == pytest.approx(1.0)
    assert found.redundant == ("judge a", "judge b", "judge c")
    assert found.recommended is None and found.best == "judge a"


def test_one_good_judge_is_not_voted_down(tmp_path: Path) -> None:
    found = panel_of(table(tmp_path / "judges.csv", *verdicts([0.95, 0.6, 0.6, 0.6, 0.6])))
    assert (found.best, found.recommended) == ("judge a", None)


def test_without_gold_only_agreement_is_told(tmp_path: Path) -> None:
    said, gold = verdicts([0.8, 0.7, 0.7])
    file = table(tmp_path / "judges.csv", said, None)
    found, known = panel_of(file), panel_of(table(tmp_path / "gold.csv", said, gold))
    assert found.k_eff_agreement == known.k_eff_agreement
    assert (found.k_eff, found.best, found.best_accuracy, found.votes) == (None, None, None, ())
    done = command("combine", file)
    assert done.returncode == 0
    assert "Only gold answers tell which" in " ".join(done.stdout.split())
    assert "accuracy" not in done.stdout
    assert json.loads(command("combine", file, "--json").stdout)["weights"] == []


def test_a_judge_who_always_answers_the_same_is_set_aside(tmp_path: Path) -> None:
    said, gold = verdicts([0.8, 0.7, 0.7])
    alone = panel_of(table(tmp_path / "three.csv", said, gold))
    file = table(tmp_path / "four.csv", np.hstack([said, np.full((200, 1), "A")]), gold)
    found = panel_of(file)
    assert (found.k_eff, found.agreement, found.votes) == (alone.k_eff, alone.agreement, alone.votes)
    assert [judge.adds for judge in found.judges] == [*(judge.adds for judge in alone.judges), None]
    done = command("combine", file).stdout
    assert "judge d always answers 'A'" in done and "3 judges are worth" in done
    # Where all right answers are alike, whoever always gives them is a good judge.
    right = np.where(said == np.array(gold)[:, None], "A", "B")
    assert panel_of(table(tmp_path / "first.csv", right, ["A"] * 200)).k_eff == alone.k_eff
    right[:, 2] = "A"
    assert panel_of(table(tmp_path / "right.csv", right, ["A"] * 200)).best == "judge c"
    with pytest.raises(UsageError, match="two judges whose answers vary, and judge a, judge b always"):
        keff.combine(table(tmp_path / "none.csv", np.full((200, 2), "A"), gold))


def test_a_judge_twice_and_another_are_no_better_than_that_judge(tmp_path: Path) -> None:
    """The vote of a judge, its copy and another is that judge: a choice from fold to fold may be worse."""
    taken = 0
    for seed in (4, 5, 6, 7):
        said, gold = verdicts([0.7, 0.7], 60, seed)
        found = panel_of(table(tmp_path / "judges.csv", said[:, [0, 0, 1]], gold))
        right = (said == np.array(gold)[:, None]).mean(axis=0)
        assert found.votes[0].accuracy == pytest.approx(right[0])
        taken += (found.votes[0].gain.lo or 0) > 0
        assert found.recommended is None
    assert taken, "the choice from folds alone would have taken some"


@pytest.mark.parametrize(
    ("judges", "labelled", "said"),
    [
        (1, 200, "a panel needs two"),
        (3, 3, "3 questions with a gold answer are too few"),
    ],
)
def test_what_is_too_little_says_what_is_needed(
    tmp_path: Path, judges: int, labelled: int, said: str
) -> None:
    given, gold = verdicts([0.8] * judges)
    file = table(tmp_path / "judges.csv", given, gold[:labelled] + [""] * (200 - labelled))
    with pytest.raises(UsageError, match=said):
        keff.combine(file)


def test_verdicts_alone_may_be_missing_too(tmp_path: Path) -> None:
    """Right and wrong of a judge are as good as its answers and the gold ones, but for agreement."""
    said, gold = verdicts([0.7, 0.9, 0.7, 0.7])
    given = np.random.default_rng(3).random(said.shape) < [1, 0.5, 0.5, 0.8]
    known = panel_of(table(tmp_path / "answers.csv", np.where(given, said, None), gold))
    right = np.where(given, (said == np.array(gold)[:, None]).astype(int), None)
    file = table(tmp_path / "verdicts.csv", right, None)
    file.write_text(file.read_text().replace("id,judge,answer", "id,judge,correct"))
    found = panel_of(file)
    assert (found.k_eff, found.votes, found.best) == (known.k_eff, known.votes, known.best)
    assert [judge.accuracy for judge in found.judges] == [judge.accuracy for judge in known.judges]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("scale", "judge c answers '10', .* Bring all judges to one scale"),
        ("alone", "judge c answered no question that another judge answered"),
    ],
)
def test_judges_who_cannot_be_compared_are_refused(tmp_path: Path, cells: str, said: str) -> None:
    given, gold = verdicts([0.8, 0.7, 0.7])
    if cells == "scale":
        given = given.astype(object)
        given[:, 2] = np.where(given[:, 2] == "A", "10", "90")
    else:
        first = np.arange(200)[:, None] < 100
        given = np.where(first == (np.arange(3) < 2), given, None)
    with pytest.raises(UsageError, match=said):
        keff.combine(table(tmp_path / "judges.csv", given, gold))
