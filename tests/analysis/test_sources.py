"""Slots, judges, prompts and branches as sources of paths: how they are read, and what noise says."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import keff
from command_line import keff as command

JUDGES = ("ada", "bo", "cy", "di", "ed", "flo", "gus", "hal")


def verdicts(n: int = 80, judges: int = 6, spread: float = 0.8) -> np.ndarray:
    """Return right and wrong of judges on questions [n, S], both of different difficulty."""
    rng = np.random.default_rng(0)
    logit = 0.8 + rng.standard_normal((n, 1)) + spread * rng.standard_normal(judges)
    return (rng.random((n, judges)) < 1 / (1 + np.exp(-logit))).astype(int)


def table(
    file: Path, right: np.ndarray, column: str = "judge", here: np.ndarray | None = None, by: str = "F"
) -> Path:
    """Write a row per judge and question, judge after judge, or question after question for by="C"."""
    kept = np.ones(right.shape, bool) if here is None else here
    lines = [f"id,{column},answer,gold_answer"]
    for place in np.arange(right.size).reshape(right.shape).ravel(by):
        row, judge = divmod(int(place), right.shape[1])
        if kept[row, judge]:
            lines.append(f"q{row},{JUDGES[judge]},{'A' if right[row, judge] else 'B'},A")
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize("column", ["judge", "slot", "model", "rater"])
def test_rows_judge_after_judge_are_one_record_of_random_sources(tmp_path: Path, column: str) -> None:
    right = verdicts()
    found = keff.noise(table(tmp_path / "log.csv", right, column))
    assert found == keff.noise(table(tmp_path / "log.csv", right, column, by="C"))
    assert found.sources is not None and found.sources.random
    assert dict(found.sources.scores) == pytest.approx(dict(zip(JUDGES, right.mean(axis=0), strict=False)))
    means = right.mean(axis=0)
    assert found.run_to_run_sd is not None
    assert found.run_to_run_sd.value == pytest.approx(means.std(ddof=1))
    new = found.sources.new_source
    assert new is not None and new.value == pytest.approx(right.mean())
    assert new.limits == pytest.approx(t_limits(means), rel=1e-6)
    assert max(found.pass_hat_k or ()) == 2  # of 6, half are 3


def t_limits(means: np.ndarray) -> tuple[float, float]:
    """Return the textbook's 95% prediction interval of one more value."""
    half = 2.570582 * means.std(ddof=1) * (1 + 1 / means.size) ** 0.5
    return max(means.mean() - half, 0.0), min(means.mean() + half, 1.0)


def test_fixed_sources_are_no_part_of_the_noise(tmp_path: Path) -> None:
    right = verdicts()
    file = table(tmp_path / "log.csv", right)
    fixed, some = keff.noise(file, sources="fixed"), keff.noise(file, sources="random")
    assert some == keff.noise(file)
    assert fixed.sources is not None and fixed.sources.new_source is None
    assert fixed.score.value == some.score.value
    width = [found.score.hi - found.score.lo for found in (fixed, some)]  # type: ignore[operator]
    assert width[0] < width[1]
    alone = keff.noise(right)  # the same paths as repeats of one source: their questions' interval
    assert fixed.score.limits == pytest.approx(alone.score.limits)
    centred = right - right.mean(axis=0) - right.mean(axis=1, keepdims=True) + right.mean()
    n, s = right.shape
    trials = float(np.sum(centred**2)) / ((n - 1) * (s - 1))
    assert fixed.run_to_run_sd is not None
    assert fixed.run_to_run_sd.value == pytest.approx((trials / n) ** 0.5)
    # One answer of each does not tell luck from how a source takes a question; two do.
    assert "one_path_of_each_source" in {note.code for note in fixed.warnings}
    again = right ^ (np.random.default_rng(1).random(right.shape) < 0.1)
    twice = keff.noise(np.hstack([right, again]), slot=[*range(6)] * 2, sources="fixed")
    luck = np.mean((right - again) ** 2) / 2
    assert twice.run_to_run_sd is not None
    assert twice.run_to_run_sd.value == pytest.approx((luck / n) ** 0.5)
    assert "one_path_of_each_source" not in {note.code for note in twice.warnings}


def test_arrays_and_frames_take_the_same_keyword() -> None:
    right = verdicts()
    some = keff.noise(right, sources="random")
    assert some.sources is not None and next(iter(some.sources.scores)) == "column 1"
    graded = keff.noise(np.where(right == 1, 8.5, 3.0), sources="random")
    assert graded.scale == (1.0, 10.0) and graded.sources is not None
    first, second = graded.sources.sd, some.sources.sd
    assert first is not None and second is not None
    assert first.value == pytest.approx(5.5 * second.value)
    assert keff.noise(right).sources is None


def test_half_of_the_cells_may_be_missing(tmp_path: Path) -> None:
    right = verdicts()
    here = np.random.default_rng(1).random(right.shape) < 0.5
    here[:20] = True
    found = keff.noise(table(tmp_path / "log.csv", right, here=here))
    assert found.sources is not None and found.sources.new_source is not None
    rows = here.any(axis=1)
    means = [right[row, here[row]].mean() for row in np.flatnonzero(rows)]
    assert (found.n, found.score.value) == (rows.sum(), pytest.approx(np.mean(means)))


def test_what_the_command_line_says_of_judges(tmp_path: Path) -> None:
    file = table(tmp_path / "log.csv", verdicts())
    done = command("noise", file)
    assert "Two sources like these can differ" in done.stdout
    assert "score that another source would give" in done.stdout
    assert "--sources fixed" in " ".join(done.stderr.split())
    found = json.loads(command("noise", file, "--sources", "fixed", "--json").stdout)
    assert found["sources"]["designs"] == [] and not found["sources"]["random"]
    assert command("noise", file, "--sources", "some").returncode == 2


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"ada": [7, 8, 3, 9], "bo": [0.7, 0.6, 0.2, 0.9]}, "bo scores up to 0.9 and ada up to 9"),
        ({"ada": [70, 8, 3, 9], "bo": [7, 6, 2, 9]}, "bo scores up to 9 and ada up to 70"),
    ],
)
def test_judges_on_different_scales_are_refused(
    tmp_path: Path, rows: dict[str, list[float]], said: str
) -> None:
    lines = [f"q{n},{judge},{value}" for judge, row in rows.items() for n, value in enumerate(row)]
    (tmp_path / "log.csv").write_text("id,judge,score\n" + "\n".join(lines) + "\n")
    done = command("noise", tmp_path / "log.csv")
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_one_judge_is_no_source_and_says_so(tmp_path: Path) -> None:
    file = table(tmp_path / "log.csv", verdicts(judges=1))
    assert keff.noise(file).sources is None
    found = keff.noise(file, sources="random")
    assert found.sources is None
    assert "one_source" in {note.code for note in found.warnings}


def test_judges_who_agree_and_one_who_never_varies_are_named(tmp_path: Path) -> None:
    right = verdicts(judges=2)
    right[:, 1] = right[:, 0]
    same = keff.noise(table(tmp_path / "same.csv", right))
    # Of a third one two copies tell nothing: no figure of others is certain.
    assert same.sources is not None
    assert (same.sources.new_source, same.sources.sd, same.gap_of_two_runs, same.c) == (None,) * 4
    assert "sources_alike" in {note.code for note in same.warnings}
    right = verdicts(judges=3)
    right[:, 2] = 1
    notes = {note.code: note.message for note in keff.noise(table(tmp_path / "c.csv", right)).warnings}
    assert notes["constant_source"].startswith("cy scored the same")


def test_a_few_sources_bound_no_correlation_and_two_tell_nothing_of_others() -> None:
    rng = np.random.default_rng(2)
    first = rng.integers(0, 2, 40)
    opposed = keff.analyze(np.stack([first, first, 1 - first], 1), sources="random")
    assert opposed.c is not None and opposed.c.limits == (-1.0, 1.0)
    two = keff.analyze(verdicts(judges=2), sources="random")
    assert "few_sources" in {note.code for note in two.warnings}


def test_sources_that_differ_less_than_chance_are_said() -> None:
    right = np.array([[n % 2, 1 - n % 2, n % 2, 1 - n % 2] for n in range(40)])  # the same mean for all
    found = keff.noise(right, sources="random")
    assert found.sources is not None and found.sources.sd is not None
    assert found.sources.sd.value == 0.0
    assert "no_variance_seen" in {note.code for note in found.warnings}


def test_blocks_of_questions_make_sources_the_units(tmp_path: Path) -> None:
    right = verdicts(n=60, judges=6)
    here = np.arange(60)[:, None] % 6 == np.arange(6)
    found = keff.noise(table(tmp_path / "log.csv", right, "slot", here), sources="random")
    notes = {note.code: note.message for note in found.warnings}
    assert "no question has paths of two sources" in notes["sources_not_told_apart"]
    own = np.array([right[here[:, s], s].mean() for s in range(6)])
    assert found.score.value == pytest.approx(own.mean())
    assert found.score.hi is not None and found.score.lo is not None
    assert found.score.hi - found.score.lo > 2 * own.std(ddof=1) / 6**0.5


def test_a_comparison_is_for_other_judges_too(tmp_path: Path) -> None:
    right = verdicts(n=60)
    # Two of the judges see no difference, one sees it reversed.
    better = right.copy()
    better[:30, :4] = 1
    better[:15, 5] = 0
    files = [table(tmp_path / f"{name}.csv", each) for name, each in (("a", right), ("b", better))]
    found = {kind: keff.compare(*files, sources=kind).better for kind in ("fixed", "random")}
    fixed, some = found["fixed"], found["random"]
    assert fixed is not None and some is not None
    assert fixed.difference.value == some.difference.value == pytest.approx(better.mean() - right.mean())
    apart = (better - right).mean(axis=0)
    trials = better - right - (better - right).mean(axis=1, keepdims=True) - apart + apart.mean()
    square = np.sum(trials**2) / (59 * 5)
    assert fixed.noise == pytest.approx((square / 360) ** 0.5)
    assert some.noise == pytest.approx((apart.var(ddof=1) / 6) ** 0.5)
    assert (fixed.verdict, some.verdict) == ("better", "not decided")
    assert some.questions_needed is None  # judges are missing, not questions


def test_a_gate_allows_for_other_prompts(tmp_path: Path) -> None:
    right = verdicts(n=100)
    worse = right.copy()
    worse[:60, :2] = 0
    files = [table(tmp_path / f"{name}.csv", each, "template") for name, each in (("a", right), ("b", worse))]
    fixed, some = (keff.compare(*files, gate=1, sources=kind) for kind in ("fixed", "random"))
    assert fixed.difference.value == some.difference.value
    assert fixed.verdict == "worse" and some.verdict != "worse"


def test_an_analysis_of_judges_is_for_judges_like_these(tmp_path: Path) -> None:
    right = verdicts()
    file = table(tmp_path / "log.csv", right)
    fixed, some = (keff.analyze(file, sources=kind) for kind in ("fixed", "random"))
    assert fixed.p == some.p == pytest.approx(right.mean())
    assert fixed.decision.policy == some.decision.policy
    left = np.array([np.delete(right, judge, axis=1).mean() for judge in range(6)])
    luck = 5 * left.var()
    for one, other in ((fixed.bands, some.bands),):
        assert one is not None and other is not None and one.majority and other.majority
        widths = [each.majority[1][1] - each.majority[1][0] for each in (one, other)]  # type: ignore[index]
        questions = right.mean(axis=1).var(ddof=1) / 80
        # Wilson's limits are near normal ones here.
        assert widths[1] / widths[0] == pytest.approx(((questions + luck) / questions) ** 0.5, rel=0.05)
    one, other = fixed.decision.change.points, some.decision.change.points
    assert one is not None and other is not None and one.value == other.value
    assert (fixed.c, some.c) == tuple(keff.noise(file, sources=kind).c for kind in ("fixed", "random"))
    assert one.limits and other.limits
    assert other.limits[0] < one.limits[0] and one.limits[1] < other.limits[1]
    sure = [found.decision.kept for found in (fixed, some)]
    assert sure[0] is not None and sure[1] is not None
    assert 0.5 < (sure[1].confidence or 0) < (sure[0].confidence or 0)
    assert "random_sources" in {note.code for note in some.warnings}
    with pytest.raises(keff.KeffError, match="--sources random"):
        keff.analyze(file)
    done = command("analyze", file, "--sources", "random", "-o", tmp_path / "plan.json")
    assert done.returncode == 2 and "a plan asks one model" in " ".join(done.stderr.split())
    assert not (tmp_path / "plan.json").exists()


def test_a_mix_of_models_under_drawn_prompts_is_for_other_prompts(tmp_path: Path) -> None:
    """Two models under four prompts each, which differ by far more than chance."""
    rng = np.random.default_rng(3)
    files = []
    for name, level in (("small", 0.0), ("large", 0.6)):
        logit = level + rng.standard_normal((60, 1)) + np.array([-1.0, -0.3, 0.3, 1.0])
        right = (rng.random((60, 4)) < 1 / (1 + np.exp(-logit))).astype(int)
        files.append(table(tmp_path / f"{name}.csv", right, "template"))
    fixed, some = (keff.mix(*files, sources=kind) for kind in ("fixed", "random"))
    plans = [found.best_single for found in (fixed, some)]
    assert plans[0].policy == plans[1].policy
    taken = [plan.accuracy for plan in plans]
    assert taken[0].value == taken[1].value
    widths = [interval.hi - interval.lo for interval in taken]  # type: ignore[operator]
    assert widths[1] > 1.3 * widths[0]
    claimed = [found.advice.accuracy for found in (fixed, some)]
    assert claimed[1].hi - claimed[1].lo > claimed[0].hi - claimed[0].lo  # type: ignore[operator]
    assert "random_sources" in {note.code for note in some.warnings}
    # Unless that is said, each prompt of each model is a branch to choose.
    assert (len(fixed.branches), len(keff.mix(*files).branches)) == (2, 8)
