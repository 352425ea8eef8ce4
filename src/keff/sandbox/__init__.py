"""Sandbox for untrusted Python: no network, no host files, bounded time, memory and output."""

from keff.sandbox._process import Limits, ProcessOutcome, preflight, run

__all__ = ["Limits", "ProcessOutcome", "preflight", "run"]
