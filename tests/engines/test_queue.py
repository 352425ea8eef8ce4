"""What stands in one batch: equal settings, at most so many paths, in the order of coming."""

from __future__ import annotations

from dataclasses import replace

from keff.engines._local import Queue, Waiting
from keff.records import Sampling

SAMPLING = Sampling(temperature=0.7, seed=1)


def test_a_batch_is_the_first_request_and_what_may_join_it() -> None:
    queue = Queue(8)
    seeds = [Waiting([], replace(SAMPLING, seed=seed), 3) for seed in range(3)]
    hot = Waiting([], replace(SAMPLING, temperature=1.0), 1)
    small, gone = Waiting([], SAMPLING, 2), Waiting([], SAMPLING, 1)
    gone.stop.set()
    for waiting in (seeds[0], hot, seeds[1], gone, seeds[2], small):
        queue.add(waiting)
    assert queue.take() == [seeds[0], seeds[1], small]
    assert queue.take() == [hot]
    assert queue.take() == [seeds[2]]
    assert queue.take() == []
    assert gone.result.cancelled()


def test_a_request_larger_than_a_batch_is_drawn_alone() -> None:
    queue, large = Queue(4), Waiting([], SAMPLING, 9)
    queue.add(large)
    queue.add(Waiting([], SAMPLING, 1))
    assert queue.take() == [large]
