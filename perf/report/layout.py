"""How the rows of a table are laid out in the width that there is."""

from collections.abc import Sequence
from typing import NamedTuple

from rich import box
from rich import console as rich_console
from rich import table as rich_table
from rich import text as rich_text

from tileops.perf.report import table_columns
from tileops.tools.cli import words

# A note wraps within its column; narrower than this it reads badly.
_MIN_NOTE_WIDTH = 30
# A space either side of the line that a table could draw between columns.
_COLUMN_GAP = 3
# Where a row takes two lines, its readings stand a little to the right.
_INDENT = "  "
_TIGHT_GAP = "  "

_Filled = table_columns.Filled


class Group(NamedTuple):
    """Rows that stand together: their title, "" for none, and how many they are."""

    title: str
    rows: int


def print_rows(
    full: Sequence[table_columns.Filled], styles: Sequence[str], groups: Sequence[Group], console: rich_console.Console
) -> None:
    """Prints rows in the first form that the width has room for.

    One line a row; the same with brief names; two lines; the same with brief
    names. No form cuts a name: rows that differ must not look alike.

    Args:
      full: The columns, with a cell for each row; op and case are the first two.
      styles: How rich shows each row on a terminal with colours.
      groups: What the rows are divided into, in their order.
      console: Where to.
    """
    brief = table_columns.brief(full)
    for filled in (full, brief):
        if _one_line_width(filled) <= console.width:
            layout: _Layout = _OneLine(filled, styles, console)
            break
    else:
        filled = full if _two_line_width(full) <= console.width else brief
        layout = _TwoLines(filled, styles, console)
    layout.print_head()
    start = 0
    for group in groups:
        if group.title:
            console.print(rich_text.Text(words.printable(group.title)), style="bold")
        layout.print_rows(range(start, start + group.rows))
        start += group.rows
    layout.print_foot()
    if filled is brief:
        console.print(f"({table_columns.BREVITIES})")


def new_table(**settings) -> rich_table.Table:
    """Returns an empty table as reports have them."""
    return rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, **settings)


class _Layout:
    """Prints rows whose columns are filled."""

    def __init__(self, filled: Sequence[_Filled], styles: Sequence[str], console: rich_console.Console):
        self._filled = filled
        self._styles = styles
        self._console = console

    def print_head(self) -> None:
        raise NotImplementedError

    def print_rows(self, places: range) -> None:
        raise NotImplementedError

    def print_foot(self) -> None:
        """Says what could not be shown."""


class _OneLine(_Layout):
    """A row a line; only notes wrap."""

    def print_head(self) -> None:
        self._console.print(self._table(show_header=True))

    def print_rows(self, places: range) -> None:
        table = self._table(show_header=False)
        for place in places:
            texts = [rich_text.Text(each.cells[place]) for each in self._filled]
            table.add_row(*texts, style=self._styles[place])
        self._console.print(table)

    def _table(self, show_header: bool) -> rich_table.Table:
        spare = self._console.width - _one_line_width(self._filled)
        table = new_table(show_header=show_header)
        for each in self._filled:
            is_note = each.column.is_note
            table.add_column(
                each.column.title,
                no_wrap=not is_note,
                overflow="fold",
                justify="right" if each.column.is_number else "left",
                width=min(each.width, _MIN_NOTE_WIDTH + spare) if is_note else each.width,
            )
        return table


class _TwoLines(_Layout):
    """A row's names, its readings below them, and then its note."""

    def __init__(self, filled: Sequence[_Filled], styles: Sequence[str], console: rich_console.Console):
        super().__init__(filled, styles, console)
        self._names, self._readings, self._notes = _names_readings_notes(filled)
        self._hidden = 0
        for each in sorted(self._readings, key=lambda each: each.column.yields):
            too_wide = len(_INDENT) + _line_width(self._readings) > console.width
            if each.column.yields and too_wide:
                self._readings.remove(each)
                self._hidden += 1
        self._aligned = _line_width(self._names) <= console.width

    def print_head(self) -> None:
        self._print([each.column.title for each in self._filled], "bold")
        self._console.rule(style="")

    def print_rows(self, places: range) -> None:
        for place in places:
            self._print([each.cells[place] for each in self._filled], self._styles[place])

    def print_foot(self) -> None:
        if self._hidden:
            self._console.print(
                f"{words.counted(self._hidden, 'column')} hidden: widen the terminal or use --format=csv",
                style="yellow",
            )

    def _print(self, texts: Sequence[str], style: str) -> None:
        """Prints a row that has these texts, one for each column."""
        text = dict(zip(map(id, self._filled), texts))
        names = [each.padded(text[id(each)]) if self._aligned else text[id(each)] for each in self._names]
        readings = [each.padded(text[id(each)]) for each in self._readings]
        lines = [
            _TIGHT_GAP.join(names),
            _INDENT + _TIGHT_GAP.join(readings),
            *(_INDENT + text[id(each)] for each in self._notes if text[id(each)]),
        ]
        for line in lines:
            self._console.print(rich_text.Text(line.rstrip()), style=style, overflow="fold")


def _one_line_width(filled: Sequence[_Filled]) -> int:
    """Returns the least width of a table in which only notes wrap."""
    widths = [min(each.width, _MIN_NOTE_WIDTH) if each.column.is_note else each.width for each in filled]
    return sum(widths) + _COLUMN_GAP * (len(filled) - 1)


def _line_width(filled: Sequence[_Filled]) -> int:
    return sum(each.width for each in filled) + len(_TIGHT_GAP) * (len(filled) - 1)


def _two_line_width(filled: Sequence[_Filled]) -> int:
    """Returns the least width for a line of names above a line of readings."""
    names, readings, _ = _names_readings_notes(filled)
    return max(_line_width(names), len(_INDENT) + _line_width(readings))


def _names_readings_notes(filled: Sequence[_Filled]) -> tuple[list[_Filled], list[_Filled], list[_Filled]]:
    return (
        [each for each in filled if each.column.is_name],
        [each for each in filled if not each.column.is_name and not each.column.is_note],
        [each for each in filled if each.column.is_note],
    )
