"""What the live page shows over time, by key and model, and of the dearest requests: exact sums, bounded."""

from __future__ import annotations

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from keff.gateway.traffic.live import page
from keff.gateway.traffic.savings import Baseline, GatewayChange, Spent
from keff.gateway.traffic.traffic import DEAREST, MOST_NAMES, MOST_SPANS, History

TODAY = GatewayChange(Baseline("fixed:8", 8))


def spent(paths: int, key: str = "", model: str = "m", dollars: float | None = 1.0) -> Spent:
    return Spent(2.0, dollars, paths, 5.0, 100 * paths, id=f"r{paths}", key=key, model=model)


@given(st.lists(st.tuples(st.floats(-5, 10**7), st.integers(1, 64)), min_size=1, max_size=50))
@settings(max_examples=examples(40), deadline=None)
def test_spans_hold_every_request_once_however_long_it_takes(requests: list[tuple[float, int]]) -> None:
    history = History(since=0.0)
    for at, paths in requests:
        history.add(spent(paths), TODAY.of(spent(paths)), at)
        history.agreed(0.5, at)
    told = json.loads(json.dumps(history.told()))
    total = told["total"]
    drawn = sum(paths for _, paths in requests)
    assert len(told["spans"]) <= MOST_SPANS and total["voted"] == len(requests)
    assert (total["requests"], total["paths"], total["tokens"]) == (len(requests), drawn, 100 * drawn)
    assert total["saved_paths"] == 8 * len(requests) - drawn, "also where more is drawn than today"
    assert total["saved_seconds"] == 3 * len(requests)
    assert len(told["dearest"]) == min(DEAREST, len(requests))


def test_the_dearest_are_kept_in_order_and_names_are_bounded() -> None:
    history = History()
    for number in range(3 * MOST_NAMES):
        history.add(spent(1 + number, model=f"m{number}", dollars=float(number)), {}, history.since)
    told = history.told()
    dearest = [row["dollars"] for row in told["dearest"]]  # type: ignore[index, union-attr]
    assert dearest == [float(3 * MOST_NAMES - 1 - place) for place in range(DEAREST)]
    named = {row["model"]: row["requests"] for row in told["by_key_and_model"]}  # type: ignore[index, union-attr]
    assert len(named) == MOST_NAMES + 1 and named["others"] == 2 * MOST_NAMES


def test_what_a_cut_path_cost_is_no_part_of_what_a_path_costs_today() -> None:
    """Two paths of 100 tokens came and 30 tokens of a third: today's eight would be 800."""
    change = TODAY.of(Spent(1.0, 0.23, 2, None, tokens=230, cut_tokens=30, cut_dollars=0.03))
    assert (change["tokens"], round(change["dollars"], 9)) == (230 - 800, round(0.23 - 0.8, 9))


def test_the_page_has_a_chart_for_each_saving_and_nothing_of_a_client_unescaped() -> None:
    history = History()
    evil = "<script>alert(1)</script>"
    for paths in (3, 12):
        one = spent(paths, key="alice", model=evil)
        history.add(one, TODAY.of(one), history.since)
    drift = {"requests": 9, "alarms": {"looks": True}}
    html = page({"since": "now", "drift": drift, "warning": evil}, [], history).decode()
    assert html.count("<svg") == 5
    assert re.findall(r"<strong>(\S+)</strong> <span>paths saved", html)[0] == "1"
    assert 'class="w"><strong>drift: ALARM (looks)' in html
    assert "<script" not in html and "http" not in html
    empty = page({"since": "now"}, [], History()).decode()
    assert "None so far." in empty and empty.count("<svg") == 2
