"""Columns of a table of rows: their cells, how wide they are, and shorter forms of them."""

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from rich import cells

from tileops.tools.cli import words

UNIT_SUFFIX = " us"
_OP_SUFFIX = "FwdOp"
_DTYPES_AT_END = re.compile(r"(-b?float\d+)+$")
BREVITIES = f"names without {_OP_SUFFIX}, bf16/f16/f32 for the dtypes, times in us"


@dataclasses.dataclass(frozen=True)
class Column:
    """One column of the table.

    Attributes:
      title: Its head.
      cell: Text of a row's cell.
      is_name: Whether it says which row this is; a row of two lines has these in
        the first.
      is_number: Whether it is aligned to the right.
      is_note: Whether it is a text that may wrap, and stands last.
      is_optional: Whether it is left out when all its cells are empty.
      yields: In which order columns are hidden on a terminal that is too narrow
        for rows of two lines; 0 never.
    """

    title: str
    cell: Callable[[Any], str]
    is_name: bool = False
    is_number: bool = False
    is_note: bool = False
    is_optional: bool = False
    yields: int = 0


class Filled:
    """A column with its cells.

    Attributes:
      column: The column.
      cells: Text of its cell in each row.
      width: Character cells of the widest, the head included.
    """

    def __init__(self, column: Column, texts: Sequence[str]):
        self.column = column
        self.cells = texts
        self.width = max(map(cells.cell_len, [column.title, *texts]))

    def padded(self, text: str) -> str:
        """Returns the text as wide as the column."""
        space = " " * (self.width - cells.cell_len(text))
        return space + text if self.column.is_number else text + space


def fill(columns: Iterable[Column], rows: Sequence[Any]) -> list[Filled]:
    """Returns the columns with a cell for each row, but for optional ones without a text."""
    filled = [Filled(column, [words.printable(column.cell(row)) for row in rows]) for column in columns]
    return [each for each in filled if any(each.cells) or not each.column.is_optional]


def brief(filled: Sequence[Filled]) -> list[Filled]:
    """Returns the columns with shorter names and with times without their unit.

    The first two are the op and the case; where such names would no longer differ,
    they stay as they are.
    """
    ops, cases = filled[0].cells, filled[1].cells
    brief_ops: Sequence[str] = [op.removesuffix(_OP_SUFFIX) or op for op in ops]
    brief_cases: Sequence[str] = [_DTYPES_AT_END.sub(lambda end: end[0].replace("float", "f"), case) for case in cases]
    if len(set(zip(brief_ops, brief_cases))) < len(set(zip(ops, cases))):
        brief_ops, brief_cases = ops, cases
    names = [Filled(filled[0].column, brief_ops), Filled(filled[1].column, brief_cases)]
    return names + [
        Filled(each.column, [cell.removesuffix(UNIT_SUFFIX) if each.column.is_number else cell for cell in each.cells])
        for each in filled[2:]
    ]
