"""Write logs with inspect_ai, lm_eval, HELM, MLflow and OpenTelemetry, and check that keff reads them.

    python -m tests.logs.real [--tools VENV] [--keep FOLDER]

``--tools`` is a virtual environment that has these tools, pandas and pyarrow (`make test-integration` makes
it); it is never the one that keff is developed in. ``--keep`` is where the logs are left, for instance to
renew the fixtures.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent


def write(python: Path, out: Path) -> None:
    """Run the writers, which ask nothing of the network."""
    quiet = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "PYTHONPATH": ""}
    # Traces are asked for as soon as they are written, in a folder.
    quiet |= {"MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false", "MLFLOW_ALLOW_FILE_STORE": "1"}
    for name in ("inspect", "lm_eval", "helm", "traces"):
        script = f"write_{name}.py"
        subprocess.run([python, HERE / script, out], check=True, env=quiet)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, default=Path(".venv-tools"))
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = asked.keep or Path(scratch)
        write(asked.tools.absolute() / "bin" / "python", out)
        files = [str(HERE.parent / name) for name in ("test_real_logs.py", "test_doors.py")]
        checks = [sys.executable, "-m", "pytest", "-q", *files]
        return subprocess.run(checks, env={**os.environ, "KEFF_REAL_LOGS": str(out.resolve())}).returncode


if __name__ == "__main__":
    raise SystemExit(main())
