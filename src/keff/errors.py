"""The errors that keff raises.

KeffError                 any of the below; the command line prints its one line
├── UsageError            bad input or wrong use: exit code 2
│   ├── TaskError         a task, its data or its scorer does not fit
│   ├── PlanError         a plan file does not fit
│   ├── LogError          a recorded log cannot be read
│   ├── PolicyError       a policy or its parameters are wrong
│   ├── PluginError       an unknown name, or an extra that is not installed
│   └── StoreError        a run folder is corrupt, foreign or cannot be written (a full disk)
└── RunError              a failure while running: exit code 1
    ├── EngineError       the model or its server failed
    └── SandboxError      the sandbox cannot be trusted or is missing
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Characters of a wrong name that are compared and shown: names come from requests too.
LONGEST_NAME = 60


class KeffError(Exception):
    """Any error that keff raises on purpose; its text is one line that says what to do."""

    exit_code = 1


class UsageError(KeffError):
    """Bad input or wrong use."""

    exit_code = 2


class TaskError(UsageError):
    """A task, its data or its scorer does not fit."""


class PlanError(UsageError):
    """A plan file does not fit."""


class LogError(UsageError):
    """A recorded log cannot be read."""


class PolicyError(UsageError):
    """A policy or its parameters are wrong."""


class PluginError(UsageError):
    """An unknown plugin name, or an extra that is not installed."""


class StoreError(UsageError):
    """A run folder is corrupt, foreign or cannot be written."""


class RunError(KeffError):
    """A failure while running."""


class EngineError(RunError):
    """The model or its server failed.

    ``transient`` says whether trying the same request again may help; ``refused`` that the server refuses
    this request, and may take others (a prompt too long, a field it does not know).
    """

    def __init__(self, message: str, *, transient: bool = True, refused: bool = False) -> None:
        super().__init__(message)
        self.transient, self.refused = transient, refused


class SandboxError(RunError):
    """The sandbox cannot be trusted or is missing."""


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """Return the sentence for an unknown name, with the nearest known ones.

    The nearest name that is known, where one is near, then all.
    """
    from difflib import get_close_matches

    names, shown = list(known), name[:LONGEST_NAME]
    near = get_close_matches(shown.lower().replace("-", "_"), names, n=1)
    meant = f"did you mean {near[0]}? There are" if near else "there are"
    return f"unknown {what} {shown!r}; {meant}: {', '.join(names) or 'none'}"
