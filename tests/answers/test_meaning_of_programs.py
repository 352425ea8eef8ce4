"""A program and its key do the same on inputs, so equal keys are equal programs. Only our own are run."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.answers import space

CODE = space("code")
NAMES = ("a", "b", "x", "v1", "v2", "g", "t")
INPUTS = ((0, 1), (2, 3), (-1, 5))


def expression(rng: random.Random, depth: int) -> str:
    """Return an expression in which scopes bind the same names again and again."""
    name, other = rng.choice(NAMES), rng.choice(NAMES)
    if depth == 0:
        return rng.choice([name, str(rng.randint(-2, 4)), "'q'", f"'''{name}\n\n  \t{other} '''", "g"])
    one, two, three = (expression(rng, depth - 1) for _ in range(3))
    return rng.choice(
        [
            f"({one} + {two})",
            f"({one} - {two})",
            f"({one} if {two} else {three})",
            f"[{one} for {name} in range(3)]",
            f"[{one} for {name} in range(2) for {other} in [{two}, {name}] if {three}]",
            f"{{{name}: {one} for {name} in range(2)}}",
            f"(lambda {name}: {one})({two})",
            f"(lambda {name}, {other}_={one}: {two})({three})",
            f"({name} := {one})",
            f"f'{{{name}}} {{{other}=}}'",
        ]
    )


def block(rng: random.Random, depth: int, indent: str) -> str:
    """Return statements; functions have names of their own, so that none calls itself."""
    lines: list[str] = []
    for _ in range(rng.randint(1, 3)):
        name, other, value = rng.choice(NAMES), rng.choice(NAMES), expression(rng, 2)
        deeper, made = indent + "    ", f"h{depth}"
        forms = [
            f"{name} = {value}",
            f"{name} = {value}  # {other}",
            f"{name} += {value}",
            f"{name}, {other} = 1, 2",
        ]
        if depth:
            body, rest = block(rng, depth - 1, deeper), block(rng, depth - 1, deeper)
            call, doc, back = (
                f"{indent}{other} = {made}(1)",
                f"{deeper}'''Say {other}.'''\n",
                f"{deeper}return {name}\n",
            )
            forms += [
                f"for {name} in range(3):\n{body}",
                f"if {value}:\n{body}\n{indent}else:\n{rest}",
                f"try:\n{body}\n{indent}except ValueError as {name}:\n{deeper}pass",
                f"def {made}({name}, {other}_={value}, *, key=1):\n{doc}{body}\n{back}{call}",
                f"def {made}({other}):\n{deeper}global {name}\n{body}\n{back}{indent}{name} = {made}(2)",
                f"class {name}:\n{deeper}{other} = {value}\n{deeper}def t(self, {name}): return {other}",
                f"match [1, {value}]:\n{deeper}case [{name}, *{other}]:\n{deeper}    {name} = {other}",
            ]
        lines.append(indent + rng.choice(forms))
    return "\n".join(lines)


def program(rng: random.Random) -> str:
    """Return a program with a function ``f`` of two arguments."""
    head = "g = 5\n" if rng.random() < 0.5 else ""
    last = f"    return [{', '.join(rng.sample(NAMES, 3))}, {expression(rng, 2)}]"
    head += rng.choice(["x = v1 = v2 = t = 3\n", "x = v2 = 4\n", ""])
    first = rng.choice(["", "    x = t = v1 = 1\n", "    x = g = 2\n"])
    return f"{head}def f(a, b):\n    'Add.'\n{first}{block(rng, 2, '    ')}\n{last}\n"


def outcomes(source: str) -> list[str]:
    """Run ``f`` on the inputs: what it returns, or how it fails; objects that show an address are alike."""
    names: dict[str, Any] = {}
    try:
        exec(compile(source, "made here", "exec"), names)
    except Exception as error:
        return [type(error).__name__]
    found: list[str] = []
    for one, other in INPUTS:
        try:
            found.append(repr(names["f"](one, other))[:2000])
        except Exception as error:
            found.append(type(error).__name__)
    return ["object" if "<" in each else each for each in found]


@pytest.mark.slow
@settings(max_examples=examples(60), deadline=None)
@given(rng=st.randoms(use_true_random=False))
def test_a_program_and_its_key_do_the_same(rng: random.Random) -> None:
    source = program(rng)
    expected = outcomes(source)
    key = CODE.key(source)
    assert key is not None
    assert outcomes(key) == expected, (source, key)
    assert CODE.key(key) == key or expected == ["SyntaxError"]
