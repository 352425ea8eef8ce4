"""What a gateway's process carries: every module is paid for in memory by each worker."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"scipy", "openai", "pandas", "sympy", "rich"}


@pytest.mark.slow
def test_the_server_loads_nothing_that_only_analysis_needs() -> None:
    code = (
        "import atexit, sys, keff.gateway.server, keff.cli;"
        "atexit.register(lambda: print(*sys.modules));"
        "sys.argv = ['keff', 'serve', '--upstream', 'http://127.0.0.1:9/v1', '--check'];"
        "keff.cli.main()"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    packages = {name.partition(".")[0] for name in loaded.splitlines()[-1].split()}
    assert "starlette" in packages
    assert not HEAVY & packages


@pytest.mark.slow
def test_the_usual_rules_load_no_scipy() -> None:
    rules = ("lead_k:2", "curtailed:cap=8,in_flight=8,order=arrival", "adaptive_consistency:0.95", "budget:4")
    code = f"import sys, keff; [keff.parse_policy(rule) for rule in {rules}]; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not any(name.startswith("scipy.") for name in loaded.split())


@pytest.mark.slow
def test_the_command_loads_nothing_that_reads_logs() -> None:
    code = "import sys, keff.cli.serve; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"keff.reading", "keff.logs", "keff.analysis"} & set(loaded.split())
