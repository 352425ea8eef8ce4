"""What all tests of commands share."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _one_log_is_decided_once(decided_once: None) -> None:
    """Commands are looked at here, and what they decide elsewhere."""
