from __future__ import annotations

import gc

import numpy as np
import pytest

from pipeline._cuda.views import DeviceView, Lease, lent_array


def test_lease_ends_with_the_last_view() -> None:
    ended: list[bool] = []
    lease = Lease(lambda: ended.append(True))
    views = [lease.view(0x1000 * i, (2, 3), "uint8", 0) for i in (1, 2)]
    del lease
    views.pop()
    gc.collect()
    assert ended == []
    views.pop()
    gc.collect()
    assert ended == [True]


def test_lease_ends_once() -> None:
    ended: list[bool] = []
    lease = Lease(lambda: ended.append(True))
    lease.end()
    lease.end()
    del lease
    assert ended == [True]


def test_array_interface_of_a_view() -> None:
    interface = DeviceView(4096, (2, 3), np.float16, 0, None).__cuda_array_interface__
    assert interface == {
        "shape": (2, 3),
        "typestr": "<f2",
        "data": (4096, False),
        "strides": None,
        "stream": None,
        "version": 3,
    }


@pytest.mark.gpu
@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("way", ["as_tensor", "from_dlpack"])
def test_dropping_the_torch_tensor_ends_the_lease(way: str) -> None:
    torch = pytest.importorskip("torch")
    import cupy

    if not torch.cuda.is_available():
        pytest.skip("needs torch with CUDA")
    memory = cupy.arange(6, dtype=cupy.float32)
    cupy.cuda.Device(0).synchronize()
    ended: list[bool] = []
    lease = Lease(lambda: ended.append(True))
    view = lease.view(memory.data.ptr, (2, 3), "float32", 0)
    tensor = torch.as_tensor(view, device="cuda:0") if way == "as_tensor" else torch.from_dlpack(view)
    assert tensor.data_ptr() == memory.data.ptr
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
    part = tensor[1:]
    del lease, view, tensor
    gc.collect()
    assert ended == []
    del part
    gc.collect()
    assert ended == [True]


def test_lent_array_ends_the_lease_with_its_last_view() -> None:
    ended: list[bool] = []
    memory = np.zeros(16, np.uint8)
    memory.setflags(write=False)
    array = lent_array(memory, Lease(lambda: ended.append(True)))
    view = array[8:].view(np.int32)
    view[0] = 1  # the owner decides whether it is writable, not the underlying array
    del array
    assert memory[8] == 1
    assert ended == []
    del view
    assert ended == [True]
