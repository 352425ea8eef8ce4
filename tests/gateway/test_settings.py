"""How keff serve is told what to do: flags, KEFF_ variables, a TOML file; and what it logs and gives back."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app_rig import until
from fault_server import Script
from gateway_rig import QUESTION, Rig
from keff.cli._serve_options import read_settings
from keff.errors import UsageError
from keff.gateway.http.app import with_cors
from keff.gateway.server import Lines

pytestmark = pytest.mark.slow

Serve = Callable[..., Rig]


def check(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "keff", "serve", "--check", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        check=False,
    )


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "keff.toml"
    file.write_text(
        'upstream = "http://file:1"\npolicy = "fixed:4"\nmodel = "file"\nforward-header = ["x-a"]\n'
    )
    variables = {"KEFF_CONFIG": str(file), "KEFF_POLICY": "fixed:5", "KEFF_MODEL": "variable"}
    done = check("--model", "flag", **variables)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["upstream"], told["policy"], told["model"]) == ("http://file:1/v1", "fixed:5", "flag")


def test_settings_come_from_the_command_line_a_variable_or_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keff.toml"
    file.write_text(
        'upstream = "http://file:1"\nreply = "first"\nmax-paths = 9\nforward-header = ["x-a", "x-b"]\n'
    )
    monkeypatch.setenv("KEFF_MAX_PATHS", "7")
    monkeypatch.setenv("KEFF_TOOL_IGNORE", "time id")
    found = read_settings(
        ["upstream_n=3", "upstream-n=4", "cors_origin=https://a.b", "cors_origin=https://c.d"], file
    )
    assert (found.reply, found.max_paths, found.upstream_n) == ("first", 7, 4)
    assert (found.forward_header, found.tool_ignore) == (("x-a", "x-b"), ("time", "id"))
    assert found.cors_origin == ("https://a.b", "https://c.d")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('upsteam = "x"', "upstream"),
        ("upstream = ", "not TOML"),
        ('upstream = "http://x"\nport = 70000', "port"),
    ],
)
def test_a_wrong_file_is_refused_with_one_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "keff.toml").write_text(text)
    done = check("--config", str(tmp_path / "keff.toml"))
    assert done.returncode == 2
    assert line in done.stderr


def test_check_refuses_what_cannot_be_served() -> None:
    done = check("--upstream", "http://127.0.0.1:9", "--host", "0.0.0.0")
    assert (done.returncode, "--token-env" in done.stderr) == (2, True)
    with pytest.raises(UsageError, match="cors_origin"):
        read_settings(["cors_origin=*"], None)


def test_log_lines_are_json_with_time_and_level() -> None:
    def line(message: str, **more: Any) -> dict[str, Any]:
        record = logging.LogRecord("keff.gateway", logging.WARNING, "f", 1, message, None, **more)
        return json.loads(Lines().format(record))

    told = line('{"event": "x", "id": 7}', exc_info=None)
    assert (told["level"], told["event"], told["id"]) == ("warning", "x", 7)
    assert told["time"].endswith("Z")
    assert line('plain "text"', exc_info=None)["message"] == 'plain "text"'
    try:
        raise ValueError("no\nway")
    except ValueError:
        assert "ValueError" in line('{"event": "x"}', exc_info=sys.exc_info())["traceback"]


def test_a_request_line_says_what_it_was(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "keff.gateway")
    rig = serve(Script(answer=lambda *_: "42"), planless=True)
    rig.post()
    assert rig.post({"messages": []}).status_code == 400
    assert rig.post({"model": "m", "messages": QUESTION, "keff": {"policy": "no:1"}}).status_code == 400

    def request_lines() -> list[dict[str, Any]]:
        logged = [json.loads(r.getMessage()) for r in caplog.records if r.getMessage().startswith("{")]
        return [line for line in logged if line["event"] == "request"]

    until(lambda: len(request_lines()) == 3)  # a line is written after its answer is sent
    lines = request_lines()
    assert (lines[0]["model"], lines[0]["kind"], lines[0]["paths"]) == ("stub", "numeric", 3)
    assert lines[2]["error"] == "invalid_policy"


def test_all_paths_and_the_share_come_back(serve: Serve) -> None:
    answers = ["The answer is 8.", *["The answer is 7."] * 4]
    rig = serve(Script(answer=lambda _, seed: answers[seed]), planless=True)
    body = {"model": "m", "messages": QUESTION, "seed": 0}
    reply = rig.post({**body, "keff": {"return_paths": True}})
    told = reply.json()["keff"]
    assert [path["answer"] for path in told["all_paths"]] == ["8", "7", "7", "7", "7"]
    assert [path["message"]["content"] for path in told["all_paths"]] == answers
    assert (reply.headers["x-keff-share"], reply.headers["x-keff-paths"]) == ("0.8", "5")
    assert "all_paths" not in rig.post(body).json()["keff"]
    assert rig.post({**body, "keff": {"return_paths": 1}}).status_code == 400


@pytest.mark.anyio
async def test_cors_is_given_to_named_origins_only(serve: Serve) -> None:
    from keff.gateway.http.app import application
    from keff.gateway.http.security import Guard

    rig = serve(planless=True)
    front = with_cors(application(rig.service, Guard("token"), rig.views.show), ("https://app.example",))
    transport = httpx2.ASGITransport(app=front)  # type: ignore[arg-type]
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        asks = {"access-control-request-method": "POST", "origin": "https://app.example"}
        allowed = await client.options("/v1/chat/completions", headers=asks)
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        other = await client.options(
            "/v1/chat/completions", headers={**asks, "origin": "https://evil.example"}
        )
        assert "access-control-allow-origin" not in other.headers
        reply = await client.post("/v1/chat/completions", json={}, headers={"origin": "https://app.example"})
        assert reply.status_code == 401
