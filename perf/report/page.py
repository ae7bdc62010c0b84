"""One self-contained HTML page: style, script and data inside, nothing fetched.

Text that comes from files is escaped on its way in, whatever it says. What is
inside the page is all that may run in it: its Content-Security-Policy names the
hashes of its own style and script, and allows no connection.
"""

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

from tileops.tools.cli import paths, words

# How each kind of row is marked: an SVG path about (0, 0), and whether it is hollow.
# No two are told apart by colour alone.
SHAPES: dict[str, tuple[str, bool]] = {
    "at_ceiling": ("M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", False),
    "below": ("M-4.5,-3.5h9L0,4.5z", False),
    "latency_bound": ("M-3.8,-3.8h7.6v7.6h-7.6z", True),
    "anomaly": ("M0,-5.5L5,0L0,5.5L-5,0z", False),
    "formula_error": ("M-4.5,-4.5L4.5,4.5M-4.5,4.5L4.5,-4.5", True),
    "blank": ("M-4.5,0h9M0,-4.5v9", True),
    "predicted": ("M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", True),
}

# The same for what became of a row between two runs.
CHANGES: dict[str, tuple[str, bool]] = {
    "lost": ("M-4.5,-4.5L4.5,4.5M-4.5,4.5L4.5,-4.5", True),
    "slower": ("M-4.5,-3.5h9L0,4.5z", False),
    "ambiguous": ("M-5,0q2.5,-6 5,0t5,0", True),
    "faster": ("M-4.5,3.5h9L0,-4.5z", False),
    "gained": ("M-4.5,3.5h9L0,-4.5z", True),
    "vanished": ("M-4.5,0h9", True),
    "appeared": ("M-4.5,0h9M0,-4.5v9", True),
    "same": ("M-4,-2h8M-4,2h8", True),
    "not_compared": ("M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", True),
    "price_changed": ("M0,-5.5L5,0L0,5.5L-5,0z", False),
}


def text(value: object) -> str:
    """Returns a value as text of a page: inert, and with nothing invisible in it."""
    return html.escape(words.printable(str(value)))


def glyph(kind: str) -> str:
    """Returns one of `SHAPES` or `CHANGES`, as large as the text that it stands in."""
    path, is_hollow = (SHAPES | CHANGES)[kind]
    hollow = ' class="hollow"' if is_hollow else ""
    return f'<svg class="glyph" viewBox="-7 -7 14 14" aria-hidden="true"><path d="{path}"{hollow}/></svg>'


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = (), caption: str = "") -> str:
    """Returns a table of cells that are HTML already.

    Args:
      titles: Heads of the columns.
      rows: A cell a column.
      numbers: Which columns are aligned to the right.
      caption: Said below it, if anything.
    """

    def cells(tag: str, row: Sequence[str]) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        return "".join(
            f"<{tag}{scope}{_NUMBER if place in numbers else ''}>{cell}</{tag}>" for place, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    said = f"<caption>{caption}</caption>" if caption else ""
    return (
        f'<div class="scroll"><table>{said}<thead><tr>{cells("th", titles)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


_NUMBER = ' class="n"'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Returns a list of named values; values are HTML, and empty ones are left out."""
    body = "".join(f"<dt>{text(name)}</dt><dd>{value}</dd>" for name, value in pairs if value)
    return f'<dl class="facts">{body}</dl>'


def write(
    out: TextIO, *, title: str, body: Iterable[str], data: dict[str, Any], rows: Iterable[str], scripts: Sequence[str]
) -> None:
    """Writes a page.

    Args:
      out: Where to.
      title: Its title, as plain text.
      body: Parts of its body, as HTML.
      data: What its script finds in the element "data"; plain JSON values.
      rows: The member "rows" of that, each row as a JSON text.
      scripts: Names of the scripts, of `perf/report/assets`, in order.
    """
    style = _asset("report.css")
    script = "\n".join(_asset(name) for name in scripts)
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}';"
        " base-uri 'none'; form-action 'none'"
    )
    out.write(
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>{style}</style>\n</head><body>\n"
    )
    out.writelines(part + "\n" for part in body)
    out.write('<script type="application/json" id="data">\n')
    head = json.dumps(data, allow_nan=False)
    out.write(_inert(head.removesuffix("}") + (", " if data else "") + '"rows": ['))
    separator = "\n"
    for row in rows:
        out.write(separator + _inert(row))
        separator = ",\n"
    out.write(f"\n]}}\n</script>\n<script>{script}</script>\n</body></html>\n")


def _inert(json_text: str) -> str:
    """Returns JSON in which nothing ends the element that it stands in."""
    return json_text.replace("<", "\\u003c")


def _asset(name: str) -> str:
    return paths.data_path("perf", "report", "assets", name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
