"""Recorded answers of real models behind the real gateway: another model trips the alarm, the same does not.

A small, fixed part of ``benchmarks/gateway/drift.py``, which counts 20 and 20.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from drift_rig import BIG, MEDIAN_DELAY, delay, read

pytestmark = pytest.mark.slow

NAMES = (
    "codellama-7b_t0.2",
    "codellama-python-7b_t0.8",
    "gpt-3.5-turbo-0613_t0.8",
    "codellama-13b+cot_t0.8",
    "gpt-4-0613+cot_t0.8",
    "deepseek-base-6.7b_t0.8",
)


@pytest.mark.parametrize(("measured", "served"), [(0, 1), (2, 3), (4, 5)])
def test_a_model_with_other_answers_is_noticed_and_the_same_is_not(
    data: Path, measured: int, served: int
) -> None:
    one, two = (read(data / f"recorded/cruxeval_output_{NAMES[place]}.jsonl") for place in (measured, served))
    assert abs(one.agreement - two.agreement) >= BIG
    assert delay(one, two, 3 * MEDIAN_DELAY, seed=measured) is not None
    assert delay(one, one, MEDIAN_DELAY, seed=measured) is None
