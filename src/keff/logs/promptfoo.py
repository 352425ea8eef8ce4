"""Results of promptfoo (``promptfoo eval -o results.json``): repeats of a test case are its paths."""

from __future__ import annotations

from pathlib import Path

from keff.errors import LogError
from keff.log import LogInfo, Tell
from keff.logs.parts.foreign import PathReader, UsableRows, mark, spoken
from keff.logs.parts.lines import member_names, whole_json
from keff.logs.parts.values import at, inner, thousandth
from keff.narrow import Fields, Object, entries, only

# ``failureReason`` of a call that failed; 1 is a failed assertion, which is a verdict.
ERROR = 2


class Promptfoo(PathReader):
    """Reader of promptfoo's results, as JSON.

    ``--repeat`` writes every repeat as a test of its own, so tests with equal variables and assertions are
    one question. Each provider, or each provider and prompt where there are several prompts, is a branch.
    ``success`` is the verdict. Calls that failed are left out and counted.
    """

    name = "promptfoo"

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        known = {"evalId", "results"} <= member_names(path)
        return None if known else 'no object with "evalId" and "results"'

    def info(self, path: Path) -> LogInfo:
        """Return the log's metadata."""
        return LogInfo(model=only({_provider(result) for result in _results(path)}))

    def collect(self, kept: UsableRows, path: Path, tell: Tell) -> None:
        """Collect the outputs of calls that did not fail."""
        del tell
        results = _results(path)
        prompts = len({str(result.get("promptIdx")) for result in results})
        for number, result in enumerate(results):
            output = at(result, "response/output")
            if result.get("failureReason") == ERROR or output is None:
                kept.left_out["failed"] += 1
                continue
            case, branch = inner(result, "testCase"), _provider(result)
            given, named = inner(result, "vars"), sorted(inner(case, "vars"))
            if not set(named) <= set(given):
                raise LogError(f"{path}: result {number}: its variables are not those of its test case")
            asked = mark([[given[name] for name in named], case.get("assert"), case.get("description")])
            kept.add(
                f"{path}: result {number}",
                {
                    "id": asked,
                    "model": branch if prompts == 1 else f"{branch} prompt {result.get('promptIdx')}",
                    "text": spoken(output),
                    "correct": result.get("success"),
                    "question": at(result, "prompt/raw") if prompts == 1 else None,
                    "tokens": at(result, "response/tokenUsage/completion"),
                    "prompt_tokens": at(result, "response/tokenUsage/prompt"),
                    "seconds": thousandth(result.get("latencyMs")),
                },
                result.get("id") or number,
            )


def _results(path: Path) -> list[Object]:
    # Older versions wrote the list without an object around it.
    return entries(at(whole_json(path), "results/results", "results"))


def _provider(result: Fields) -> str:
    return str(at(result, "provider/label", "provider/id", "provider"))


log = Promptfoo
