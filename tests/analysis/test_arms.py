"""Two arms: matching by id, known changes of correlation, and the audit of what else may have changed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from keff.analysis.arms import Comparing, compare, match_votes, open_arm
from keff.errors import UsageError
from keff.reading.open import open_record

QUICK = Comparing(replicates=500)


def arm(
    folder: Path, name: str, rho: float, *, n: int = 200, k: int = 8, slots: bool = False, silent: float = 0.0
) -> Path:
    """Write an arm whose paths are thresholded Gaussian scores with correlation ``rho``.

    The same seed everywhere.
    """
    rng = np.random.default_rng(1)
    common = rng.normal(size=(n, 1)) * math.sqrt(rho)
    own = np.random.default_rng(abs(int(1000 * rho)) + k).normal(size=(n, k)) * math.sqrt(1 - rho)
    right = common + own > -0.3
    mute = np.random.default_rng(3).random((n, k)) < silent
    file = folder / f"{name}.jsonl"
    with file.open("w") as out:
        for item in range(n):
            answers = [None if m else "4" if r else "5" for r, m in zip(right[item], mute[item], strict=True)]
            row = {"id": f"q{item}", "gold_answer": "4", "all_answers": answers}
            out.write(json.dumps(row | ({"slots": list(range(1, k + 1))} if slots else {})) + "\n")
    return file


def pearson(y: np.ndarray) -> float:
    return float(np.corrcoef(y, rowvar=False)[np.triu_indices(y.shape[1], 1)].mean())


def test_the_changes_are_those_of_the_plain_computation_and_truth_lies_in_the_intervals(
    tmp_path: Path,
) -> None:
    sc, pt = open_record(arm(tmp_path, "sc", 0.8)), open_record(arm(tmp_path, "pt", 0.4, slots=True))
    found = compare(sc, pt, QUICK)
    y, z = sc.ballot.votes.scored(), pt.ballot.votes.scored()
    a, b = pearson(y), pearson(z)
    assert found.delta_rho.value == pytest.approx(b / a - 1, abs=1e-9)
    assert found.delta_k_eff.value == pytest.approx(8 / (1 + 7 * b) - 8 / (1 + 7 * a), abs=1e-9)
    assert found.delta_p.value == pytest.approx(z.mean() - y.mean(), abs=1e-9)
    assert found.delta_rho.hi < 0
    truth = _binary(0.4) / _binary(0.8) - 1
    assert found.delta_rho.lo < truth < found.delta_rho.hi
    assert found.corrected.delta_c.lo < truth < found.corrected.delta_c.hi
    assert [one.slot for one in found.arms[1].slots] == list(range(1, 9))
    assert found.arms[0].weights is None
    assert found.arms[0].blocks is None
    blocks = found.arms[1].blocks
    assert (blocks.templates, blocks.paths) == (8, (1,) * 8)
    assert blocks.between.value == pytest.approx(b, abs=0.02)
    assert blocks.between.lo < _binary(0.4) < blocks.between.hi
    assert found.to_dict()["arms"][1]["blocks"]["within"]["value"] is None
    assert {one.rule for one in found.arms[1].weights} == {"binary", "plurality"}


def _binary(rho: float) -> float:
    """Return the correlation of two votes [score > -0.3] whose scores correlate by rho, by integration."""
    from scipy.stats import multivariate_normal, norm

    p = float(norm.cdf(0.3))
    joint = float(multivariate_normal.cdf([0.3, 0.3], cov=[[1, rho], [rho, 1]]))
    return (joint - p * p) / (p * (1 - p))


@pytest.mark.slow
@pytest.mark.parametrize(("rho", "relative"), [(0.0, False), (0.6, True)])
def test_a_correlation_that_may_be_zero_has_no_relative_change(
    tmp_path: Path, rho: float, relative: bool
) -> None:
    first, second = (open_record(arm(tmp_path, name, at)) for name, at in (("a", rho), ("b", 0.3)))
    found = compare(first, second, QUICK)
    own = found.delta_rho.text("+.1%") if relative else found.delta_rho_absolute.text("+.2f")
    assert found.has_ratio == relative and found.rho_change == own
    assert own in found.line() and own in str(found.rows())


def test_items_are_matched_by_id_whatever_their_order(tmp_path: Path) -> None:
    sc, pt = arm(tmp_path, "sc", 0.8), arm(tmp_path, "pt", 0.4)
    straight = compare(open_record(sc), open_record(pt), QUICK)
    lines = pt.read_text().splitlines()
    pt.write_text("\n".join(reversed(lines)) + "\n")
    shuffled = compare(open_record(sc), open_record(pt), QUICK)
    assert shuffled.delta_rho == straight.delta_rho
    pt.write_text("\n".join(lines[:150]) + "\n" + lines[0].replace('"q0"', '"new"') + "\n")
    part = compare(open_record(sc), open_record(pt), QUICK)
    assert part.shared_items == 150
    assert [one.code for one in part.warnings].count("unpaired_items") == 2


def test_arms_without_shared_ids_or_gold_are_refused(tmp_path: Path) -> None:
    sc, pt = arm(tmp_path, "sc", 0.8), arm(tmp_path, "pt", 0.4)
    pt.write_text(pt.read_text().replace('"id": "q', '"id": "x'))
    with pytest.raises(UsageError, match="share no item id"):
        compare(open_record(sc), open_record(pt), QUICK)
    pt.write_text(sc.read_text().replace('"gold_answer": "4", ', ""))
    with pytest.raises(UsageError, match="no gold answers"):
        compare(open_record(sc), open_record(pt), QUICK)
    pt.write_text(sc.read_text().splitlines()[0] + "\n")
    with pytest.raises(UsageError, match="two shared items"):
        compare(open_record(sc), open_record(pt), QUICK)


def test_arms_whose_paths_only_disagree_have_no_known_change(tmp_path: Path) -> None:
    """c is below what exchangeable votes can have, K_eff endless in both arms.

    Nothing is claimed, nothing fails.
    """
    rows = ({"id": str(i), "gold_answer": "4", "all_answers": ["4", "5", None, "4"]} for i in range(12))
    log = tmp_path / "alike.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = compare(open_record(log), open_record(log), QUICK)
    assert found.delta_k_eff.lo is None and found.corrected.delta_c.lo is None


def test_unequal_numbers_of_paths_use_the_first_of_each_and_say_so(tmp_path: Path) -> None:
    votes, notes = match_votes(
        open_record(arm(tmp_path, "a", 0.8, k=8)), open_record(arm(tmp_path, "b", 0.8, k=5))
    )
    assert [arm.k for arm in votes] == [5, 5]
    assert [note.code for note in notes] == ["unequal_paths"]


def test_arms_within_one_run_are_chosen_by_slot(tmp_path: Path) -> None:
    file = arm(tmp_path, "run", 0.5, slots=True)
    whole = open_record(file).ballot.votes.scored()
    assert open_arm(f"{file}#1-3").ballot.votes.scored().tolist() == whole[:, :3].tolist()
    assert open_arm(f"{file}#2,8").ballot.votes.slots is not None
    assert open_arm(f"{file}#4").ballot.votes.slots is None
    assert open_arm(str(file)).ballot.votes.k == 8
    with pytest.raises(UsageError, match=r"no path of slots \[9\]"):
        open_arm(f"{file}#9")


@pytest.mark.slow
def test_the_audit_names_failing_slots_and_unequal_difficulty(tmp_path: Path) -> None:
    sc = open_record(arm(tmp_path, "sc", 0.7, n=400))
    failing = compare(sc, open_record(arm(tmp_path, "pt", 0.7, n=400, k=8, slots=True, silent=0.3)), QUICK)
    assert "extraction_failures" in [one.code for one in failing.warnings]
    rng = np.random.default_rng(5)
    common = rng.normal(size=(400, 1)) * math.sqrt(0.7)
    score = common + rng.normal(size=(400, 8)) * math.sqrt(0.3) + np.linspace(-1.6, 1.6, 8)
    file = tmp_path / "uneven.jsonl"
    with file.open("w") as out:
        for item, row in enumerate(score > -0.3):
            answers = ["4" if right else "5" for right in row]
            line = {"id": f"q{item}", "gold_answer": "4", "all_answers": answers, "slots": list(range(8))}
            out.write(json.dumps(line) + "\n")
    uneven = compare(sc, open_record(file), QUICK)
    assert uneven.delta_rho.value < -0.15
    assert "unequal_slots" in [one.code for one in uneven.warnings]


def test_five_prompts_of_a_real_model_make_a_real_template_arm(recorded: list[Path], tmp_path: Path) -> None:
    files = [file for file in recorded if file.name.startswith("renze_comprehensive-100_gpt-35-turbo_")]
    assert len(files) == 5
    rows = [[json.loads(line) for line in file.read_text().splitlines()] for file in files]
    pt = tmp_path / "pt.jsonl"
    with pt.open("w") as out:
        for same in zip(*rows, strict=True):
            line = {
                "id": same[0]["id"],
                "all_answers": [row["all_answers"][0] for row in same],
                "all_correct": [row["all_correct"][0] for row in same],
                "slots": [1, 2, 3, 4, 5],
            }
            out.write(json.dumps(line) + "\n")
    found = compare(open_record(files[0]), open_record(pt), QUICK)
    assert found.shared_items == 100
    # The plain prompt repeats itself; five prompts do not.
    assert found.delta_rho.hi < 0
    assert found.arms[1].k_eff > found.arms[0].k_eff
