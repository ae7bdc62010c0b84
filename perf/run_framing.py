"""The bytes of a run file: varint-delimited entries, and what is left of damage.

A whole entry is a varint length and a `RunEntry` of that many bytes. Because a
`RunEntry` holds exactly one member, its own bytes are one tag, one length and
the rest: a second length that must agree with the first. That redundancy is
what tells an entry from garbage, and what finds the next whole entry behind
damage.
"""

from collections.abc import Iterator
from typing import NamedTuple

from google.protobuf import message as protobuf_message

from tileops.proto import benchmark_pb2

_WIRE_TYPE_BYTES = 2
_ENTRY_TAGS = frozenset(
    field.number << 3 | _WIRE_TYPE_BYTES
    for field in benchmark_pb2.RunEntry.DESCRIPTOR.fields
)
_parse = benchmark_pb2.RunEntry.FromString
# A longer varint does not fit 64 bits.
_MAX_VARINT_BYTES = 10


class Whole(NamedTuple):
    """An entry that reads; bytes `start` to `end` of the file."""

    start: int
    end: int
    entry: benchmark_pb2.RunEntry


class Broken(NamedTuple):
    """Bytes that hold no whole entry.

    Attributes:
      start: Byte offset of the first.
      end: Byte offset behind the last.
      reason: What is wrong, in words.
      torn: Whether this is the end of a file whose writer stopped in the midst
        of an entry.
    """

    start: int
    end: int
    reason: str
    torn: bool


def frame(entry: benchmark_pb2.RunEntry) -> bytes:
    """Returns the entry as it stands in a run file, its length before it."""
    payload = entry.SerializeToString(deterministic=True)
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
    while position < size:
        found = _read_entry(buffer, position, size)
        if isinstance(found, Broken):
            restart = _find_next_entry(buffer, position + 1, size)
            if restart is not None:
                found = found._replace(end=restart, torn=False)
        yield found
        position = found.end


def _encode_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _decode_varint(buffer, position: int, size: int) -> tuple[int, int] | None:
    """Returns (value, offset behind it); None where the bytes end too early.

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
    tag_end = min(payload + 1, size)
    if length == 0 or (payload < size and buffer[payload] not in _ENTRY_TAGS):
        return Broken(start, size, "no header, record or footer", False)
    try:
        inner = _decode_varint(buffer, tag_end, size)
    except ValueError as error:
        return Broken(start, size, str(error), False)
    if inner is not None and inner[1] + inner[0] != end:
        reason = f"the length of the entry ({length} bytes) does not fit its content"
        return Broken(start, size, reason, False)
    if end > size:
        reason = f"ends within an entry: {size - payload} of {length} bytes are there"
        return Broken(start, size, reason, True)
    try:
        entry = _parse(buffer[payload:end])
    except protobuf_message.DecodeError:
        return Broken(start, size, "the content of the entry does not decode", False)
    return Whole(start, end, entry)


def _find_next_entry(buffer, position: int, size: int) -> int | None:
    """Returns the offset of the first whole entry from `position` on.

    A candidate counts if it is a record of a named op or a footer, and if an
    entry or the end of the file follows it: bytes within a record can look
    like one entry, hardly like two.
    """
    for candidate in range(position, size):
        found = _read_entry(buffer, candidate, size)
        if not isinstance(found, Whole):
            continue
        if not (found.entry.record.op or found.entry.HasField("footer")):
            continue
        if found.end == size:
            return candidate
        following = _read_entry(buffer, found.end, size)
        if isinstance(following, Whole) or following.torn:
            return candidate
    return None
