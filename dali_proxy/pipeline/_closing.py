"""`Closing`: closes an object at the end of its `with` block."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Closing"]


class Closing:
    """A base of classes with a method `close`. It is called at the end of the `with` block of an object."""

    __slots__ = ()

    def close(self) -> None:
        """Free what the object owns."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
