"""Grammar of policy strings: ``name``, ``name:value`` or ``name:value,key=value,...``, and branches.

Commas and equals signs inside parentheses belong to the value:
``cascade:SMALL(lead_k:2,cap=3)/LARGE(fixed:8)`` is one value of the policy ``cascade``. Nothing here makes a
policy, so a string can be checked against a limit before its table, which grows with the cube of the cap, is
built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from keff.errors import PolicyError
from keff.records import frozen

Scalar = int | float | str

# The most paths a policy draws unless its spec says otherwise (the paper's K_max).
DEFAULT_CAP = 32

# The largest cap: the table of a rule has (cap + 1) cubed cells.
MAX_CAP = 256

# Policies whose value is the most paths that they draw.
COUNTED = frozenset(("fixed", "retry"))

# Every whole float up to this one is the integer that it shows.
_EXACT = 2**53


def check_cap(name: str, cap: object) -> int:
    """Return the cap as an integer from 1 to 256; raises PolicyError."""
    if isinstance(cap, bool) or not isinstance(cap, int) or not 1 <= cap <= MAX_CAP:
        raise PolicyError(f"{name}: cap must be an integer from 1 to {MAX_CAP}, not {cap!s:.40}")
    return cap


@frozen
class PolicySpec:
    """A parsed, unchecked policy string: name, value and options.

    ``str()`` writes it so that ``parse`` reads the same again. ``fixed`` is the one policy whose value is the
    number of paths: there ``with_cap`` lowers the value.
    """

    name: str
    value: Scalar | None = None
    options: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar], hash=False)

    @classmethod
    def parse(cls, text: str) -> PolicySpec:
        """Return the spec of a policy string; surrounding whitespace is dropped.

        Raises PolicyError for an option without ``=``, one that is given twice, or unbalanced parentheses.
        """
        name, _, rest = text.partition(":")
        value: Scalar | None = None
        options: dict[str, Scalar] = {}
        for position, part in enumerate(filter(str.strip, _outside(rest, ",", text))):
            key, *written = _outside(part, "=", text)
            if not written and position == 0:
                value = _scalar(key)
                continue
            if not written:
                raise PolicyError(f"policy {text!r:.80}: write {part.strip()!r:.40} as key=value")
            key = key.strip()
            if key in options or (key == "value" and value is not None):
                raise PolicyError(f"policy {text!r:.80}: {key:.40} is given twice")
            options[key] = _scalar("=".join(written))
        return cls(name.strip(), options.pop("value", value), options)

    def __str__(self) -> str:
        """Return the canonical policy string."""
        head = self.name if self.value is None else f"{self.name}:{option_text(self.value)}"
        shown = ",".join(f"{key}={option_text(option)}" for key, option in self.options.items())
        joint = ":" if self.value is None else ","
        return f"{head}{joint}{shown}" if shown else head

    @property
    def cap(self) -> Scalar:
        """The cap as written, not yet checked to be a number."""
        if self.name in COUNTED and self.value is not None:
            return self.value
        return self.options.get("cap", DEFAULT_CAP)

    def with_cap(self, cap: int) -> PolicySpec:
        """Return the policy with this cap; ``fixed:8`` becomes ``fixed:5`` at 5, and stays at 9."""
        options = dict(self.options)
        if isinstance(flight := options.get("in_flight"), int):
            options["in_flight"] = min(flight, cap)
        if self.name not in COUNTED:
            return replace(self, options={**options, "cap": cap})
        given = options.pop("cap", DEFAULT_CAP)
        most = given if self.value is None else self.value
        lower = not isinstance(most, str) and most > cap
        return replace(self, value=cap if lower else most, options=options)


def format_spec(
    name: str, value: Scalar | None = None, *, cap: int = DEFAULT_CAP, **options: Scalar | None
) -> str:
    """Return a policy string; the default cap of 32 and options that are None are omitted.

    Raises PolicyError for a cap that is none.
    """
    given = {key: option for key, option in options.items() if option is not None}
    return str(
        PolicySpec(name, value, given if check_cap(name, cap) == DEFAULT_CAP else {**given, "cap": cap})
    )


def _outside(part: str, sign: str, text: str) -> Iterator[str]:
    """Split at every ``sign`` that stands outside parentheses."""
    depth = start = 0
    for place, mark in enumerate(part):
        depth += (mark == "(") - (mark == ")")
        if depth < 0:
            break
        if mark == sign and depth == 0:
            yield part[start:place]
            start = place + 1
    if depth:
        raise PolicyError(f"policy {text!r:.80}: its parentheses do not match")
    yield part[start:]


def _scalar(text: str) -> Scalar:
    """Return a number where the text is one, ``8.0`` as the integer 8."""
    bare = text.strip()
    # Python reads other scripts' digits and underscores as numbers too: a reader of the spec does not.
    if not bare.isascii() or "_" in bare:
        return bare
    try:
        number = float(bare)
    except ValueError:
        return bare
    return int(number) if number.is_integer() and abs(number) <= _EXACT else number


def option_text(option: Scalar) -> str:
    """Return an option in the shortest form that parses to the same value."""
    return repr(option).removesuffix(".0") if isinstance(option, float) else str(option)


# Names hold none of the signs of the grammar: comma, sign of equality, slash, brackets.
NAME = re.compile(r"[\w.-]+")
PART = re.compile(r"([\w.-]+)\(([^()]*)\)")


def parts_of(policy: str, value: object) -> list[tuple[str, str]]:
    """Return the (name, content) pairs of ``SMALL(lead_k:2,cap=3)/LARGE(fixed:1)``.

    Raises PolicyError for anything else, and for a duplicate name.
    """
    if not isinstance(value, str) or not value:
        raise PolicyError(f"{policy} needs its branches: {policy}:SMALL(...)/LARGE(...)")
    parts: list[tuple[str, str]] = []
    for text in value.split("/"):
        match = PART.fullmatch(text.strip())
        if match is None:
            raise PolicyError(
                f"{policy}: write {text!r} as NAME(...), with letters, digits, '_', '.' or '-' in NAME"
            )
        parts.append((match[1], match[2]))
    names = [name for name, _ in parts]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise PolicyError(f"{policy}: duplicate branch {repeated}; a question never returns to a branch")
    return parts


def branch_name(text: str) -> str:
    """Return any text as a branch name, invalid characters replaced by '-'."""
    return "-".join(NAME.findall(text)) or "branch"
