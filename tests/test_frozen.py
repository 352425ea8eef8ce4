"""Frozen classes of the library behave as frozen dataclasses of the standard library."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from dataclasses import FrozenInstanceError, astuple, dataclass, field, replace
from typing import Any

import pytest

from keff.records import Interval, frozen


class Each:
    """Fields of every kind that classes of the library have."""

    first: float
    text: str = "a"
    many: dict[str, int] = field(default_factory=dict, hash=False)
    held: list[int] = field(init=False, compare=False, default_factory=list)
    last: int = 1

    def __post_init__(self) -> None:
        self.held.append(self.last)


def seen(made: type[Any], given: tuple[object, ...], named: dict[str, object]) -> list[object]:
    """Return all that a class lets see of one value."""
    try:
        value = made(*given, **named)
    except TypeError as error:
        return [str(error)]
    twin, later = copy.deepcopy(value), replace(value, first=5)
    for change in (lambda: setattr(value, "first", 2), lambda: delattr(value, "first")):
        with pytest.raises(FrozenInstanceError):
            change()
    taken = [(one.name, one.kind, one.annotation) for one in inspect.signature(made).parameters.values()]
    equal = value == copy.copy(value), value == later, value == 1
    return [repr(value), hash(value), later.held, *equal, astuple(twin), hasattr(value, "__dict__"), taken]


@pytest.mark.parametrize(
    "given", [(), (1,), (1, "b"), (1, "b", {}, 2), (1, "b", {}, 2, 3), (1, "b", {"c": 3}), (math.nan,)]
)
@pytest.mark.parametrize("named", [{}, {"last": 2}, {"many": {"d": 1}}, {"unknown": 1}, {"held": 1}])
def test_a_frozen_class_is_a_frozen_dataclass(given: tuple[object, ...], named: dict[str, object]) -> None:
    own = {name: value for name, value in vars(Each).items() if name not in ("__dict__", "__weakref__")}
    ours, theirs = (
        seen(how(type("Each", (), dict(own))), given, named)
        for how in (frozen, dataclass(frozen=True, slots=True))
    )
    assert ours == theirs


def test_a_frozen_value_goes_to_another_process() -> None:
    value = Interval(0.5, 0.4, 0.6, "wilson")
    assert pickle.loads(pickle.dumps(value)) == value
