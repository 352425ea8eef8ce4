"""Members of a zip file that may come from anywhere: bounded in size, and Zstandard as well as Deflate."""

from __future__ import annotations

import importlib
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from keff.errors import LogError
from keff.plugins import missing_extra

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
    """List the members; raises LogError for a damaged archive, names that leave it, and zip bombs."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except DAMAGES as error:
        raise LogError(f"{path}: damaged or cut off ({error})") from None
    for info in infos:
        name = PurePosixPath(info.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts or ":" in info.filename:
            raise LogError(f"{path}: the member {info.filename!r} points outside of the archive: not read")
        if info.file_size > MOST_BYTES:
            size = f"{info.file_size / 2**20:,.0f} MiB"
            raise LogError(f"{path}: the member {info.filename!r} claims {size} unpacked: not read")
        if info.file_size > max(SMALL, MOST_RATIO * info.compress_size):
            raise LogError(
                f"{path}: the member {info.filename!r} claims to unpack to more than {MOST_RATIO} "
                "times its size, "
                "as a zip bomb does: not read"
            )
    if sum(info.compress_size for info in infos) > path.stat().st_size:
        raise LogError(f"{path}: its members overlap, as in a zip bomb: not read")
    return infos


def unpack(path: Path, info: zipfile.ZipInfo) -> bytes:
    """Return one member's bytes, never more than it claims; raises LogError when it is not what it claims."""
    where = f"{path}: the member {info.filename!r}"
    if info.flag_bits & 1:
        raise LogError(f"{where} is encrypted")
    packed = _packed(path, info)
    if packed is None:
        raise LogError(f"{where} is damaged")
    data = _inflate(where, info, packed)
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise LogError(f"{where} is damaged, or larger than it claims: not read")
    return data


def _packed(path: Path, info: zipfile.ZipInfo) -> bytes | None:
    """Return the packed bytes, or None where the directory points to no member."""
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
            return zlib.decompressobj(-15).decompress(packed, limit)
        except zlib.error as error:
            raise LogError(f"{where} is damaged ({error})") from None
    if info.compress_type == ZSTANDARD:
        return _zstandard(where, packed, limit)
    raise LogError(f"{where} is packed with method {info.compress_type}, which keff does not read")


def _zstandard(where: str, packed: bytes, limit: int) -> bytes:
    try:
        zstandard: object = importlib.import_module("zstandard")
    except ImportError as error:
        raise missing_extra(error, "a log packed with Zstandard") from error
    unpacker = zstandard.ZstdDecompressor(max_window_size=2**27)
    try:
        with unpacker.stream_reader(packed, read_across_frames=True) as stream:
            return stream.read(limit)
    except zstandard.ZstdError as error:
        raise LogError(f"{where} is damaged ({error})") from None
