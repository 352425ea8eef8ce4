"""Files that keff writes are whole or not there."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from pathlib import Path

import pytest

from benchmarks.hostile._writes import room
from command_line import keff
from keff import files

ROWS = [{"id": f"q{i}", "gold_answer": "4", "all_answers": ["4", "5", "4", str(i)]} for i in range(6)]
SOURCES = sorted((Path(__file__).parent.parent / "src" / "keff").rglob("*.py"))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return file


def full(_: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("analyze", "LOG", "-o", "FILE"), "plan.json"),
        (("join", "LOG", "OTHER", "-o", "FILE"), "joined.jsonl"),
        (("report", "LOG", "-o", "FILE"), "page.html"),
        (("replay", "LOG", "fixed:2", "-o", "FILE"), "table.md"),
        (("replay", "LOG", "fixed:2", "-o", "FILE"), "figure.svg"),
    ],
)
def test_a_full_disk_leaves_the_old_file_and_one_line(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], name: str
) -> None:
    out, other = tmp_path / "out", tmp_path / "other.jsonl"
    out.mkdir()
    other.write_text(log.read_text())
    file = out / name
    file.write_text("the good one")
    given = {"LOG": log, "OTHER": other, "FILE": file}
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        done = keff(*(given.get(word, word) for word in command))
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert file.read_text() == "the good one"
    assert [each.name for each in out.iterdir()] == [name]
    assert keff(*(given.get(word, word) for word in command)).returncode == 0
    assert file.read_text() != "the good one"


def die_in_the_middle(file: Path) -> None:
    """Write half of a file in a process that ends there."""
    child = os.fork()
    if child == 0:
        with files.draft_of(file) as draft:
            draft.write_text("half of the n")
            os._exit(0)
    os.waitpid(child, 0)


def test_a_kill_in_the_middle_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    files.write_text(file, "old")
    die_in_the_middle(file)
    assert file.read_text() == "old"


def test_links_rights_and_what_is_no_plain_file_stay(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    files.write_text(link, "new \ud800")
    assert link.is_symlink()
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("new ?", 0o640)
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write_text(pipe, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    with pytest.raises(FileNotFoundError) as missing:
        files.write_text(tmp_path / "nowhere" / "plan.json", "text")
    assert missing.value.filename == str(tmp_path / "nowhere" / "plan.json")


@pytest.mark.slow
def test_nothing_in_keff_writes_a_file_in_place() -> None:
    """Only drafts are opened for writing; what grows line by line is appended to."""
    writes = re.compile(r"(\w+)\.(?:write_text|write_bytes)\(|(\w+)\.open\(\"w")
    found = {
        f"{source.name}: {match[0]}"
        for source in SOURCES
        for match in writes.finditer(source.read_text("utf-8"))
        if (match[1] or match[2]) not in ("draft", "files")
    }
    assert found == set()


WRITERS = {
    "export": ("export", "LOG", "-o", "FILE"),
    "analyze": ("analyze", "LOG", "-o", "FILE"),
    "join": ("join", "LOG", "OTHER", "-o", "FILE"),
    "report": ("report", "LOG", "-o", "FILE"),
    "replay": ("replay", "LOG", "fixed:2", "-o", "FILE"),
    "noise": ("noise", "LOG", "-o", "FILE"),
}


def test_drafts_of_ended_processes_are_removed_by_the_next_write(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    die_in_the_middle(file)
    (left,) = tmp_path.iterdir()
    other = tmp_path / ".keff.notes.txt"
    elsewhere = tmp_path / re.sub(r"\.[0-9a-f]{8}\.", ".00000000.", left.name)
    other.write_text("mine")
    elsewhere.write_text("of another machine")
    with files.draft_of(tmp_path / "first.json") as first:
        first.write_text("1")
        files.write_text(file, "2")
        assert first.exists()
    assert {each.name for each in tmp_path.iterdir()} == {
        "plan.json",
        "first.json",
        other.name,
        elsewhere.name,
    }


def test_a_draft_that_cannot_be_removed_is_named_and_goes_with_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "plan.json"

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refused)
        patch.setattr(files.os, "fsync", full)
        with (
            pytest.warns(UserWarning, match=r"\.keff\..* could not be removed"),
            pytest.raises(OSError, match="space"),
        ):
            files.write_text(file, "new")
    assert len(list(tmp_path.iterdir())) == 1
    files.write_text(file, "new")
    assert [each.name for each in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("size", [0, 40])
@pytest.mark.parametrize("command", WRITERS)
def test_every_writer_leaves_the_old_file_and_a_clean_folder(
    log: Path, tmp_path: Path, command: str, size: int
) -> None:
    out, other = tmp_path / "out", tmp_path / "other.jsonl"
    out.mkdir()
    other.write_text(log.read_text())
    ending = {"report": "html", "noise": "html", "replay": "md", "export": "jsonl", "join": "jsonl"}.get(
        command, "json"
    )
    file = out / f"it.{ending}"
    given = {"LOG": log, "OTHER": other, "FILE": file}
    words = [given.get(word, word) for word in WRITERS[command]]
    with room(size):
        done = keff(*words)
    assert (done.returncode, "too large" in done.stderr) == (2, True), done.stderr
    assert str(file) in done.stderr and not list(out.iterdir())
    assert keff(*words).returncode == 0
    written = file.read_bytes()
    with room(size):
        assert keff(*words).returncode == 2
    assert file.read_bytes() == written and list(out.iterdir()) == [file]
