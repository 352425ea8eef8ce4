"""Workflows name what they run by a commit, and a tag is released only where everything says the same."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import release_notes
import set_owner
import yaml

REPO = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((REPO / ".github" / "workflows").glob("*.yml"))
PYPROJECT = '[project]\nversion = "1.2.0"\nurls = { Homepage = "https://github.com/someone/keff" }\n'
CHANGELOG = "# Changelog\n\n## 1.2.0 (2026-01-31)\n\n- New.\n\n## 1.1.0 (2026-01-01)\n\n- Old.\n"


def test_every_action_is_pinned_by_its_commit() -> None:
    for file in (*WORKFLOWS, REPO / "action.yml", REPO / "examples" / "gate.yml"):
        for used in re.findall(r"uses: (\S+.*)", file.read_text("utf-8")):
            if "/keff@" not in used:
                assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", used), (file.name, used)


def test_ci_runs_every_python_that_the_metadata_name() -> None:
    jobs = yaml.safe_load((REPO / ".github" / "workflows" / "ci.yml").read_text("utf-8"))["jobs"]
    named = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    wanted = [version[1] for each in named if (version := re.search(r"Python :: (3\.\d+)$", each))]
    assert jobs["quick"]["strategy"]["matrix"]["python"] == wanted


def test_a_job_writes_only_what_it_says() -> None:
    """A workflow's token reads; a job that writes names each right."""
    for file in WORKFLOWS:
        flow = yaml.safe_load(file.read_text("utf-8"))
        assert flow["permissions"] == {"contents": "read"}
        writing = {name for name, job in flow["jobs"].items() if "write" in str(job.get("permissions", ""))}
        assert writing <= {"pages", "publish", "image", "github"}


def test_a_release_has_the_notes_of_its_version() -> None:
    assert release_notes.notes("v1.2.0", PYPROJECT, CHANGELOG) == "- New.\n"


@pytest.mark.parametrize(
    ("tag", "pyproject", "changelog", "why"),
    [
        ("v1.3.0", PYPROJECT, CHANGELOG, "the tag v1.3.0 is not v1.2.0"),
        ("v1.2.0", PYPROJECT, CHANGELOG.replace("2026-01-31", "unreleased"), "has no date: unreleased"),
        ("v1.2.0", PYPROJECT, CHANGELOG.replace("1.2.0", "1.2.1"), "no entry 1.2.0"),
        ("v1.2.0", PYPROJECT.replace("someone", "OWNER"), CHANGELOG, "set_owner.py"),
    ],
)
def test_a_tag_that_is_no_release_is_refused(tag: str, pyproject: str, changelog: str, why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        release_notes.notes(tag, pyproject, changelog)


def test_the_changelog_has_the_version_of_the_metadata() -> None:
    version = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert re.search(
        rf"^## {re.escape(version)} \(", (REPO / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )


def test_a_new_owner_is_written_everywhere(tmp_path: Path) -> None:
    files = {
        "pyproject.toml": 'Homepage = "https://github.com/OWNER/keff"  # OWNER is the account',
        "docs/deep/page.md": "https://OWNER.github.io/keff and https://github.com/OWNER/keff/issues",
        ".github/CODEOWNERS": "* @OWNER",
        "README.md": "nothing to write",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    (tmp_path / "image.png").write_bytes(b"\x89\0OWNER/keff")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
    assert set(set_owner.set_owner("some-one", tmp_path)) == {*files} - {"README.md"}
    written = {name: (tmp_path / name).read_text("utf-8") for name in files}
    assert (
        written["pyproject.toml"] == 'Homepage = "https://github.com/some-one/keff"  # OWNER is the account'
    )
    assert (
        written["docs/deep/page.md"].count("some-one") == 2 and written[".github/CODEOWNERS"] == "* @some-one"
    )
    assert [*set_owner.set_owner("another", tmp_path)] and "@another" in (
        tmp_path / ".github/CODEOWNERS"
    ).read_text()
