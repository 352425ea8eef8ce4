"""The facade holds what it says, loads it lazily, and stays small."""

from __future__ import annotations

import subprocess
import sys

import keff


def test_every_exported_name_is_there_and_lazily_known() -> None:
    assert sorted(keff._HOME) == keff.__all__ == sorted(keff.__all__)
    for name in keff.__all__:
        assert getattr(keff, name).__module__.startswith("keff.")


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, keff; print([m for m in ('numpy', 'scipy', 'openai', 'pydantic') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(keff, "nonsense")
