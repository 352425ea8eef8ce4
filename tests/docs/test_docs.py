"""The documentation says what is true: its commands run, its examples hold, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import command_line
import keff
from benchmarks.places import RECORDED
from docs_pages import DOCS, FENCE, OFFLINE, PAGES, README, REPO, blocks, commands, offline, prepared
from under_ci import skip_or_fail

pytestmark = pytest.mark.slow

RECORD = RECORDED / "boinf_math500_NVIDIA-Nemotron-Nano-9B-v2.jsonl"
EXAMPLES = sorted((REPO / "examples").glob("*.py"))


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def typed(script: str, folder: Path) -> str:
    """Run a shell script; its keff commands that redirect nothing in this process, which has it."""
    out, others = "", ""
    for line in [*script.splitlines(), "keff --version"]:
        if not line.startswith("keff ") or " > " in line:
            others += line + "\n"
            continue
        out += run(["bash", "-euo", "pipefail", "-c", others], folder) if others.strip() else ""
        done = command_line.keff(*shlex.split(line)[1:], cwd=folder)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Warning" not in done.stderr
        out, others = out + done.stdout, ""
    return out


@pytest.mark.integration
def test_the_quick_start_runs_from_an_empty_folder(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    shell = blocks(DOCS / "quickstart.md", "bash")
    assert len(shell) >= 6
    out = typed("\n".join(shell), tmp_path)
    assert "Brackets hold 95% intervals" in " ".join(out.split())
    assert "Vote: voting helped by" in out
    for name in ("plan.json", "report.html", "estimates.json", "pilot/paths.sqlite"):
        assert (tmp_path / name).stat().st_size > 0


def test_the_cookbook_runs_from_an_empty_folder(tmp_path: Path) -> None:
    pytest.importorskip("sqlglot")
    page = DOCS / "cookbook.md"
    shell, code = blocks(page, "bash"), blocks(page, "python")
    assert len(shell) >= 5
    out = typed("\n".join(shell), tmp_path)
    assert "branches on 60 shared questions" in out
    assert (tmp_path / "plan.json").stat().st_size > 0
    assert (tmp_path / "both.jsonl").read_text("utf-8").count("\n") == 60
    run([sys.executable, "-c", "\n".join(code)], tmp_path)


RUN = {
    "quickstart.md",
    "cookbook.md",
    "integrations.md",
    *(f"extending/{page.name}" for page in (DOCS / "extending").glob("*.md")),
}
"""Pages whose ``bash`` and ``python`` blocks are run by a test."""
SHOWN = {"", "sh", "py", "text", "toml", "json", "yaml", "ini"}
"""Languages of blocks that are shown and not run."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_is_run_or_marked_as_shown(page: Path) -> None:
    text = page.read_text("utf-8")
    opened = re.findall(r"^```(\w*)[^\n]*\n.*?^```$", text, re.MULTILINE | re.DOTALL)
    allowed = SHOWN | (
        {"bash", "python"} if str(page.relative_to(DOCS.parent)).removeprefix("docs/") in RUN else set()
    )
    assert set(opened) <= allowed


# Logs that pages name and do not make, by the samples that stand for them.
STAND_INS = {
    "small.jsonl": "small.jsonl a.jsonl model_a.jsonl baseline.jsonl log.jsonl answers.jsonl",
    "large.jsonl": "large.jsonl b.jsonl model_b.jsonl run.jsonl",
    "answers.csv": "answers.csv",
}


@pytest.mark.usefixtures("decided_once")
def test_the_commands_of_the_pages_run(tmp_path: Path) -> None:
    """Each command that only reads runs once, where the logs that it names are samples or have a stand-in."""
    pytest.importorskip("vl_convert")
    prepared(tmp_path)
    for sample, names in STAND_INS.items():
        for name in names.split():
            shutil.copy(tmp_path / "examples" / sample, tmp_path / name)
    rows = [json.loads(line) for line in (tmp_path / "small.jsonl").read_text("utf-8").splitlines()]
    verdicts = [
        {"id": r["id"], "all_correct": [a == r["gold_answer"] for a in r["all_answers"]]} for r in rows
    ]
    (tmp_path / "verdicts.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in verdicts))
    both = [(tmp_path / f"{name}.jsonl").read_text("utf-8") for name in ("small", "large")]
    (tmp_path / "models.jsonl").write_text("".join(both))
    prices = [f"[{name}]\nprompt = 0.5\noutput = {output}\n" for name, output in (("small", 2), ("large", 8))]
    (tmp_path / "prices.toml").write_text("".join(prices))
    shown = dict.fromkeys(line for page in PAGES if page.name != "help.md" for line in commands(page))
    ready = [line for line in shown if line.split()[1] in OFFLINE and _has_files(line, tmp_path)]
    assert set(offline(README)) <= set(ready) and len(ready) > 20
    typed("\n".join(ready), tmp_path)
    assert (tmp_path / "report.html").stat().st_size > 100_000


def _has_files(line: str, folder: Path) -> bool:
    """Return whether a command names files to read, and all of them exist."""
    read = re.sub(r" (-o|--report) \S+", "", line)
    files = re.findall(r"\S+\.(?:csv|jsonl|toml|npy)", read)
    return bool(files) and all((folder / file).exists() for file in files)


def test_pages_show_what_commands_print_now(tmp_path: Path) -> None:
    """Each block of output stands whole in what the command before it prints."""
    prepared(tmp_path)
    text = RECORD.read_text("utf-8").replace('{"id"', '{"model": "nemotron-nano-9b-v2", "id"')
    (tmp_path / "answers.jsonl").write_text(text)
    (prices,) = blocks(DOCS / "case-study.md", "toml")
    (tmp_path / "prices.toml").write_text(prices)
    for page in ("case-study.md", "how-far-to-trust-a-score.md"):
        said = ""
        for language, block in FENCE.findall((DOCS / page).read_text("utf-8")):
            if language == "sh" and not block.startswith("keff serve"):
                words = shlex.split(block.splitlines()[0].partition("  #")[0])
                files = [word for word in words if word.endswith((".jsonl", ".csv"))]
                if all((tmp_path / file).exists() for file in files):
                    done = command_line.keff(*words[1:], cwd=tmp_path)
                    said = " ".join((done.stdout + done.stderr).split())
            if language == "text":
                assert " ".join(block.split()) in said, f"{page}: {block}"


def test_the_other_commands_of_the_pages_have_only_options_that_exist() -> None:
    declared = (DOCS / "help.md").read_text("utf-8")
    sections = dict(re.findall(r"^## keff ([\w-]+)\n(.*?)(?=^## |\Z)", declared, re.MULTILINE | re.DOTALL))
    for page in PAGES:
        if page.name == "help.md":
            continue
        for command in commands(page):
            words = command.split()
            if words[1] in sections:
                for option in re.findall(r"(?<=\s)(--[a-z][\w-]*)", command):
                    assert option in sections[words[1]], f"{page.name}: {command}"


def module(name: str) -> Any:
    """Load one of the scripts."""
    spec = importlib.util.spec_from_file_location(name, REPO / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def test_the_results_of_the_readme_are_those_of_the_atlas() -> None:
    script = module("write_readme")
    text = script.README.read_text("utf-8")
    for page in (text, script.TABLE.read_text("utf-8")):
        assert script.filled(page) == page, "run python scripts/write_readme.py"
    assert script.beside() == script.FILE.read_text("utf-8"), "run python scripts/write_readme.py"
    entries = script.read_atlas(DOCS / "atlas" / "atlas.json").entries
    rows = script.chosen(entries)
    assert len({row.model for row in rows}) == len({row.dataset for row in rows}) == len(rows) == 5
    assert all(row.paths >= 32 for row in rows)
    first = " ".join(text.split())
    eight = [entry for entry in entries if entry.paths >= 8]
    paths = median(entry.mean_paths.value for entry in eight if entry.mean_paths)
    kept = median(entry.kept.value for entry in eight if entry.kept)
    assert f"In the median of {len(eight)} recorded workloads" in first
    assert f"{paths:.1f} reasoning paths per question keep {kept:.1%} of the accuracy of 8" in first


@pytest.mark.parametrize("page", sorted((DOCS / "extending").glob("*.md")), ids=lambda page: page.stem)
def test_the_example_of_each_extension_holds(page: Path, tmp_path: Path) -> None:
    code = blocks(page, "python")
    assert any("assert" in block for block in code)
    run([sys.executable, "-c", "\n".join(code)], tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_each_example_script_runs(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has imported what an example imports: that takes longer than it does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(example), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) >= 4


def test_the_study_in_the_documentation_and_those_that_ship_are_studies() -> None:
    from keff.sampling.grid import Study, cells, read_study

    (shown,) = blocks(DOCS / "studies.md", "toml")
    # Arms x tasks x seeds; one record stands for both seeds of its cell.
    assert len(list(cells(Study.model_validate(tomllib.loads(shown))))) == 3 * 2 * 2 - 2 + 1
    for file in (REPO / "studies").glob("*.toml"):
        assert read_study(file).name == file.stem


def test_the_notebook_runs_from_its_first_cell_to_its_last() -> None:
    pytest.importorskip("vl_convert")
    notebook = json.loads((REPO / "examples" / "first_hour.ipynb").read_text("utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 5 and all(cell["outputs"] == [] for cell in notebook["cells"] if "outputs" in cell)
    names: dict[str, Any] = {}
    for cell in cells:
        exec(compile(cell, "first_hour.ipynb", "exec"), names)  # as a kernel would, one after the other
    assert "<table>" in names["analysis"]._repr_html_() and "<table>" in names["replay"]._repr_html_()


def test_the_first_page_links_the_pages_of_the_four_paths_in_their_order() -> None:
    navigation = (
        (REPO / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2].partition("  - Appendix:")[0]
    )
    sections = dict(re.findall(r"^  - ([^:\n]+):\n((?:      - .*\n)+)", navigation, re.MULTILINE))
    assert list(sections) == ["Reproduce the paper", "Cut a bill", "Trust a score", "Extend keff"]
    pages = re.findall(r": (\S+\.md)$", "".join(sections.values()), re.MULTILINE)
    text = (DOCS / "index.md").read_text("utf-8").partition("All else")[0]
    assert re.findall(r"\]\(([^)]+\.md)\)", text) == pages


def test_the_recording_shows_what_the_commands_print_now() -> None:
    script = module("write_pictures")
    drawn = script.recording(script.minute(RECORD))
    file = script.ASSETS / "first-minute.svg"
    made, kept = (re.findall(r"<text[^>]*>([^<]*)</text>", svg) for svg in (drawn, file.read_text("utf-8")))
    assert kept == made, f"run python scripts/write_pictures.py {RECORD}"


def test_the_pictures_show_what_the_page_does_now() -> None:
    pytest.importorskip("playwright.sync_api")
    script = module("write_pictures")
    if not shutil.which("chromium"):
        skip_or_fail("chromium is not installed: apt-get install chromium")
    again = f"run python scripts/write_pictures.py {RECORD}"
    drawn = script.shots(RECORD)
    kept = {theme: (script.ASSETS / f"report-{theme}.png").read_bytes() for theme in drawn}
    for theme in drawn:
        told = script.description(kept[theme])
        assert told and told == script.description(drawn[theme]), again
    pairs = [*((kept[theme], drawn[theme]) for theme in drawn), (kept["light"], kept["dark"])]
    *differ, themes = script.differences(pairs)
    # A line that moves by its own width is 2 pixels of 1,000; the same page, drawn twice, differs by none.
    assert themes > 0.5 and max(differ) < 0.001, (differ, again)


def test_the_examples_show_every_way_in() -> None:
    ways = {"from_array", "from_frame", "own_policy", "own_task", "self_consistency", "templates_by_design"}
    assert {example.stem for example in EXAMPLES} == ways


def test_the_help_page_is_what_the_command_line_declares() -> None:
    script = module("write_help")
    assert script.PAGE.read_text("utf-8") == script.page(), "run python scripts/write_help.py"
    assert script.API.read_text("utf-8") == script.api_page(), "run python scripts/write_help.py"


def test_summaries_are_not_cut_in_the_list_of_commands(tmp_path: Path) -> None:
    shown = run([sys.executable, "-m", "keff", "--help"], tmp_path)
    assert "..." not in shown.replace("[ARGS]...", "")


def anchors(page: Path) -> set[str]:
    """Return the addresses of a page's headings, as the site and GitHub make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = [re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", head).strip().lower() for head in heads]
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head)).strip("-") for head in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)|src(?:set)?=\"([^\"]+)\"", page.read_text("utf-8"))
    for target, heading, picture in links:
        target = target or picture
        if target.startswith(("http://", "https://", "data:")):
            continue
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name}: {target}"
        if heading and there.suffix == ".md" and there.name != "api.md":
            assert heading in anchors(there), f"{page.name}: {target}#{heading}"


def test_the_api_reference_has_every_public_name_and_no_other() -> None:
    shown = re.findall(r"^::: keff\.(\w+)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(shown) == sorted(keff.__all__)


def test_the_examples_of_docstrings_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(REPO / "examples", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    shown = [
        example
        for name in keff.__all__
        for example in re.findall(r"Example: ``(keff\..+?)``\.", inspect.getdoc(getattr(keff, name)) or "")
    ]
    assert len(shown) >= 14
    for example in shown:
        assert eval(example, {"keff": keff}) not in (False, None), example


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r": ([\w/.-]+\.md)$", (REPO / "mkdocs.yml").read_text("utf-8"), re.MULTILINE))
    assert listed == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_policies_in_the_guide_exist() -> None:
    from keff.plugins import names
    from keff.policy import parse_policy

    named = re.findall(r"^\| `([^`]+)` \|", (DOCS / "which-policy.md").read_text("utf-8"), re.MULTILINE)
    assert {one.partition(":")[0] for one in named} == set(names("policy"))
    for one in named:
        parse_policy(one.replace(":K", ":8"))
