"""The documentation says what is true: its commands run, its examples hold, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import keff

pytestmark = pytest.mark.slow

REPO = Path(__file__).resolve().parents[2]
DOCS = REPO / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), REPO / "README.md"])
EXAMPLES = sorted((REPO / "examples").glob("*.py"))
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [code for name, code in FENCE.findall(page.read_text("utf-8")) if name == language]


def run(command: list[str], folder: Path) -> str:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONWARNINGS": "error",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_quick_start_runs_from_an_empty_folder(tmp_path: Path) -> None:
    pytest.importorskip("altair")
    shell = blocks(DOCS / "quickstart.md", "bash")
    assert len(shell) >= 6
    out = run(["bash", "-euo", "pipefail", "-c", "\n".join(shell)], tmp_path)
    assert "pilot too small" in out
    for name in ("plan.json", "report.html", "estimates.json", "pilot/paths.sqlite"):
        assert (tmp_path / name).stat().st_size > 0


@pytest.mark.parametrize("page", sorted((DOCS / "extending").glob("*.md")), ids=lambda page: page.stem)
def test_the_example_of_each_extension_holds(page: Path, tmp_path: Path) -> None:
    code = blocks(page, "python")
    assert any("assert" in block for block in code)
    run([sys.executable, "-c", "\n".join(code)], tmp_path)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda file: file.stem)
def test_each_example_script_runs(example: Path, tmp_path: Path) -> None:
    assert len(run([sys.executable, str(example)], tmp_path).splitlines()) >= 4


def test_the_study_in_the_documentation_and_those_that_ship_are_studies() -> None:
    from keff.sampling.grid import Study, cells, read_study

    (shown,) = blocks(DOCS / "studies.md", "toml")
    # Arms x tasks x seeds; one record stands for both seeds of its cell.
    assert len(list(cells(Study.model_validate(tomllib.loads(shown))))) == 3 * 2 * 2 - 2 + 1
    for file in (REPO / "studies").glob("*.toml"):
        assert read_study(file).name == file.stem


def test_the_examples_show_every_way_in() -> None:
    ways = {"from_array", "from_frame", "own_policy", "own_task", "self_consistency"}
    assert {example.stem for example in EXAMPLES} == ways


def test_the_help_page_is_what_the_command_line_declares() -> None:
    spec = importlib.util.spec_from_file_location("write_help", REPO / "scripts" / "write_help.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text("utf-8") == script.page(), "run python scripts/write_help.py"


def test_summaries_are_not_cut_in_the_list_of_commands(tmp_path: Path) -> None:
    shown = run([sys.executable, "-m", "keff", "--help"], tmp_path)
    assert "..." not in shown.replace("[ARGS]...", "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_api_reference_has_every_public_name_and_no_other() -> None:
    shown = re.findall(r"^::: keff\.(\w+)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(shown) == sorted(keff.__all__)


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
