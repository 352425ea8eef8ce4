"""The facade holds what it says, loads it lazily, and stays small."""

from __future__ import annotations

import subprocess
import sys

import keff


def test_every_exported_name_is_there_and_lazily_known() -> None:
    assert sorted(keff._HOME) == keff.__all__ == sorted(keff.__all__)
    for name in keff.__all__:
        assert getattr(keff, name).__module__.startswith("keff.")


def test_no_module_takes_the_place_of_a_name() -> None:
    """Importing a module sets an attribute on its package, whatever stood there before."""
    code = (
        "import importlib, pkgutil, keff\n"
        "before = {name: getattr(keff, name) for name in keff.__all__}\n"
        "def failed(name): pass\n"
        "missing = []\n"
        "for module in pkgutil.walk_packages(keff.__path__, 'keff.', onerror=failed):\n"
        "    if module.name.endswith(('.__main__', '._boot', '._probe')): continue  # scripts\n"
        "    try: importlib.import_module(module.name)\n"
        "    except ImportError: missing.append(module.name)\n"
        "assert len(missing) < 20, missing\n"
        "print([name for name in keff.__all__ if getattr(keff, name) is not before[name]])\n"
        "taken = {name.partition('.')[0] for name in (m.name for m in pkgutil.iter_modules(keff.__path__))}\n"
        "print(sorted(taken & set(keff.__all__)))\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split() == ["[]", "[]"]


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, keff; print([m for m in ('numpy', 'scipy', 'openai', 'pydantic') if m in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(keff, "nonsense")
