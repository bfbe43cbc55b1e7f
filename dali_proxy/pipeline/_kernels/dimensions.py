"""The dimensions of images, sequences and volumes, by the letters of their layouts."""

from __future__ import annotations

from functools import cache

#: Order of the dimensions of samples without a layout, by their number.
UNNAMED = {2: "HW", 3: "HWC", 4: "FHWC"}
#: Positions of the dimensions among depth (or frames), height and width.
COLUMNS = {"F": 0, "D": 0, "H": 1, "W": 2}
#: Positions of the dimensions among depth (or frames), height, width and channels.
STRIDES = {**COLUMNS, "C": 3}


@cache
def axes_of(layout: str) -> tuple[int | None, int | None, int | None, int | None] | None:
    """Return the axes of depth (or frames), height, width and channels; None for other layouts."""
    letters = set(layout)
    if len(letters) < len(layout) or not letters <= set("FDHWC") or {"F", "D"} <= letters:
        return None
    depth, *others = (layout.find(letter) for letter in ("F" if "F" in letters else "D", "H", "W", "C"))
    axes = [None if axis < 0 else axis for axis in (depth, *others)]
    return axes[0], axes[1], axes[2], axes[3]


@cache
def columns_of(layout: str) -> slice | list[int]:
    """Return the columns of a layout's dimensions among depth (or frames), height, width and channels."""
    columns = [STRIDES[letter] for letter in layout]
    first = min(columns, default=0)
    is_range = columns == list(range(first, first + len(columns)))
    return slice(first, first + len(columns)) if is_range else columns
