"""One self-contained HTML page: style, script and data inside, nothing fetched.

The markup is in `assets/*.html.j2`. Text from files is escaped, whatever it says, and nothing in it is invisible. The
page's Content-Security-Policy allows its own style and script, by their hashes, and no connection.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import jinja2

from tileops.tools.cli import paths, words

# How each kind of row is marked: an SVG path about (0, 0), and whether it is hollow.
# No two differ by colour only.
SHAPES: dict[str, tuple[str, bool]] = {
    "at_ceiling": ("M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", False),
    "below": ("M-4.5,-3.5h9L0,4.5z", False),
    "latency_bound": ("M-3.8,-3.8h7.6v7.6h-7.6z", True),
    "anomaly": ("M0,-5.5L5,0L0,5.5L-5,0z", False),
    "formula_error": ("M-4.5,-4.5L4.5,4.5M-4.5,4.5L4.5,-4.5", True),
    "blank": ("M-4.5,0h9M0,-4.5v9", True),
    "predicted": ("M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z", True),
}

# The same for the verdicts of a comparison.
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


def write(
    out: TextIO, template: str, *, data: dict[str, Any], rows: Iterable[Any], scripts: Sequence[str], **context: Any
) -> None:
    """Writes a page.

    Args:
      out: Where to.
      template: Name of the template in `perf/report/assets`.
      data: What its script finds in the element "data"; plain JSON values.
      rows: The member "rows" of that; plain JSON values, too.
      scripts: Names of the scripts in `perf/report/assets`, in order.
      **context: What the template needs, the page's `title` among it.
    """
    folder = paths.data_path("perf", "report", "assets")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        # Text is printable; an absent value is nothing. Markup is of another type.
        finalize=lambda value: "" if value is None else words.printable(value) if type(value) is str else value,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {
        "commas": "{:,}".format,
        "counted": words.counted,
        "words": lambda name: name.replace("_", " "),
        "us": _microseconds,
        "percent": _percent,
        "change": lambda ratio: f"{ratio - 1:+.1%}",
    }
    style = (folder / "report.css").read_text(encoding="utf-8")
    script = "\n".join((folder / name).read_text(encoding="utf-8") for name in scripts)
    frame = {
        "shapes": SHAPES | CHANGES,
        "style": style,
        "script": script,
        "hashes": (_hash(style), _hash(script)),
        "data": data,
        "rows": rows,
    }
    out.writelines(environment.get_template(template).generate(frame | context))


def _microseconds(seconds: float | None) -> str:
    """Returns a time in microseconds, without the unit; "" for an absent one."""
    return "" if seconds is None else f"{seconds * 1e6:,.2f}"


def _percent(ratio: float | None) -> str:
    """Returns a ratio in per cent; "" for an absent one."""
    return "" if ratio is None else f"{ratio:.1%}"


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
