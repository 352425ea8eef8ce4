"""The chart libraries that a page carries, as one script."""
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager

import vl_convert

SNIPPET = "window.vegaEmbed=vegaEmbed;"

_bundles: list[str] = []  # The bundle, once it was made: it is the same for every page.


def make_bundle() -> str:
    """Return the chart libraries as one script."""
    if not _bundles:
        _bundles.append(vl_convert.javascript_bundle(SNIPPET))
    return _bundles[0]


@contextmanager
def bundle_beside() -> Generator[Callable[[], str]]:
    """Make the bundle in a process beside this one, and give a function that waits for it.

    It takes two seconds of one processor and holds the interpreter's lock, so a thread would gain nothing.
    """
    if _bundles:
        yield make_bundle
        return
    code = (
        f"import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle({SNIPPET!r}).encode())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:

        def wait() -> str:
            text = process.communicate()[0].decode("utf-8")
            _bundles.extend([text] if process.returncode == 0 else [])
            return make_bundle()

        try:
            yield wait
        finally:
            process.kill()
