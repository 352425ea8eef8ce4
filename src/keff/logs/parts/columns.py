"""Meanings of a table's columns: given with ``--columns``, or recognised by their names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from difflib import get_close_matches

from keff.errors import LogError
from keff.log import NAMED, NoColumns
from keff.records import Note, frozen

# A word of keff, which always means itself, and the other names of columns that mean it, the surest first.
_NAMES = """
id question_id item_id sample_id doc_id problem_id prompt_id qid task_id example_id instance_id
answer prediction predicted_answer extracted_answer model_answer parsed_answer final_answer predicted pred \
outputs_answer outputs_output
correct is_correct is_right right exact_match acc passed graded correctness \
correctness_math_verify symbolic_correct feedback_correct feedback_correctness
score
gold_answer gold target reference_answer reference ground_truth expected_answer expected \
correct_answer label gt gts reference_output answer_key answerkey expected_output gold_label true_answer \
right_answer correct_option correct_choice ideal
model model_name model_id
slot template prompt_template prompt_name \
judge judge_name judge_model judge_id grader rater rater_id annotator annotator_id
path epoch repeat sample_index trial run_index
tokens output_tokens completion_tokens generated_tokens num_generated_tokens num_output_tokens
prompt_tokens input_tokens
cached_tokens cached_input_tokens
seconds latency latency_s duration_s execution_time
confidence mean_logprob
text completion response generation output model_output raw_output model_response raw_response generated_text
cluster passage_id group_id
question prompt input problem instruction query inputs_question inputs_input
truncated
key
rule
"""
OBVIOUS: Mapping[str, Sequence[str]] = {
    names[0]: names for names in map(str.split, _NAMES.strip().splitlines())
}

# Word for a value of each path -> the list of the JSONL with one line per question.
LISTS: Mapping[str, str] = {
    "answer": "all_answers",
    "correct": "all_correct",
    "score": "all_scores",
    "tokens": "all_tokens",
    "prompt_tokens": "all_prompt_tokens",
    "cached_tokens": "all_cached_tokens",
    "seconds": "all_seconds",
    "confidence": "all_confidences",
    "key": "all_keys",
    "rule": "all_rules",
    "text": "all_texts",
    "truncated": "all_truncated",
    "slot": "slots",
    "model": "branches",
}

# What names of columns may be in the plural, as those of lists are: answers, predictions, generations.
_OF_LISTS = {
    **{name: word for word, name in LISTS.items()},
    **{
        f"{name}s": name
        for word in ("answer", "correct", "score", "gold_answer", "text")
        for name in OBVIOUS[word]
    },
    "samples": "text",
}

# Words of which a table needs one, unless it has graded scores.
VERDICTS = frozenset({"answer", "text", "correct"})

# Words whose column is never guessed among several.
DECISIVE = ("id", "answer", "correct", "gold_answer")

# Columns of these names say who judged: a source of paths where it differs between those of a question.
JUDGES = frozenset(name for name in OBVIOUS["slot"] if name.startswith(("judge", "grader", "rater", "annot")))

_GOLD_LIKE = re.compile(r"gold|truth|reference|expected|solution|ideal|oracle|correct|label|target")

# Letters by chance are less alike.
LIKE = 0.65

# answer1, answer_1: one column per path. The name is taken as short as it goes, so all digits are the number.
_NUMBERED = re.compile(r"(.+?)_?(\d+)")


def parse_columns(text: str | None) -> dict[str, str]:
    """Return the columns by meaning from ``id=question_id,answer=prediction``; raises LogError."""
    given: dict[str, str] = {}
    for pair in (text or "").split(",") if text else []:
        word, equals, column = (part.strip() for part in pair.partition("="))
        if not equals or not column:
            raise LogError(f"--columns {pair.strip()!r}: write it as word=column, such as id=question_id")
        if word not in OBVIOUS:
            raise LogError(f"--columns: there is no {word!r}; there are {', '.join(OBVIOUS)}")
        if word in given:
            raise LogError(f"--columns names {word} twice")
        given[word] = column
    return given


@frozen
class Layout:
    """The columns of a table by meaning.

    ``single`` maps words to columns; ``numbered`` words to columns of path 1, 2, ... in order (a table with
    one row per question); ``notes`` say which names were taken for which word.
    """

    single: Mapping[str, str]
    numbered: Mapping[str, tuple[str, ...]]
    notes: tuple[Note, ...] = ()

    @property
    def used(self) -> frozenset[str]:
        """The columns with a known meaning."""
        return frozenset(self.single.values()).union(*map(frozenset, self.numbered.values()))

    @property
    def needed(self) -> frozenset[str]:
        """The columns every row must have, or its path would be read as one without an answer."""
        words = ("id", "answer", "correct", "model")
        single = (column for word, column in self.single.items() if word in words)
        return frozenset(single).union(*map(frozenset, self.numbered.values()))


def lay_out(
    names: Sequence[str], given: Mapping[str, str] | None = None, say: str = "--columns "
) -> Layout | str:
    """Return the columns of a table by meaning, or why it cannot be read.

    What is given wins. Else a column called like the word, else one with an obvious name; among several
    obvious names for the id, the answer, its correctness or the gold answer nothing is guessed. Where no
    column is an id, the text of the question tells questions apart. ``say`` is what stands before word=column
    where the user names one.
    """
    given = dict(given or {})
    twice = sorted(name for name, count in Counter(names).items() if name and count > 1)
    if twice:
        return f"the column {twice[0]!r} occurs twice: rename one"
    runs = _runs_by_stem(names)
    single: dict[str, str] = {}
    numbered: dict[str, tuple[str, ...]] = {}
    beside = _gold_beside_lists(names, given)
    for word, column in (given | beside).items():
        if column in names:
            single[word] = column
        elif column in runs:
            numbered[word] = runs[column]
        else:
            return f"it has no column {column!r} (it has {_some(names)})"
    taken = _add_known_columns(names, runs, given | beside, single, numbered)
    if not isinstance(taken, list):
        return _ask(taken, say)
    if (doubt := _doubt(single, numbered, given, say)) is not None:
        return doubt
    if "text" not in given and _is_input(single):
        text = single.pop("text")
        beside |= {} if "question" in single else {"question": text}
        single.setdefault("question", text)
    if "id" not in single and "question" in single:
        asked = {"id": single["question"]}
        beside |= asked
        single |= asked
    taken += [f"{column} as {word}" for word, column in beside.items()]
    notes = [Note("columns", f"Columns used: {', '.join(taken)}")] if taken else []
    notes += _unread_score(given, single, numbered, say)
    notes += _unread_gold(names, {*single, *numbered}, {*single.values()}, say)
    lacking = _lacking({*single, *numbered})
    if lacking:
        used = {*single.values(), *(name for run in numbered.values() for name in run)}
        example = _example(lacking, names, runs, used)
        name = "it" if len(lacking) == 1 else "them"
        way = f"Name {name}: {say}{example}" if "id=COLUMN" not in example else "Give each question an id"
        way += _of_verdicts(lacking, single, say)
        return NoColumns(f"no {' and no '.join(lacking)} column found (it has: {_some(names)}). {way}")
    return Layout(single, numbered, tuple(notes))


def _unread_score(
    given: Mapping[str, str], single: dict[str, str], numbered: dict[str, tuple[str, ...]], say: str
) -> Iterator[Note]:
    """Leave out a score column beside verdicts, with a note.

    A column of that name may be anything; it counts where nothing else says how good a path is.
    """
    if "score" in given or not VERDICTS & {*single, *numbered}:
        return
    score = single.pop("score", None)
    numbered.pop("score", None)
    if score and "correct" not in {*single, *numbered}:
        yield Note("score_unread", f"{score} is not read: {say}correct={score} where it is 0 and 1")


def _unread_gold(names: Sequence[str], has: set[str], used: set[str], say: str) -> Iterator[Note]:
    """Yield a note on a column that may hold the gold answers, where none is known to."""
    if {"answer", "text"} & has and not {"gold_answer", "correct", "score"} & has:
        for name in [name for name in names if name not in used and may_be_gold(name)][:1]:
            yield Note("gold_unread", f"if {name} holds the gold answers, add {say}gold_answer={name}")


def may_be_gold(name: str) -> bool:
    """Return whether a column of this name may hold gold answers."""
    form = _form(name)
    return form in OBVIOUS["gold_answer"] or _GOLD_LIKE.search(form) is not None


def _singular(name: str) -> str:
    """Return what a column is called in the singular: ``all_preds``, ``pred_list`` and ``pred`` are one."""
    form = _form(name)
    bare = form.removeprefix("all_").removesuffix("_list")
    return _OF_LISTS.get(form) or _OF_LISTS.get(bare, bare)


def may_list(name: str) -> bool:
    """Return whether a column of this name may hold the list of a question's paths, and no single text."""
    form = _singular(name)
    plural = form != _form(name) or name.startswith(NAMED)
    return plural or any(form in OBVIOUS[word] for word in LISTS.keys() - {"answer", "text"})


def hold_paths(names: Iterable[str], words: Iterable[str] = VERDICTS) -> bool:
    """Return whether fields of these names are those of one path of a question."""
    return any(_singular(name) in OBVIOUS[word] for name in names for word in words)


def _gold_beside_lists(names: Sequence[str], given: Mapping[str, str]) -> dict[str, str]:
    """Return "answer" as the gold one where the texts of paths have a name in the plural."""
    forms = {name: _singular(name) for name in names}
    listed = any(form != _form(name) and form in OBVIOUS["text"] for name, form in forms.items())
    known = {"answer", "gold_answer"} & given.keys() | {*OBVIOUS["gold_answer"]} & {*forms.values()}
    return {"gold_answer": "answer"} if listed and "answer" in names and not known else {}


def _may_be_gold(single: Mapping[str, str]) -> bool:
    """Return whether a column "answer" may hold gold answers: beside completions, without another."""
    own = single.get("answer", "") in ("answer", "answers")
    return own and single.get("text", "text") != "text" and "gold_answer" not in single


def _doubt(
    single: Mapping[str, str],
    numbered: Mapping[str, tuple[str, ...]],
    given: Mapping[str, str],
    say: str,
) -> str | None:
    """Return a question to the user where a column may be the gold answer, or the input; else None."""
    if not {"answer", "text"} & given.keys() and _may_be_gold(single):
        answer, text = single["answer"], single["text"]
        meant = f"gold_answer={answer},text={text}, or answer={answer}"
        return f"{answer} may be the gold answer beside {text}: say {say}{meant}"
    if "text" not in given and _is_input(single) and not {"answer", "correct"} & {*single, *numbered}:
        return f"text may be the input beside label: say {say}text=text, or answer=COLUMN"
    return None


def _is_input(single: Mapping[str, str]) -> bool:
    """Return whether a column "text" is the input, as it is in data sets with a "label"."""
    return _form(single.get("text", "")) == "text" and _form(single.get("gold_answer", "")) == "label"


def _add_known_columns(
    names: Sequence[str],
    runs: Mapping[str, tuple[str, ...]],
    given: Mapping[str, str],
    single: dict[str, str],
    numbered: dict[str, tuple[str, ...]],
) -> list[str] | tuple[str, list[str]]:
    """Add columns recognised by name; returns those taken, or a meaning with several candidates."""
    by_form: dict[str, list[str]] = {}
    for name in names:
        by_form.setdefault(_singular(name), []).append(name)
    used = set(given.values())
    taken: list[str] = []
    for word, known in OBVIOUS.items():
        if word in given:
            continue
        here = [name for form in known for name in by_form.get(form, []) if name not in used]
        wide = [
            stem for form in known for stem in runs if _OF_LISTS.get(stem, stem) == form and stem not in used
        ]
        if _is_ambiguous(word, here, given):
            return word, here
        if here:
            single[word] = here[0]
        elif wide and word in LISTS:
            numbered[word] = runs[wide[0]]
        column = here[0] if here else f"{numbered[word][0]}, ..." if word in numbered else word
        if column != word and not column.startswith(f"{word}_"):
            taken.append(f"{column} as {word}")
    return taken


def _is_ambiguous(word: str, here: Sequence[str], given: Mapping[str, str]) -> bool:
    """Return whether a required meaning has several candidate columns."""
    if word not in DECISIVE or len(here) < 2:
        return False
    # A column called "answer" beside another that holds predictions is the gold answer as often as not, and
    # "id" beside "question_id" may number the rows.
    own = here[0] == word and (word not in ("answer", "id") or (word == "answer" and "gold_answer" in given))
    return not own


def _ask(unclear: tuple[str, list[str]], say: str) -> str:
    word, here = unclear
    example = f"{say}{word}={here[1]}"
    if word == "answer":
        example += f",gold_answer={here[0]}"
    with_what = f" with {say.strip()}" if say else ""
    return f"{word} may be {' or '.join(here)}: say which{with_what}, such as {example}"


def _of_verdicts(lacking: Sequence[str], single: Mapping[str, str], say: str) -> str:
    """Return how confidences alone are read, in words; empty for other columns."""
    rated = single.get("confidence")
    if lacking != ["answer"] or rated is None:
        return ""
    return f". Where {rated} is a checker's verdict, 0 or 1: {say}correct={rated}"


def _lacking(has: set[str]) -> list[str]:
    """Return the required meanings without a column."""
    answered = has & VERDICTS or "score" in has
    return [*([] if "id" in has else ["id"]), *([] if answered else ["answer"])]


def _example(
    lacking: Sequence[str], names: Sequence[str], runs: Mapping[str, tuple[str, ...]], used: set[str]
) -> str:
    """Return a --columns value that maps missing meanings, and gold answers, to the most similar columns.

    Columns of one path each go by their stem.
    """
    stems = {name: stem for stem, run in runs.items() if len(run) > 1 for name in run}
    meant = [n for n in names if n and n not in used and not _is_about_runs(n) and not may_be_gold(n)]
    free = list(dict.fromkeys(stems.get(name, name) for name in meant))
    nearest = {word: _nearest(word, free) for word in lacking}
    nearest = {
        _MEANT.get(_form(name), word) if word == "answer" else word: name for word, name in nearest.items()
    }
    gold = [name for name in names if name not in used and may_be_gold(name)]
    if {"answer", "text"} & nearest.keys() and gold:
        nearest["gold_answer"] = gold[0]
    return ",".join(f"{word}={name}" for word, name in nearest.items())


# Columns that stand where an answer is missed: whole conversations, whose last message is a completion and no
# ready answer, and verdicts.
_MEANT: Mapping[str, str] = {
    **dict.fromkeys(
        ("messages", "conversation", "transcript", "trajectory", "chat", "history", "trace", "dialogue"),
        "text",
    ),
    **dict.fromkeys(
        ("verdict", "outcome", "judgement", "judgment", "pass", "success", "solved", "resolved", "ok"),
        "correct",
    ),
}


_NUMBERING = frozenset({"id", "index", "idx", "name", "number", "no", "num", "count"})

# Words in names of columns that count, measure or remark on a path: none is its answer, or an id.
_ABOUT_RUNS = frozenset(
    (
        *("attempt", "attempts", "retry", "retries", "count", "counts", "total", "totals", "num", "number"),
        *("tokens", "seconds", "latency", "duration", "time", "timestamp", "date", "cost", "price", "usd"),
        *("status", "state", "error", "exception", "turn", "step", "seed", "temperature", "length", "size"),
        *("rank", "version", "metric", "judge", "comment", "note", "mean", "avg", "average", "std", "votes"),
    )
)


def is_called(name: str, words: AbstractSet[str]) -> bool:
    """Return whether a column's name has one of the words, alone or with what numbers it: ``step_id``."""
    parts = _form(name).split("_")
    return parts[-1] in words or (parts[-1] in _NUMBERING and parts[-2:-1] != [] and parts[-2] in words)


def _is_about_runs(name: str) -> bool:
    words = _form(name).split("_")
    return not _ABOUT_RUNS.isdisjoint(words) and words[0] not in ("question", "item", "problem", "task")


def _nearest(word: str, free: list[str]) -> str:
    """Remove and return the column with the most similar name to a meaning; else the first."""
    known = (
        *OBVIOUS[word],
        *(["q", "uuid", "idx"] if word == "id" else [LISTS[word], "guess"]),
    )
    long = [form for form in known if len(form) > 4]  # of fewer letters many words are alike
    for name in free:
        if (form := _form(name)) in known or get_close_matches(form, long, 1, LIKE):
            free.remove(name)
            return name
    return free.pop(0) if free else "COLUMN"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(name[:40] for name in names[:12])
    return f"{shown}, ..." if len(names) > 12 else shown


def _form(name: str) -> str:
    """Return a name as it is compared: ``answerKey``, ``Answer key`` and ``answer.key`` are answer_key."""
    return re.sub(r"[\s.\-]+|(?<=[a-z\d])(?=[A-Z])", "_", name.strip()).lower()


def _runs_by_stem(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return columns such as answer_1, answer_2, ... by their stem, in numerical order."""
    runs: dict[str, dict[int, str]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(_form(name))
        if match:
            runs.setdefault(match[1], {})[int(match[2])] = name
    return {stem: tuple(run[number] for number in sorted(run)) for stem, run in runs.items()}
