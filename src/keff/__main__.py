"""``keff`` and ``python -m keff``."""

import dataclasses
import functools
import gc
from typing import Any

# New containers before the garbage collector looks among them: modules and rows are no garbage, and looking
# after every 700, as is usual, takes a tenth of the start.
FEW_COLLECTIONS = 50_000

# Methods that one command asks few objects for. Until Python 3.13 a dataclass compiles each by itself when
# its class is made, a tenth of the start: here, on the first call.
LATE = {"__eq__", "__hash__", "__repr__", "__setattr__", "__delattr__"}


def _compile_late(make: Any) -> Any:
    def made(name: str, *text: Any, **names: Any) -> Any:
        if name not in LATE:
            return make(name, *text, **names)
        compiled = functools.cache(lambda: make(name, *text, **names))

        def method(*given: Any) -> Any:
            return compiled()(*given)

        method.__name__ = name
        return method

    return made


def main() -> None:
    """Run the command line."""
    gc.set_threshold(FEW_COLLECTIONS)
    if "_create_fn" in (names := dataclasses.__dict__):
        names["_create_fn"] = _compile_late(names["_create_fn"])
    from keff.cli import main

    main()


if __name__ == "__main__":
    main()
