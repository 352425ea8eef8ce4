"""A quick start: nothing is imported that nobody uses, and the garbage collector seldom looks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import LazyLoader, find_spec, module_from_spec

# scipy.special asks numpy for everything that it holds: these take as long to import as numpy itself.
UNUSED = ("numpy.f2py", "numpy.testing", "numpy.ma")


# New containers before the garbage collector looks among them: modules and rows are no garbage, and looking
# after every 700, as is usual, takes a tenth of the start.
FEW_COLLECTIONS = 50_000


def postpone(names: Sequence[str]) -> None:
    """Let modules be imported on the first use of what they hold, where they are not yet."""
    for name in names:
        spec = find_spec(name)
        if name in sys.modules or spec is None or spec.loader is None:
            continue
        loader = spec.loader = LazyLoader(spec.loader)
        sys.modules[name] = module = module_from_spec(spec)
        loader.exec_module(module)
        package, _, own = name.rpartition(".")
        setattr(sys.modules[package], own, module)
