"""The real sandbox and a task whose programs run in it."""

from __future__ import annotations

import os

import pytest

from keff.plugins import load
from keff.sandbox import Limits
from keff.tasks.mbpp import Mbpp

GOLD = {"imports": [], "tests": ["assert f(2) == 4", "assert f(7) == 49"]}
SHORT = Limits(seconds=1.5, cpu=1, file_bytes=(8 << 20) + os.getpid())
"""The odd file size marks the command lines of this test's jails."""


needs_bwrap = pytest.mark.usefixtures("bwrap")


def mbpp(limits: Limits = SHORT) -> Mbpp:
    task: Mbpp = load("task", "mbpp")
    task.limits = limits
    return task
