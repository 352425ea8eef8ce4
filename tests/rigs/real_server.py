"""A real OpenAI-compatible server on 127.0.0.1.

Llama.cpp with a small model, shared by a whole test session.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any


@cache
def real_server(file: Path, n_parallel: int = 8) -> Any:
    """Return the running server for a GGUF file; its ``listening_address`` is the URL without ``/v1``."""
    from keff.engines.llamacpp import LlamaCppSettings, open_server

    return open_server(file, LlamaCppSettings(n_ctx=512, n_parallel=n_parallel, threads=1))


def real_base_url(file: Path) -> str:
    """Return the base URL of the real server, started on first use."""
    return f"{real_server(file).listening_address}/v1"
