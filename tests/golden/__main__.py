"""Write the golden files anew, and print what changed.

    python -m tests.golden [CASE...]

A change that was meant is a commit of its own, which says what changed and why.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rigs"))

from tests.golden.golden import EXPECTED, Fields, differences, file_of, load, names, printed, save

SHOWN = 12


def renew(name: str) -> Fields:
    with tempfile.TemporaryDirectory() as folder:
        return printed(name, Path(folder))


def main() -> None:
    wanted = sys.argv[1:] or names()
    with ProcessPoolExecutor(2) as pool:
        for name, found in zip(wanted, pool.map(renew, wanted), strict=True):
            changed = differences(load(name), found)
            if changed:
                print(f"{name}: {len(changed)} fields changed", *changed[:SHOWN], sep="\n  ")
                save(name, found)
    for file in EXPECTED.glob("*.json"):
        if file not in map(file_of, names()):
            print(f"{file.stem}: removed")
            file.unlink()


if __name__ == "__main__":
    main()
