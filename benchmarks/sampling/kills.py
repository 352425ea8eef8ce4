"""Kill a sampling run at 20 random moments: nothing committed may be lost, nothing drawn twice.

python -m benchmarks.sampling.kills
"""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.places import ROOT

KILLS = 20


def main() -> None:
    """Run the test of killed runs, four times as long as in the suite."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/sampling/test_kill.py"],
        cwd=ROOT,
        env=os.environ | {"KEFF_KILLS": str(KILLS)},
        check=False,
    )
    verdict = "nothing lost or doubled" if done.returncode == 0 else "FAILED"
    print(f"claim: a run killed {KILLS} times | {verdict} | nothing lost or doubled")
    raise SystemExit(done.returncode)


if __name__ == "__main__":
    main()
