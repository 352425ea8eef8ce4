"""Plugins of other packages.

Found by entry point, listed by their docstring, and named where they are broken.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from keff import plugins
from keff.answers import space
from keff.errors import PluginError, TaskError
from keff.log import find_log

MODULES = {
    "good": '"""Counts to three.\n\nAnd more."""\n\n\n'
    'def task(*, data: str = ""):\n    return ("good", data)\n',
    "bare": 'def make(*, size: int = 1):\n    """Make the bare one."""\n    return size\n',
    "broken_import": "import no_such_module_anywhere\n",
    "broken_syntax": "def task(:\n",
    "raises": "raise RuntimeError('no licence')\n",
    "no_callable": "task = 3\n",
}
POINTS = """[keff.tasks]
good = others.good:task
bare = others.bare:make
broken_import = others.broken_import:task
broken_syntax = others.broken_syntax:task
raises = others.raises:task
missing = others.good:nothing
no_callable = others.no_callable:task
absent = no_such_package:task

[keff.logs]
broken_log = others.raises:log
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a package with good and broken plugins, as pip would."""
    package = tmp_path / "others"
    package.mkdir()
    for name, code in {"__init__": "", **MODULES}.items():
        (package / f"{name}.py").write_text(code)
    info = tmp_path / "others-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield
    for name in [name for name in sys.modules if name.split(".")[0] == "others"]:
        del sys.modules[name]


@pytest.mark.usefixtures("installed")
def test_every_plugin_is_listed_with_its_docstring_or_what_is_wrong_with_it() -> None:
    shown = plugins.summaries("task")
    assert shown["good"] == "Counts to three."
    assert shown["bare"] == "Make the bare one."
    for name, says in {
        "broken_import": "no_such_module_anywhere",
        "broken_syntax": "SyntaxError",
        "raises": "no licence",
        "missing": "nothing",
        "no_callable": "not callable",
        "absent": "no_such_package",
    }.items():
        assert shown[name].startswith("broken: ")
        assert f"task {name}" in shown[name] and says in shown[name]
        assert "\n" not in shown[name]
        with pytest.raises(PluginError, match=name):
            plugins.load("task", name)
    assert shown["gsm8k"] and not any(
        text.startswith("broken") for text in map(shown.get, ("gsm8k", "jsonl"))
    )
    assert set(shown) == set(plugins.names("task"))


@pytest.mark.usefixtures("installed")
def test_a_broken_log_reader_does_not_stop_the_others(tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    file.write_text('{"id": "1", "gold_answer": "a", "all_answers": ["a", "b"]}\n')
    assert find_log(file).name == "keff_jsonl"
    with pytest.raises(PluginError, match="broken_log"):
        find_log(file, "broken_log")


@pytest.mark.usefixtures("installed")
def test_a_plugin_gets_its_options_and_says_which_it_has() -> None:
    assert plugins.load("task", "good", data="x") == ("good", "x")
    with pytest.raises(
        PluginError, match=r"task good: unknown option 'dta'; did you mean data\? There are: data"
    ):
        plugins.load("task", "good", dta="x")


def test_a_misspelt_answer_space_is_told_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text('{"question": "1 + 1?", "answer": "2"}\n')
    with pytest.raises(TaskError, match=r"unknown answer space 'numric'; did you mean numeric\?"):
        plugins.load("task", "jsonl", data=str(file), answer_space="numric")
    with pytest.raises(TaskError, match=r"did you mean choice\?"):
        space("choise")  # type: ignore[arg-type]


def test_what_engines_declare_is_read_without_importing_them() -> None:
    declared = {
        name: (plugins.declares("engine", name, "local"), plugins.declares("engine", name, "needs_gpu"))
        for name in plugins.names("engine")
    }
    assert declared == {
        "fake": (True, False),
        "llamacpp": (True, False),
        "openai": (False, False),
        "transformers": (True, True),
        "vllm": (True, True),
    }
    assert [name for name in declared if plugins.declares("engine", name, "takes_oracle")] == ["fake"]
    assert [name for name in declared if plugins.declares("engine", name, "takes_prompts")] == ["llamacpp"]
    with pytest.raises(PluginError, match="unknown engine"):
        plugins.declares("engine", "warp", "local")


@pytest.mark.usefixtures("installed")
def test_the_source_of_another_package_is_read_too() -> None:
    assert plugins.declares("task", "good", "local") is False
    assert plugins.declares("task", "absent", "local") is False
    assert plugins.declares("task", "broken_syntax", "local") is False


@pytest.mark.parametrize(
    ("kind", "name", "meant"),
    [("task", "gms8k", "gsm8k"), ("engine", "lamacpp", "llamacpp"), ("log", "lm-eval", "lm_eval")],
)
def test_a_misspelt_name_is_told_the_nearest(kind: plugins.Kind, name: str, meant: str) -> None:
    with pytest.raises(PluginError, match=rf"did you mean {meant}\?"):
        plugins.load(kind, name)


def test_a_broken_file_of_our_own_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "torn.py").write_text("def task(:\n")
    (folder / "empty.py").write_text('"""Nothing here."""\n')
    (folder / "fine.py").write_text('"""A fine task."""\n\n\ndef task():\n    return 1\n')
    monkeypatch.setattr(plugins, "__file__", str(tmp_path / "plugins.py"))
    assert plugins.summaries("task") == {
        "torn": "broken: invalid syntax (<unknown>, line 1)",
        "empty": "broken: it has no task",
        "fine": "A fine task.",
    }


@pytest.mark.usefixtures("installed")
def test_a_name_is_known_whoever_brings_it_and_ours_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plugins.has("task", "good")
    assert not plugins.has("task", "nobody")
    monkeypatch.setattr(plugins, "_entry_points", lambda kind: pytest.fail(f"searched for a {kind}"))
    assert plugins.has("task", "gsm8k")


@pytest.mark.parametrize(
    ("engine", "option", "value", "wanted"),
    [
        ("openai", "timeout", "soon", "a valid number"),
        ("openai", "parallel", 2.5, "a valid integer"),
        ("openai", "n_per_request", "some", "'auto' or a valid integer"),
        ("openai", "thinking", "hard", "'auto', 'template' or 'effort'"),
        ("fake", "p", "half", "a valid number"),
    ],
)
def test_an_option_of_the_wrong_type_is_one_line(
    engine: str, option: str, value: object, wanted: str
) -> None:
    with pytest.raises(PluginError) as raised:
        plugins.load("engine", engine, **{option: value})
    assert str(raised.value) == f"engine {engine}: {option} must be {wanted}, not {value}"


def test_an_option_is_read_as_its_type() -> None:
    written = plugins.load("engine", "fake", p=".6", tokens="12", model=7)
    assert written.identity() == plugins.load("engine", "fake", p=0.6, tokens=12, model="7").identity()
