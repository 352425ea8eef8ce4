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
    """Write a row per judge and question, judge after judge."""
    lines = ["id,judge,answer" + (",gold_answer" if gold else "")]
    for judge, question in itertools.product(range(verdicts.shape[1]), range(len(verdicts))):
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


def test_agreement_and_worth_are_those_of_their_definitions(tmp_path: Path) -> None:
    said, gold = verdicts([0.9, 0.8, 0.7, 0.7])
    said[:, 3] = np.where(np.arange(200) < 150, said[:, 2], said[:, 3])
    found = panel_of(table(tmp_path / "judges.csv", said, gold))
    pairs = list(itertools.combinations(range(4), 2))
    agree = np.mean([said[:, one] == said[:, other] for one, other in pairs])
    assert found.agreement.value == pytest.approx(agree)
    chance = sum(np.mean(said == letter) ** 2 for letter in "AB")
    kappa = (agree - chance) / (1 - chance)
    assert found.k_eff_agreement.value == pytest.approx(4 / (1 + 3 * kappa))
    right = (said == np.array(gold)[:, None]).astype(float)
    p, share = right.mean(), right.mean(axis=1)
    assert found.k_eff is not None
    # The pooled c gives p (1 - p) / Var(S / K) exactly; its unbiased version differs by 1/n.
    assert found.k_eff.value == pytest.approx(p * (1 - p) / share.var(), rel=0.02)
    for place, judge in enumerate(found.judges):
        others = np.delete(np.arange(4), place)
        left = right[:, others]
        worth = left.mean() * (1 - left.mean()) / left.mean(axis=1).var()
        assert judge.adds == pytest.approx(p * (1 - p) / share.var() - worth)
        assert judge.agreement == pytest.approx(
            np.mean([np.mean(said[:, place] == said[:, other]) for other in others])
        )
        assert judge.accuracy is not None and judge.accuracy.value == pytest.approx(right[:, place].mean())
    assert (found.judges[2].nearest, found.judges[3].nearest) == ("judge d", "judge c")


def test_equal_judges_who_err_apart_beat_the_best_one(tmp_path: Path) -> None:
    found = panel_of(table(tmp_path / "judges.csv", *verdicts([0.75] * 7, 300)))
    assert found.recommended is not None and len(found.recommended.judges) > 2
    # Seven votes of 75% are right in 92.9% of questions.
    whole = next(vote for vote in found.votes if vote.vote == "vote of all")
    assert whole.accuracy == pytest.approx(0.929, abs=0.045)
    assert found.k_eff is not None and found.k_eff.limits is not None
    assert found.k_eff.limits[0] < 7 < found.k_eff.limits[1]


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
        (3, 3, "3 questions with a gold answer and a verdict"),
    ],
)
def test_what_is_too_little_says_what_is_needed(
    tmp_path: Path, judges: int, labelled: int, said: str
) -> None:
    given, gold = verdicts([0.8] * judges)
    file = table(tmp_path / "judges.csv", given, gold[:labelled] + [""] * (200 - labelled))
    with pytest.raises(UsageError, match=said):
        keff.combine(file)


def test_questions_that_lack_a_judge_are_left_out_and_said(tmp_path: Path) -> None:
    file = table(tmp_path / "judges.csv", *verdicts([0.8, 0.7, 0.7]))
    lines = file.read_text().splitlines()
    file.write_text("\n".join(line for line in lines if not line.startswith(("q0,judge b", "q7,judge c"))))
    found = keff.combine(file)
    assert found.n == 198
    assert "2 of 200 questions lack" in next(
        note.message for note in found.warnings if note.code == "missing_sources"
    )
