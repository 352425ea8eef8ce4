"""What the top of the page says: the recommendation in a sentence, and three numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keff import plugins
from keff.report.series import part

Estimates = Mapping[str, Any]

BADGES = {
    "sample": "Vote, and stop early",
    "single path": "Ask once",
    "do not vote": "Do not vote",
    "pilot too small": "Pilot too small",
}
TONES = {"sample": "go", "single path": "go", "do not vote": "stop", "pilot too small": "wait"}


@dataclass(frozen=True, slots=True)
class Tile:
    """One number with what it is and what it means."""

    label: str
    value: str
    detail: str


@dataclass(frozen=True, slots=True)
class Headline:
    """The recommendation: its tone for colour, a badge, the sentence, why, and the three numbers."""

    tone: str
    badge: str
    sentence: str
    because: str
    tiles: tuple[Tile, ...]


def headline(found: Estimates, cap: int, replayed: Mapping[str, Any] | None) -> Headline:
    """Say what to do, what that keeps and what it saves against ``cap`` paths a question."""
    advice = found["recommendation"]
    verdict = advice["verdict"]
    return Headline(
        tone=TONES[verdict],
        badge=BADGES[verdict]
        if advice["policy"] != "fixed:1" or verdict != "sample"
        else BADGES["single path"],
        sentence=_sentence(verdict, advice, cap),
        because=advice["because"],
        tiles=(_policy(advice), _kept(found, cap, replayed), _saved(advice, cap)),
    )


def _sentence(verdict: str, advice: Estimates, cap: int) -> str:
    paths = advice["expected_paths"]
    if verdict == "pilot too small":
        return "This pilot is too small to choose. Measure more questions; until then, use the safe default."
    if verdict == "do not vote":
        return "Do not vote: on these questions voting makes the model worse. Ask once."
    if verdict == "single path":
        return "Ask once: more paths add less than half a point of accuracy."
    if advice["policy"] == "fixed:1":
        return f"Ask once: one path does nearly all that {cap} paths would do."
    if advice["policy"].startswith("fixed:"):
        return f"Draw {advice['k']} paths a question instead of {cap}."
    return f"Stop early: about {_paths(paths)} a question do the work of {cap}."


def _policy(advice: Estimates) -> Tile:
    return Tile("Policy", advice["policy"], describe(advice["policy"]))


def describe(policy: str) -> str:
    """Return what a policy does, in one sentence."""
    name = policy.partition(":")[0]
    if policy == "fixed:1":
        return "One path, no vote."
    return plugins.names("policy").get(name, "")


def _kept(found: Estimates, cap: int, replayed: Mapping[str, Any] | None) -> Tile:
    advice = found["recommendation"]
    rows = {row["policy"]: row for row in (replayed or {"policies": ()})["policies"]}
    row = rows.get(advice["policy"])
    if row is not None and row["kept"] is not None and replayed is not None and replayed["cap"] == cap:
        level = f"{_percent(row['accuracy']['value'])} right; replayed on the recorded paths"
        return Tile(f"Accuracy kept, of {cap} paths", _range(row["kept"]), level)
    expected = advice["expected_plurality"]
    if expected is not None:
        return Tile("Accuracy expected", _range(expected), _beside(found, expected, cap))
    same = advice.get("same_answer")
    value = "unknown" if same is None else _percent(same)
    return Tile(f"Same answer as {cap} paths", value, "without gold answers accuracy cannot be known")


def _beside(found: Estimates, expected: Estimates, cap: int) -> str:
    full = part(found, "predicted", "plurality").get(str(cap))
    if full is None or not full["value"]:
        return "plurality vote, simulated from the pilot"
    kept = expected["value"] / full["value"]
    return f"{kept:.1%} of what {cap} paths would give ({_percent(full['value'])})"


def _saved(advice: Estimates, cap: int) -> Tile:
    paths = advice["expected_paths"]
    if paths is None:
        return Tile("Cost saved", "unknown", "the pilot is too short to say")
    tokens = advice["expected_tokens"]
    spent = "" if tokens is None else f"; {tokens:,.0f} tokens a question"
    return Tile("Cost saved", f"{max(1 - paths / cap, 0):.0%}", f"{_paths(paths)} instead of {cap}{spent}")


def _paths(value: float) -> str:
    return "1 path" if value == 1 else f"{value:.1f} paths"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _range(one: Estimates) -> str:
    if one["lo"] is None or one["hi"] is None:
        return _percent(one["value"])
    return f"{_percent(one['value'])} [{100 * one['lo']:.1f}, {100 * one['hi']:.1f}]"
