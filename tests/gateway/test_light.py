"""What a gateway's process carries: every module is paid for in memory by each worker."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"scipy", "openai", "pandas", "sympy", "rich"}


def test_the_server_loads_nothing_that_only_analysis_needs() -> None:
    code = "import sys, keff.gateway.server; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "starlette" in loaded.split()
    assert not HEAVY & set(loaded.split())
