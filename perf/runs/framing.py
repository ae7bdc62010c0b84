"""The bytes of a run file: varint-delimited entries, and whole entries behind damage.

A whole entry is a varint length and a `RunEntry` of that many bytes: a checksum,
then the one member of the entry, which is one tag, one length and the rest. The
second length must agree with the first, and the checksum with everything behind it.
So a reader recognises an entry, finds the next whole entry behind damage, and never
takes a damaged number for a measured one.

Entries without a checksum are read as they are, and so are entries whose checksum
comes last, as other programs write them: only their lengths are checked.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf import message as protobuf_message

from tileops.proto import benchmark_pb2

_WIRE_TYPE_BYTES = 2
_ENTRY_TAGS = frozenset(
    field.number << 3 | _WIRE_TYPE_BYTES for field in benchmark_pb2.RunEntry.DESCRIPTOR.oneofs_by_name["entry"].fields
)
_CHECKSUM_FIELD = benchmark_pb2.RunEntry.DESCRIPTOR.fields_by_name["checksum"]
_WIRE_TYPE_FIXED32 = 5
_CHECKSUM_TAG = _CHECKSUM_FIELD.number << 3 | _WIRE_TYPE_FIXED32
_CHECKSUM = struct.Struct("<BI")
_parse = benchmark_pb2.RunEntry.FromString
# A longer varint does not fit 64 bits.
_MAX_VARINT_BYTES = 10
# The longest header in which a damaged byte is searched: that tries every value of every byte. Bytes.
_MAX_MENDED_BYTES = 2048
# Length, checksum, tag and length again: at most this much of an entry comes before its content.
_MAX_FRAME_BYTES = 12


class Whole(NamedTuple):
    """An entry that reads; bytes `start` to `end` of the file.

    Attributes:
      start: Byte offset of the first.
      end: Byte offset behind the last.
      entry: What it says, without its checksum.
      is_checked: Whether it has a checksum that fits.
      note: What was corrected to read it; "" for nothing.
      line: Its number in a file of lines, from 1; None in a binary file.
    """

    start: int
    end: int
    entry: benchmark_pb2.RunEntry
    is_checked: bool = False
    note: str = ""
    line: int | None = None


class Broken(NamedTuple):
    """Bytes that hold no whole entry.

    Attributes:
      start: Byte offset of the first.
      end: Byte offset behind the last.
      reason: What is wrong, in words.
      torn: Whether this is the end of a file whose writer stopped in the midst
        of an entry.
      line: Number of the line in a file of lines, from 1; None in a binary file.
    """

    start: int
    end: int
    reason: str
    torn: bool
    line: int | None = None


def place(start: int, line: int | None) -> str:
    """Returns where a piece of a run file begins, as a user can find it: "line 3", or "byte 70" of a binary file."""
    return f"byte {start}" if line is None else f"line {line}"


def frame(entry: benchmark_pb2.RunEntry) -> bytes:
    """Returns the entry as a run file holds it: its length, its checksum, its member."""
    bare = benchmark_pb2.RunEntry()
    bare.CopyFrom(entry)
    bare.ClearField("checksum")
    member = bare.SerializeToString(deterministic=True)
    payload = _CHECKSUM.pack(_CHECKSUM_TAG, zlib.crc32(member)) + member
    return _encode_varint(len(payload)) + payload


def scan(buffer) -> Iterator[Whole | Broken]:
    """Yields everything in `buffer`, in order and without gaps.

    Args:
      buffer: Bytes of a run file: `bytes`, or an `mmap` for a large file.

    Yields:
      Whole entries, and between them the broken stretches.
    """
    position = 0
    size = len(buffer)
    is_checked = False
    while position < size:
        found = _read_entry(buffer, position, size)
        if isinstance(found, Broken):
            restart = _find_next_entry(buffer, position + 1, size, is_checked)
            if restart is not None:
                found = found._replace(end=restart, torn=False)
            if position == 0 and found.end <= _MAX_MENDED_BYTES:
                found = _mended_header(buffer[: found.end]) or found
        yield found
        is_checked = is_checked or (isinstance(found, Whole) and found.is_checked)
        position = found.end


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _decode_varint(buffer, position: int, size: int) -> tuple[int, int] | None:
    """Returns (value, offset behind it); None if the bytes end too early.

    Raises:
      ValueError: No varint: too long.
    """
    value = 0
    shift = 0
    for index in range(position, position + _MAX_VARINT_BYTES):
        if index >= size:
            return None
        byte = buffer[index]
        if byte < 0x80:
            return value | byte << shift, index + 1
        value |= (byte & 0x7F) << shift
        shift += 7
    raise ValueError("a length of more than 64 bits")


def _read_entry(buffer, start: int, size: int) -> Whole | Broken:
    """Reads the entry at `start`; a broken one extends to the end of the file."""
    try:
        length_and_payload = _decode_varint(buffer, start, size)
    except ValueError as error:
        return Broken(start, size, str(error), False)
    if length_and_payload is None:
        return Broken(start, size, "ends within the length of an entry", True)
    length, payload = length_and_payload
    end = payload + length
    member = payload
    checksum = None
    if payload + _CHECKSUM.size <= size and buffer[payload] == _CHECKSUM_TAG:
        _, checksum = _CHECKSUM.unpack(buffer[payload : payload + _CHECKSUM.size])
        member += _CHECKSUM.size
    if length == 0 or (member < size and buffer[member] not in _ENTRY_TAGS):
        if checksum is None and payload < size and buffer[payload] == _CHECKSUM_TAG:
            return Broken(start, size, "ends within the checksum of an entry", True)
        return Broken(start, size, "no header, record or footer", False)
    try:
        inner = _decode_varint(buffer, min(member + 1, size), size)
    except ValueError as error:
        return Broken(start, size, str(error), False)
    inner_end = end if inner is None else inner[1] + inner[0]
    if inner_end != end and not _is_checksum_last(buffer, inner_end, end, size):
        reason = f"the length of the entry ({length} bytes) does not fit its content"
        return Broken(start, size, reason, False)
    if end > size:
        reason = f"ends within an entry: {size - payload} of {length} bytes are there"
        return Broken(start, size, reason, True)
    content = buffer[member:inner_end]
    if checksum is not None and checksum != zlib.crc32(content):
        return Broken(start, size, "the entry is damaged: its checksum does not fit its content", False)
    try:
        entry = _parse(content)
    except protobuf_message.DecodeError:
        return Broken(start, size, "the content of the entry does not decode", False)
    return Whole(start, end, entry, is_checked=checksum is not None)


def _is_checksum_last(buffer, inner_end: int, end: int, size: int) -> bool:
    """Returns whether a checksum is between a member and the end of its entry."""
    return inner_end + _CHECKSUM.size == end and inner_end < size and buffer[inner_end] == _CHECKSUM_TAG


def _mended_header(stretch: bytes) -> Whole | None:
    """Returns the header that a damaged stretch of bytes was, with one byte corrected.

    Without its header no row of a run has a device. The checksum shows which byte had
    which value. None if no correction fits, or more than one.
    """
    size = len(stretch)
    found = {}
    for position, value in _mends(stretch):
        mended = bytearray(stretch)
        mended[position] = value
        piece = _read_entry(bytes(mended), 0, size)
        if isinstance(piece, Whole) and piece.is_checked and piece.end == size:
            found[position, value] = piece
    if len(found) != 1:
        return None
    (((position, _), piece),) = found.items()
    if not piece.entry.HasField("header"):
        return None
    note = f"byte {position} of the header was damaged, and was corrected by its checksum"
    return piece._replace(note=note)


def _mends(stretch: bytes) -> Iterator[tuple[int, int]]:
    """Yields the changes of one byte, (offset, value), after which an entry may fit its checksum."""
    for position in range(min(_MAX_FRAME_BYTES, len(stretch))):
        for value in range(256):
            yield position, value
    # The rest is the content; reading it whole for each value would take seconds.
    start = len(_encode_varint(len(stretch)))
    if len(stretch) < start + _CHECKSUM.size:
        return
    _, checksum = _CHECKSUM.unpack(stretch[start : start + _CHECKSUM.size])
    start += _CHECKSUM.size
    before = zlib.crc32(stretch[start:_MAX_FRAME_BYTES])
    for position in range(_MAX_FRAME_BYTES, len(stretch)):
        rest = stretch[position + 1 :]
        for value in range(256):
            if zlib.crc32(rest, zlib.crc32(bytes((value,)), before)) == checksum:
                yield position, value
        before = zlib.crc32(stretch[position : position + 1], before)


def _find_next_entry(buffer, position: int, size: int, is_checked: bool) -> int | None:
    """Returns the offset of the first whole entry from `position` on.

    A candidate counts if it is a record of a named op or a footer, and if its
    checksum fits. If no candidate has a checksum, and no entry before it had one
    (`is_checked`), a candidate counts if an entry or the end of the file follows it:
    bytes within a record can look like one entry, but hardly like two.
    """
    bare = None
    for candidate in range(position, size):
        found = _read_entry(buffer, candidate, size)
        if not isinstance(found, Whole):
            continue
        if not (found.entry.record.op or found.entry.HasField("footer")):
            continue
        if found.is_checked:
            return candidate
        if bare is None and not is_checked:
            following = found.end < size and _read_entry(buffer, found.end, size)
            if not following or isinstance(following, Whole) or following.torn:
                bare = candidate
    return bare
