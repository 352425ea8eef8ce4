"""Write a run of HELM with its own data classes, in the way of its runner: run where crfm-helm is.

    python write_helm.py OUT

The model is a fixed draw; what it said lies in the requests themselves, so correctness is known of each.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from pathlib import Path

from helm.benchmark.adaptation.adapter_spec import AdapterSpec
from helm.benchmark.adaptation.request_state import RequestState
from helm.benchmark.adaptation.scenario_state import ScenarioState
from helm.benchmark.scenarios.scenario import CORRECT_TAG, TEST_SPLIT, Input, Instance, Output, Reference
from helm.common.general import asdict_without_nones
from helm.common.request import GeneratedOutput, Request, RequestResult, Token

OUTPUTS, TRIALS = 2, 3


def said(number: int, trial: int, place: int) -> tuple[str, bool]:
    digest = hashlib.sha256(f"{number}/{trial}/{place}".encode()).digest()
    luck = int.from_bytes(digest[:6], "big") / 2**48
    right = luck < 0.15 + 0.08 * number
    return f"I add them up.\nThe answer is {2 * number + (0 if right else 1 + int(3 * luck))}", right


def state(number: int) -> RequestState:
    references = [Reference(Output(str(2 * number)), [CORRECT_TAG]), Reference(Output("0"), [])]
    instance = Instance(Input(f"What is {number} + {number}?"), references, TEST_SPLIT, id=f"id{number}")
    request = Request(model="toy/model", prompt=instance.input.text, num_completions=OUTPUTS)
    return RequestState(
        instance=instance,
        reference_index=None,
        request_mode=None,
        train_trial_index=0,
        output_mapping=None,
        request=request,
        result=None,
        num_train_instances=0,
        prompt_truncated=False,
    )


def answered(asked: RequestState, trial: int) -> RequestState:
    number = int(str(asked.instance.id).removeprefix("id"))
    texts = [said(number, trial, place)[0] for place in range(OUTPUTS)]
    completions = [
        GeneratedOutput(text, 0.0, [Token(word, 0.0) for word in text.split()], {"reason": "stop"})
        for text in texts
    ]
    result = RequestResult(True, [], completions, cached=False, request_time=0.5, request_datetime=0)
    return replace(asked, result=result)


def main(out: Path) -> None:
    spec = AdapterSpec(method="generation", model="toy/model", num_outputs=OUTPUTS, num_trials=TRIALS)
    asked = [state(number) for number in range(3, 11)]
    # As InContextLearningAdapter adds trials: the same requests under another random seed.
    states = [answered(each, 0) for each in asked]
    for trial in range(1, TRIALS):
        again = (replace(each, request=replace(each.request, random=str(trial))) for each in asked)
        states += [answered(each, trial) for each in again]
    folder = out / "helm" / "sums"
    folder.mkdir(parents=True, exist_ok=True)
    scenario = ScenarioState(adapter_spec=spec, request_states=states)
    (folder / "scenario_state.json").write_text(json.dumps(asdict_without_nones(scenario), indent=2))
    right = {
        f"id{number}": [
            int(said(number, trial, place)[1]) for trial in range(TRIALS) for place in range(OUTPUTS)
        ]
        for number in range(3, 11)
    }
    (out / "helm.truth").write_text(json.dumps(right))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
