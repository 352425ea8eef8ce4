"""Write docs/schemas/*.json, the JSON Schemas of what commands print with --json, from the types of results.

python scripts/write_schemas.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from keff.analysis.predict import Prediction
from keff.analysis.results.combination import Combination
from keff.analysis.results.comparison import Comparison, ScoreComparison
from keff.analysis.results.estimates import Analysis
from keff.analysis.results.gate import Gate
from keff.analysis.results.replay import Replay
from keff.analysis.results.scores import Audit, Noise
from keff.records import Result

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas"
PRINTED: dict[str, type[Result]] = {
    "analyze": Analysis,
    "replay": Replay,
    "noise": Noise,
    "compare": Comparison,
    "audit": Audit,
    "combine": Combination,
    "predict": Prediction,
}


def schema(command: str) -> dict[str, Any]:
    """Return the schema of what ``keff COMMAND --json`` prints."""
    kind: Any = Comparison | ScoreComparison | Gate if command == "compare" else PRINTED[command]
    made = _strict(TypeAdapter(kind).json_schema(mode="serialization"))
    if command in ("analyze", "noise"):
        made = _one_or_several(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"keff {command} --json",
    } | made


def _strict(node: Any) -> Any:
    """Require every field, allow no other, and let every number be null: it may be undefined."""
    if isinstance(node, list):
        return [_strict(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    strict = {name: _strict(inner) for name, inner in node.items() if name not in ("default", "title")}
    if node.get("type") == "number":
        strict["type"] = ["number", "null"]
    kinds = [kind.get("type") for kind in node.get("anyOf", ())]
    if len(kinds) == 2 and kinds[0] in ("number", "integer", "string", "boolean") and kinds[1] == "null":
        strict = {"type": kinds}
    if isinstance(node.get("description"), str):
        strict["description"] = " ".join(node["description"].replace("``", "`").split())
    if "properties" in node:
        strict |= {"required": list(node["properties"]), "additionalProperties": False}
    return strict


def _one_or_several(made: dict[str, Any]) -> dict[str, Any]:
    """Several PATHs, or several records in one, give a list of runs, each with where it was read from."""
    shared = made.pop("$defs")
    del made["additionalProperties"]  # a run has its path beside the fields of an analysis
    one = {"$ref": "#/$defs/One", "unevaluatedProperties": False}
    run = one | {"properties": {"path": {"type": "string"}}, "required": ["path"]}
    several = {
        "type": "object",
        "description": "Several PATHs.",
        "properties": {"runs": {"type": "array", "items": run}},
        "required": ["runs"],
        "additionalProperties": False,
    }
    return {"anyOf": [one, several], "$defs": {"One": made, **shared}}


def pages() -> dict[Path, str]:
    """Return the text of every file."""
    return {
        FOLDER / f"{command}.json": json.dumps(schema(command), indent=1, ensure_ascii=False) + "\n"
        for command in PRINTED
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        file.write_text(text, encoding="utf-8")
