"""What the top of the page says: the recommendation in a sentence, and three numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keff.report.rules import in_words

Estimates = Mapping[str, Any]

BADGES = {
    "sample": "Vote, and stop early",
    "single path": "Ask once",
    "do not vote": "Do not vote",
    "pilot too small": "Pilot too small",
}
SAFE = "adaptive_consistency:0.95"
"""What is recommended when the pilot cannot say, whatever its cap."""

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
        sentence=_sentence(verdict, advice, cap, _replayed(found, cap, replayed)),
        because=advice["because"],
        tiles=(_policy(advice), _kept(found, cap, replayed), _saved(advice, cap)),
    )


def _sentence(verdict: str, advice: Estimates, cap: int, row: Estimates | None) -> str:
    paths = advice["expected_paths"]
    if verdict == "pilot too small":
        return f"This pilot is too small to choose. Until you measure more questions, {_meanwhile(advice)}."
    if verdict == "do not vote":
        return "Do not vote: on these questions voting makes the model worse. Ask once."
    if verdict == "single path":
        return "Ask once: more paths add less than half a point of accuracy."
    if advice["policy"] == "fixed:1":
        return f"Ask once: one path does nearly all that {cap} paths would do."
    if advice["policy"].startswith("fixed:"):
        return f"Draw {advice['k']} paths a question instead of {cap}."
    kept = advice.get("kept") if row is None else row["kept"]["value"]
    if kept is None:
        return f"Stop early: about {_paths(paths)} a question, mostly with the answer that {cap} would give."
    return f"Stop early: about {_paths(paths)} a question keep {min(kept, 1):.0%} of the accuracy of {cap}."


def _meanwhile(advice: Estimates) -> str:
    return "use the safe default" if advice["policy"].startswith(SAFE) else "this rule fits your aim best"


def _policy(advice: Estimates) -> Tile:
    return Tile("Policy", advice["policy"], in_words(advice["policy"]))


def _kept(found: Estimates, cap: int, replayed: Mapping[str, Any] | None) -> Tile:
    advice = found["recommendation"]
    row = _replayed(found, cap, replayed)
    if row is not None:
        level = f"95% interval, replayed on the recorded paths; {_range(row['accuracy'])} are right"
        return Tile(f"Accuracy kept, of {cap} paths", _range(row["kept"]), level)
    expected = advice["expected_plurality"]
    if expected is not None:
        kept = advice.get("kept")
        beside = "" if kept is None else f"; {min(kept, 1):.1%} of what {cap} paths would give"
        return Tile("Accuracy expected", _range(expected), f"95% interval, simulated from this pilot{beside}")
    same = advice.get("same_answer")
    value = "unknown" if same is None else _percent(same)
    detail = "simulated from this pilot; without gold answers accuracy cannot be known"
    return Tile(f"Same answer as {cap} paths", value, detail)


def _replayed(found: Estimates, cap: int, replayed: Mapping[str, Any] | None) -> Estimates | None:
    """Return what replay says of the recommended policy, where it was replayed against this cap."""
    if replayed is None or replayed["cap"] != cap:
        return None
    chosen = found["recommendation"]["policy"]
    return next((row for row in replayed["policies"] if row["policy"] == chosen and row["kept"]), None)


def _saved(advice: Estimates, cap: int) -> Tile:
    paths = advice["expected_paths"]
    if paths is None:
        return Tile("Cost saved", "unknown", "the pilot is too short to say")
    tokens = advice["expected_tokens"]
    spent = "" if tokens is None else f", {tokens:,.0f} tokens"
    detail = f"{_paths(paths)} a question expected instead of {cap}{spent}"
    return Tile("Cost saved", f"{max(1 - paths / cap, 0):.0%}", detail)


def _paths(value: float) -> str:
    return "1 path" if value == 1 else f"{value:.1f} paths"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _range(one: Estimates) -> str:
    if one["lo"] is None or one["hi"] is None:
        return _percent(one["value"])
    return f"{_percent(one['value'])} [{100 * one['lo']:.1f}, {100 * one['hi']:.1f}]"


def arms_sentence(compared: Mapping[str, Any]) -> str:
    """Say what two arms show: whether paths agree less in the second, and whether its vote is better."""
    vote = compared.get("delta_plurality") or compared["delta_majority"]
    agree = _direction(compared["delta_rho"], "agree less", "agree more")
    better = _direction(vote, "the vote is worse", "the vote is better")
    if agree is None and better is None:
        return "These questions show no difference, neither in how much paths agree nor in the vote."
    first = f"its paths {agree}" if agree else "no difference is shown in how much its paths agree"
    return f"{first[0].upper()}{first[1:]}; {better or 'no difference of the vote is shown'}."


def _direction(change: Estimates, down: str, up: str) -> str | None:
    """Return the word for a change whose interval excludes zero, else None."""
    if change["lo"] is None or change["hi"] is None or not (change["hi"] < 0 or change["lo"] > 0):
        return None
    return down if change["hi"] < 0 else up
