"""The code of "Use keff from ..." runs as it stands, with the real packages, before a stub server."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from docs_pages import DOCS, REPO, blocks
from gateway_rig import gateway
from raw_server import given, raw_server

CLIENTS = Path(os.environ.get("KEFF_CLIENTS", REPO / ".venv-clients" / "bin" / "python"))
TOOLS = Path(os.environ.get("KEFF_TOOLS", REPO / ".venv-tools" / "bin" / "python"))
PAGE = DOCS / "integrations.md"
pytestmark = [
    pytest.mark.integration,
    pytest.mark.xdist_group("clients"),
    pytest.mark.skipif(
        not (CLIENTS.exists() and TOOLS.exists()), reason="make test-integration installs the tools"
    ),
]
SERVER, GATEWAY = "http://127.0.0.1:8000/v1", "http://127.0.0.1:8080/v1"
TASK = """
task: gsm8k
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "42"
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
filter_list: [{name: last, filter: [{function: regex, regex_pattern: "(\\\\d+)"}, {function: take_first}]}]
"""


def give(number: int, body: dict[str, Any]) -> list[bytes]:
    """Answer 42, at first 41: as a call of the tool, if there is one, or as the fields that DSPy asks for."""
    total = 41 if number % 5 == 0 else 42
    if tools := body.get("tools"):
        function = {"name": tools[0]["function"]["name"], "arguments": json.dumps({"response": total})}
        called = {"id": f"call_{number}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [called]}
        return given(choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}])
    marked = "[[ ## reasoning ## ]]\nSix sevens.\n\n[[ ## total ## ]]\n{}\n\n[[ ## completed ## ]]"
    usage = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    text = (marked if "[[ ##" in json.dumps(body) else "The answer is {}.").format(total)
    return given(text=text, created=1, usage=usage)


def ran(command: list[str], folder: Path) -> str:
    offline = {"NO_PROXY": "127.0.0.1", "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | offline, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_clients_and_litellm_get_the_answer_that_wins(tmp_path: Path) -> None:
    code = [block for block in blocks(PAGE, "python") if "inspect_ai" not in block]
    with raw_server(give) as url, gateway(url, planless=True) as rig:
        script = "\n".join(code).replace(SERVER, url).replace(GATEWAY, rig.url)
        said = ran([str(CLIENTS), "-c", script], tmp_path)
        answers = [line.split()[0].strip(".") for line in said.replace("The answer is ", "").splitlines()]
        assert answers == ["42"] * len(code), said
        assert rig.metric('keff_votes_total{stop="policy"}') == len(code) - 1


def test_an_evaluation_of_inspect_ai_votes(tmp_path: Path) -> None:
    (code,) = (block for block in blocks(PAGE, "python") if "inspect_ai" in block)
    with raw_server(give) as url:
        said = ran([str(TOOLS), "-c", code.replace(SERVER, url)], tmp_path)
    assert said.startswith("The answer is 42. {'42': ")


def test_a_task_of_the_harness_is_voted_on(tmp_path: Path) -> None:
    (command,) = blocks(PAGE, "bash")
    (tmp_path / "task.yaml").write_text(TASK)
    (tmp_path / "questions.jsonl").write_text('{"question": "How many is 6 times 7?"}\n' * 2)
    with raw_server(give) as url, gateway(url, planless=True) as rig:
        asked = shlex.split(command.replace("\\\n", " ").replace(GATEWAY, rig.url))
        own = ["--include_path", ".", "--output_path", "out"]
        ran([str(TOOLS.with_name(asked[0])), *asked[1:], *own], tmp_path)
        assert rig.metric('keff_votes_total{stop="policy"}') == 2
        assert rig.metric('keff_paths_total{became="voted"}') >= 6
    (written,) = tmp_path.glob("out/**/results_*.json")
    assert json.loads(written.read_text())["results"]["gsm8k"]["exact_match,last"] == 1
