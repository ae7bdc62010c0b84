"""Run files as JSON lines: one entry per line, in protobuf's JSON mapping.

It is the form for people and for other tools, which may edit it. It has no checksums,
so damage that leaves a line well-formed is not found.
"""

import codecs
import itertools
import pathlib
import re
from collections.abc import Iterator

from google.protobuf import json_format

from tileops.perf.runs import framing
from tileops.proto import benchmark_pb2

# How much of a file is read to know its form. Bytes.
HEAD_BYTES = 64
# No binary file begins so: it has a tag of `RunEntry` behind its first length.
_JSON_HEAD = re.compile(rb'(\xef\xbb\xbf)?\s*\{[ \t]*"')
# How this module begins an entry. Within one, a quote in a text has a backslash.
_ENTRY = re.compile(rb'\{"(?:header|record|footer)":')


def wrong_ending(path: pathlib.Path) -> str:
    """Returns what is wrong with the name of a run file that is to be written; "" for nothing.

    Readers know the form by the ending; a name without an ending is that of a binary file.
    """
    if path.suffix in ("", ".binpb", ".jsonl"):
        return ""
    return f"a run file ends in .binpb or .jsonl, not in {path.suffix}"


def is_json(path: pathlib.Path) -> bool:
    """Returns whether a file of this name is written as JSON lines."""
    return path.suffix == ".jsonl"


def holds_json(path: pathlib.Path, head: bytes) -> bool:
    """Returns whether a run file is JSON: by its name, or if that says nothing, by its head.

    A binary file has a tag of `RunEntry` where a JSON line has a quote.
    """
    if path.suffix in (".jsonl", ".binpb"):
        return is_json(path)
    return _JSON_HEAD.match(head) is not None


def line(entry: benchmark_pb2.RunEntry) -> bytes:
    """Returns an entry as the line that it takes in a `.jsonl` file."""
    text = json_format.MessageToJson(entry, preserving_proto_field_name=True, indent=None, sort_keys=True)
    return text.encode() + b"\n"


def scan(file) -> Iterator[framing.Whole | framing.Broken]:
    """Yields the entries of an open file of JSON lines, and the stretches that are not entries."""
    start = 0
    for number, text in enumerate(file, 1):
        if not text.isspace():
            piece = _read(start, text, number)
            if isinstance(piece, framing.Whole):
                yield piece
            else:
                # A line end that was damaged makes one line of two entries.
                cuts = [0, *(found.start() for found in _ENTRY.finditer(text, 1)), len(text)]
                for begin, end in itertools.pairwise(cuts):
                    piece = _read(start + begin, text[begin:end], number)
                    if isinstance(piece, framing.Broken) and end < len(text):
                        piece = piece._replace(torn=False)  # its writer went on
                    yield piece
        start += len(text)


def _read(start: int, text: bytes, line: int) -> framing.Whole | framing.Broken:
    """Reads the entry that a stretch of a file should be."""
    end = start + len(text)
    if start == 0:
        # Some editors put one before the first line.
        text = text.removeprefix(codecs.BOM_UTF8)
    entry = benchmark_pb2.RunEntry()
    try:
        json_format.Parse(text, entry)
        if entry.WhichOneof("entry") is None:
            raise json_format.ParseError("no header, record or footer")
    except (json_format.ParseError, UnicodeDecodeError) as error:
        # protobuf counts lines in the text that it was given, which is one line.
        reason = re.sub(r"line 1 column (\d+) \(char \d+\)", r"column \1", " ".join(str(error).split()))
        return framing.Broken(start, end, reason, not text.endswith(b"\n"), line)
    return framing.Whole(start, end, entry, line=line)
