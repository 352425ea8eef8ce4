# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
"""Program inside the jail that runs a candidate and reports its return values as data.

Imported by the scorer for ``encode``, and sent as text to the jailed interpreter. It knows no expected
value, so a candidate that forges the report can say no more than a function that returns the same. Values
are written by their data: a subclass or an ``==`` of the candidate's own has no say. It is started for every
candidate, so it imports next to nothing: the request comes in marshal form, and the report needs no JSON
encoder because every content is written without quotes.
"""

from __future__ import annotations

import builtins
import marshal
import os
import sys
from itertools import islice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    Node = list[Any]
    """A value as [kind, content]: its content is text, or a list of nodes."""

# Elements of a result that are reported: an endless generator must end.
MOST_ELEMENTS = 10_000


def encode(value: Any) -> Node:
    """Return a value as [kind, content]; non-plain data becomes ``iter`` or ``other``.

    Integers and texts are hexadecimal, and so are floats, as by ``float.hex``. Kinds: none, int, float, str,
    bytes, list, tuple, set, dict; ``iter`` holds the elements of another iterable, ``other`` a description.
    """
    if value is None:
        return ["none", ""]
    for plain, kind, write in _PLAIN:
        if isinstance(value, plain):
            return [kind, write(value)]
    number = _exact(value)
    if number is not None:
        return number
    try:
        elements = list(islice(iter(value), MOST_ELEMENTS + 1))
    except TypeError:
        elements = None
    if elements is not None and len(elements) <= MOST_ELEMENTS:
        return ["iter", _each(elements)]
    # What has no form of its own votes by how it shows itself; addresses make those differ.
    return ["other", hexed(f"{type(value).__name__} {repr(value)[:200]}")]


def decode(node: Node) -> object:
    """Return the value of an encoded node; raises KeyError for non-data."""
    kind, content = node
    return _READ[kind](content)


def hexed(text: str) -> str:
    """Return a text as hexadecimal, also with lone surrogates."""
    return text.encode("utf-8", "surrogatepass").hex()


def unhexed(text: str) -> str:
    """Return the text of ``hexed``."""
    return bytes.fromhex(text).decode("utf-8", "surrogatepass")


def _each(values: Iterable[object]) -> list[Node]:
    return [encode(value) for value in values]


# The base class's own method reads the data, whatever a subclass says.
_PLAIN: tuple[tuple[type, str, Callable[[Any], object]], ...] = (
    (int, "int", lambda value: int.__format__(value, "x")),
    (float, "float", float.hex),
    (str, "str", lambda value: hexed(str.__str__(value))),
    (bytes, "bytes", bytes.hex),
    (list, "list", lambda value: _each(list.__iter__(value))),
    (tuple, "tuple", lambda value: _each(tuple.__iter__(value))),
    (set, "set", lambda value: _each(set.__iter__(value))),
    (frozenset, "set", lambda value: _each(frozenset.__iter__(value))),
    (dict, "dict", lambda value: [_each(pair) for pair in dict.items(value)]),
)
_READ: dict[str, Callable[[Any], object]] = {
    "none": lambda _: None,
    "int": lambda content: int(content, 16),
    "float": float.fromhex,
    "str": unhexed,
    "bytes": bytes.fromhex,
    "list": lambda content: [decode(each) for each in content],
    "tuple": lambda content: tuple([decode(each) for each in content]),
    "set": lambda content: {decode(each) for each in content},
    "dict": lambda content: {decode(key): decode(value) for key, value in content},
    "iter": lambda content: iter([decode(each) for each in content]),
}


def _exact(value: Any) -> Node | None:
    """Return a Decimal or Fraction as the equal int or float, if there is one."""
    try:
        top, bottom = value.as_integer_ratio()
        if bottom == 1:
            return encode(int(top))
        near = int(top) / int(bottom)
        return encode(near) if near.as_integer_ratio() == (top, bottom) else None
    except (AttributeError, ValueError, OverflowError, TypeError, ZeroDivisionError):
        return None


def returned(expression: str, names: dict[str, object]) -> Node:
    """Return an expression's encoded value, or the exception it raised."""
    try:
        return encode(eval(compile(expression, "<test>", "eval"), names))
    except BaseException as error:
        return ["raise", hexed(type(error).__name__)]


def answer(request: dict[str, Any]) -> list[Node]:
    """Return one node per call, after running the program in a module of its own.

    What the set-up lines import is bound before the program runs, for both. The calls see the builtins as
    they were before, those imports, and of the program what neither of them names, with the tested function:
    a program that has a ``set`` or ``sorted`` of its own keeps it, and is not judged by it.
    """
    builtin = dict(vars(builtins))
    imported: dict[str, object] = {}
    for source in request["setup"]:
        exec(compile(source, "<setup>", "exec", dont_inherit=True), imported)
    imported.pop("__builtins__", None)
    module = sys.modules["candidate"] = type(sys)("candidate")
    for name, node in request["values"].items():
        try:
            setattr(module, name, decode(node))
        except (KeyError, TypeError):
            continue
    module.__dict__.update(imported)
    entry, calls = request["entry"], request["calls"]
    exec(compile(request["code"], "<candidate>", "exec", dont_inherit=True), module.__dict__)
    defined = {name: value for name, value in vars(module).items() if name not in builtin or name == entry}
    return [returned(call, {**defined, **imported, "__builtins__": builtin}) for call in calls]


def main() -> None:
    """Serve one request from stdin; the candidate has empty stdin and discarded output."""
    request = marshal.loads(sys.stdin.buffer.read())
    report, null = os.dup(1), os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    try:
        text = repr(answer(request)).replace("'", '"').encode()
    except BaseException:
        os._exit(1)
    while text:
        text = text[os.write(report, text) :]
    os._exit(0)


if __name__ == "__main__":
    main()
