"""Write logs with inspect_ai, lm_eval, HELM, MLflow and OpenTelemetry, and check that keff reads them.

    python -m tests.logs.real [--tools VENV] [--keep FOLDER]

``--tools`` is a virtual environment that has, or gets, these tools, pandas and pyarrow; it is never
the one that keff is developed in. ``--keep`` is where the logs are left, for instance to renew the fixtures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
FRAMES = ("pandas", "pyarrow")
PACKAGES = (
    "inspect_ai>=0.3.285,<0.4",
    "lm_eval[api]>=0.4.13,<0.5",
    "mlflow-skinny>=3.17,<4",
    "opentelemetry-sdk>=1.45,<2",
    "opentelemetry-exporter-otlp-proto-common>=1.45,<2",
    *FRAMES,
)
"""None of them needs torch."""
BARE = ("crfm-helm>=0.5.16,<0.6",)
"""Without its dependencies, which are many: only its data classes are used, with these two beside them."""
BESIDE = ("pyhocon", "colorlog")


def tools(folder: Path) -> Path:
    """Return the interpreter of the tools, installing them where they are missing."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    names = (
        "inspect_ai",
        "lm_eval",
        "mlflow",
        "opentelemetry.exporter",
        "pandas",
        "pyarrow",
        "helm",
        *BESIDE,
    )
    if subprocess.run([python, "-c", f"import {', '.join(names)}"], capture_output=True).returncode:
        install = [python, "-m", "pip", "install", "-q", "--no-compile"]
        subprocess.run([*install, *PACKAGES, *BESIDE], check=True)
        subprocess.run([*install, "--no-deps", *BARE], check=True)
    return python


def write(python: Path, out: Path) -> None:
    """Run the writers, which ask nothing of the network."""
    quiet = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PYTHONPATH": ""}
    # Traces are asked for as soon as they are written, in a folder.
    # keff and what it needs are looked for last, after the packages of the tools.
    quiet["KEFF_PATH"] = os.pathsep.join([str(HERE.parents[2] / "src"), sysconfig.get_path("purelib")])
    quiet |= {"MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false", "MLFLOW_ALLOW_FILE_STORE": "1"}
    for name in ("inspect", "lm_eval", "helm", "traces", "settled"):
        script = f"write_{name}.py"
        subprocess.run([python, HERE / script, out], check=True, env=quiet)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, default=Path(".venv-tools"))
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = asked.keep or Path(scratch)
        write(tools(asked.tools), out)
        files = [str(HERE.parent / name) for name in ("test_real_logs.py", "test_doors.py")]
        checks = [sys.executable, "-m", "pytest", "-q", *files]
        return subprocess.run(checks, env={**os.environ, "KEFF_REAL_LOGS": str(out.resolve())}).returncode


if __name__ == "__main__":
    raise SystemExit(main())
