"""On a read-only file system what is there is read, and what cannot be written is one clear line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.hostile._files import LOG, in_process

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import json, sys
from benchmarks.hostile._files import in_process
print(json.dumps([in_process(line.split()) for line in sys.stdin]))
"""
WRITES = {
    "analyze {0}/log.jsonl -o {0}/plan.json": "plan.json",
    "export {0}/run -o {0}/paths.jsonl": "paths.jsonl",
    "score {0}/run": "run",
    "import {0}/log.jsonl --run {0}/new": "new",
    "sample starter --engine fake --run {0}/run --n 2 --k 2": "run",
}
READS = ("analyze {0}/run", "export {0}/run -o {1}/paths.jsonl")


@pytest.mark.slow
def test_a_read_only_folder_is_read_and_what_is_written_there_is_refused(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("no bubblewrap to mount a folder read-only with")
    folder, out = tmp_path / "folder", tmp_path / "out"
    for path in (folder, out):
        path.mkdir()
    (folder / "log.jsonl").write_text(LOG)
    sample = ["sample", "starter", "--engine", "fake", "--run", str(folder / "run"), "--n", "2", "--k", "2"]
    assert in_process(sample)[0] == 0
    lines = [line.format(folder, out) for line in (*WRITES, *READS)]
    bind = ["bwrap", "--dev-bind", "/", "/", "--ro-bind", str(folder), str(folder), "--"]
    done = subprocess.run(
        [*bind, sys.executable, "-c", PROGRAM],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    if "bwrap:" in done.stderr:
        pytest.skip(f"bubblewrap cannot mount here: {done.stderr[:80]}")
    told = json.loads(done.stdout.splitlines()[-1])
    for (code, said), name in zip(told, WRITES.values(), strict=False):
        last = said.strip().splitlines()[-1]
        assert (code, last.startswith("keff: ")) == (2, True)
        assert f"{name}: Read-only file system" in last
        assert "could not be removed" not in said
    assert [code for code, _ in told[len(WRITES) :]] == [0, 0]
    assert (out / "paths.jsonl").exists()
