"""Weights and pruned slots of a record become a plan of branches that a gateway serves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keff.analysis.combine import combine_record
from keff.analysis.plans import chosen_weights, slot_plan
from keff.errors import UsageError
from keff.policies.mix import Mix
from keff.policy import parse_policy
from keff.reading.open import Record, open_record


def record(folder: Path, accuracies: list[float], *, slots: bool = True, n: int = 200) -> Record:
    rng = np.random.default_rng(0)
    rows = [
        {
            "id": str(item),
            "gold_answer": "4",
            "all_answers": ["4" if right else "5" for right in rng.random(len(accuracies)) < accuracies],
            **({"slots": list(range(len(accuracies)))} if slots else {}),
        }
        for item in range(n)
    ]
    file = folder / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return open_record(file)


def test_slots_that_differ_get_weights_and_those_that_hurt_are_dropped(tmp_path: Path) -> None:
    unequal = record(tmp_path, [0.9, 0.9, 0.9, 0.3, 0.3])
    plan, notes = slot_plan(unequal, combine_record(unequal))
    policy = parse_policy(plan.policy)
    assert isinstance(policy, Mix)
    weights = {share.branch: share.weight for share in policy.shares}
    assert set(weights) >= {"slot-0", "slot-1", "slot-2"} and max(weights.values()) == 1
    assert all(weights.get(name, 0) < 0.2 for name in ("slot-3", "slot-4"))
    assert [branch.name for branch in plan.branches] == list(policy.branches)
    assert [note.code for note in notes] == ["templates_unknown"]


def test_gains_within_their_error_change_nothing(tmp_path: Path) -> None:
    equal = record(tmp_path, [0.7] * 4)
    found = combine_record(equal)
    none = replace(
        found,
        weights=tuple(replace(row, gain=row.se / 2) for row in found.weights),
        pruning=tuple(replace(row, adopted=False) for row in found.pruning),
    )
    assert chosen_weights(none, range(4))[0] == (1.0,) * 4
    assert slot_plan(equal, none)[0].policy == "mix:" + "/".join(f"slot-{i}(k=1,weight=1)" for i in range(4))
    fewer = replace(
        none, pruning=tuple(replace(row, adopted=True, candidate=(1, 3)) for row in found.pruning)
    )
    assert chosen_weights(fewer, range(4))[0] == (0.0, 1.0, 0.0, 1.0)
    # Slots are kept by name, all columns of each.
    assert chosen_weights(fewer, (3, 3, 5, 1))[0] == (1.0, 1.0, 0.0, 1.0)
    assert slot_plan(equal, fewer)[0].policy == "mix:slot-1(k=1,weight=1)/slot-3(k=1,weight=1)"


def test_one_prompt_and_one_good_slot_are_no_plan_of_slots(tmp_path: Path) -> None:
    alone = record(tmp_path, [0.7] * 3, slots=False)
    with pytest.raises(UsageError, match="one prompt"):
        slot_plan(alone, combine_record(alone))
    single = record(tmp_path, [0.98, 0.1, 0.1])
    with pytest.raises(UsageError, match="one slot is enough"):
        slot_plan(single, combine_record(single))
