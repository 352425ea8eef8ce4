"""Prices and dollars."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keff.errors import UsageError
from keff.sampling.cost import Price, Usage, price_of
from keff.sampling.price_table import read_prices

TABLE = {"gpt": Price(prompt=2, output=8), "gpt-mini": Price(prompt=0.5, output=2, cached=0.1)}


def test_dollars_count_cached_prompts_at_their_own_price() -> None:
    used = Usage(prompt=1_000_000, cached=400_000, output=100_000)
    assert used.dollars(TABLE["gpt-mini"]) == pytest.approx(0.6 * 0.5 + 0.4 * 0.1 + 0.1 * 2)
    assert used.dollars(TABLE["gpt"]) == pytest.approx(2 + 0.8)


@given(st.integers(0, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_dollars_add_up(a: int, b: int, c: int) -> None:
    price = Price(prompt=3, output=15, cached=0.3)
    whole = Usage(a + b, min(a, c), c).dollars(price)
    parts = Usage(a, min(a, c), 0).dollars(price) + Usage(b, 0, c).dollars(price)
    assert whole == pytest.approx(parts)


def test_the_longest_fitting_name_wins_and_unknown_is_none() -> None:
    assert price_of("gpt-mini-2026", TABLE) == TABLE["gpt-mini"]
    assert price_of("gpt-4", TABLE) == TABLE["gpt"]
    assert price_of("claude", TABLE) is None
    assert price_of(None, TABLE) is None


def test_a_price_table_reads_back(tmp_path: Path) -> None:
    file = tmp_path / "prices.toml"
    file.write_text('["gpt-mini"]\nprompt = 0.5\noutput = 2\ncached = 0.1\n')
    assert read_prices(file) == {"gpt-mini": TABLE["gpt-mini"]}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[x", "not TOML"),
        ("[m]\nprompt = 1\n", "output"),
        ("[m]\nprompt = -1\noutput = 2\n", "prompt"),
        ("[m]\nprompt = 1\noutput = 2\nper = 3\n", "per"),
    ],
)
def test_a_bad_table_says_what_is_wrong(tmp_path: Path, text: str, line: str) -> None:
    file = tmp_path / "prices.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=line):
        read_prices(file)
    with pytest.raises(UsageError, match="No such file"):
        read_prices(tmp_path / "none.toml")
