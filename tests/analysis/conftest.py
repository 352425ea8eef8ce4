"""Fixtures for tests of recommendations."""

from __future__ import annotations

import pytest

from keff.analysis.recommend.outlook import Outlook
from keff.stats.votes import Votes
from recommend_rig import outlook, workload


@pytest.fixture(scope="module")
def pilot() -> Votes:
    return workload(60, 8, 1)


@pytest.fixture(scope="module")
def found(pilot: Votes) -> Outlook:
    return outlook(pilot)
