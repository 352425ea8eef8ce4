"""JSON values and texts for property tests, each made from one drawn seed.

Strategies within strategies take milliseconds for a value, longer than most of what is tested with it. A
generator takes microseconds, and meets the awkward values by name.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

# The ends of the classes that characters fall into for readers of UTF-8, of JSON and of lines.
EDGES = (
    '\0\t\n\r\x0b\x1f "\\/{}[]:,0aZ~\x7f\x80\x85\xa0\xad\xe9\u0130\u0300\u07ff\u0800\u200d\u2028\u202e'
    "\ud7ff\ue000\ufeff\ufffd\uffff\U00010000\U0001d7d9\U0001f600\U0010ffff"
)
INTEGERS = [0, 1, -1, 10, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64]
FINITE = [0.0, -0.0, 0.1 + 0.2, 0.5, 1.0, -1.5, 1e15, 1e16, 1e22, 1e23, 5e-324, 2.3e-308, 1.7e308]
INFINITE = (math.inf, -math.inf)
ANY_FLOAT = (*INFINITE, math.nan)


def made(make: Callable[[random.Random], T]) -> SearchStrategy[T]:
    """Draw what ``make`` makes by a generator with a drawn seed."""
    return st.integers(0, 2**48).map(lambda seed: make(random.Random(seed)))


def text(rng: random.Random, most: int = 8, pieces: Sequence[str] = ()) -> str:
    """Return up to ``most`` characters, or any of ``pieces`` in their place."""
    found: list[str] = []
    for _ in range(rng.randint(0, most)):
        kind = rng.random()
        if pieces and kind < 0.6:
            found.append(rng.choice(pieces))
        elif kind < 0.75:
            found.append(chr(rng.randint(32, 126)))
        elif kind < 0.9:
            found.append(rng.choice(EDGES))
        else:
            code = rng.randrange(0x110000 - 0x800)
            found.append(chr(code + 0x800 * (code >= 0xD800)))  # no halves of surrogate pairs
    return "".join(found)


def number(rng: random.Random) -> int:
    """Return a whole number of up to 200 bits."""
    if rng.random() < 0.5:
        return rng.choice(INTEGERS)
    return rng.getrandbits(rng.choice([3, 8, 32, 64, 200])) * rng.choice([1, -1])


def real(rng: random.Random, odd: Sequence[float] = ()) -> float:
    """Return a finite float of any size, or one of ``odd``: infinities, no number."""
    if odd and rng.random() < 0.2:
        return rng.choice(odd)
    if rng.random() < 0.5:
        return rng.choice(FINITE)
    value: float = struct.unpack("<d", rng.randbytes(8))[0]
    return value if math.isfinite(value) else rng.random()


INFINITE = (math.inf, -math.inf)
ANY_FLOAT = (*INFINITE, math.nan)


def value(
    rng: random.Random,
    odd: Sequence[float] = (),
    names: Sequence[str] = (),
    *,
    depth: int = 3,
    kinds: int = 5,
) -> Any:
    """Return a JSON value: ``names`` are those of members, and without floats where ``kinds`` is 4."""
    if depth == 0 or rng.random() < 0.4:
        kind = rng.randrange(kinds)
        if kind == 4:
            return real(rng, odd)
        return (None, rng.random() < 0.5, number(rng), text(rng))[kind]
    size = rng.randint(0, 3)
    below = [value(rng, odd, names, depth=depth - 1, kinds=kinds) for _ in range(size)]
    if rng.random() < 0.4:
        return below
    return {rng.choice(names) if names else text(rng, 4): each for each in below}


def jsons(odd: Sequence[float] = (), names: Sequence[str] = (), *, kinds: int = 5) -> SearchStrategy[Any]:
    """Draw any JSON value."""
    return made(lambda rng: value(rng, odd, names, kinds=kinds))


def objects(odd: Sequence[float] = (), *, least: int = 0, most: int = 5) -> SearchStrategy[dict[str, Any]]:
    """Draw a JSON object."""

    def make(rng: random.Random) -> dict[str, Any]:
        members = {text(rng, 5): value(rng, odd) for _ in range(rng.randint(least, most))}
        return members or {"": value(rng, odd)} if least else members

    return made(make)


def texts(most: int = 8, pieces: Sequence[str] = ()) -> SearchStrategy[str]:
    """Draw any text, of ``pieces`` too."""
    return made(lambda rng: text(rng, most, pieces))


def lists(values: Sequence[T], least: int, most: int | None = None) -> SearchStrategy[list[T]]:
    """Draw ``least`` to ``most`` of ``values``: each as likely as the others, or some much likelier."""

    def make(rng: random.Random) -> list[T]:
        weights = [rng.random() ** 3 for _ in values] if rng.random() < 0.5 else None
        return rng.choices(values, weights, k=rng.randint(least, most or least))

    return made(make)
