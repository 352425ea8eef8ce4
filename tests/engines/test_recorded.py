"""The recorded engine serves what it was given, by prompt and seed."""

from __future__ import annotations

import asyncio

import pytest

from keff.engines.recorded import engine
from keff.errors import EngineError
from keff.records import Completion, Sampling, stable_hash

PROMPT = [{"role": "user", "content": "q"}]
PATHS = {stable_hash(PROMPT): {7 + i: Completion(f"path {i}") for i in range(4)}}


def test_paths_come_by_seed() -> None:
    made = engine(paths=PATHS)
    assert [one.text for one in asyncio.run(made.generate(PROMPT, Sampling(seed=9), 2))] == [
        "path 2",
        "path 3",
    ]
    assert [one.text for one in asyncio.run(made.generate(PROMPT, Sampling(seed=7), 1))] == ["path 0"]


@pytest.mark.parametrize(
    ("prompt", "seed", "n"), [(PROMPT, 9, 3), (PROMPT, 0, 1), ([{"role": "user"}], 7, 1)]
)
def test_what_was_not_recorded_is_an_error_that_waiting_does_not_mend(
    prompt: list, seed: int, n: int
) -> None:
    with pytest.raises(EngineError, match="none with seed") as caught:
        asyncio.run(engine(paths=PATHS).generate(prompt, Sampling(seed=seed), n))
    assert not caught.value.transient
