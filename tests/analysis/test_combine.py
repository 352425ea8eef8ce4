"""Weighted votes and GLS-R on records whose best weights are known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import keff as facade
from command_line import keff
from keff.analysis.combine import combine_record, gls_r
from keff.errors import LogError, UsageError
from keff.reading.open import open_record


def record(folder: Path, accuracies: list[float], n: int = 300, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    file = folder / "log.jsonl"
    with file.open("w") as out:
        for item in range(n):
            answers = [
                "4" if right else str(rng.integers(5, 9))
                for right in rng.random(len(accuracies)) < accuracies
            ]
            line = {
                "id": str(item),
                "gold_answer": "4",
                "all_answers": answers,
                "slots": list(range(len(accuracies))),
            }
            out.write(json.dumps(line) + "\n")
    return file


def test_where_one_slot_is_good_the_best_slot_stands_beside_the_weights(tmp_path: Path) -> None:
    found = combine_record(open_record(record(tmp_path, [0.95, 0.3, 0.3, 0.3, 0.3])))
    binary = {one.scheme: one for one in found.weights if one.rule == "binary"}
    assert binary["log_odds"].cross_fitted == pytest.approx(0.95, abs=0.03)
    assert binary["log_odds"].best_slot == pytest.approx(0.95, abs=0.03)
    assert binary["log_odds"].gain > 0.3
    assert found.pruning[0].candidate == (0,)
    assert found.pruning[0].adopted


def test_equal_slots_gain_nothing_out_of_sample(tmp_path: Path) -> None:
    found = combine_record(open_record(record(tmp_path, [0.6] * 6, 600)))
    for one in found.weights:
        assert abs(one.gain) < 3 * one.se + 0.02
    assert not any(one.adopted for one in found.pruning)


def test_gls_r_learns_the_noise_of_slots_and_keeps_equal_weights_without_need() -> None:
    rng = np.random.default_rng(1)
    signal = rng.normal(size=(60, 1, 32))
    noise = rng.normal(size=(60, 4, 32)) * np.array([0.2, 1, 1, 1])[:, None]
    found = gls_r(signal + noise)
    best = 1 / 0.04 / (1 / 0.04 + 3)
    assert 0.7 < found.weights[0] < best + 0.02
    assert found.weights[1:] == pytest.approx([(1 - found.weights[0]) / 3] * 3, abs=0.06)
    assert found.held_out_risk < found.held_out_risk_uniform
    even = gls_r(signal + rng.normal(size=(60, 4, 32)))
    assert even.ridge is None
    assert even.weights == pytest.approx([0.25] * 4)


@pytest.mark.slow
def test_confidence_and_hidden_states_have_votes_of_their_own(tmp_path: Path) -> None:
    """Three slots: sure paths are right, and the hidden states of the first slot have the least noise."""
    rng = np.random.default_rng(2)
    right = rng.random((120, 3)) < [0.9, 0.55, 0.55]
    log = tmp_path / "log.jsonl"
    with log.open("w") as out:
        for item, row in enumerate(right):
            sure = (2.0 * row + rng.normal(0, 0.5, 3)).tolist()
            answers = ["4" if one else "5" for one in row]
            line = {"id": str(item), "gold_answer": "4", "all_answers": answers, "all_confidences": sure}
            line |= {"slots": [0, 1, 2], "confidence.noise": rng.normal(size=3).tolist()}
            out.write(json.dumps(line) + "\n")
    states = rng.normal(size=(120, 1, 16)) + rng.normal(size=(120, 3, 16)) * np.array([0.2, 1, 1])[:, None]
    found = combine_record(open_record(log), embeddings=states)
    rows = {one.scheme: one for one in found.weights if one.rule == "plurality"}
    kinds = {"accuracy", "log_odds", "fisher", "confidence", "gls", "gls_r"}
    assert set(rows) == kinds | {"log odds of confidence", "log odds of noise"}
    worth = {one.votes: one.k_eff.value for one in found.k_eff}
    # What carries nothing weighs all alike, and has no line of its own.
    assert set(worth) == {"plain", "weighted by confidence"}
    assert worth["weighted by confidence"] > worth["plain"]
    assert rows["confidence"].gain > 0.1 and rows["confidence"].temperature > 0
    assert rows["confidence"].weights is None
    for scheme in ("gls", "gls_r"):
        assert rows[scheme].weights[0] > 0.8
        assert rows[scheme].cross_fitted == pytest.approx(right[:, 0].mean())


@pytest.mark.parametrize("kind", ["array", "npy", "parquet", "parquet by id"])
def test_embeddings_of_ones_own(kind: str, tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    log, rng = record(tmp_path, [0.7, 0.5, 0.5], 40), np.random.default_rng(3)
    states = rng.normal(size=(40, 1, 6)) + rng.normal(size=(40, 3, 6)) * np.array([0.2, 1, 1])[:, None]
    ids = list(open_record(log).ballot.names)
    order = rng.permutation(40) if kind == "parquet by id" else np.arange(40)
    given: object = states
    if kind == "npy":
        given = tmp_path / "mine.npy"
        np.save(given, states)
    elif kind != "array":
        columns: dict[str, object] = {"vectors": states[order].tolist()}
        if kind == "parquet by id":
            columns["id"] = [ids[place] for place in order]
        pq.write_table(pa.table(columns), tmp_path / "mine.parquet")
        given = f"{tmp_path / 'mine.parquet'}#vectors"
    found = facade.combine(log, embeddings=given)  # type: ignore[arg-type]
    assert found.gls_r == gls_r(states)
    assert {"gls", "gls_r"} < {one.scheme for one in found.weights}
    if kind != "array":
        printed = keff("combine", log, "--embeddings", given)
        assert "GLS-R" in printed.stdout and "not learned from" in " ".join(printed.stdout.split())


def test_embeddings_that_do_not_fit_are_refused_in_one_line(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    log, file = record(tmp_path, [0.5, 0.5], 20), tmp_path / "embeddings.npy"
    table = tmp_path / "mine.parquet"
    pq.write_table(pa.table({"id": ["x"] * 20, "v": np.zeros((20, 2, 3)).tolist(), "w": [1.0] * 20}), table)
    wrong = np.zeros((20, 2, 3))
    wrong[3, 1, 2] = np.nan
    for array, says in (
        (np.zeros((19, 2, 3)), r"shape \(19, 2, 3\), not \(20, 2, dimensions\)"),
        (np.zeros((20, 3, 3)), r"not \(20, 2, dimensions\)"),
        (np.zeros((20, 2)), r"not \(20, 2, dimensions\)"),
        (wrong, "not finite"),
        (np.full((20, 2, 3), "x"), "something other"),
    ):
        with pytest.raises(LogError, match=says):
            facade.combine(log, embeddings=array)
    file.write_text("no array")
    for given, says in (
        (file, "not an array"),
        (tmp_path / "none.npy", "does not exist"),
        (table, "name one with"),
        (f"{table}#v", "column id lacks"),
    ):
        done = keff("combine", log, "--embeddings", given)
        assert done.returncode == 2
        assert says in done.stderr and done.stderr.strip().count("\n") == 0
    np.save(file, np.zeros((19, 2, 3)))
    done = keff("combine", log, "--embeddings", file)
    assert done.returncode == 2 and "not (20, 2, dimensions)" in done.stderr


def test_too_small_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"4 questions .* too few"):
        combine_record(open_record(record(tmp_path, [0.5, 0.5], 4)))
