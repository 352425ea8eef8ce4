"""Sandbox for untrusted Python: no network, no host files, bounded time, memory and output.

In: program text. Out: how it ended, with its output.
Read ``_process`` (running a program), then ``_jail`` (what the jail allows).
"""

from keff.sandbox._process import Limits, preflight, run

__all__ = ["Limits", "preflight", "run"]
