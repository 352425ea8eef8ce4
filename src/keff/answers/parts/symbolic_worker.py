# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false, reportOperatorIssue=false
"""The worker process of the space ``math``: of a JSON string a line, its form and its processor seconds.

What would be large is bounded before it is computed: digits of powers and factorials, terms of expanded
powers.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
import warnings
from typing import Any

import sympy
from latex2sympy2_extended import latex2sympy

from keff.answers.parts.notation import normalise
from keff.records import frozen

try:
    import resource
except ImportError:  # not on Windows
    resource = None

# sympy can ask for any memory; beyond this the worker is ended, not the machine.
MEMORY = 3 * 2**30
# Processor seconds of one string; the system counts whole ones, so it may be one less.
CPU_SECONDS = 3
# Larger expressions vote as they are written: simplifying them takes longer than an answer may.
MOST_OPERATIONS = 200
# Python writes integers of up to 4,300 digits.
MOST_BITS = 14_000
# Of an expanded polynomial: cancelling takes seconds beyond.
MOST_DEGREE, MOST_TERMS = 300, 500
# Expanding more takes longer than one answer may.
MOST_SUMMANDS = 100
# What the parser works out while it reads, before any bound can be looked at.
_EAGER = re.compile(r"binom|choose|gcd|lcm|matrix")
# Operators that the parser works out itself, and operands that may be too large for them.
_LARGE = re.compile(r"\^\s*\{?\s*-?\d{3}|\^\s*\{[^{}]*[\^!]|\d\s*\)*\s*!|\d{5}")


@frozen
class SizeBound:
    """Upper bounds of an expression once it is expanded: bits of its numbers, degree, terms."""

    bits: float = 0
    degree: float = 0
    terms: float = 1

    def __post_init__(self) -> None:
        if self.bits > MOST_BITS or self.degree > MOST_DEGREE or self.terms > MOST_TERMS:
            raise OverflowError("too large")


def bound(expression: Any) -> SizeBound:
    """Return bounds of an expression that is not worked out; raises OverflowError where one is too large."""
    if expression.is_Integer or expression.is_Rational:
        return SizeBound(max(abs(int(expression.p)).bit_length(), int(expression.q).bit_length()))
    if expression.is_Atom:
        return SizeBound(degree=float(bool(expression.free_symbols)), bits=64 * float(expression.is_Float))
    if isinstance(expression, sympy.Pow):
        return power(bound(expression.base), expression.base, expression.exp)
    parts = [bound(part) for part in expression.args if isinstance(part, sympy.Basic)]
    bits, degree = (
        max((part.bits for part in parts), default=0),
        max((part.degree for part in parts), default=0),
    )
    if isinstance(expression, sympy.Add):
        return SizeBound(bits + len(parts), degree, sum(part.terms for part in parts))
    if isinstance(expression, sympy.Mul):
        total = sum(part.bits for part in parts), sum(part.degree for part in parts)
        return SizeBound(*total, math.prod(part.terms for part in parts))
    if isinstance(expression, sympy.factorial | sympy.factorial2 | sympy.gamma | sympy.subfactorial):
        return SizeBound(size(expression.args[0]) * max(1, bits))
    if isinstance(expression, sympy.Sum | sympy.Product):
        count = math.prod(size(limit[2] - limit[1]) + 1 for limit in expression.limits if len(limit) == 3)
        if count > MOST_SUMMANDS and expression.function.free_symbols:
            raise OverflowError("too many summands")
        return SizeBound(bits * count, degree * min(count, MOST_DEGREE))
    return SizeBound(bits, degree)


def power(base: SizeBound, written: Any, exponent: Any) -> SizeBound:
    """Return the bounds of a power."""
    if exponent.free_symbols or not exponent.is_number:
        bound(exponent)
        return SizeBound(base.bits, base.degree)
    if written in (0, 1, -1):
        bound(exponent)
        return SizeBound(1)
    times = size(exponent)
    if times < 1:
        return base
    terms = math.comb(int(times) + int(base.terms) - 1, int(base.terms) - 1) if base.terms > 1 else 1
    return SizeBound((base.bits + math.log2(base.terms)) * times, base.degree * times, terms)


def size(number: Any) -> float:
    """Return an upper bound of a number that is not worked out, without its sign; infinite for letters."""
    if number.free_symbols:
        return math.inf
    if number.is_Integer or number.is_Rational or number.is_Float:
        # Anything larger is too large to be worked out as an exponent: no need to know how large.
        return float(min(abs(number), 10**9))
    return 2.0 ** min(bound(number).bits + 1, 60)


IMAGINARY = sympy.Symbol("i")


def limit_memory() -> None:
    """Limit the memory of this process, where the system can."""
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(
            resource.RLIMIT_CORE, (0, 0)
        )  # writing the memory of a killed process takes seconds


def limit_time() -> None:
    """Let the system end this process after some more seconds of processor time.

    Processor time, because a limit by the clock would give other keys on a busy machine.
    """
    if resource is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + CPU_SECONDS, hard))


def rewritten(expression: Any) -> Any:
    """Return an expression in canonical form.

    Rational numbers, expanded, cancelled, roots out of denominators.
    """
    if isinstance(expression, sympy.Equality):
        bound(expression.lhs)
        bound(expression.rhs)
        left = sympy.numer(sympy.together(rewritten(expression.lhs - expression.rhs)))
        _, primitive = sympy.expand(left).as_content_primitive()
        if not primitive.free_symbols:
            raise ValueError("not an equation")
        return sympy.Eq(signed(primitive), 0, evaluate=False)
    if not isinstance(expression, sympy.Expr):
        raise TypeError("not an expression")
    bound(expression)
    expression = expression.subs(IMAGINARY, sympy.I)
    exact = sympy.nsimplify(expression.doit(), rational=True)
    if sympy.count_ops(exact) > MOST_OPERATIONS:
        raise ValueError("too large")
    if not exact.free_symbols:
        return sympy.radsimp(sympy.sqrtdenest(sympy.expand(sympy.radsimp(exact))))
    return sympy.cancel(sympy.expand(exact))


def signed(expression: Any) -> Any:
    """Return the expression or its negative, whichever of the two has the leading positive sign."""
    return -expression if expression.could_extract_minus_sign() else expression


def canonical(text: str) -> str | None:
    """Return the canonical LaTeX of a LaTeX expression; None if it cannot be parsed."""
    if _EAGER.search(text) and _LARGE.search(text):
        return None
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
