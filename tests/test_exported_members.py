"""The facade holds what it says, loads it lazily, and stays small."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import keff
from keff.errors import PluginError

SCRIPTS = (".__main__", "._boot", "._probe")
"""Files that do their work when they are imported."""


def test_every_exported_name_is_there_and_lazily_known() -> None:
    assert sorted(keff._HOME) == keff.__all__ == sorted(keff.__all__) == dir(keff)
    for name in keff.__all__:
        assert getattr(keff, name).__module__.startswith("keff.")


@pytest.mark.slow
def test_no_module_takes_the_place_of_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing a module sets an attribute on its package, whatever stood there before."""
    for heavy in ("torch", "transformers", "vllm", "ray", "datasets"):
        monkeypatch.setitem(sys.modules, heavy, None)  # Leaf files import them; seconds each.
    before = {name: getattr(keff, name) for name in keff.__all__}
    missing: list[str] = []
    for module in pkgutil.walk_packages(keff.__path__, "keff.", onerror=missing.append):
        if module.name.endswith(SCRIPTS):
            continue
        try:
            importlib.import_module(module.name)
        except (ImportError, PluginError):
            missing.append(module.name)
    assert len(missing) < 20, missing
    assert [name for name in keff.__all__ if getattr(keff, name) is not before[name]] == []
    modules = {module.name for module in pkgutil.iter_modules(keff.__path__)}
    assert modules & set(keff.__all__) == set()


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, keff; print([m for m in ('numpy', 'scipy', 'openai', 'pydantic') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(keff, "nonsense")
