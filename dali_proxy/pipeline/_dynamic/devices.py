"""`Device`: where tensors and operators of dynamic mode are."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

from dali_proxy.pipeline._definition.cpu_only import VARIABLE, cpu_is_requested
from dali_proxy.pipeline._graph.location import warn_caller
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError

#: Types of devices of the DLPack protocol.
_DLPACK = {1: "cpu", 2: "gpu", 3: "cpu", 13: "gpu"}


class _Stack(threading.local):
    def __init__(self) -> None:
        self.devices: list[Device] = []
        self.entered: list[int | None] = []


_STACK = _Stack()


class Device:
    """The CPU or a GPU. In its `with` block, it is the current device of the thread.

    If the environment variable `DALI_PROXY_DEVICE` is "cpu", all devices are the CPU.

    Args:
        name: "cpu", "gpu" or "gpu:<number>"; "cuda" means "gpu".
        device_id: number of the GPU; by default, CUDA's current one.

    Raises:
        ArgumentValueError: there is no such device.

    Example:
        >>> Device("cpu")
        Device(device_type='cpu')
    """

    CPU: ClassVar[Device]

    def __init__(self, name: str, device_id: int | None = None) -> None:
        kind, colon, number = name.partition(":")
        kind = "gpu" if kind == "cuda" else kind
        if kind not in ("cpu", "gpu"):
            raise ArgumentValueError(f"Invalid device type: {name}")
        if colon:
            if device_id is not None:
                raise ArgumentValueError(f"the name {name!r} already has a number: leave out device_id={device_id}")
            if not number.isdecimal():
                raise ArgumentValueError(f"Invalid device: {name!r}")
            device_id = int(number)
        if kind == "cpu" and device_id is not None:
            raise ArgumentValueError(f"Invalid device id: {device_id} for device type: cpu. Must be `None`")
        if kind == "gpu" and cpu_is_requested():
            _warn_of_move()
            kind, device_id = "cpu", None
        count = 0 if device_id is None else _gpu_count()
        if device_id is not None and not 0 <= device_id < count:
            raise ArgumentValueError(
                f"Invalid device id: {device_id} for device type: gpu. Must be in range [0..{count - 1}]"
            )
        self.device_type = kind
        self._device_id = device_id

    @property
    def device_id(self) -> int | None:
        """Number of the GPU; None for the CPU."""
        if self._device_id is None:
            self._device_id = Device.default_device_id(self.device_type)
        return self._device_id

    @staticmethod
    def default_device_id(device_type: str) -> int | None:
        """Return the number of CUDA's current device; None for "cpu"."""
        return None if device_type == "cpu" else current_gpu()

    @staticmethod
    def current() -> Device:
        """Return the current device of this thread: a GPU if there is one, unless a `with` block sets another."""
        if _STACK.devices:
            return _STACK.devices[-1]
        return Device("gpu") if not cpu_is_requested() and _gpu_count() else Device.CPU

    @staticmethod
    def type_from_dlpack(dev_type: int) -> str:
        """Return "cpu" or "gpu" for a type of device of the DLPack protocol."""
        kind = _DLPACK.get(int(dev_type))
        if kind is None:
            raise ArgumentValueError(f"unknown DLPack device type {dev_type}")
        return kind

    @staticmethod
    def from_dlpack(dlpack_device: tuple[int, int]) -> Device:
        """Return the device of the result of ``__dlpack_device__()``."""
        kind, number = dlpack_device
        name = Device.type_from_dlpack(kind)
        return Device(name, None if name == "cpu" else int(number))

    def __enter__(self) -> Device:
        entered = None
        if self.device_type == "gpu":
            import cupy

            entered = current_gpu()
            cupy.cuda.Device(self.device_id).use()
        _STACK.devices.append(self)
        _STACK.entered.append(entered)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _STACK.devices.pop()
        entered = _STACK.entered.pop()
        if entered is not None:
            import cupy

            cupy.cuda.Device(entered).use()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Device):
            return NotImplemented
        if self.device_type != other.device_type:
            return False
        return self.device_type == "cpu" or self.device_id == other.device_id

    def __hash__(self) -> int:
        return hash(self.device_type)

    def __str__(self) -> str:
        return "cpu" if self.device_type == "cpu" else f"gpu:{self.device_id}"

    def __repr__(self) -> str:
        number = "" if self.device_type == "cpu" else f", device_id={self.device_id}"
        return f"Device(device_type={self.device_type!r}{number})"


Device.CPU = Device("cpu")


def current_gpu() -> int:
    """Return the number of CUDA's current device."""
    import cupy

    return int(cupy.cuda.Device().id)


def use_gpu(number: int) -> Any:
    """Return a context manager in which a GPU is CUDA's current device of the thread."""
    import cupy

    return cupy.cuda.Device(number)


def _gpu_count() -> int:
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # noqa: BLE001 - no CuPy, no driver or no GPU
        return 0


class _Warned:
    already = False


def _warn_of_move() -> None:
    if not _Warned.already:
        _Warned.already = True
        warn_caller(f"dynamic mode uses the CPU in place of GPUs, because {VARIABLE} is cpu", RuntimeWarning)


def current_choice() -> str | None:
    """Return the type of the device whose `with` block this thread is in; None outside of such blocks."""
    return _STACK.devices[-1].device_type if _STACK.devices else None


def as_device(value: Any) -> Device | None:
    """Return a device: itself, or that of a name or of a torch device; None stays None.

    Raises:
        ArgumentTypeError: the value isn't a device.
        ArgumentValueError: there is no such device.
    """
    if value is None or isinstance(value, Device):
        return value
    if isinstance(value, str):
        return Device(value)
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "type"):
        return Device(value.type, value.index)
    raise ArgumentTypeError(f"device must be a Device, a name or a torch.device, not {type(value).__name__}")
