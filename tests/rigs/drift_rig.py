"""Recorded answers over HTTP.

A stub upstream that serves a record, behind the real gateway with its alarm.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np

from fault_server import Script, running
from gateway_rig import gateway, make_plan
from keff.plan import Profile

PATHS = 8
PILOT = 100
POLICY = f"adaptive_consistency:0.95,cap={PATHS}"
"""Draws at least 4 paths, the number at which the alarm was simulated, and never more than are recorded."""

MEDIAN_DELAY = 24
"""Requests until a big drift is found after a pilot of 100 questions, as simulated for the method."""

BIG = 0.26
"""The change of mean pairwise agreement in the simulated big drift: accuracy and correlation (0.8, 0.6) to
(0.55, 0.45), wrong answers among three."""


@dataclass(frozen=True)
class Record:
    """The answers of one model with one prompt.

    A number for each distinct answer, None where there is none.
    """

    name: str
    keys: dict[str, list[int | None]]

    @property
    def agreement(self) -> float:
        """The mean share of pairs of paths that agree."""
        shares = [
            sum(count * (count - 1) for key, count in Counter(keys).items() if key is not None)
            / (len(keys) * (len(keys) - 1))
            for keys in self.keys.values()
        ]
        return float(np.mean(shares))


def read(file: Path) -> Record:
    """Read a record in which every question has at least ``PATHS`` answers, in random order.

    As recorded, the first paths of a question agree more than its last ones (0.69 and 0.29 in one record of
    CRUXEval): the samples were sorted. A server gives them in no such order.
    """
    rng = np.random.default_rng(0)
    keys: dict[str, list[int | None]] = {}
    for row in map(json.loads, file.read_text("utf-8").splitlines()):
        names: dict[str, int] = {}
        paths = [row["all_answers"][place] for place in rng.permutation(len(row["all_answers"]))]
        keys[row["id"]] = [
            None if answer is None else names.setdefault(str(answer), len(names)) for answer in paths[:PATHS]
        ]
    return Record(file.stem, keys)


def profile(record: Record, questions: list[str]) -> Profile:
    """Return the profile of a pilot on these questions."""
    votes = [Counter(key for key in record.keys[question] if key is not None) for question in questions]
    return Profile(paths=PATHS, votes=tuple(tuple(sorted(each.values(), reverse=True)) for each in votes))


def delay(pilot: Record, traffic: Record, requests: int, seed: int) -> int | None:
    """Return after how many requests an alarm came, or None.

    The plan is made from ``PILOT`` random questions of one record. The gateway is then asked the other
    questions, and its upstream answers with ``traffic``: another record, or the same (no drift).
    """
    order: list[str] = np.random.default_rng(seed).permutation(sorted(pilot.keys)).tolist()
    plan = make_plan(POLICY, profile=profile(pilot, order[:PILOT]))

    def answer(messages: list[dict[str, Any]], path: int) -> str:
        key = traffic.keys[messages[-1]["content"]][path]
        return "I cannot say." if key is None else f"Final answer: {key}"

    with running(Script(answer=answer)) as url, gateway(url, plan) as rig, httpx2.Client() as client:
        monitor = rig.monitor
        assert monitor is not None
        assert monitor.m == 4
        for number, question in enumerate(order[PILOT : PILOT + requests], 1):
            body = {"model": "stub", "seed": 0, "messages": [{"role": "user", "content": question}]}
            reply = client.post(f"{rig.url}/chat/completions", json=body)
            assert reply.status_code == 200
            assert monitor.seen == number
            if any(monitor.alarms.values()):
                assert rig.metric("keff_drift_alarm") >= 1
                return number
        assert rig.metric("keff_drift_alarm") == 0
        return None
