"""Saving a random generator as plain values, so that a restored stream goes on as it would have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def save_rng(rng: np.random.Generator) -> dict[str, object]:
    """Return the state of a PCG64 generator (``numpy.random.default_rng``) as values that JSON can hold.

    Raises ValueError for another bit generator.
    """
    if not isinstance(rng.bit_generator, np.random.PCG64):
        raise ValueError("only generators of numpy.random.default_rng can be saved")
    return dict(rng.bit_generator.state)


def load_rng(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a new generator in a saved state."""
    bits: Any = np.random.PCG64()
    bits.state = dict(state)
    return np.random.Generator(bits)
