"""Without a plan: is the kind of answer found that a record has, and does the vote come out the same?

``python -m benchmarks.gateway.kinds [--questions 100]``

Recorded answers of real models stand as replies to requests, as they are and as ``Final answer: ...``; a
path that abstained says that it does not know. The gateway finds the kind of each request on its first three
paths. A vote of seven paths is compared with that of the record's own keys, where it is not tied: the paths
that hold the record's winner must win. The records hold no whole texts, so texts are the worked solutions of
GSM8K and MATH.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from benchmarks.places import QUESTIONS, RECORDED
from keff.gateway.vote.kinds import SETTLED, KindReader, Settlement, asked

PATHS = 7
UNKNOWN = "I do not know what the answer to this could possibly be."
FAMILIES = {"choice": ("renze", "mmlupro", "boinf_gpqa"), "number": ("boinf_aime", "boinf_math")}
OPTIONS = {"renze": "ABCDE", "mmlupro": "ABCDEFGHIJ", "boinf_gpqa": "ABCD"}
READER = KindReader()


def prompt(family: str) -> dict[str, Any]:
    """Return a request that lists the options where there are any."""
    options = "\n".join(f"{letter}) something" for letter in OPTIONS.get(family, ""))
    return {"messages": [{"role": "user", "content": f"Solve the problem.\n{options}"}]}


def replies(answers: list[str | None], form: str) -> list[dict[str, Any]]:
    """Return paths that say these answers; None says that it does not know."""
    texts = [UNKNOWN if text is None else form.format(text) for text in answers]
    return [{"message": {"role": "assistant", "content": text}} for text in texts]


def read(paths: list[dict[str, Any]], family: str = "") -> tuple[str | None, list[str | None]]:
    """Return the kind that is found and the votes."""
    about = asked(prompt(family))
    readings = [READER.read(path, about).readings or {} for path in paths]
    settlement = Settlement()
    settlement.settle(readings)
    return settlement.kind, [settlement.key(reading) for reading in readings]


def winner(keys: list[str | None]) -> frozenset[int] | None:
    """Return the places of the paths that hold the most frequent key; None for a tie or no key."""
    counts = Counter(key for key in keys if key is not None).most_common(2)
    if not counts or (len(counts) > 1 and counts[0][1] == counts[1][1]):
        return None
    return frozenset(place for place, key in enumerate(keys) if key == counts[0][0])


def records(family: str, questions: int) -> Iterator[list[str | None]]:
    """Yield the first answers of each question of a family."""
    for file in sorted(RECORDED.glob(f"{family}*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for _, line in zip(range(questions), lines, strict=False):
                answers = json.loads(line)["all_answers"][:PATHS]
                yield [None if answer in (None, "") else str(answer) for answer in answers]


def recorded(expected: str, family: str, form: str, questions: int) -> str:
    """Return what was found for one family in one form."""
    kinds: Counter[str] = Counter()
    same = compared = 0
    for answers in records(family, questions):
        kind, keys = read(replies(answers, form), family)
        kinds[kind or "free text"] += 1
        mine, theirs = winner(keys), winner(answers)
        if theirs is not None:
            compared += 1
            # A vote may join answers that the record holds apart (1/2 and 0.5), never part them.
            same += mine is not None and theirs <= mine
    share = kinds[{"number": "numeric"}.get(expected, expected)] / max(1, kinds.total())
    print(f"{family:12} {form!r:24} {dict(kinds.most_common())}; same winner {same} of {compared}")
    return f"{share:.0%} {expected}, same winner {same / max(1, compared):.1%}"


def solutions(name: str, field: str, questions: int) -> None:
    """Read worked solutions, which state their answer at the end."""
    kinds: Counter[str] = Counter()
    with (QUESTIONS / name).open(encoding="utf-8") as lines:
        for _, line in zip(range(questions), lines, strict=False):
            kind, _ = read(replies([json.loads(line)[field]] * SETTLED, "{}"))
            kinds[kind or "free text"] += 1
    print(f"{name:24} {dict(kinds.most_common())}")
    found = 1 - kinds["free text"] / max(1, kinds.total())
    print(
        f"claim: kind found without a plan, solutions of {name} | {found:.1%} hold an answer | at least 95%"
    )


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=100, help="of each record")
    arguments = parser.parse_args()
    for expected, families in FAMILIES.items():
        for family in families:
            for form in ("{}", "Final answer: {}"):
                told = recorded(expected, family, form, arguments.questions)
                print(f"claim: kind found without a plan, {family} as {form!r} | {told} | same winner in 99%")
    solutions("gsm8k.jsonl", "answer", arguments.questions)
    solutions("math500.jsonl", "solution", arguments.questions)


if __name__ == "__main__":
    main()
