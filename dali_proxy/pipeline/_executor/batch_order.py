"""The order in which batches reach the user's code, and in which their results are delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dali_proxy.pipeline._compiler.plan import Plan
from dali_proxy.pipeline._concurrency.locks import Level, new_condition, new_rlock


class BatchOrder:
    """Lets batches pass a point in the order of their numbers, which begin with 0, although threads reach it in any.

    A batch first enters, which starts its work, and later takes its turn within this work. The number of a batch that
    ends before that must be given to `end`, or all later batches wait for ever.

    A thread waits in `wait_for_turn` only for batches that have entered before its own. If one queue of work runs them
    in the order in which they enter, they aren't behind the batch that waits for them.
    """

    def __init__(self) -> None:
        self._changed = new_condition(new_rlock(Level.LEAF, "order of batches"))
        self._arrived: dict[int, Callable[[], None] | None] = {}  # batches that enter later: those before must enter
        self._next_to_enter = 0
        self._is_starting = False  # whether a thread calls the functions of `enter`
        self._left: set[int] = set()  # batches whose turn is over, before that of earlier ones
        self._turn = 0

    def enter(self, number: int, start: Callable[[], None] | None) -> None:
        """Call a function once all earlier batches have entered or ended, on this thread or that of another batch.

        Args:
            number: number of the batch.
            start: the function; it must not raise. None if the batch has ended.
        """
        with self._changed:
            if number >= self._next_to_enter:
                self._arrived[number] = start
            if self._is_starting:
                return
            self._is_starting = True
        try:
            while (ready := self._take()) is not None:
                ready()
        except BaseException:  # an interrupt while the work itself runs here, because its threads have ended
            self._is_starting = False
            raise

    def _take(self) -> Callable[[], None] | None:
        """Return the function of the next batch; None if it hasn't arrived."""
        with self._changed:
            while self._next_to_enter in self._arrived:
                start = self._arrived.pop(self._next_to_enter)
                self._next_to_enter += 1
                if start is not None:
                    return start
            self._is_starting = False
            return None

    def wait_for_turn(self, number: int) -> None:
        """Wait until the turns of all earlier batches are over."""
        with self._changed:
            while self._turn < number:
                self._changed.wait()

    def end_turn(self, number: int) -> None:
        """Record that the turn of a batch is over, or that it takes none."""
        with self._changed:
            if number < self._turn:
                return
            self._left.add(number)
            while self._turn in self._left:
                self._left.remove(self._turn)
                self._turn += 1
            self._changed.notify_all()

    def end(self, number: int) -> None:
        """Record that a batch has ended, whether or not it has entered or taken its turn."""
        self.enter(number, None)
        self.end_turn(number)


class PhaseOrder(BatchOrder):
    """The order of the batches in a phase that calls the user's code.

    Args:
        first: number of the first step with the user's code.
        last: number of the last one. A batch's turn lasts from the first to the last one.
        operators: operators of the phase that must see the batches in order.
    """

    def __init__(self, first: int, last: int, operators: Sequence[Any]) -> None:
        super().__init__()
        self.first, self.last = first, last
        self._operators = operators

    def begin(self, number: int) -> None:
        """Wait for the turn of a batch, unless other processes run the user's code."""
        if not all(operator.runs_in_processes for operator in self._operators):
            self.wait_for_turn(number)


def ordered_phases(plan: Plan, operators: Mapping[int, Any]) -> dict[int, PhaseOrder]:
    """Return the orders of the phases of a plan that call the user's code, by number.

    Args:
        plan: the plan.
        operators: implementations of the nodes, by index.
    """
    orders: dict[int, PhaseOrder] = {}
    for number, phase in enumerate(plan.phases):
        found = [
            (position, operators[node.index])
            for position, step in enumerate(phase.steps)
            for node in step.nodes
            if operators[node.index].traits.in_order
        ]
        if found:
            orders[number] = PhaseOrder(found[0][0], found[-1][0], [operator for _, operator in found])
    return orders
