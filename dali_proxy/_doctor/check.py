"""`Check`: the result of one check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "missing", "optional"]


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        name: Name of the component.
        status: ``"ok"``; ``"warning"``: it works, but has a limit that users run into; ``"missing"``: required, but
            missing; ``"optional"``: missing, but only needed for a part of the features.
        detail: A version, a size, or what is wrong.
        advice: What to do about it; empty if nothing is necessary.
    """

    name: str
    status: Status
    detail: str
    advice: str = ""
