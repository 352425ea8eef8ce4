"""Members of a zip file that may come from anywhere: bounded in size, and Zstandard as well as Deflate."""

from __future__ import annotations

import importlib
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

from keff.errors import LogError
from keff.plugins import missing_extra

MOST_BYTES = 256 * 2**20
"""No single record of answers is larger; what claims to be is refused before it is unpacked."""

ZSTANDARD = 93
_LOCAL = struct.Struct("<4s5H3L2H")


def members(path: Path) -> list[zipfile.ZipInfo]:
    """List the members; raises LogError for a damaged archive, names that leave it, and zip bombs."""
    try:
        with zipfile.ZipFile(path) as archive:
            found = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise LogError(f"{path}: damaged or cut off ({error})") from None
    for info in found:
        name = PurePosixPath(info.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts or ":" in info.filename:
            raise LogError(f"{path}: the member {info.filename!r} points outside of the archive: not read")
        if info.file_size > MOST_BYTES:
            size = f"{info.file_size / 2**20:,.0f} MiB"
            raise LogError(f"{path}: the member {info.filename!r} claims {size} unpacked: not read")
    if sum(info.compress_size for info in found) > path.stat().st_size:
        raise LogError(f"{path}: its members overlap, as in a zip bomb: not read")
    return found


def unpack(path: Path, info: zipfile.ZipInfo) -> bytes:
    """Return one member's bytes, never more than it claims; raises LogError when it is not what it claims."""
    where = f"{path}: the member {info.filename!r}"
    if info.flag_bits & 1:
        raise LogError(f"{where} is encrypted")
    with path.open("rb") as file:
        file.seek(info.header_offset)
        head = file.read(_LOCAL.size)
        if len(head) < _LOCAL.size or not head.startswith(b"PK\x03\x04"):
            raise LogError(f"{where} is damaged")
        *_, name, extra = _LOCAL.unpack(head)
        file.seek(name + extra, 1)
        packed = file.read(info.compress_size)
    data = _inflate(where, info, packed)
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise LogError(f"{where} is damaged, or larger than it claims: not read")
    return data


def _inflate(where: str, info: zipfile.ZipInfo, packed: bytes) -> bytes:
    limit = info.file_size + 1
    if info.compress_type == zipfile.ZIP_STORED:
        return packed
    if info.compress_type == zipfile.ZIP_DEFLATED:
        try:
            return zlib.decompressobj(-15).decompress(packed, limit)
        except zlib.error as error:
            raise LogError(f"{where} is damaged ({error})") from None
    if info.compress_type == ZSTANDARD:
        return _zstandard(where, packed, limit)
    raise LogError(f"{where} is packed with method {info.compress_type}, which keff does not read")


def _zstandard(where: str, packed: bytes, limit: int) -> bytes:
    try:
        zstandard: Any = importlib.import_module("zstandard")
    except ImportError as error:
        raise missing_extra(error, "a log packed with Zstandard") from error
    unpacker = zstandard.ZstdDecompressor(max_window_size=2**27)
    try:
        with unpacker.stream_reader(packed, read_across_frames=True) as stream:
            return stream.read(limit)
    except zstandard.ZstdError as error:
        raise LogError(f"{where} is damaged ({error})") from None
