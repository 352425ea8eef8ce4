"""Draw K paths per question into a run folder; resumes.

Raising n or K later keeps what is there.

Example: keff sample questions.jsonl --model my-model --run pilot --k 16
"""

from __future__ import annotations

from pathlib import Path

from keff.cli import _options as o
from keff.cli._branches import read_branches, sample_under_policy
from keff.cli._console import print_json
from keff.cli._preflight import sample_as_wished
from keff.cli._sampling import SampleOptions, check_whole, counts, report
from keff.errors import UsageError


@o.grouped
def command(wishes: SampleOptions, branch: o.Branches = None, json: o.Json = False) -> None:
    """Draw what the run still owes."""
    if branch:
        _sample_branches(wishes, branch, json=json)
        return
    job, drawn = sample_as_wished(wishes)
    if json:
        print_json(counts(job, drawn))
    else:
        report(job, drawn)
    check_whole(job, drawn)


def _sample_branches(wishes: SampleOptions, files: list[Path], *, json: bool) -> None:
    if wishes.policy is None:
        raise UsageError("--branch needs --policy, such as 'cascade:small(lead_k:2,cap=4)/large(fixed:1)'")
    drawn = sample_under_policy(read_branches(files, wishes))
    if json:
        print_json({"run": str(wishes.run), "branches": {name: counts(*own) for name, own in drawn.items()}})
        return
    for own in drawn.values():
        report(*own)
