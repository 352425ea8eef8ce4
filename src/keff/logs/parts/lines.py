"""Untrusted JSON Lines and zip members, read within bounds on size and depth.

A torn last line is left out and told, any other bad line is an error.
"""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, cast

import jiter

from keff.errors import LogError
from keff.files import first_bytes, held_while_unchanged, is_utf16, open_bytes
from keff.log import UTF_16, NoteSink, ignore
from keff.narrow import Object, items, replace_surrogates, unique
from keff.plugins import import_extra
from keff.records import Note


def quick_parse(where: str, line: bytes, *, first: bool = False) -> Row:
    """Return a line's object, as ``parse`` but faster.

    What jiter refuses, Python's own reader has the last word on: half a surrogate pair, a mark at the head of
    the file, deep nesting, and what is no JSON at all.
    """
    if len(line) <= MOST_VALUES:
        try:
            row = jiter.from_json(line, cache_mode="all", catch_duplicate_keys=True)
        except ValueError:
            return parse(where, line, first=first)
        if isinstance(row, dict):
            return cast("Row", row)
    return parse(where, line, first=first)


# A line longer than this many bytes is no record of a question, and is not read into memory.
MOST_LINE = 64 * 2**20

# In mebibytes, as the limit is: a reader compares it with the size of the file.
TOO_LONG = f"a line of more than {MOST_LINE // 2**20} MiB, which is more than a question holds"

# A file with more blank lines than this is no log, and would take a minute to walk through.
MOST_BLANK = 100_000

# One JSON text with more values than this is refused unread: as objects they would take gigabytes.
MOST_VALUES = 2**24

Row = Object


@held_while_unchanged
def first_row(path: Path) -> Row | str:
    """Return the object on a file's first line, or a sentence on why there is none."""
    if not path.is_file():
        return "not a file"
    with open_bytes(path) as file:
        head = b""
        for _ in range(MOST_BLANK):
            head = file.readline(MOST_LINE)
            if not head:
                return "the file is empty"
            if head.strip():
                break
        else:
            return TOO_BLANK
    if is_utf16(path):
        return UTF_16
    if len(head) == MOST_LINE:
        return TOO_LONG
    head = head.removeprefix(b"\xef\xbb\xbf")
    if not head.lstrip().startswith(b"{"):
        return "the first line is not a JSON object"
    try:
        return cast("Row", loads(head.decode("utf-8")))
    except (ValueError, RecursionError):
        return "the first line is not JSON"


def head_row(path: Path) -> Row:
    """Return the object on a file's first line; raises LogError where there is none."""
    row = first_row(path)
    if isinstance(row, str):
        raise LogError(f"{path}: {row}")
    return row


class FirstLine:
    """Base class of readers whose format is recognised by the first line's ``fields``."""

    fields: Sequence[str]

    def refuses(self, path: Path) -> str | None:
        """Return why this is not a file of the format, or None when it is."""
        row = first_row(path)
        if isinstance(row, str):
            return row
        missing = [name for name in self.fields if name not in row]
        return f"the first line has no {', '.join(missing)}" if missing else None


def refused(error: LogError) -> None:
    """Raise the error: the default, by which reading ends at a bad line."""
    raise error


def json_lines(
    path: Path, tell: NoteSink = ignore, wrong: Callable[[LogError], None] = refused
) -> Iterator[tuple[str, Row]]:
    """Yield (``file:line``, object) of each line that is not blank.

    The last line of a file without a final newline may have been torn by a crash: when it ends too soon it is
    left out, with the note ``torn_line``. Every other bad line is ``wrong``, with file and line.
    """
    blank, name = 0, str(path)
    with open_bytes(path) as file:
        for number, line in enumerate(lines_of(file, path), 1):
            where = f"{name}:{number}"
            if line.isspace():
                blank += 1
                if blank > MOST_BLANK:
                    raise LogError(f"{path}: {TOO_BLANK}")
                continue
            try:
                row = quick_parse(where, line, first=number == 1)
            except LogError as error:
                if line.endswith(b"\n") or _is_whole(line):
                    wrong(error)
                else:
                    text = f"{where}: the last line is incomplete; skipped (1 question)"
                    tell(Note("torn_line", text))
                continue
            yield where, row


def _is_whole(line: bytes) -> bool:
    """Return whether a line that was refused is a whole JSON object, in which a name stands twice."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def lines_of(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield a file's lines; raises LogError for one that is too long."""
    while line := file.readline(MOST_LINE):
        if len(line) == MOST_LINE:
            raise LogError(f"{path}: {TOO_LONG}")
        yield line


# A file that must be read as a whole is read up to this many bytes.
MOST_JSON = 2**30


def whole_json(path: Path) -> object:
    """Return a file's single JSON value; raises LogError above 1 GiB, and for invalid JSON."""
    if path.stat().st_size > MOST_JSON:
        raise LogError(f"{path}: above 1 GiB: split it, or write one object a line (from inspect_ai: .eval)")
    try:
        with open_bytes(path) as file:
            return loads(file.read().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise LogError(f"{path}: {_reason(error)}") from None


def head_of(path: Path) -> bytes:
    """Return how a file's text begins; b"" where it is no file."""
    return first_bytes(path).removeprefix(b"\xef\xbb\xbf").lstrip()


@held_while_unchanged
def first_object(path: Path) -> Row | str:
    """Return the first object of JSON Lines or of a JSON array, or why there is none."""
    head = head_of(path)
    if not head.startswith(b"["):
        return first_row(path)
    try:
        row, _ = _DECODER.raw_decode(head[1:].decode("utf-8", "ignore").lstrip())
    except (ValueError, RecursionError):
        return "the first entry is not JSON"
    return cast("Row", row) if isinstance(row, dict) else NO_OBJECT


@held_while_unchanged
def member_names(path: Path) -> AbstractSet[str]:
    """Return the names in the object that a file begins with, as far as its first 4 MiB hold them."""
    text, names, place = head_of(path).decode("utf-8", "replace"), set[str](), 0
    if not text.startswith("{"):
        return names
    with suppress(ValueError, RecursionError, IndexError):  # the end of the object, or of what was read
        while text[place] in "{,":
            name, place = _DECODER.raw_decode(text, _after_space(text, place + 1))
            names.add(str(name))
            colon = _after_space(text, place)
            _, place = _DECODER.raw_decode(text, _after_space(text, colon + 1))
            place = _after_space(text, place)
    return names


def _after_space(text: str, place: int) -> int:
    while text[place] in " \t\r\n":
        place += 1
    return place


NO_OBJECT = "the first entry is not a JSON object"


def objects(path: Path, tell: NoteSink = ignore) -> Iterator[tuple[str, Row]]:
    """Yield (place, object) of JSON lines, or of a JSON array of objects; raises LogError for others."""
    if not head_of(path).startswith(b"["):
        yield from json_lines(path, tell)
        return
    for number, row in enumerate(items(whole_json(path)), 1):
        if not isinstance(row, dict):
            raise LogError(f"{path}: entry {number} is not a JSON object")
        yield f"{path}: entry {number}", row


def parse(where: str, line: bytes, *, first: bool = False) -> Row:
    """Return the object that a line holds; raises LogError that names ``where``."""
    try:
        row = loads(line.decode("utf-8-sig" if first else "utf-8"))
    except (ValueError, RecursionError) as error:
        raise LogError(f"{where}: {_reason(error)}") from None
    if not isinstance(row, dict):
        raise LogError(f"{where}: expected a JSON object, not {type(row).__name__}")
    return cast("Row", row)


def loads(text: str) -> object:
    """Return parsed JSON; raises ValueError for duplicate keys and for excessive size.

    A character that is half a surrogate pair becomes U+FFFD, as decoders of text do it.
    """
    if len(text) > MOST_VALUES and text.count(",") + text.count("[") + text.count("{") > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES:,} values in one JSON text")
    value = _DECODER.decode(text)
    return replace_surrogates(value) if "\\ud" in text or "\\uD" in text else value


# Made once: json.loads with a hook makes one for every line, which takes longer than reading it.
_DECODER = json.JSONDecoder(object_pairs_hook=unique)

NOT_UTF8 = "not UTF-8 text (save it as UTF-8)"
TOO_BLANK = f"more than {MOST_BLANK:,} blank lines: not a log"


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON ({error.msg} at column {error.colno})"
    return NOT_UTF8 if isinstance(error, UnicodeDecodeError) else f"not JSON ({error})"


# No single record of answers is larger; what claims to be is refused before it is unpacked.
MOST_BYTES = 256 * 2**20

# A part that unpacks to more times its size is taken for a decompression bomb.
MOST_RATIO = 200
# Text packs to a hundredth at best: above SMALL bytes, what claims a greater ratio is a bomb.
SMALL = 2**20

# The method's number in the zip specification (APPNOTE 4.4.5).
ZSTANDARD = 93
_LOCAL = struct.Struct("<4s5H3L2H")
# What the directory of a damaged archive may raise.
DAMAGES = (
    zipfile.BadZipFile,
    NotImplementedError,
    EOFError,
    OSError,
    ValueError,
    OverflowError,
    struct.error,
)


def members(path: Path) -> list[zipfile.ZipInfo]:
    """Return a zip file's members; raises LogError for damaged archives and zip bombs."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except DAMAGES as error:
        raise LogError(f"{path}: damaged or cut off ({error})") from None
    for info in infos:
        if info.file_size > MOST_BYTES:
            size = f"{info.file_size / 2**20:,.0f} MiB"
            raise LogError(
                f"{path}: the member {info.filename!r} claims {size} unpacked, so keff does not read it"
            )
        if info.file_size > max(SMALL, MOST_RATIO * info.compress_size):
            raise LogError(
                f"{path}: the member {info.filename!r} claims to unpack to more than {MOST_RATIO} times its "
                "size, as a zip bomb does, so keff does not read it"
            )
    if sum(info.compress_size for info in infos) > path.stat().st_size:
        raise LogError(f"{path}: its members overlap, as in a zip bomb, so keff does not read it")
    return infos


def unpack(path: Path, info: zipfile.ZipInfo) -> bytes:
    """Return a member's bytes, at most the size it claims; raises LogError where that is wrong."""
    where = f"{path}: the member {info.filename!r}"
    if info.flag_bits & 1:
        raise LogError(f"{where} is encrypted")
    packed = _packed(path, info)
    if packed is None:
        raise LogError(f"{where} is damaged")
    data = _inflate(where, info, packed)
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise LogError(f"{where} is damaged, or larger than it claims, so keff does not read it")
    return data


def _packed(path: Path, info: zipfile.ZipInfo) -> bytes | None:
    """Return a member's compressed bytes; None where the directory points to none."""
    size = path.stat().st_size
    # Offsets come from the file itself and may lie anywhere, before its first byte too.
    if not 0 <= info.header_offset <= size - _LOCAL.size or info.compress_size > size:
        return None
    with path.open("rb") as file:
        file.seek(info.header_offset)
        head = file.read(_LOCAL.size)
        if not head.startswith(b"PK\x03\x04"):
            return None
        *_, name, extra = _LOCAL.unpack(head)
        file.seek(name + extra, 1)
        return file.read(info.compress_size)


def _inflate(where: str, info: zipfile.ZipInfo, packed: bytes) -> bytes:
    limit = info.file_size + 1
    if info.compress_type == zipfile.ZIP_STORED:
        return packed
    if info.compress_type == zipfile.ZIP_DEFLATED:
        try:
            # Negative: a member of a zip file is a bare stream, without the head of zlib.
            return zlib.decompressobj(-15).decompress(packed, limit)
        except zlib.error as error:
            raise LogError(f"{where} is damaged ({error})") from None
    if info.compress_type == ZSTANDARD:
        return _zstandard(where, packed, limit)
    raise LogError(f"{where} is packed with method {info.compress_type}, which keff does not read")


def _zstandard(where: str, packed: bytes, limit: int) -> bytes:
    zstandard = import_extra("zstandard", "a log packed with Zstandard")
    # What zstd -19 --long=27 may need; a hostile head could ask for gigabytes.
    unpacker = zstandard.ZstdDecompressor(max_window_size=2**27)
    try:
        with unpacker.stream_reader(packed, read_across_frames=True) as stream:
            return stream.read(limit)
    except zstandard.ZstdError as error:
        raise LogError(f"{where} is damaged ({error})") from None
