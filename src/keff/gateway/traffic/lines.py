"""The log: one line of JSON each, with time and level first."""

from __future__ import annotations

import json
import logging
import sys
import time
from functools import lru_cache


@lru_cache(maxsize=1)
def clock(seconds: int) -> str:
    """Return a time in UTC; many lines are of one second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


class Lines(logging.Formatter):
    """Writes a record as one line of JSON; a message that is JSON already is not written anew."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = f"{clock(int(record.created))}.{int(record.msecs):03d}Z"
        head = f'{{"time":"{at}","level":"{record.levelname.lower()}",'
        message = record.getMessage()
        if not (message.startswith("{") and message.endswith("}") and len(message) > 2):
            message = json.dumps({"event": "server", "message": message})
        if record.exc_info:
            trace = json.dumps(self.formatException(record.exc_info))
            message = f'{message[:-1]}, "traceback": {trace}}}'
        return head + message[1:]


def log_to_stderr(quiet: bool) -> None:
    """Log to stderr; ``quiet`` leaves only warnings."""
    # No line says them, and looking them up is half the time of a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines())
    for name in ("keff.gateway", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.propagate = False
    logging.getLogger("keff.gateway").setLevel(logging.WARNING if quiet else logging.INFO)
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
