"""`OpSpec`: one call of an operator with the methods of NVIDIA DALI's ``backend.OpSpec``."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self


class OpSpec:
    """A call of an operator: its arguments, and the names and devices of its inputs and outputs.

    Args:
        name: name of the operator in DALI, such as "readers__File".

    Attributes:
        name: name of the operator.
        arguments: constant arguments.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.arguments: dict[str, Any] = {}
        self._inputs: list[tuple[str, str]] = []
        self._argument_inputs: dict[str, str] = {}
        self._outputs: list[tuple[str, str]] = []

    def copy(self) -> OpSpec:
        """Return a copy."""
        return copy.deepcopy(self)

    def AddArg(self, name: str, value: Any) -> Self:
        """Add a constant argument, and return this object."""
        self.arguments[name] = value
        return self

    def AddArgumentInput(self, arg_name: str, inp_name: str) -> Self:
        """Add an argument that is a batch with one value per sample, and return this object."""
        self._argument_inputs[arg_name] = inp_name
        return self

    def AddInput(self, name: str, device: str) -> Self:
        """Add an input, and return this object."""
        self._inputs.append((name, device))
        return self

    def AddOutput(self, name: str, device: str) -> Self:
        """Add an output, and return this object."""
        self._outputs.append((name, device))
        return self

    def NumInput(self) -> int:
        """Return the number of inputs, with arguments that are batches."""
        return len(self._inputs) + len(self._argument_inputs)

    def NumRegularInput(self) -> int:
        """Return the number of inputs, without arguments."""
        return len(self._inputs)

    def NumOutput(self) -> int:
        """Return the number of outputs."""
        return len(self._outputs)

    def InputName(self, idx: int) -> str:
        """Return the name of an input."""
        return self._inputs[idx][0]

    def InputDevice(self, idx: int) -> str:
        """Return the device of an input."""
        return self._inputs[idx][1]

    def OutputName(self, idx: int) -> str:
        """Return the name of an output."""
        return self._outputs[idx][0]

    def OutputDevice(self, idx: int) -> str:
        """Return the device of an output."""
        return self._outputs[idx][1]

    def RenameInput(self, idx: int, name: str) -> None:
        """Change the name of an input."""
        self._inputs[idx] = (name, self._inputs[idx][1])

    def RenameOutput(self, idx: int, name: str) -> None:
        """Change the name of an output."""
        self._outputs[idx] = (name, self._outputs[idx][1])

    def __repr__(self) -> str:
        lines = [f"OpSpec for {self.name}:", "  Inputs:"]
        lines += [f"    {name}_{device}" for name, device in self._inputs]
        lines += [f"    {argument}={name}_cpu" for argument, name in self._argument_inputs.items()]
        lines += ["  Outputs:", *(f"    {name}_{device}" for name, device in self._outputs)]
        lines += ["  Arguments:", *(f"    {name}: {value}" for name, value in self.arguments.items())]
        return "\n".join(lines) + "\n"
