"""Logs that inspect_ai wrote (see fixtures/README.md), and archives that mean harm."""

from __future__ import annotations

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
import zstandard

from keff.errors import LogError
from keff.log import find_log
from keff.logs.parts import lines
from keff.reading.open import open_record
from keff.records import Note

FOLDER = Path(__file__).parent / "fixtures"
EVAL = FOLDER / "inspect_gsm8k.eval"
JSON = FOLDER / "inspect_gsm8k.json"


def members(path: Path = EVAL) -> dict[str, bytes]:
    return {info.filename: lines.unpack(path, info) for info in lines.members(path)}


def pack(path: Path, files: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def samples() -> list[dict[str, Any]]:
    return [json.loads(data) for name, data in members().items() if name.startswith("samples/")]


@pytest.mark.parametrize("file", [EVAL, JSON], ids=["eval", "json"])
def test_epochs_are_the_repeats_and_scores_are_the_logs_own(file: Path) -> None:
    record = open_record(file)
    source = samples() if file == EVAL else json.loads(JSON.read_text())["samples"]
    for question, scored in zip(record.ballot.questions, record.ballot.votes.scored(), strict=True):
        own = sorted((one for one in source if one["id"] == question.id), key=lambda one: one["epoch"])
        assert question.answers == tuple(one["scores"]["match"]["answer"] or None for one in own)
        assert scored.tolist() == [int(one["scores"]["match"]["value"] == "C") for one in own]
        assert question.tokens == tuple(one["output"]["usage"]["output_tokens"] for one in own)
        assert question.gold == own[0]["target"]
    assert record.info.task == "gsm8k"
    assert record.ballot.votes.k == max(one["epoch"] for one in source)


def test_failed_and_unscored_samples_are_left_out_and_counted(tmp_path: Path) -> None:
    files = members()
    names = [name for name in files if name.startswith("samples/")]
    for name, change in ((names[0], {"error": {"message": "x"}}), (names[1], {"scores": {}})):
        files[name] = json.dumps(json.loads(files[name]) | change).encode()
    file = pack(tmp_path / "log.eval", files)
    notes: list[Note] = []
    found = list(find_log(file).questions(file, tell=notes.append))
    assert sum(len(one.answers) for one in found) == len(names) - 2
    assert sorted(note.message for note in notes) == [
        "1 paths are left out: each ended in an error",
        "1 paths are left out: each has no score",
    ]


@pytest.mark.parametrize("value", ["splendid", "nan"])
def test_a_score_that_is_no_grade_names_its_scorer(tmp_path: Path, value: str) -> None:
    files = members()
    name = next(name for name in files if name.startswith("samples/"))
    sample = json.loads(files[name])
    files[name] = json.dumps(sample | {"scores": {"judge": {"value": value}}}).encode()
    with pytest.raises(LogError, match=r"the scorer judge gave .* neither a grade nor a number"):
        open_record(pack(tmp_path / "log.eval", files))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_two_headers_is_refused(tmp_path: Path) -> None:
    file = pack(tmp_path / "log.eval", members())
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr(
            "header.json", json.dumps(json.loads(members()["header.json"]) | {"status": "error"})
        )
    with pytest.raises(LogError, match=r"it holds header.json 2 times"):
        open_record(file)


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MOST_BYTES", 10**6)
    file = pack(tmp_path / "log.eval", members() | {"samples/x_epoch_1.json": b"0" * (10**6 + 1)})
    with pytest.raises(LogError, match="claims 1 MiB unpacked, so keff does not read it"):
        open_record(file)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, lines.ZSTANDARD])
def test_a_member_that_is_larger_than_it_claims_is_never_unpacked_whole(tmp_path: Path, method: int) -> None:
    file = tmp_path / "log.eval"
    name, data = "samples/x_epoch_1.json", b"0" * 10**7
    pack(file, {"header.json": b"{}", name: data})
    raw = bytearray(file.read_bytes())
    if method == lines.ZSTANDARD:
        raw = bytearray(_as_zstandard(data, name))
    place = raw.rfind(b"PK\x01\x02")
    raw[place + 24 : place + 28] = struct.pack("<L", 100)
    file.write_bytes(raw)
    with pytest.raises(LogError, match="larger than it claims"):
        for info in lines.members(file):
            lines.unpack(file, info)


def _as_zstandard(data: bytes, name: str) -> bytes:
    packed = zstandard.ZstdCompressor().compress(data)
    sizes = struct.pack("<LLL", 0, len(packed), len(data))
    local = struct.pack("<4sHHHHH", b"PK\x03\x04", 63, 0, 93, 0, 0) + sizes + struct.pack("<HH", len(name), 0)
    local += name.encode() + packed
    central = struct.pack("<4sHHHHHH", b"PK\x01\x02", 63, 63, 0, 93, 0, 0) + sizes
    central += struct.pack("<HHHHHLL", len(name), 0, 0, 0, 0, 0, 0) + name.encode()
    end = struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, 1, 1, len(central), len(local), 0)
    return local + central + end


def test_overlapping_members_are_a_bomb(tmp_path: Path) -> None:
    file = pack(tmp_path / "log.eval", {"header.json": b"{}", "a.json": b"1234"}, zipfile.ZIP_STORED)
    raw = bytearray(file.read_bytes())
    place = raw.rfind(b"PK\x01\x02")
    raw[place + 20 : place + 24] = struct.pack("<L", 10**6)
    file.write_bytes(raw)
    with pytest.raises(LogError, match="overlap"):
        open_record(file)


@pytest.mark.parametrize("cut", [0.3, 0.9, 0.999])
def test_an_archive_that_was_cut_off_says_so(tmp_path: Path, cut: float) -> None:
    file = tmp_path / "log.eval"
    data = EVAL.read_bytes()
    file.write_bytes(data[: int(len(data) * cut)])
    with pytest.raises(LogError, match="damaged or cut off"):
        open_record(file)


def test_damaged_bytes_are_found_by_the_checksum(tmp_path: Path) -> None:
    file = tmp_path / "log.eval"
    data = bytearray(EVAL.read_bytes())
    data[1200:1210] = b"\x00" * 10
    file.write_bytes(data)
    with pytest.raises(LogError, match="damaged"):
        open_record(file)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epoch": 1}, "path 1 of the id .* came before"),
        ({"id": ["x"]}, r"id is \['x'\], not a name"),
        ({"output": {"usage": {"output_tokens": "many"}}}, "all_tokens must hold counts only, not 'many'"),
        ({"scores": {}}, r"no path can be used: \d+ times it has no score"),
        ({"error": {"message": "x"}}, r"no path can be used: \d+ times it ended in an error"),
    ],
)
def test_fields_of_another_type_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    files = {
        name: json.dumps(json.loads(data) | change).encode() if name.startswith("samples/") else data
        for name, data in members().items()
    }
    with pytest.raises(LogError, match=message):
        open_record(pack(tmp_path / "log.eval", files))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (5, "samples must be a list"),
        ({"a": 1}, "samples must be a list"),
        ([1], "a sample is no JSON object"),
    ],
)
def test_a_json_log_with_other_samples_is_refused(tmp_path: Path, samples: object, message: str) -> None:
    file = tmp_path / "log.json"
    file.write_text(json.dumps({"eval": {"task": "gsm8k"}, "samples": samples}))
    with pytest.raises(LogError, match=message):
        open_record(file)


def test_a_byte_order_mark_is_no_reason_to_refuse(tmp_path: Path) -> None:
    file = tmp_path / "log.json"
    file.write_bytes(b"\xef\xbb\xbf" + JSON.read_bytes())
    assert open_record(file).ballot.votes.n == open_record(JSON).ballot.votes.n


@pytest.mark.slow
def test_a_member_of_a_suspicious_ratio_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    bomb = b'{"eval": {"task": "' + b"0" * (64 * 2**20) + b'"}}'
    file = pack(tmp_path / "log.eval", {"header.json": bomb})
    assert file.stat().st_size < 2**20
    with pytest.raises(LogError, match="more than 200 times its size"):
        open_record(file)


@pytest.mark.parametrize("offset", [2**32 - 2, 10**6, 7])
def test_a_member_whose_place_is_no_place_is_damaged(tmp_path: Path, offset: int) -> None:
    file = pack(tmp_path / "log.eval", members())
    raw = bytearray(file.read_bytes())
    places = [place for place in range(len(raw)) if raw.startswith(b"PK\x01\x02", place)]
    for place in places:
        raw[place + 42 : place + 46] = struct.pack("<L", offset)
    file.write_bytes(raw)
    with pytest.raises(LogError, match="damaged"):
        open_record(file)


@pytest.mark.parametrize("again", [True, False])
def test_a_sample_that_is_packed_twice_counts_once_or_is_refused(tmp_path: Path, again: bool) -> None:
    file = pack(tmp_path / "log.eval", members())
    name = next(name for name in members() if name.startswith("samples/"))
    sample = json.loads(members()[name])
    sample["output"]["completion"] += "" if again else " indeed"
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(file, "a") as archive:
        archive.writestr(name, json.dumps(sample))
    if again:
        assert "1 paths are left out: each was written before" in str(open_record(file).ballot.notes)
        return
    with pytest.raises(LogError, match="came before"):
        open_record(file)


@pytest.mark.parametrize("answered", [True, False])
def test_where_no_answer_is_named_completions_are_read(tmp_path: Path, answered: bool) -> None:
    files, expected = members(), open_record(EVAL).ballot
    for name in files:
        if name.startswith("samples/") and (
            not answered or name.startswith(f"samples/{samples()[0]['id']}_")
        ):
            sample = json.loads(files[name])
            sample["scores"]["match"]["answer"] = None
            files[name] = json.dumps(sample).encode()
    found = open_record(pack(tmp_path / "log.eval", files)).ballot
    assert (found.keys[0] == (None,) * found.votes.k) == answered
    assert (found.rules is not None) == (not answered)
    assert found.votes.scored().tolist()[1:] == expected.votes.scored().tolist()[1:]
