"""The code of "Use keff from ..." runs as it stands, with the real packages, before a stub server."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from docs_pages import DOCS, REPO, blocks
from gateway_rig import gateway
from raw_server import given, raw_server

CLIENTS = Path(os.environ.get("KEFF_CLIENTS", REPO / ".venv-clients" / "bin" / "python"))
pytestmark = [pytest.mark.integration, pytest.mark.xdist_group("clients")]


def give(number: int, body: dict[str, Any]) -> list[bytes]:
    """Answer 42, at first 41: as a call of the tool, if there is one, or as the fields that DSPy asks for."""
    total = 41 if number % 5 == 0 else 42
    if tools := body.get("tools"):
        function = {"name": tools[0]["function"]["name"], "arguments": json.dumps({"response": total})}
        called = {"id": f"call_{number}", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [called]}
        return given(choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}])
    marked = "[[ ## reasoning ## ]]\nSix sevens.\n\n[[ ## total ## ]]\n{}\n\n[[ ## completed ## ]]"
    return given(
        text=(marked if "[[ ##" in json.dumps(body) else "The answer is {}.").format(total), created=1
    )


@pytest.mark.skipif(not CLIENTS.exists(), reason="no foreign clients: make test-integration installs them")
def test_the_code_of_the_page_gets_the_answer_that_wins(tmp_path: Path) -> None:
    code = [block for block in blocks(DOCS / "integrations.md", "python") if "inspect" not in block]
    with raw_server(give) as url, gateway(url, planless=True) as rig:
        script = "\n".join(code).replace("http://127.0.0.1:8000/v1", url)
        script = script.replace("http://127.0.0.1:8080/v1", rig.url)
        done = subprocess.run(
            [str(CLIENTS), "-c", script],
            cwd=tmp_path,
            env=os.environ | {"NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        answers = [
            line.split()[0].strip(".") for line in done.stdout.replace("The answer is ", "").splitlines()
        ]
        assert answers == ["42"] * len(code), done.stdout
        assert rig.metric('keff_votes_total{stop="policy"}') == len(code) - 1
