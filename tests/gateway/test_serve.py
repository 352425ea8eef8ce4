"""keff serve as a process and as a command: it starts, drains, and refuses what cannot work with one line."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from fault_server import Script, running
from gateway_rig import QUESTION, make_plan, served
from keff.cli.serve import command
from keff.errors import KeffError, PlanError, RunError, UsageError
from keff.gateway.http.security import is_loopback
from keff.gateway.server import listening_socket
from keff.gateway.traffic.monitor import StateFile

pytestmark = pytest.mark.slow


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    make_plan().write(tmp_path / "plan.json")
    return tmp_path / "plan.json"


def test_it_drains_on_sigterm_and_keeps_its_state(plan: Path) -> None:
    script = Script(answer=lambda *_: "The answer is 7.", latency=1.0)
    with ExitStack() as stack:
        url = stack.enter_context(running(script))
        process, listening = stack.enter_context(served("--plan", plan, "--upstream", url))
        assert process.stderr is not None
        assert listening["event"] == "listening"
        replies: list[Any] = []
        body = {"messages": QUESTION}
        asking = threading.Thread(
            target=lambda: replies.append(httpx2.post(listening["url"] + "/chat/completions", json=body))
        )
        asking.start()
        while script.open < 3:
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        asking.join(10)
        assert replies[0].status_code == 200
        assert replies[0].json()["keff"]["answer"] == "7"
        assert process.wait(60) == 0
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    assert [(line["event"], line["status"]) for line in lines] == [("request", 200)]
    file = StateFile(plan.with_suffix(".drift.sqlite"))
    (row,) = file._db.execute("SELECT state FROM drift").fetchall()
    assert json.loads(row[0])["looks"]["seen"] == 1
    file.close()


@pytest.mark.parametrize(
    ("options", "error", "line"),
    [
        ({"host": "0.0.0.0"}, UsageError, "--token-env"),
        ({"host": "example.org"}, UsageError, "--token-env"),
        ({"token_env": "KEFF_NO_SUCH"}, UsageError, "no such variable"),
        ({"upstream_key_env": "KEFF_NO_SUCH"}, UsageError, "no such variable"),
        ({"upstream": ["ftp://x"]}, UsageError, "--upstream"),
        ({"upstream": ["http://user:word@x/v1"]}, UsageError, "--upstream-key-env"),
        ({"set": ["shadow_budget=2"]}, UsageError, "shadow_budget"),
        ({"set": ["reply=longest"]}, UsageError, "reply: "),
        ({"set": ["repyl=first"]}, UsageError, "did you mean reply"),
        ({"set": ["reply"]}, UsageError, "name=value"),
        ({"set": ["deadline=0"]}, UsageError, "deadline"),
        ({"set": ["max_paths=1000"]}, UsageError, "256"),
        ({"plan": Path("none.json")}, PlanError, "keff analyze"),
        ({"answer_space": "code"}, PlanError, "--answer-space"),
        ({"state": "/no/such/folder/state"}, UsageError, "--state"),
        ({"set": ["vote_log=/no/such/folder/log"]}, UsageError, "vote_log"),
        ({"workers": "4"}, UsageError, "several gateways behind a load balancer"),
        ({"set": ["redis=redis://x"]}, UsageError, "LiteLLM in front"),
    ],
)
def test_what_cannot_work_is_refused_with_one_line(
    plan: Path, options: dict[str, Any], error: type[KeffError], line: str
) -> None:
    given: dict[str, Any] = {"plan": plan, "upstream": ["http://127.0.0.1:9"], "port": 0, "state": "none"}
    with pytest.raises(error, match=line) as caught:
        command(**(given | options))
    assert "\n" not in str(caught.value)


def test_a_port_that_is_taken_is_a_failure_while_running(plan: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RunError, match=str(port)):
            command(plan=plan, upstream=["http://127.0.0.1:9"], port=port, state="none")


def test_the_token_comes_from_the_environment_and_is_not_shown(plan: Path) -> None:
    environment = os.environ | {"GATE": "top-secret"}
    arguments = ["serve", "--plan", plan, "--upstream", "http://127.0.0.1:9", "--host", "999.1.1.1"]
    done = subprocess.run(
        [sys.executable, "-m", "keff", *map(str, arguments), "--token-env", "GATE"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 1
    assert "top-secret" not in done.stderr + done.stdout
    assert done.stderr.startswith("keff: cannot listen on 999.1.1.1:8080")


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
        ("", False),
    ],
)
def test_loopback(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_replies_are_not_held_back_by_nagle() -> None:
    """A reply goes out in two pieces; asyncio sends them at once only on sockets whose protocol is named."""
    with contextlib.closing(listening_socket("127.0.0.1", 0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("starlette", "uvicorn", "prometheus_client", "h11"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
sys.argv[0] = "keff"
from keff.cli import main
main()
"""


def test_the_help_needs_no_extra_and_serving_names_it() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WITHOUT, "serve", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    shown = run("--help")
    assert shown.returncode == 0, shown.stderr
    assert "--upstream" in shown.stdout and "--workers" not in shown.stdout
    refused = run("--upstream", "http://127.0.0.1:9")
    assert refused.returncode == 2
    assert re.search(r"pip install .*\[serve\]'", refused.stderr)
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_gateway_holds_no_heavy_library(tmp_path: Path) -> None:
    """Memory is counted in these: SciPy alone is 17 MB of the 80 that a process may hold."""
    make_plan().write(tmp_path / "plan.json")
    code = (
        "import sys, numpy as np, keff.cli._serving as g; from pathlib import Path;"
        "from keff.plan import Plan;"
        "plan = Plan.read(Path(sys.argv[1])); address = g.Address(url='http://127.0.0.1:9/v1');"
        "served = g.Deployment(plan=plan, address=address, options=g.Options());"
        "g.check_only(served, np.random.default_rng());"
        "print([m for m in ('scipy', 'openai', 'httpx', 'pandas') if m in sys.modules])"
    )
    run = [sys.executable, "-c", code, str(tmp_path / "plan.json")]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
