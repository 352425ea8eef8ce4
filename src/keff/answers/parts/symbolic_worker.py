# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportOperatorIssue=false
"""Worker process of the space ``math``: a JSON string per line in, its form and CPU seconds out.

What is too large to be worked out (``9^{9^9}``) ends the process at its limit of processor time or memory.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from typing import Any

import sympy
from latex2sympy2_extended import latex2sympy

from keff.answers.parts.notation import normalise

try:
    import resource
except ImportError:  # not on Windows
    resource = None

# sympy can ask for any memory; beyond this the worker is ended, not the machine.
MEMORY = 2**30
# Processor seconds of one string; the system counts whole ones, so it may be one less.
CPU_SECONDS = 3
# Larger expressions vote as they are written: simplifying them takes longer than an answer may.
MOST_OPERATIONS = 200
IMAGINARY = sympy.Symbol("i")


def limit_memory() -> None:
    """Limit this process's memory, where the system can."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        # Writing the memory of a killed process takes seconds.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_time() -> None:
    """Set a CPU limit some seconds from now, at which the system ends this process.

    Processor time, because a limit by the clock would give other keys on a busy machine.
    """
    if resource is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + CPU_SECONDS, hard))


def rewritten(expression: Any) -> Any:
    """Return an expression simplified to canonical form.

    Rational numbers, expanded, cancelled, roots out of denominators.
    """
    if isinstance(expression, sympy.Equality):
        left = sympy.numer(sympy.together(rewritten(expression.lhs - expression.rhs)))
        _, primitive = sympy.expand(left).as_content_primitive()
        if not primitive.free_symbols:
            raise ValueError("not an equation")
        return sympy.Eq(signed(primitive), 0, evaluate=False)
    if not isinstance(expression, sympy.Expr):
        raise TypeError("not an expression")
    expression = expression.subs(IMAGINARY, sympy.I)
    exact = sympy.nsimplify(expression.doit(), rational=True)
    if sympy.count_ops(exact) > MOST_OPERATIONS:
        raise ValueError("too large")
    if not exact.free_symbols:
        return sympy.radsimp(sympy.sqrtdenest(sympy.expand(sympy.radsimp(exact))))
    return sympy.cancel(sympy.expand(exact))


def signed(expression: Any) -> Any:
    """Return the expression or its negative, whichever has a positive leading sign."""
    return -expression if expression.could_extract_minus_sign() else expression


def canonical(text: str) -> str | None:
    """Return the canonical LaTeX of a LaTeX expression; None if it cannot be parsed."""
    try:
        return normalise(sympy.latex(rewritten(latex2sympy(text)), ln_notation=True))
    except (Exception, RecursionError, MemoryError):
        return None


def main() -> None:
    """Serve until standard input ends."""
    warnings.simplefilter("ignore")
    limit_memory()
    # The first expression of a process takes a second or two (the grammar is built): before anybody waits.
    canonical(r"\frac{x+1}{2}")
    replies, sys.stdout = sys.stdout, sys.stderr
    replies.write("ready\n")
    replies.flush()
    for line in sys.stdin:
        limit_time()
        began = time.process_time()
        form = canonical(json.loads(line))
        replies.write(json.dumps([form, time.process_time() - began]) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
