"""What of the host the jail sees.

The interpreter, its standard library, and the shared libraries they load.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

_LISTED = re.compile(r"(/\S+) \(0x")
_LOADER = re.compile(r"(/\S*/ld[-.]\S*|/lib/ld-\S+) \(0x")
_INSTALLED = ("site-packages", "dist-packages")
# Modules no answer needs: a window toolkit alone would bring in twenty libraries.
_LEFT_OUT = ("_tkinter", "_test", "_ctypes_test")


def python() -> str:
    """Return the base interpreter, the one behind a virtual environment."""
    return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())


def library() -> Path:
    """Return the folder of the standard library."""
    return Path(
        sysconfig.get_path("stdlib", vars={"base": sys.base_prefix, "installed_base": sys.base_prefix})
    )


def installed() -> list[Path]:
    """Return the folders inside the standard library that hold other people's packages."""
    return [folder for name in _INSTALLED if (folder := library() / name).is_dir()]


@functools.cache
def shared_libraries() -> tuple[str, ...]:
    """Return the shared libraries that the interpreter and its extension modules load, with the loader.

    Asked once per process of the dynamic loader itself: which files it takes depends on its cache and on
    paths inside the binaries. Where it cannot be asked (another C library, a static interpreter), the
    system's library folders are returned instead.
    """
    listed = _run("ldd", python())
    loader = _LOADER.search(listed)
    if loader is None:
        return tuple(
            folder for folder in ("/usr/lib", "/usr/lib64", "/lib", "/lib64") if Path(folder).is_dir()
        )
    files = {*_LISTED.findall(listed)}
    for module in sorted((library() / "lib-dynload").glob("*.so")):
        if not module.name.startswith(_LEFT_OUT):
            files.update(_LISTED.findall(_run(loader[1], "--list", str(module))))
    return tuple(sorted(files))


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
