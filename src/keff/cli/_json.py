"""What commands print for programs: one JSON object on stdout, without loading what draws tables."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

from keff.records import plain


def print_json(value: Mapping[str, object]) -> None:
    """Print one JSON object on stdout; NaN and infinities become null."""
    sys.stdout.write(json.dumps(plain(value), ensure_ascii=False, allow_nan=False) + "\n")
