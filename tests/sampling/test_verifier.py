"""Verifiers: each path is rated once per version, stored with the run, and read as a confidence."""

from __future__ import annotations

import asyncio
import json
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from command_line import keff
from fault_server import Script, running
from keff.errors import UsageError
from keff.plan import Plan
from keff.reading.open import open_record
from keff.sampling import verifier as rating
from keff.sampling.store import Run
from keff.sampling.verifier import OwnFunction, RewardModel, Verifier, prompt_of, verifier_of
from keff.stats.voting.calibration import Calibration
from keff.usercode import Stamp

SOURCE = """
CALLS = []
def rate(prompt, text):
    CALLS.append(text)
    assert prompt
    if len(CALLS) % 5 == 0:
        raise RuntimeError("the fifth")
    return len(text)
"""


def draw(folder: Path, *options: str, n: int = 4) -> dict[str, object]:
    said = keff(
        *("sample", "starter", "--engine", "fake", "--run", str(folder), "--n", str(n), "--k", "3"),
        *("--json", *options),
    )
    return json.loads(said.stdout)


def test_paths_are_rated_once_and_failures_again(tmp_path: Path) -> None:
    file, run = tmp_path / "rm.py", tmp_path / "run"
    file.write_text(SOURCE)
    first = draw(run, "--verifier", f"{file}:rate")
    assert (first["rated"], first["verifier_failed"]) == (10, 2)
    votes = open_record(run).ballot.votes
    assert votes.confidences is not None
    assert np.isnan(votes.confidences).sum() == 2
    assert set(votes.rated) == {"confidence", "logprob_mean", "logprob_bottom", "logprob_total"}
    assert np.isnan(votes.named["rating_seconds"]).sum() == 2
    again = draw(run, "--verifier", f"{file}:rate")
    assert (again["drawn"], again["rated"]) == (0, 2)
    with closing(sqlite3.connect(run / "paths.sqlite")) as database, database:
        rows = database.execute("select count(*), count(distinct version), min(seconds) from confidences")
        count, versions, seconds = rows.fetchone()
    assert (count, versions) == (12, 1)
    assert seconds >= 0


def test_a_run_tries_again_until_the_checker_passes(tmp_path: Path) -> None:
    """Every question ends at its first path that passes, and none that is resumed draws more."""
    file, run = tmp_path / "check.py", tmp_path / "run"
    file.write_text("import zlib\ndef check(prompt, text):\n    return zlib.crc32(text.encode()) % 3 == 0\n")
    options = ("--policy", "retry:4", "--verifier", f"{file}:check")
    first = draw(run, *options, n=12)
    with Run.open(run) as held:
        kinds = set()
        for item in held.items():
            passed = [value for value, _ in held.ratings(item.id).values()]
            assert passed[:-1] == [0.0] * (len(passed) - 1)
            assert len(passed) == 4 or passed[-1] == 1.0
            kinds.add(len(passed))
    assert len(kinds) > 1, "questions end after different numbers of tries"
    assert draw(run, *options, n=12)["drawn"] == 0
    assert first["rated"] == first["drawn"]
    without = keff(
        "sample", "starter", "--engine", "fake", "--run", str(tmp_path / "other"), "--policy", "retry:4"
    )
    assert "name --verifier FILE.py:function" in " ".join(without.stderr.split())


@pytest.mark.slow
def test_a_run_over_branches_asks_the_next_where_no_try_passes(tmp_path: Path) -> None:
    """Two models in turn, each into a run of its own; what is taken up again draws no more."""
    file, run = tmp_path / "check.py", tmp_path / "run"
    file.write_text("import zlib\ndef check(prompt, text):\n    return zlib.crc32(text.encode()) % 4 == 0\n")
    models = list[object]()
    for name, p in (("small", 0.3), ("large", 0.7)):
        (tmp_path / f"{name}.toml").write_text(f'engine = "fake"\n[engine_option]\np = {p}\n')
        models += ["--branch", tmp_path / f"{name}.toml"]
    asked = ("sample", "starter", *models, "--run", run, "--n", "8", "--k", "3", "--json")
    policy = ("--policy", "cascade:small(retry:2)/large(retry:3)")
    without = keff(*asked, *policy)
    assert without.returncode == 2 and "name --verifier FILE.py:function" in " ".join(without.stderr.split())
    first, again = (
        json.loads(keff(*asked, *policy, "--verifier", f"{file}:check").stdout)["branches"] for _ in range(2)
    )
    tries = {name: dict[str, list[float]]() for name in ("small", "large")}
    for name in tries:
        with Run.open(run / name) as held:
            tries[name] = {
                item.id: [value for value, _ in held.ratings(item.id).values()] for item in held.items()
            }
    for item, small in tries["small"].items():
        large = tries["large"].get(item, [])
        made = [*small, *large]
        assert not any(made[:-1]) and (made[-1] == 1 or len(made) == 5)
        assert len(small) == 2 or not large
    assert any(tries["large"].values()), "some question comes to the large one"
    assert sum(branch["rated"] for branch in first.values()) == sum(
        branch["drawn"] for branch in first.values()
    )
    assert [branch["drawn"] for branch in again.values()] == [0, 0]


def test_the_verifier_is_named_again_and_unchanged(tmp_path: Path) -> None:
    file, run = tmp_path / "rm.py", tmp_path / "run"
    file.write_text(SOURCE)
    draw(run, "--verifier", f"{file}:rate")
    options = ("sample", "starter", "--engine", "fake", "--run", str(run), "--n", "4", "--k", "4")
    without = keff(*options)
    assert without.returncode == 2
    assert "add --verifier FILE.py:function" in " ".join(without.stderr.split())
    file.write_text(SOURCE + "\n")
    other = keff(*options, "--verifier", f"{file}:rate")
    assert other.returncode == 2
    assert "put the old one back" in " ".join(other.stderr.split())
    assert json.loads((run / "manifest.json").read_text())["code"]["verifier"]["name"] == "rm.py:rate"


@pytest.mark.parametrize(
    ("path", "reply", "rating"),
    [
        ("/score", {"data": [{"score": 0.75}]}, 0.75),
        ("/classify", {"data": [{"label": "good", "probs": [0.2, 0.8]}]}, 0.8),
        ("/pooling", {"data": [{"data": [[0.1], [0.4]]}]}, 0.4),
        ("/mine", {"reward": -2.5}, -2.5),
    ],
)
def test_reward_models_are_asked_in_the_form_of_vllm(
    path: str, reply: dict[str, object], rating: float
) -> None:
    asked: list[dict[str, object]] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(json.loads(request.content))
        return httpx2.Response(200, json=reply)

    async def rate() -> tuple[float, float]:
        model = RewardModel(f"http://rm{path}", httpx2.AsyncClient(transport=httpx2.MockTransport(answer)))
        return await Verifier(Stamp("rm", "00"), model).rate([{"role": "user", "content": "Q?"}], "A.")

    assert asyncio.run(rate())[0] == rating
    assert "Q?" in json.dumps(asked[0]) and "A." in json.dumps(asked[0])


def test_of_a_prompt_in_parts_a_verifier_sees_the_text() -> None:
    parts = [{"type": "text", "text": "6 x 7?"}, {"type": "image_url", "image_url": {"url": "data:..."}}]
    talk: Any = [{"role": "system", "content": None}, {"role": "user", "content": parts}]
    assert prompt_of(talk) == "\n\n6 x 7?"


def test_a_reward_model_that_is_down_is_counted() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(503, request=request)

    async def rate() -> Verifier:
        model = RewardModel("http://rm/score", httpx2.AsyncClient(transport=httpx2.MockTransport(refuse)))
        verifier = Verifier(Stamp("rm", "00"), model)
        assert np.isnan((await verifier.rate([], "A."))[0])
        return verifier

    assert "HTTPStatusError" in str(asyncio.run(rate()).failure_line())


@pytest.mark.parametrize(
    ("given", "rating"), [(np.float32(0.5), 0.5), (7, 7.0), (10**400, np.nan), (True, 1.0), ("1", np.nan)]
)
def test_any_finite_number_is_a_rating(given: object, rating: float) -> None:
    async def function(*_: str) -> object:
        return given

    verifier = Verifier(Stamp("mine", "00"), OwnFunction(lambda: function))
    np.testing.assert_equal(asyncio.run(verifier.rate([], "A."))[0], rating)
    assert (verifier.failure_line() is None) == (rating == rating)


@pytest.mark.parametrize("mended", [True, False])
def test_a_verifier_that_hangs_is_set_aside_and_tried_by_one_path_after_a_rest(
    monkeypatch: pytest.MonkeyPatch, mended: bool
) -> None:
    monkeypatch.setattr(rating, "REST", 0.3)
    asked: list[str] = []

    async def function(_: str, text: str) -> float:
        asked.append(text)
        if not (mended and text == "later"):
            await asyncio.sleep(60)
        return 1.0

    async def rate() -> None:
        for _ in range(9):
            assert np.isnan((await verifier.rate([], "A."))[0])
        assert len(asked) == 3
        await asyncio.sleep(0.4)
        found = await asyncio.gather(*(verifier.rate([], "later") for _ in range(4)))
        assert sum(value == 1.0 for value, _ in found) == (4 if mended else 0)
        assert len(asked) == 3 + (4 if mended else 1)
        assert ((await verifier.rate([], "later"))[0] == 1.0) == mended

    verifier = Verifier(Stamp("mine", "00"), OwnFunction(lambda: function), seconds=0.02)
    asyncio.run(rate())
    assert "is set aside: 3 in a row took more" in str(verifier.failure_line())


def test_paths_of_several_questions_are_rated_at_once(tmp_path: Path) -> None:
    """With two paths of each of five questions most of the eight places would stay empty."""
    file, run = tmp_path / "rm.py", tmp_path / "run"
    file.write_text(
        "import asyncio, pathlib\nNOW, MOST = [], [0]\n"
        "async def rate(prompt, text):\n    NOW.append(1)\n    MOST[0] = max(MOST[0], len(NOW))\n"
        f"    pathlib.Path({str(tmp_path / 'most')!r}).write_text(str(MOST[0]))\n"
        "    await asyncio.sleep(0.01)\n    NOW.pop()\n    return 1.0\n"
    )
    assert draw(run, "--verifier", f"{file}:rate", n=12)["rated"] == 36
    assert (tmp_path / "most").read_text() == "8"
    votes = open_record(run).ballot.votes
    assert votes.confidences is not None and np.all(votes.confidences == 1.0)


def test_a_verifier_travels_to_another_process(tmp_path: Path) -> None:
    (tmp_path / "rm.py").write_text("def rate(prompt, text):\n    return 2.0\n")
    verifier = verifier_of(f"{tmp_path / 'rm.py'}:rate", None)
    again = pickle.loads(pickle.dumps(verifier))
    assert asyncio.run(again.rate([], "A."))[0] == 2.0


def test_both_flags_and_no_url_are_refused() -> None:
    with pytest.raises(UsageError, match="not both"):
        verifier_of("a.py:f", "http://x/score")
    with pytest.raises(UsageError, match="http://HOST"):
        verifier_of(None, "localhost/score")
    with pytest.raises(UsageError, match=r"FILE\.py:function"):
        verifier_of("rate", None)


def plan(folder: Path, held: Calibration, policy: str, name: str = "confidence") -> Path:
    file = folder / "plan.json"
    Plan(policy=policy, estimates={}, calibrations={name: held}).write(file)
    return file


@pytest.mark.parametrize(("name", "bar"), [("confidence", -0.4), ("logprob_answer", -0.7)])
def test_the_rule_of_a_plan_is_sampled_with_its_calibration(tmp_path: Path, name: str, bar: float) -> None:
    """The stub gives word i the log-probability -i/10: the fifth word is surer than the ninth."""
    script = Script(
        answer=lambda talk, _: (
            "The final answer is 7" if "sure" in str(talk) else "I would guess that the final answer is 7"
        )
    )
    rows = ({"id": text, "question": text, "answer": "7"} for text in ("sure", "maybe"))
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    held = Calibration((bar - 0.01, bar + 0.01), (0.1, 0.95), (1.0, 1.0), 0.5)
    file = plan(tmp_path, held, f"switch:0.9,cap=3,confidence={name}", name)
    with running(script) as url:
        told = keff(
            *("sample", tmp_path / "own.jsonl", "--run", tmp_path / "run", "--base-url", url),
            *("--policy", file, "--json", "--max-tokens", 16),
        )
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout)["drawn"] == 1 + 3
    assert sum("sure" in str(body) for body in script.requests) == 1


def test_a_run_goes_on_by_the_calibration_of_its_plan_only(tmp_path: Path) -> None:
    """Another plan of the same rule string is another rule; it is the plan that counts, not its file."""
    asked = ("sample", "starter", "--engine", "fake", "--n", "2", "--run", tmp_path / "run", "--policy")
    rule = "switch:0.9,cap=3,confidence=logprob_mean"
    for chance, code in ((0.95, 0), (0.95, 0), (0.96, 2), (0.95, 0)):
        held = Calibration((-0.4, -0.3), (0.1, chance), (1.0, 1.0), 0.5)
        said = keff(*asked, plan(tmp_path, held, rule, "logprob_mean"))
        assert said.returncode == code, said.stderr
        assert ("calibration of another plan: use that plan" in " ".join(said.stderr.split())) == (code == 2)
    assert keff("score", tmp_path / "run").returncode == 0
    assert keff(*asked, "fixed:3").returncode == 0


def test_the_rule_of_a_plan_on_a_verifier_goes_to_the_gateway(tmp_path: Path) -> None:
    file = plan(tmp_path, Calibration((0.0, 1.0), (0.1, 0.9), (1.0, 1.0), 0.5), "switch:0.9,cap=3")
    asked = ("sample", "starter", "--engine", "fake", "--run", tmp_path / "run", "--policy")
    said = keff(*asked, file)
    assert said.returncode == 2
    assert f"keff serve --plan {file}" in " ".join(said.stderr.split())
    missing = keff(*asked, "switch:0.9,cap=3")
    assert missing.returncode == 2
    assert "keff sample --policy plan.json" in " ".join(missing.stderr.split())
    assert not (tmp_path / "run").exists()
