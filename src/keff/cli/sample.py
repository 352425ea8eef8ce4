"""Draw K paths per question into a run folder; resumes.

Raising n or K later keeps what is there.
"""

from __future__ import annotations

from keff.cli import _options as o
from keff.cli._preflight import sample_as_wished
from keff.cli._sampling import Wishes, report, takes_wishes


@takes_wishes()
def command(wishes: Wishes, json: o.Json = False) -> None:
    """Draw what the run still owes."""
    job, drawn = sample_as_wished(wishes)
    report(job, drawn, json=json)
