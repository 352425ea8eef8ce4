"""Logs of verifiers, NeMo Gym, Harbor, SWE-bench, pydantic-evals, LangSmith and Langfuse, in their layout.

What a reader makes of them is compared with the draw that the files were written from.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_logs import (
    FAILED,
    PATHS,
    QUESTIONS,
    RIGHT,
    WRITERS,
    harbor,
    langsmith,
    lines,
    messages,
    paths,
    said,
    swe_bench,
    verifiers_results,
    verifiers_traces,
)
from command_line import keff
from keff.errors import LogError
from keff.log import find_log
from keff.reading.open import Opening, open_record
from keff.reading.several import open_records
from keff.records import Note

# Those whose files have a path that failed.
WITH_FAILED = sorted(WRITERS.keys() - {"nemo_gym"})


def verdicts(name: str) -> list[list[int]]:
    """Return by question which of its paths count as right."""
    rows = [list(map(int, row)) for row in RIGHT]
    if name in WITH_FAILED:
        del rows[FAILED[0]][FAILED[1]]
    return rows


@pytest.mark.parametrize("name", WRITERS)
def test_the_paths_of_a_question_are_what_was_drawn(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path, paths())
    log = find_log(path)
    assert log.name == name
    questions = list(log.questions(path))
    assert [list(question.correct or ()) for question in questions] == verdicts(name)
    for i, question in enumerate(questions):
        drawn = [j for j in range(PATHS) if (i, j) != FAILED or name not in WITH_FAILED]
        assert question.tokens == tuple(5.0 + j for j in drawn)
        assert question.prompt_tokens == (20.0,) * len(drawn)
        if name == "harbor":
            continue
        assert question.question == messages(i)[1]["content"]
        assert [answer.split()[-1].strip("\\boxed{}") for answer in question.answers if answer] == [
            said(i, j) for j in drawn
        ]
    if name != "nemo_gym":
        assert {question.seconds[0] for question in questions if question.seconds} == {2.5}
    if name in ("verifiers_results", "nemo_gym", "pydantic_evals"):
        assert [question.gold for question in questions] == [str(10 * i) for i in range(QUESTIONS)]


@pytest.mark.parametrize("name", WITH_FAILED)
def test_a_path_that_failed_is_left_out_and_counted(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path, paths())
    record = open_record(path, Opening(answer_space="numeric", trim=PATHS - 1))
    (note,) = (note for note in record.ballot.notes if note.code == "left_out")
    assert note.message.startswith("1 paths are left out")
    assert record.ballot.votes.k == PATHS - 1


@pytest.mark.parametrize("name", sorted(WRITERS.keys() - {"harbor", "langfuse", "pydantic_evals"}))
def test_a_line_that_is_written_twice_counts_once(name: str, tmp_path: Path) -> None:
    path = WRITERS[name](tmp_path, paths())
    once = [question.correct for question in find_log(path).questions(path)]
    path.write_text(2 * path.read_text())
    assert [question.correct for question in find_log(path).questions(path)] == once


@pytest.mark.parametrize(
    ("name", "asked"),
    [("langfuse", ("input",)), ("langsmith", ("inputs", "reference_example_id"))],
)
def test_paths_without_an_input_are_no_question_of_their_own(
    name: str, asked: tuple[str, ...], tmp_path: Path
) -> None:
    path = WRITERS[name](tmp_path, paths())
    text = path.read_text()
    rows = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    for row in rows[-3:]:
        row |= dict.fromkeys(asked, "" if name == "langfuse" else None)
    path.write_text(json.dumps(rows) if text.startswith("[") else "".join(f"{json.dumps(r)}\n" for r in rows))
    notes: list[Note] = []
    questions = list(find_log(path).questions(path, tell=notes.append))
    assert len(questions) == QUESTIONS
    assert "has no input" in " ".join(note.message for note in notes)


def test_of_several_scores_one_has_to_be_named(tmp_path: Path) -> None:
    path = langsmith(tmp_path, paths())
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["feedback_stats"] |= {"polite": {"n": 1, "avg": 1.0}}
    lines(path, rows)
    with pytest.raises(LogError, match="scorer=NAME, of exact, polite"):
        open_record(path)
    counts = {
        scorer: sum(
            sum(one.correct or ()) for one in find_log(path, None, {"scorer": scorer}).questions(path)
        )
        for scorer in ("polite", "exact")
    }
    assert counts == {
        "polite": QUESTIONS * PATHS - 1,
        "exact": sum(map(sum, verdicts("langsmith"))),
    }
    with pytest.raises(LogError, match=r"no score is called kind: .* of exact, polite"):
        open_record(path, Opening(scorer="kind"))


def test_a_reward_that_is_a_sum_needs_a_threshold_or_one_of_its_parts(tmp_path: Path) -> None:
    path = verifiers_results(tmp_path, paths())
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row["reward"] += 0.25
    lines(path, rows)
    with pytest.raises(LogError, match="--format verifiers_results:threshold="):
        open_record(path, Opening(trim=PATHS - 1))
    for options in ({"threshold": 1.0}, {"scorer": "exact"}):
        questions = find_log(path, None, options).questions(path)
        assert [list(question.correct or ()) for question in questions] == verdicts("verifiers_results")


def test_agents_of_one_episode_are_branches(tmp_path: Path) -> None:
    path = verifiers_traces(tmp_path, [pair for pair in paths() if pair[0] != FAILED[0]])
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        other = json.loads(json.dumps(row["traces"][0]))
        other["agent"]["name"] = "critic"
        other["id"] += "-critic"
        row["traces"].append(other)
    records = open_records(lines(path, rows))
    assert [record.info.model for record in records] == ["m-1", "m-1 critic"]
    assert {record.ballot.votes.k for record in records} == {PATHS}


def test_observations_of_langfuse_are_paths_where_they_have_no_parent(tmp_path: Path) -> None:
    """An export to a bucket has names in snake case, values as text, and its scores in another file."""
    rows = [
        {
            "id": f"o{i}-{j}-{step}",
            "trace_id": f"t{i}-{j}",
            "type": "GENERATION",
            "parent_observation_id": f"o{i}-{j}-0" if step else "",
            "input": json.dumps(messages(i)),
            "output": json.dumps({"role": "assistant", "content": f"It is {said(i, j)}"}),
            "usage_details": {"input": 20, "output": 5 + j},
            "latency": 2.5,
            "level": "DEFAULT",
        }
        for i, j in paths()
        for step in range(2)
    ]
    record = open_record(lines(tmp_path / "observations.jsonl", rows), Opening(answer_space="numeric"))
    assert [question.answers for question in record.ballot.questions] == [
        tuple(said(i, j) for j in range(PATHS)) for i in range(QUESTIONS)
    ]
    assert record.ballot.votes.correct is None


def test_runs_of_swe_bench_are_paths_and_what_broke_off_is_wrong(tmp_path: Path) -> None:
    expected = RIGHT.copy()
    expected[FAILED] = 0
    folder = swe_bench(tmp_path, paths())
    questions = list(find_log(folder).questions(folder))
    # The empty patch has no folder: of its instance there are three runs.
    assert {question.id: list(question.correct or ()) for question in questions} == {
        f"repo__repo-{i}": list(row[1:] if i == 0 else row) for i, row in enumerate(expected)
    }
    records = open_records(folder, Opening(trim=PATHS - 1))
    assert "1 instances without a report count as wrong" in {
        note.message for record in records for note in record.ballot.notes
    }
    expected[0, 0] = 0
    for j in range(PATHS):
        summary = open_record(tmp_path / f"m-1.run{j}.json")
        assert summary.info.model == "m-1"
        assert {question.id: question.correct for question in summary.ballot.questions} == {
            f"repo__repo-{i}": (expected[i, j],) for i in range(QUESTIONS)
        }


def test_summaries_of_swe_bench_are_pooled_by_the_command_line(tmp_path: Path) -> None:
    swe_bench(tmp_path, paths())
    expected = RIGHT.copy()
    expected[FAILED] = expected[0, 0] = 0
    done = keff("join", *sorted(tmp_path.glob("*.json")), "--pool", "-o", tmp_path / "all.jsonl")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    assert [row["all_correct"] for row in rows] == expected.tolist()


@pytest.mark.parametrize("name", ["harbor", "swe_bench"])
def test_a_folder_is_analyzed_as_one_log(name: str, tmp_path: Path) -> None:
    folder = harbor(tmp_path, paths()) if name == "harbor" else swe_bench(tmp_path, paths())
    done = keff("analyze", folder, "--trim", str(PATHS - 1), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["n"], found["k"]) == (QUESTIONS, PATHS - 1)


def test_jobs_beside_other_logs_are_read_and_so_are_these(tmp_path: Path) -> None:
    folder = tmp_path / "evals"
    job, _ = [harbor(folder / place, paths()) for place in (".", "agents/more")]
    swe_bench(folder / "patches", paths())
    for summary in (folder / "patches").glob("*.json"):
        summary.unlink()
    (folder / "sums" / "old").mkdir(parents=True)
    log = verifiers_results(folder / "sums" / "old", paths())
    found = open_records(folder, Opening(answer_space="numeric", trim=PATHS - 1))
    assert {Path(record.path) for record in found} == {job, folder / "agents", folder / "patches", log}


@pytest.mark.parametrize(
    ("file", "scorer"),
    [
        ("verifiers_traces.jsonl", None),
        ("pydantic_evals.json", "EqualsExpected"),
        ("langsmith.jsonl", None),
    ],
)
def test_what_the_package_itself_wrote_is_read(file: str, scorer: str | None) -> None:
    path = Path(__file__).parent / "fixtures" / "real" / file
    truth = json.loads(path.with_suffix(".truth").read_text())
    questions = open_record(path, Opening(scorer=scorer)).ballot.questions
    assert {question.question: list(question.correct or ()) for question in questions} == truth


def test_an_experiment_of_langsmith_as_a_table_is_read_by_its_examples(tmp_path: Path) -> None:
    """``evaluate(...).to_pandas()`` has a row for each run, and the id of its example beside its own."""
    head = "inputs.question,outputs.answer,error,reference.answer,feedback.correct,execution_time"
    head += ",example_id,id"
    rows = [
        f"What is {i} times 10?,{said(i, j)},,{10 * i},{RIGHT[i, j]},2.5,example-{i},run-{i}-{j}"
        for i, j in paths()
    ]
    file = tmp_path / "experiment.csv"
    file.write_text("\n".join([head, *rows]) + "\n")
    with pytest.raises(LogError, match="--columns id=example_id"):
        open_record(file)
    record = open_record(file, Opening(columns="id=example_id"))
    assert record.ballot.votes.scored().tolist() == RIGHT.tolist()
    assert [question.gold for question in record.ballot.questions] == [str(10 * i) for i in range(QUESTIONS)]
    assert record.ballot.questions[0].answers == tuple(said(0, j) for j in range(PATHS))


def test_equal_rollouts_without_a_name_or_a_time_are_paths(tmp_path: Path) -> None:
    path = verifiers_results(tmp_path, paths())
    about = ("example_id", "prompt", "answer")
    said_alike = {"completion": [{"role": "assistant", "content": "7"}], "reward": 1.0}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    lines(path, [{name: row[name] for name in about} | said_alike for row in rows])
    read = list(find_log(path).questions(path))
    assert [len(question.answers) for question in read] == [PATHS] * QUESTIONS
