"""Labelled pairs and how often a judge errs on them; clusters of answers that mean the same."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy.special import betaincinv

from keff.errors import LogError, UsageError
from keff.logs.parts.lines import json_lines
from keff.logs.parts.values import truth
from keff.reading.judge.jury import Jury
from keff.records import Interval, Result


@dataclass(frozen=True, slots=True)
class Clustered:
    """Answer -> the representative of its cluster: the first answer of it, in the order of the answers."""

    representative: Mapping[str, str]


async def cluster(jury: Jury, question: str, answers: Sequence[str]) -> Clustered:
    """Put each answer into the first cluster whose representative it agrees with, else into its own.

    Comparing with representatives alone takes m times the number of clusters instead of m squared requests,
    and makes an equivalence relation of verdicts that need not be one.
    """
    representative: dict[str, str] = {}
    for answer in dict.fromkeys(answers):
        heads = dict.fromkeys(representative.values())
        for head in heads:
            if await jury.same(question, head, answer):
                representative[answer] = head
                break
        else:
            representative[answer] = answer
    return Clustered(representative)


METHOD = "Clopper-Pearson 95%"
WORDS = {"same": "1", "different": "0", "yes": "1", "no": "0"}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers to a question, and whether they mean the same."""

    first: str
    second: str
    same: bool
    question: str = ""


@dataclass(frozen=True, slots=True)
class Reliability(Result):
    """How often a judge errs on labelled pairs.

    ``error`` is the share of all pairs; ``joined`` the share of different pairs that it calls the same, which
    makes wrong majorities; ``split`` the share of equal pairs that it calls different, which wastes votes.
    """

    pairs: int
    error: Interval
    joined: Interval | None
    split: Interval | None


def read_pairs(file: Path) -> list[Pair]:
    """Read labelled pairs: CSV with a header or JSON lines, with the names a, b, same and perhaps question.

    Raises LogError naming the line.
    """
    pairs = [_pair(where, row) for where, row in _rows(file)]
    if not pairs:
        raise LogError(f"{file}: it holds no pairs")
    return pairs


def _rows(file: Path) -> Iterator[tuple[str, dict[str, object]]]:
    try:
        if file.suffix in (".jsonl", ".json"):
            yield from json_lines(file)
            return
        with file.open(encoding="utf-8-sig", newline="") as lines:
            for number, row in enumerate(csv.DictReader(lines), 2):
                yield f"{file}:{number}", {**row}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"--pairs {file}: {getattr(error, 'strerror', None) or error}") from None


def _pair(where: str, row: dict[str, object]) -> Pair:
    a, b, same = row.get("a"), row.get("b"), row.get("same")
    if not isinstance(a, str) or not isinstance(b, str):
        raise LogError(f"{where}: a pair needs the texts a and b, and same (1 or 0)")
    said = WORDS.get(same.strip().lower(), same) if isinstance(same, str) else same
    try:
        return Pair(a, b, bool(truth(said)), str(row.get("question") or ""))
    except (TypeError, ValueError):
        raise LogError(f"{where}: same must be 1 or 0, not {str(same)[:40]!r}") from None


async def reliability(jury: Jury, pairs: Sequence[Pair]) -> Reliability:
    """Judge labelled pairs and return how often the verdict is wrong."""
    said = await asyncio.gather(*(jury.same(pair.question, pair.first, pair.second) for pair in pairs))
    joined = [verdict for verdict, pair in zip(said, pairs, strict=True) if not pair.same]
    split = [not verdict for verdict, pair in zip(said, pairs, strict=True) if pair.same]
    return Reliability(
        len(pairs),
        _share([*joined, *split]),
        _share(joined) if joined else None,
        _share(split) if split else None,
    )


def _share(wrong: Sequence[bool]) -> Interval:
    """Return the share of errors with its exact binomial interval (Clopper and Pearson 1934)."""
    n, k = len(wrong), sum(wrong)
    lo = 0.0 if k == 0 else float(betaincinv(k, n - k + 1, 0.025))
    hi = 1.0 if k == n else float(betaincinv(k + 1, n - k, 0.975))
    return Interval(k / n, lo, hi, METHOD)
