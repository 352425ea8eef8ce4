"""Run untrusted Python in a jail: no network, no files of the host, bounded time, memory and output."""

from keff.sandbox._process import Limits, ProcessOutcome, preflight, run

__all__ = ["Limits", "ProcessOutcome", "preflight", "run"]
