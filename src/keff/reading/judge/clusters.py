"""Clusters of answers that mean the same, which are then the vote keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from keff.reading.judge.jury import Jury


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
