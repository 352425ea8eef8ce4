"""What keff prints of every small log, as ``{path of a field: value}``, kept in ``expected/``."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from command_line import keff
from tests.golden.small_logs import BAD, CASES, GOOD, KEY, PRICES, asked

EXPECTED = Path(__file__).parent / "expected"
# Commands with the logs they read.
COMMANDS = {
    "analyze": "a",
    "replay": "a",
    "noise": "a",
    "compare": "a b",
    "mix": "a b",
    "audit": "a b",
}
# Digits that are kept; numbers of another BLAS or libm differ in the last ones of a double.
DIGITS = 8
RELATIVE, ABSOLUTE = 1e-6, 1e-9

Fields = dict[str, object]


def names() -> list[str]:
    return [*CASES, "bad_files"]


def file_of(name: str) -> Path:
    return EXPECTED / f"{name}.json"


def printed(name: str, folder: Path) -> Fields:
    """Return what every command prints of one case, whose logs are written into ``folder``."""
    if name == "bad_files":
        return {key: value for kind in BAD for key, value in _refused(kind, folder / kind).items()}
    case = CASES[name]
    (folder / "prices.toml").write_text(PRICES)
    (folder / "keys.py").write_text(KEY)
    logs = dict[str, str]()
    for side in "ab":
        file = case.write(folder / f"{side}.jsonl", asked(name, side, case.space, *case.shape), side)
        logs[side] = str(file.relative_to(folder))
        if case.imported:
            keff("import", logs[side], "--run", side, cwd=folder)
            logs[side] = side
    found: Fields = {}
    for command, sides in COMMANDS.items():
        options = shlex.split(f"{case.options} {case.more.get(command, '')}")
        found |= _ran(command, [logs[side] for side in sides.split()] + options, folder)
    return found


def _refused(kind: str, folder: Path) -> Fields:
    """Return the refusal of a bad file: one where all commands give the same, else one for each."""
    folder.mkdir()
    name, content = BAD[kind]
    (folder / name).write_bytes(content)
    (folder / "b.jsonl").write_bytes(GOOD)
    said = {
        f"{kind}.{command}": _ran(command, [name, "b.jsonl"][: len(sides.split())], folder)
        for command, sides in COMMANDS.items()
    }
    first, *others = ({key.partition(".")[2]: value for key, value in one.items()} for one in said.values())
    return {kind: first} if all(other == first for other in others) else dict(said)


def _ran(command: str, arguments: list[str], folder: Path) -> Fields:
    done = keff(command, *arguments, "--json", cwd=folder)
    said: Fields = {f"{command}.exit": done.returncode} if done.returncode else {}
    if done.stderr:
        said[f"{command}.stderr"] = done.stderr.strip()
    return said | dict(_leaves(json.loads(done.stdout), command)) if done.stdout else said


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the fields of a JSON value: a list of plain values, or an interval, is one field."""
    inside = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    if not inside or not any(isinstance(each, dict | list) for each in inside):
        yield path, _rounded(value)
    elif isinstance(value, dict):
        for name, each in value.items():
            yield from _leaves(each, f"{path}.{name}")
    else:
        for place, each in enumerate(inside):
            yield from _leaves(each, f"{path}[{place}]")


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in sorted(value.items())}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def differences(before: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """Return one line for every field that is not as before."""
    lines = list[str]()
    for path in sorted({*before, *now}):
        if path not in now:
            lines.append(f"{path}: was {_text(before[path])}, is gone")
        elif path not in before:
            lines.append(f"{path}: new, {_text(now[path])}")
        elif not _same(before[path], now[path]):
            lines.append(f"{path}: {_text(before[path])} -> {_text(now[path])}")
    return lines


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _same(before: object, now: object) -> bool:
    if isinstance(before, bool) or isinstance(now, bool):
        return before is now
    if isinstance(before, int | float) and isinstance(now, int | float):
        return math.isclose(before, now, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    if isinstance(before, dict) and isinstance(now, dict):
        return before.keys() == now.keys() and all(_same(before[name], now[name]) for name in before)
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(map(_same, before, now))
    return before == now


def load(name: str) -> Fields:
    file = file_of(name)
    return json.loads(file.read_text("utf-8")) if file.exists() else {}


def save(name: str, found: Fields) -> None:
    """Write a field a line, sorted: two changes of one file then merge by themselves."""
    rows = ",\n".join(f"{_text(path)}: {_text(value)}" for path, value in sorted(found.items()))
    file_of(name).write_text(f"{{\n{rows}\n}}\n", "utf-8")
