"""Speed, robustness and agreement of answer extraction.

    python -m benchmarks.answers.extraction [--fuzz 1000000] [--disagreements]

Prints one table: extraction and scoring of 100,000 completions of GSM8K length, fuzz strings survived in
every answer space, the growth of time with text length, the rate of math-verify, and the agreement with the
recorded scores of real models.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.places import QUESTIONS, RECORDED
from keff.answers import Space, names, once, read, space
from keff.answers import math as _forms
from keff.answers.parts import workers
from keff.records import AnswerSpace

WORDS = r"""#### \boxed{ \frac{ } \frac12 \text{ $ $$ \( \) \[ \] \{ \} Answer: answer is final <think>
</think> <answer> </answer> [ANSWER] [/ANSWER] <|channel|>final<|message|> ** ``` ```python def (A) B) C. A
a I not yes no true 1 2,5 1,234 .5 1/2 -7 − % € 1e9 1e999 x= \sqrt \pi \pm \cup , ( ) [ ] ' " \ assert f(1)
== correct returns ٣ ½ １ : . - _ ^ \begin{pmatrix} & \\ \end{pmatrix} or and cm million option choose"""
BLANKS = ["\n", " ", "\0", "\u200f", "\ud800", "\u2028", "\u202f", "A plant", "x = ", "the answer is ", "é"]
PIECES = [*WORDS.split(), *BLANKS, " ", " "]

SPACES: list[tuple[str, AnswerSpace]] = [
    ("boinf_gpqa*", "choice"),
    ("boinf_aime*", "numeric"),
    ("renze_*", "choice"),
    ("woc_asdiv*", "numeric"),
    ("cruxeval_output*", "literal"),
    ("qwen25math*", "math"),
    ("boinf_math500*", "math"),
]


def completions(count: int) -> list[tuple[str, str]]:
    """Return completions of GSM8K length with their golds: real solutions, restated in several ways."""
    forms = (
        "{0}\n#### {1}",
        "{0}\nThe answer is {1}.",
        "{0}\n\\boxed{{{1}}}",
        "{0} So that makes ${1}.",
        "{0}\n**Answer:** {1}",
    )
    lines = (QUESTIONS / "gsm8k.jsonl").read_text("utf-8").splitlines()
    parts = [json.loads(line)["answer"].rpartition("\n#### ") for line in lines]
    return [
        (forms[i % 5].format(body * 3, gold), gold)
        for i in range(count)
        for body, _, gold in [parts[i % len(parts)]]
    ]


def report(name: str, value: str) -> None:
    print(f"{name:<58} {value}", flush=True)


def speed() -> None:
    texts = completions(100_000)
    numeric = space("numeric")
    length = sum(len(text) for text, _ in texts) // len(texts)
    began, right = time.process_time(), 0
    for text, gold in texts:
        found = numeric.extract(text)
        if found is not None and numeric.key(found.answer) is not None:
            right += numeric.correct(found.answer, gold)
    seconds = time.process_time() - began
    report(
        f"100,000 completions of {length} characters: extract, key, score",
        f"{seconds:.2f} s, {right:,} right",
    )
    print(f"claim: extract and score 100,000 GSM8K completions, one core | {seconds:.1f} s | under 5 s")


def fuzz(count: int, spaces: list[Space], label: str) -> None:
    """Draw strings, run one answer space on each in turn, and check that keys are canonical."""
    rng = random.Random(1)
    began, keyed, slowest = time.perf_counter(), 0, 0.0
    for i in range(count):
        each = spaces[i % len(spaces)]
        text = "".join(rng.choices(PIECES, k=rng.randint(1, 25)))
        start = time.process_time()
        found = each.extract(text, truncated=rng.random() < 0.2)
        key = each.key(found.answer if found else text)
        slowest = max(slowest, time.process_time() - start)
        if key is not None:
            keyed += 1
            if each.key(key) != key or not each.correct(key, key):
                raise SystemExit(
                    f"{each.name}: the key of {text!r} is {key!r}, whose own key is {each.key(key)!r}"
                )
    seconds = time.perf_counter() - began
    print(f"claim: {count:,} {label} | none crashed | none")
    report(f"{count:,} {label}", f"{seconds:.0f} s, {keyed:,} keys, slowest {slowest * 1e3:.0f} ms")


def every_space() -> list[Space]:
    """Return one space of each name that needs no function of the user."""
    options = {"label": "label:labels=yes,no,A plant", "list": "list:inner=numeric"}
    return [space(options.get(name, name)) for name in names() if name != "key"]


def documents(count: int) -> Iterator[str]:
    """Yield different JSON documents of about 1 kB, as models print them."""
    rng = random.Random(2)
    for i in range(count):
        order = {
            "id": i,
            "customer": {
                "name": f"Customer {rng.randint(0, 10**6)}",
                "city": rng.choice(["Oslo", "Rome", "Kyiv"]),
            },
            "items": [
                {
                    "sku": f"A-{rng.randint(0, 10**5)}",
                    "quantity": rng.randint(1, 9),
                    "price": rng.randint(1, 9999) / 100,
                }
                for _ in range(9)
            ],
            "note": "delivered between 9 and 12 [1]",
        }
        text = json.dumps(order, indent=2)
        yield f"Here is the order:\n\n```json\n{text}\n```\n" if i % 2 else text


def queries(distinct: int) -> list[str]:
    """Return different SQL answers with a join, a condition and a group."""
    return [
        f"```sql\nSELECT u.name, COUNT(*) AS n\nFROM users AS u JOIN orders o ON u.id = o.user_id\n"
        f"WHERE o.total > {i} GROUP BY u.name\nORDER BY n DESC LIMIT 10;\n```"
        for i in range(distinct)
    ]


def structured() -> None:
    """Time 100,000 different JSON answers, and 100,000 SQL answers of which 10,000 are different."""
    texts, js = list(documents(100_000)), space("json")
    began = time.process_time()
    keys = {read(js, text).key for text in texts}
    seconds = time.process_time() - began
    size = sum(map(len, texts)) // len(texts)
    report(f"100,000 different JSON answers of {size} characters", f"{seconds:.1f} s, {len(keys):,} keys")
    print(f"claim: read 100,000 different JSON answers, one core | {seconds:.1f} s | under 20 s")
    took: list[float] = []
    for text in texts[:2000]:
        start = time.perf_counter()
        read(js, text)
        took.append(time.perf_counter() - start)
    print(f"claim: time per path for JSON of {size} characters | {median(took) * 1e3:.3f} ms | under 0.2 ms")
    sql = space("sql")
    different = queries(10_000)
    reading = once(lambda text: read(sql, text))
    began = time.process_time()
    keys = {reading(different[i % len(different)]).key for i in range(100_000)}
    seconds = time.process_time() - began
    print(f"claim: read 100,000 SQL answers, 10,000 different | {seconds:.1f} s | under 20 s")
    report("100,000 SQL answers, 10,000 different", f"{seconds:.1f} s, {len(keys):,} keys")


def growth() -> None:
    units = ("the answer is ", "1,", r"\boxed{", "A B is ", "<think>", "x ", "٣", "```\n", "'", "(")
    for each in every_space():
        worst, slowest = 0.0, 0.0
        for unit in units:
            took = [_extracting(each, unit * (size // len(unit))) for size in (10**6, 10**7)]
            slowest = max(slowest, took[1])
            worst = max(worst, took[1] / max(took[0], 1e-3))
        report(
            f"{each.name}: 10 MB against 1 MB, worst of {len(units)} patterns",
            f"{worst:.1f} times, {slowest:.2f} s",
        )


def _extracting(each: Space, text: str) -> float:
    """Return the processor seconds of one extraction."""
    began = time.process_time()
    each.extract(text)
    return time.process_time() - began


def rows(pattern: str) -> Iterator[dict[str, Any]]:
    for path in sorted(RECORDED.glob(pattern)):
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def math_rate() -> None:
    distinct = {a for row in rows("boinf_math500*") for a in row["all_answers"] if a}
    math = space("math")
    math.key(r"\sqrt{2}+x")
    _forms.canonical_form.cache_clear()
    workers.sought.cache_clear()
    began = time.perf_counter()
    for answer in distinct:
        math.key(answer)
    seconds = time.perf_counter() - began
    turning = [a for a in distinct if (key := math.key(a)) is not None and math.key(key) != key]
    report(
        f"math: {len(distinct):,} distinct answers of real models",
        f"{len(distinct) / seconds:.0f} keys a second, {len(turning)} unstable",
    )


def agreement(show: bool) -> None:
    met: list[tuple[float, int, str]] = []
    for pattern, name in SPACES:
        agreed, total, wrong = 0, 0, Counter[tuple[str, ...]]()
        for row in rows(pattern):
            gold = row["gold_answer"]
            each: Space = space(name)
            if name == "choice":
                each = space(name, labels=tuple("12345" if gold.isdigit() else "ABCDE"))
            for answer, score in zip(row["all_answers"], row["all_correct"], strict=True):
                same = each.correct(answer or "", gold) == bool(score)
                agreed, total = agreed + same, total + 1
                if not same:
                    wrong[(row["id"], gold, answer or "", f"given {score}")] += 1
        met.append((agreed / total, total, f"{pattern} as {name}"))
        print(f"{pattern} as {name}: {100 * agreed / total:.3f}% of {total:,} recorded scores met")
        for case, count in wrong.most_common() if show else ():
            print("   ", count, *case, sep="\t")
    least, _, where = min(met)
    what = f"recorded scores met, least of {len(met)} sets, {sum(total for _, total, _ in met):,} answers"
    print(f"claim: {what} ({where}) | {100 * least:.2f}% | at least 98%")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fuzz", type=int, default=1_000_000)
    parser.add_argument("--disagreements", action="store_true", help="list every disagreement with its count")
    options = parser.parse_args()
    speed()
    agreement(options.disagreements)
    math_rate()
    structured()
    growth()
    fuzz(options.fuzz // 500, [space("math")], "fuzz strings in math with workers")
    workers.available = lambda: False  # a million strings for the worker would take hours
    _forms.canonical_form.cache_clear()  # what the worker said would be beside what is said without it
    fuzz(options.fuzz, every_space(), "fuzz strings in all spaces")


if __name__ == "__main__":
    main()
