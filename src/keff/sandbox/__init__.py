"""Sandbox for untrusted Python: no network, no host files, bounded time, memory and output.

In: a program as text, and its limits. Out: what became of it and what it printed.
Read ``_process`` (one run, from outside), then ``_jail`` (what it may see).
"""

from keff.sandbox._process import Limits, ProcessOutcome, preflight, run

__all__ = ["Limits", "ProcessOutcome", "preflight", "run"]
