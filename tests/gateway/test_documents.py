"""Replies that are JSON documents, asked for without response_format: the majority object comes back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from fault_server import Script
from gateway_rig import Rig, make_plan

REQUESTS = 60
PATHS = 5


def documents(request: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the object of three paths and that of two; both end in the same number and the same line."""
    total = {"items": [{"sku": f"A{request}", "price": 2.5}, {"sku": "B", "price": 9}], "note": "see [1]"}
    return {"order": request, **total, "count": 2}, {"order": request + 1, **total, "count": 2}


def said(_: Any, seed: int) -> str:
    """Return what path ``seed % 10`` of request ``seed // 10`` says, in a layout of its own."""
    request, path = divmod(seed, 10)
    # Which paths are in the minority differs by request, the first among them.
    document = documents(request)[path in random.Random(request).sample(range(PATHS), 2)]
    names = list(document)
    random.Random(seed).shuffle(names)
    text = json.dumps({name: document[name] for name in names}, indent=(2, 4, 1)[path % 3])
    return text if path % 2 else f"```json\n{text}\n```"


@pytest.mark.slow
@pytest.mark.parametrize("space", ["numeric", "text", "json", "choice"])
def test_the_majority_object_is_returned(serve: Callable[..., Rig], space: str) -> None:
    rig = serve(Script(answer=said), plan=make_plan("fixed:5", space=space))
    client = rig.client()
    right = 0
    for request in range(REQUESTS if space == "text" else 20):
        reply = client.chat.completions.create(
            model="stub",
            messages=[{"role": "user", "content": "The order as JSON."}],
            seed=10 * request,  # type: ignore[call-overload]
        )
        text = reply.choices[0].message.content.removeprefix("```json").removesuffix("```")
        right += json.loads(text) == documents(request)[0]
        assert reply.model_extra["keff"]["votes"][reply.model_extra["keff"]["answer"]] == 3
    assert right == request + 1


WHICH = [{"role": "user", "content": "Which?"}]
OPTIONS = "Which?\n" + "\n".join(f"{each}. {each}-word" for each in "ABCDEFGHIJ")


@pytest.mark.parametrize("text", ["The answer is ({}).", '{{"reasoning": "I think of A.", "answer": "{}"}}'])
def test_a_plan_of_options_reads_all_letters_that_a_prompt_lists(
    serve: Callable[..., Rig], text: str
) -> None:
    script = Script(answer=lambda _, seed: text.format("GGI"[seed % 3]))
    rig = serve(script, plan=make_plan("fixed:3", space="choice"))
    asked = {"model": "stub", "messages": [{"role": "user", "content": OPTIONS}], "seed": 0}
    assert rig.post(asked).json()["keff"]["votes"] == {"G": 2, "I": 1}
    told = rig.post(asked | {"messages": WHICH}).json()["keff"]
    assert "G" not in told["votes"], "without a list of options only A to E are labels"


def test_a_plan_of_options_reads_the_labels_of_a_schema(serve: Callable[..., Rig]) -> None:
    said = ("refund", "Refund", "cancel")
    script = Script(answer=lambda _, seed: json.dumps({"why": f"{seed}", "answer": said[seed]}))
    rig = serve(script, plan=make_plan("fixed:3", space="choice", config=None))
    members = {"why": {"type": "string"}, "answer": {"enum": ["refund", "cancel"]}}
    schema = {"name": "x", "schema": {"type": "object", "properties": members}}
    form = {"type": "json_schema", "json_schema": schema}
    asked = {"model": "stub", "messages": WHICH, "seed": 0, "response_format": form}
    assert rig.post(asked).json()["keff"]["votes"] == {"refund": 2, "cancel": 1}
