"""The worker process of the space ``key``: runs the user's function, told its source in the first line.

Each further line is an answer; the reply is ``{"key": ...}`` (null abstains) or ``{"error": ...}``.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from keff.usercode import UserCode

# A key travels back as one line; longer ones are no keys.
LONGEST_KEY = 100_000


def loaded(path: str, function: str, source: str) -> Callable[[str], object]:
    """Return the function from its source, run as a module with its folder importable."""
    sys.path.insert(0, str(Path(path).resolve().parent))
    return UserCode(path, function, source.encode()).load()


def reply(function: Callable[[str], object], answer: str) -> dict[str, str | None]:
    """Return an answer's key, or the error, as JSON."""
    try:
        key = function(answer)
    except Exception as error:
        return {"error": f"the answer key raises {type(error).__name__}"}
    if key is not None and not isinstance(key, str):
        return {"error": f"the answer key returns {type(key).__name__}, not str or None"}
    if key is not None and len(key) > LONGEST_KEY:
        return {"error": f"the answer key returns more than {LONGEST_KEY:,} characters"}
    if key is not None and not key.isascii() and any("\ud800" <= each <= "\udfff" for each in key):
        return {"error": "the answer key returns half a surrogate pair"}
    return {"key": key}


def main() -> None:
    """Serve until standard input ends."""
    # What the function prints must not be taken for a reply.
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    function = loaded(**json.loads(sys.stdin.readline()))
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        print(json.dumps(reply(function, json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main()
