"""A table of rows for people, in the width that there is: a terminal, a file or a pipe.

Rich's own column folding is not used: at 80 columns it cuts the names of a report into pieces of 3 characters, 16 lines
per row. Here no name is cut, so rows that differ never look alike. The first form that fits is used:

    SiLUFwdOp   16M-bfloat16   triton   20.10 us   50.0%     one line per row (then: the same with shorter names)

    SiLUFwdOp  16M-bfloat16  triton                          two lines per row (then: the same with shorter names,
      20.10 us  50.0%                                        and some columns hidden)
"""

import dataclasses
import itertools
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TextIO

from rich import box, cells
from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from tileops.tools.cli import words

# A longer table is cut: printing a row takes a millisecond, and nobody reads so many.
MOST_ROWS = 2_000
# The width of a file or a pipe: no line is cut there.
_UNLIMITED_WIDTH = 10_000

UNIT_SUFFIX = " us"
_OP_SUFFIX = "FwdOp"
_DTYPES_AT_END = re.compile(r"(-b?float\d+)+$")
_BREVITIES = f"(names without {_OP_SUFFIX}, bf16/f16/f32 for the dtypes, times in us)"

# A note wraps in its column; narrower than this it reads badly.
_MIN_NOTE_WIDTH = 30
# Between columns, in the form of one line per row and in that of two.
_GAP, _TIGHT_GAP = "   ", "  "
# Before the second line of a row.
_INDENT = "  "


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of the table.

    Attributes:
      title: Its head.
      cell: Returns the text of a row's cell.
      is_name: Whether it says which row this is. A row of two lines has the names in its first line.
      is_number: Whether it is aligned to the right.
      is_note: Whether it is the last column, whose text may wrap.
      is_optional: Whether it is left out if all its cells are empty.
      yields: When it is hidden on a terminal that is too narrow for rows of two lines: 1 first; 0 never.
    """

    title: str
    cell: Callable[[Any], str]
    is_name: bool = False
    is_number: bool = False
    is_note: bool = False
    is_optional: bool = False
    yields: int = 0


class Group(NamedTuple):
    """Rows that stand together: their title ("" for none) and their number."""

    title: str
    rows: int


class Console(rich_console.Console):
    """Rich's console, but a reader that left raises BrokenPipeError instead of exiting with 1."""

    def on_broken_pipe(self) -> None:
        raise  # The BrokenPipeError that this is called for.


def console(out: TextIO) -> Console:
    """Returns a console that writes to `out`; only a terminal has colours and a width."""
    is_watched = out.isatty()
    terminal = shutil.get_terminal_size()
    return Console(
        file=out,
        # Both, since rich assumes 80 columns for a terminal that can do little.
        width=terminal.columns if is_watched else _UNLIMITED_WIDTH,
        height=terminal.lines,
        force_terminal=None if is_watched else False,
        # Nothing in a report is rich's markup; "[" is a bracket.
        markup=False,
        emoji=False,
        highlight=False,
    )


def print_rows(
    columns: Iterable[Column], rows: Sequence[Any], styles: Sequence[str], groups: Iterable[Group], console: Console
) -> None:
    """Prints rows in the first form that fits.

    Args:
      columns: The columns; op and case are the first two.
      rows: What the columns make cells of.
      styles: Rich's style of each row, for terminals with colours.
      groups: Groups of the rows, in their order.
      console: Where to.
    """
    full = [_Filled(column, [words.printable(column.cell(row)) for row in rows]) for column in columns]
    full = [each for each in full if any(each.cells) or not each.column.is_optional]
    brief = _brief(full)
    candidates = [_Form(filled, split) for split in (False, True) for filled in (full, brief)]
    form = next((each for each in candidates if each.width <= console.width), candidates[-1])
    form.fit(console)
    form.print([each.column.title for each in form.filled], "bold")
    console.print("─" * min(form.width, console.width))
    numbers = iter(range(len(rows)))
    for group in groups:
        if group.title:
            console.print(words.printable(group.title), style="bold")
        for number in itertools.islice(numbers, group.rows):
            form.print([each.cells[number] for each in form.filled], styles[number])
    if form.hidden:
        hidden = words.counted(form.hidden, "column")
        console.print(f"{hidden} hidden: widen the terminal or use --format=csv", style="yellow")
    if form.filled is brief:
        console.print(_BREVITIES)


def print_summary(titles: Sequence[str], rows: Iterable[Sequence[str]], console: Console) -> None:
    """Prints a small table: a name, then numbers, in each row."""
    table = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(titles[0], no_wrap=True, overflow="ellipsis")
    for title in titles[1:]:
        table.add_column(title, justify="right")
    for name, *numbers in rows:
        table.add_row(rich_text.Text(words.printable(name) or "(none)"), *numbers)
    console.print(table)


class _Filled:
    """A column with the text of its cell in each row, and the width of the widest, the title included."""

    def __init__(self, column: Column, texts: Sequence[str]):
        self.column, self.cells = column, texts
        self.width = max(map(cells.cell_len, [column.title, *texts]))

    def padded(self, text: str) -> str:
        """Returns the text as wide as the column."""
        space = " " * (self.width - cells.cell_len(text))
        return space + text if self.column.is_number else text + space


def _brief(filled: Sequence[_Filled]) -> list[_Filled]:
    """Returns the columns with shorter ops and cases, if these still differ, and with times without their unit."""
    ops, cases = filled[0].cells, filled[1].cells
    brief_ops = [op.removesuffix(_OP_SUFFIX) or op for op in ops]
    brief_cases = [_DTYPES_AT_END.sub(lambda end: end[0].replace("float", "f"), case) for case in cases]
    if len(set(zip(brief_ops, brief_cases))) < len(set(zip(ops, cases))):
        brief_ops, brief_cases = list(ops), list(cases)
    others = [
        [cell.removesuffix(UNIT_SUFFIX) if each.column.is_number else cell for cell in each.cells]
        for each in filled[2:]
    ]
    return [_Filled(each.column, texts) for each, texts in zip(filled, (brief_ops, brief_cases, *others))]


class _Form:
    """A way to print rows: in one line each, or split in a line of names and a line of readings.

    Attributes:
      filled: The columns.
      width: The least width that it needs. Character cells.
      hidden: How many columns `fit` hid.
    """

    def __init__(self, filled: Sequence[_Filled], is_split: bool):
        self.filled = filled
        self.hidden = 0
        self._gap = _TIGHT_GAP if is_split else _GAP
        notes = [each for each in filled if each.column.is_note]
        names = [each for each in filled if each.column.is_name]
        readings = [each for each in filled if not each.column.is_name and not each.column.is_note]
        self._note = notes[0] if notes else None
        self._lines = [("", names), (_INDENT, readings)] if is_split else [("", names + readings)]
        widths = [self._line_width(line) for line in self._lines]
        # A note continues the one line, or follows the two.
        self._note_start = len(_INDENT) if is_split else widths[0] + len(_GAP)
        self.width = max(widths)
        if self._note and not is_split:
            self.width = self._note_start + min(self._note.width, _MIN_NOTE_WIDTH)

    def fit(self, console: Console) -> None:
        """Prepares printing: hides readings that have no room in a line of their own."""
        self._console = console
        readings = self._lines[-1][1]
        for each in sorted(readings, key=lambda each: each.column.yields):
            if each.column.yields and self._line_width(self._lines[-1]) > console.width:
                readings.remove(each)
                self.hidden += 1
        if self._note:
            self.width = max(self.width, self._note_start + self._note.width)

    def print(self, texts: Sequence[str], style: str) -> None:
        """Prints a row that has these texts, one per column."""
        for line in self._texts(dict(zip(map(id, self.filled), texts))):
            self._console.print(rich_text.Text(line.rstrip()), style=style, overflow="fold")

    def _texts(self, cell: Mapping[int, str]) -> Iterator[str]:
        notes = self._wrapped(cell[id(self._note)]) if self._note else []
        for line in self._lines:
            indent, columns = line
            # A line that is too wide even so is folded; spaces would only make it longer.
            has_room = self._line_width(line) <= self._console.width
            text = indent + self._gap.join(
                each.padded(cell[id(each)]) if has_room else cell[id(each)] for each in columns
            )
            if len(self._lines) == 1 and notes:
                text += self._gap + notes.pop(0)
            yield text
        for note in notes:
            yield " " * self._note_start + note

    def _wrapped(self, note: str) -> list[str]:
        """Returns the lines of a note, each as wide as there is room."""
        width = max(self._console.width - self._note_start, 1)
        return [line.plain for line in rich_text.Text(note).wrap(self._console, width, overflow="fold") if line.plain]

    def _line_width(self, line: tuple[str, list[_Filled]]) -> int:
        indent, columns = line
        return len(indent) + sum(each.width for each in columns) + len(self._gap) * (len(columns) - 1)
