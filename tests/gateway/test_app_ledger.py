"""Shadows, the vote log and the metrics: what the gateway writes down."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest

from app_rig import Serve, ask, says, until
from fault_server import Script
from gateway_rig import Options, make_plan
from keff.plan import Profile
from keff.reading.open import Opening, open_record
from keff.stats.voting.correlation import agreement


def test_shadows_are_drawn_on_after_the_reply_and_logged(serve: Serve, tmp_path: Path) -> None:
    script = Script(answer=says("7", "7", "7", "8"))
    log = tmp_path / "votes.jsonl"
    # Half of 6 paths is what a reply costs: a budget of one draws every request on, once the mean is known.
    rig = serve(script, options=Options(shadow_budget=1.0, shadow_paths=6), vote_log=log)
    for _ in range(2):
        assert ask(rig).model_extra["keff"]["paths"] == 3
    until(lambda: len(log.read_text().splitlines()) == 2)
    *_, row = (row for row in map(json.loads, log.read_text().splitlines()) if row["shadow"])
    assert row["all_answers"] == ["1", "1", "1", "2", "1", "1"]
    assert (row["paths"], row["shadow"]) == (3, True)
    assert rig.metric('keff_paths_total{became="shadow"}') in (3, 6)


@pytest.mark.slow
def test_the_shadow_budget_is_the_share_of_the_paths_that_are_drawn_for_nobody(serve: Serve) -> None:
    rig = serve(
        Script(answer=says("7")),
        plan=make_plan("lead_k:2"),
        options=Options(shadow_budget=0.25, shadow_paths=6),
    )
    for _ in range(300):
        rig.post()
    until(lambda: not rig.service.shadows.running)
    voted = rig.metric('keff_paths_total{became="voted"}')
    shadow = rig.metric('keff_paths_total{became="shadow"}')
    assert voted == 600
    # 300 times 4 further paths with probability 1/8: 150 on average, with a standard deviation of 23.
    assert 150 - 4 * 23 < shadow < 150 + 4 * 23


def test_where_one_path_may_do_the_shadows_feed_the_drift_alarm(serve: Serve) -> None:
    rig = serve(
        Script(answer=says("7")),
        plan=make_plan("fixed:1", profile=Profile(paths=8, votes=((8,),) * 90 + ((7, 1),) * 10)),
        options=Options(shadow_budget=1.0, shadow_paths=4),
    )
    monitor = rig.monitor
    assert monitor is not None
    assert (monitor.m, monitor.shadow_only) == (4, True)

    def seen() -> bool:
        rig.post()
        return monitor.seen > 0

    until(seen)


def test_the_vote_log_is_redacted_and_read_by_analyze(serve: Serve, tmp_path: Path) -> None:
    script = Script(
        answer=lambda messages, seed: f"The answer is {(seed * len(messages[0]['content'])) % 3}."
    )
    for name, answers in (("redacted", False), ("open", True)):
        log = tmp_path / f"{name}.jsonl"
        rig = serve(script, plan=make_plan("fixed:4"), vote_log=log, vote_log_answers=answers)
        for length in range(1, 7):
            rig.post({"messages": [{"role": "user", "content": "x" * length}], "seed": 0})
        text = log.read_text()
        assert "xxx" not in text
        assert ('"0"' in text) == answers
        # Questions whose length is a multiple of 3 agree fully; the others give 0 1 2 0 or 0 2 1 0.
        votes = open_record(log, Opening()).ballot.votes
        assert (votes.n, votes.k, votes.correct) == (6, 4, None)
        assert agreement(votes) == pytest.approx((2 * 1 + 4 / 6) / 6)


def test_a_full_disk_does_not_fail_the_request(serve: Serve) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    rig = serve(Script(answer=says("7")), vote_log=full)
    assert rig.post().status_code == 200
    assert rig.metric("keff_vote_log_errors_total") == 1


def test_the_metrics_add_up(serve: Serve) -> None:
    rig = serve(Script(answer=says("7")))
    for _ in range(3):
        rig.post()
    rig.post({"messages": []})
    assert rig.metric('keff_requests_total{status="200"}') == 3
    assert rig.metric('keff_requests_total{status="400"}') == 1
    assert rig.metric('keff_paths_total{became="voted"}') == 9
    assert rig.metric('keff_tokens_total{kind="prompt"}') == 63
    assert rig.metric('keff_request_paths_bucket{le="3.0"}') == 3
    assert rig.metric('keff_request_paths_bucket{le="2.0"}') == 0
    assert rig.metric("keff_drift_requests_total") == 3
    assert rig.metric("keff_requests_in_flight") == 0
    text = httpx2.get(rig.url.removesuffix("/v1") + "/metrics").text
    for line in text.splitlines():
        assert line.startswith("# ") or len(line.rsplit(" ", 1)) == 2
    named = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(named) == len(set(named))
