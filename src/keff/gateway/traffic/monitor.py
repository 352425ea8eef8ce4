"""Drift alarm of a gateway: does the traffic still agree with itself as the pilot did? Needs no labels."""

from __future__ import annotations

import json
import logging
import math
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from pydantic import ValidationError

from keff.errors import UsageError
from keff.gateway.traffic.metrics import MetricLabels, series
from keff.narrow import Fields, fields
from keff.plan import Plan, Profile
from keff.policy import Policy, Sample, View
from keff.protocol.values import Object, decoded
from keff.records import stable_hash
from keff.stats.drift import MeanLooks, ShiryaevRoberts, agreeing_pairs, stop_score

log = logging.getLogger("keff.gateway")

# The chance that the looks at the mean ever alarm falsely, however long they run.
ALPHA = 0.05

# Orders of the pilot's paths of which the looks at the mean take the average.
ORDERS = 8

# The mean number of requests before Shiryaev-Roberts, which also sees late changes, alarms falsely.
RUN_LENGTH = 20_000

# Where the policy may stop at one path, the agreement is that of 4 paths of shadow requests.
SHADOW_DRAWS = 4

# A crash loses at most a second of what the alarm saw.
SAVE_SECONDS = 1.0

# A score of one request, from all of its keys in launch order: more where its paths agree more.
Score: TypeAlias = Callable[[Sequence[str | None]], float]

_OPENED = """PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS drift (plan TEXT PRIMARY KEY, state TEXT NOT NULL)"""
OTHER_VERSION = "the state file is of another version of keff: name another with --state"


def first_draw(policy: Policy) -> int:
    """Return how many paths a policy draws before it looks at any vote."""
    decision = policy.decide(View(()))
    return decision.m if isinstance(decision, Sample) else 0


def watched_paths(policy: Policy, profile: Profile) -> tuple[int, bool]:
    """Return the number of paths m whose agreement is watched, and whether only shadow requests have m.

    m is the policy's first round (no vote makes it stop earlier), at most the pilot's own number of paths.
    """
    first = first_draw(policy)
    return min(SHADOW_DRAWS if first < 2 else first, profile.paths), first < 2


def stops_at(policy: Policy, keys: Sequence[str | None], most: int) -> int | None:
    """Return the number of paths after which a policy stops; None if above ``most``.

    It is asked round by round, as a request is, so a stopped request holds all the keys that this looks at;
    paths that are missing (a server gave fewer) count as abstentions.
    """
    n = 0
    while True:
        decision = policy.decide(View([*keys[:n], *[None] * (n - len(keys))]))
        if not isinstance(decision, Sample):
            return n
        if n + decision.m > most:
            return None
        n += decision.m


def pilot_scores(profile: Profile, score: Score, rng: np.random.Generator) -> list[float]:
    """Return the drift score of every item of the pilot, its paths in random order."""
    scores: list[float] = []
    for votes in profile.votes:
        keys: list[str | None] = [None] * profile.paths
        keys[: sum(votes)] = [str(code) for code, count in enumerate(votes) for _ in range(count)]
        order: list[int] = rng.permutation(profile.paths).tolist()
        scores.append(score([keys[place] for place in order]))
    return scores


def _opened(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, timeout=0.5, isolation_level=None)
    try:
        database.executescript(_OPENED)
    except sqlite3.Error:
        database.close()
        raise
    return database


class StateFile:
    """File that keeps the monitors' state over restarts, by plan; locked by one process."""

    def __init__(self, file: Path) -> None:
        try:
            self._db = _opened(file)
        except sqlite3.Error as error:
            raise UsageError(
                f"{file} cannot hold the drift state ({error}): name another with --state"
            ) from None

    def load(self, plan: str) -> Object | None:
        """Return the saved state for a plan, or None."""
        row = self._db.execute("SELECT state FROM drift WHERE plan = ?", (plan,)).fetchone()
        try:
            return None if row is None else fields(decoded(str(row[0]).encode()))
        except ValueError:
            raise UsageError(OTHER_VERSION) from None

    def save(self, plan: str, state: Fields) -> None:
        """Replace the saved state of a plan; a full disk is logged, and serving goes on."""
        try:
            self._db.execute("INSERT OR REPLACE INTO drift VALUES (?, ?)", (plan, json.dumps(state)))
        except sqlite3.Error as error:
            log.warning(json.dumps({"event": "drift state not saved", "message": str(error)}))

    def close(self) -> None:
        """Release the file."""
        self._db.close()


def save_profile(file: StateFile, policy: Policy, profile: Profile) -> None:
    """Save the drift profile learned from traffic under a policy."""
    file.save(f"traffic {policy.spec}", {"profile": profile.model_dump(mode="json")})


def saved_profile(file: StateFile, policy: Policy) -> Profile | None:
    """Return the drift profile saved for a policy; raises UsageError."""
    saved = file.load(f"traffic {policy.spec}")
    try:
        return None if saved is None else Profile.model_validate(saved.get("profile"))
    except ValidationError:
        raise UsageError(OTHER_VERSION) from None


Alarm: TypeAlias = ShiryaevRoberts | MeanLooks
ALARMS: Mapping[str, type[Alarm]] = {
    "shiryaev_roberts": ShiryaevRoberts,
    "looks": MeanLooks,
}


def alarms_of(saved: Object) -> dict[str, Alarm]:
    """Return the alarms restored from a saved state; raises UsageError for one of another version."""
    try:
        return {name: kind.from_state(fields(saved[name])) for name, kind in ALARMS.items()}
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise UsageError(OTHER_VERSION) from None


class Monitor:
    """Two drift alarms over one stream of requests.

    ``looks`` finds traffic that differs from the pilot at the start, ``shiryaev_roberts`` what changes
    later. ``observe`` takes the keys of each request that follows the plan, in any order of requests. The
    score of a request is when its policy stopped, if votes alone decide that: rules draw two or three
    paths first, and these alone show little. Else it is the agreement of the first m paths.
    """

    def __init__(self, plan: Plan, policy: Policy, file: StateFile | None = None) -> None:
        assert plan.profile is not None, "a plan without a profile has no drift alarm"
        self.m, self.shadow_only = watched_paths(policy, plan.profile)
        # Of paths in flight only shadow requests are seen: which votes arrive first depends on lengths.
        by_stops = policy.needs <= {"answers"} and not self.shadow_only
        self._policy = policy if by_stops else None
        self._most = plan.profile.paths
        profile = plan.profile.model_dump(mode="json")
        self._name = stable_hash(profile, self.m, plan.fingerprint, policy.spec, "two alarms")
        self._file, self._saved_at = file, time.monotonic()
        saved = file.load(self._name) if file else None
        self._streams = self._begun(plan.profile) if saved is None else alarms_of(saved)

    def _begun(self, profile: Profile) -> dict[str, Alarm]:
        """Return the alarms at the start of a stream."""
        rng = np.random.default_rng(int(self._name[:15], 16))
        orders = [pilot_scores(profile, self.score, rng) for _ in range(ORDERS)]
        agreement = [agreeing_pairs(votes) / math.comb(self._most, 2) for votes in profile.votes]
        return {
            "shiryaev_roberts": ShiryaevRoberts(orders[0], rng, RUN_LENGTH),
            "looks": MeanLooks(np.transpose(orders), agreement, ALPHA),
        }

    def score(self, keys: Sequence[str | None]) -> float:
        """Return a request's drift score: its stopping time, else the agreeing pairs of its first m paths."""
        if self._policy is None:
            votes = Counter(key for key in keys[: self.m] if key is not None)
            return float(agreeing_pairs(votes.values()))
        return stop_score(keys, stops_at(self._policy, keys, self._most), self._most)

    @property
    def seen(self) -> int:
        """How many requests were observed."""
        return self._streams["looks"].seen

    @property
    def alarms(self) -> dict[str, bool]:
        """Whether each of the two alarms has fired."""
        return {name: stream.alarm for name, stream in self._streams.items()}

    def observe(self, keys: Sequence[str | None], *, stopped: bool = False) -> None:
        """Observe one request: all of its vote keys in launch order, at least m.

        ``stopped``: the policy stopped at them, so that it need not be asked again.
        """
        if stopped and self._policy is not None:
            score = stop_score(keys, len(keys) if len(keys) <= self._most else None, self._most)
        else:
            score = self.score(keys)
        for name, stream in self._streams.items():
            before = stream.alarm
            if stream.update(score).alarm and not before:
                line = "answers no longer agree with each other as in the pilot: make a new pilot"
                told = {"alarm": name, "requests": stream.seen, "statistic": stream.statistic}
                log.warning(json.dumps({"event": "drift", **told, "message": line}))
        if self._file and time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the state, where there is a file."""
        self._saved_at = time.monotonic()
        if self._file is not None:
            self._file.save(self._name, {name: stream.state() for name, stream in self._streams.items()})

    def gauges(self) -> dict[tuple[str, MetricLabels], float]:
        """Return the drift gauges for ``/metrics``."""
        shown: dict[tuple[str, MetricLabels], float] = {series("keff_drift_requests_total"): self.seen}
        for name, stream in self._streams.items():
            shown[series("keff_drift_alarm", alarm=name)] = float(stream.alarm)
            shown[series("keff_drift_statistic", alarm=name)] = stream.statistic
            shown[series("keff_drift_threshold", alarm=name)] = stream.threshold
        return shown
