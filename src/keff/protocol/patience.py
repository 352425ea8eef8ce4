"""How long to wait before a request is made again."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def asked_wait(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds that a server asks to wait, or None.

    ``headers`` have names in lower case, or ignore it.

    ``Retry-After`` is a number of seconds or a date (RFC 9110, 10.2.3); ``retry-after-ms`` is OpenAI's own.
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        given = headers.get(name)
        if given is None:
            continue
        try:
            seconds = float(given) * unit
        except ValueError:
            seconds = _until(given, time.time() if now is None else now)
        if seconds is not None and math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _until(date: str, now: float) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return None


# A server that asks for a longer wait is waited for no longer than this.
LONGEST_ASKED = 60.0


def pause(
    tries: int, asked: float | None, *, first: float, longest: float, obeyed: float = LONGEST_ASKED
) -> float:
    """Return the seconds to wait after so many tries (from 1) of one request.

    What the server asked for, up to ``obeyed``, and a little more at random, because it asked all for the
    same. Else half of ``first`` times 2^(tries - 1), at most ``longest``, and up to as much again at
    random: requests that failed together do not come back together.
    """
    if asked:
        return min(obeyed, asked * random.uniform(1.0, 1.1))
    return min(first * 2.0 ** min(tries - 1, 60), longest) * random.uniform(0.5, 1.0)
