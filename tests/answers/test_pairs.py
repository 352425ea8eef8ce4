"""Tables of texts as users have them, in pairs/: what is read of each, which are equal and which are not.

All texts of one class have one key, and no two classes share one: each file is a table of hundreds of pairs.
"""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from keff.answers import Space, read, space

FILES = sorted((Path(__file__).parent / "pairs").glob("*.json"))
Table = dict[str, list[dict[str, object]]]


def table(file: Path) -> tuple[Space, list[tuple[str | None, list[str]]], list[list[str]], list[list[str]]]:
    content = json.loads(file.read_text("utf-8"))
    texts = [(row["key"], row["texts"]) for row in content["texts"]]
    return space(content["spec"]), texts, content["equal"], content["different"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_text_is_read_as_it_is_meant(file: Path) -> None:
    each, texts, equal, different = table(file)
    wrong = [
        (text, key, read(each, text)) for key, some in texts for text in some if read(each, text).key != key
    ]
    assert not wrong
    for forms in equal:
        keys = {form: read(each, form).key for form in forms}
        assert len(set(keys.values())) == 1, keys
        assert None not in keys.values(), keys
    for one, other in different:
        assert read(each, one).key != read(each, other).key, (one, other)
    firsts = [forms[0] for forms in equal]
    assert len({read(each, first).key for first in firsts}) == len(firsts)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_table_has_a_hundred_pairs_of_both_kinds(file: Path) -> None:
    _, texts, equal, different = table(file)
    classes = [some for key, some in texts if key is not None] + equal
    pairs = sum(len(some) * (len(some) - 1) // 2 for some in classes)
    apart = sum(len(one) * len(other) for one, other in combinations(classes, 2)) + len(different)
    assert pairs + apart >= 100
    assert min(pairs, apart) >= 15
