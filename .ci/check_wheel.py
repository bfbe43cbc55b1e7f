"""Check an installed wheel: the compiled modules, the data files, and a loader with workers. Nothing else is needed.

Run it outside of the checkout, so that Python imports the installed packages: python .ci/check_wheel.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import simplejpeg
import torch

import dali_proxy
import pipeline
from pipeline import _native, fn, pipeline_def

DATA = ("py.typed", "fn/__init__.pyi", "fn/readers.pyi", "_kernels/cuda/common.cuh", "_kernels/cuda/resample.cu")


class Files(torch.utils.data.Dataset):
    """Encoded images of a folder."""

    def __init__(self, folder: Path, transform: dali_proxy.Proxy) -> None:
        self.files = sorted(folder.glob("*.jpg"))
        self.transform = transform

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[object, int]:
        return self.transform(self.files[index].read_bytes()), index


@pipeline_def
def image_pipe() -> object:
    """Decode, resize and normalize."""
    images = fn.decoders.image(fn.external_source(name="images"), device="cpu")
    return fn.crop_mirror_normalize(fn.resize(images, size=(24, 32)), mean=[128], std=[64])


def main() -> None:
    """Check the wheel."""
    package = Path(pipeline.__file__).parent
    assert not (package.parent / "setup.py").exists(), f"{package} is a checkout, not an installed wheel"
    missing = [name for name in DATA if not (package / name).exists()]
    assert not missing, f"the wheel has no {missing}"
    missing = [folder for folder in _native.FOLDERS if _native.find_compiled(folder) is None]
    assert not missing, f"the modules of {missing} aren't compiled"
    with tempfile.TemporaryDirectory() as folder:
        for number in range(16):
            pixels = np.full((48, 64, 3), 16 * number, np.uint8)
            Path(folder, f"{number:02}.jpg").write_bytes(simplejpeg.encode_jpeg(pixels))
        with dali_proxy.DALIServer(image_pipe(batch_size=4, num_threads=2, device_id=None)) as server:
            dataset = Files(Path(folder), server.proxy)
            for images, numbers in dali_proxy.DataLoader(server, dataset, batch_size=4, num_workers=2):
                assert images.shape == (4, 3, 24, 32)
                expected = (16 * numbers.float() - 128) / 64
                assert torch.allclose(images.mean((1, 2, 3)), expected, atol=0.05)
    print(f"dali-proxy {dali_proxy.__version__} works, with its compiled modules.")


if __name__ == "__main__":
    main()
