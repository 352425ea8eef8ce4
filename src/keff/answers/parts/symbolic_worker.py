# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportOperatorIssue=false
"""Worker process of the space ``math``: [string, CPU seconds] per line in, [form, CPU seconds] out.

What is too large to be worked out (``9^{9^9}``) ends the process that works at its limit of processor time or
memory. That is a fork of the one that was started, which says so (no CPU seconds) and forks another: what it
has imported need not be imported again. Where another process killed it, both end without a reply.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from typing import Any, TextIO

import sympy
from latex2sympy2_extended import latex2sympy

from keff.answers.parts.notation import normalise

try:
    import resource
except ImportError:  # not on Windows
    resource = None

# sympy can ask for any memory; beyond this the worker is ended, not the machine.
MEMORY = 2**30
# What ends a process from outside: the system's killer when memory is short, or a person.
KILLED = (signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGKILL", signal.SIGTERM))
# Larger expressions vote as they are written: simplifying them takes longer than an answer may.
MOST_OPERATIONS = 200
IMAGINARY = sympy.Symbol("i")


def has_memory() -> bool:
    """Return whether this process may use the memory of the hardest answer.

    With less, what an answer means would depend on the machine: it is better not read at all.
    """
    if resource is None:
        return True
    limits = resource.getrlimit(resource.RLIMIT_AS)
    return all(limit == resource.RLIM_INFINITY or limit >= MEMORY for limit in limits)


def limit_memory() -> None:
    """Limit this process's memory, where the system can."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        # Writing the memory of a killed process takes seconds.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_time(seconds: float) -> None:
    """End this process after so many seconds of processor time from now, where the system can.

    Processor time, because a limit by the clock would give other keys on a busy machine.
    """
    if resource is not None:
        signal.setitimer(signal.ITIMER_PROF, seconds)


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


def serve(replies: TextIO) -> None:
    """Work out one string after the other until standard input ends."""
    limit_memory()
    for line in sys.stdin:
        text, seconds = json.loads(line)
        limit_time(seconds)
        began = time.process_time()
        form = canonical(text)
        took = time.process_time() - began
        limit_time(0)
        replies.write(json.dumps([form, took]) + "\n")
        replies.flush()


def main() -> None:
    """Serve until standard input ends; not at all where there is no memory for it."""
    if not has_memory():
        return
    warnings.simplefilter("ignore")
    # The first expression of a process takes a second or two (the grammar is built): before anybody waits.
    canonical(r"\frac{x+1}{2}")
    replies, sys.stdout = sys.stdout, sys.stderr
    replies.write("ready\n")
    replies.flush()
    if resource is None:
        serve(replies)
        return
    while (child := os.fork()) and (ended := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])):
        if ended > 0 or -ended in KILLED:  # neither is a limit that an answer has met
            return
        replies.write("[null, null]\n")
        replies.flush()
    if not child:
        serve(replies)


if __name__ == "__main__":
    main()
