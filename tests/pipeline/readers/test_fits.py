"""experimental.readers.fits compared with Astropy: DALI's reader needs a GPU, also on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pipeline
from pipeline.errors import PipelineError
from pipeline.types import FLOAT, INT16

fits = pytest.importorskip("astropy.io.fits")

DTYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")


def write(path: Path, *units: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    fits.HDUList([fits.PrimaryHDU(), *units]).writeto(path)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fits")
    numbers = np.arange(24)
    for dtype in DTYPES:
        write(folder / f"{dtype}.fits", fits.ImageHDU((numbers - 5 * (dtype[0] != "u")).reshape(2, 3, 4).astype(dtype)))
    write(folder / "packed/a.fits", fits.CompImageHDU(numbers.reshape(4, 6).astype("i4")))
    write(folder / "two/a.fits", fits.ImageHDU(numbers.astype("i2")), fits.ImageHDU(numbers[:6].astype("f4")))
    scaled = fits.ImageHDU(numbers.astype("i2"))
    scaled.header["BSCALE"], scaled.header["BZERO"] = 0.5, 10.0
    write(folder / "scaled/a.fits", scaled)
    write(folder / "table/a.fits", fits.BinTableHDU.from_columns([fits.Column("x", "J", array=[1, 2])]))
    (folder / "noise").mkdir()
    (folder / "noise/a.fits").write_bytes(b"noise" * 1000)
    (folder / "files.txt").write_text("i2.fits\nu2.fits\n")
    return folder


def outputs(root: Path, batch_size: int = 1, **arguments: Any) -> list[Any]:
    """Return a list of samples for each output."""
    pipe = pipeline.Pipeline(batch_size=batch_size, num_threads=2, device_id=None)
    with pipe:
        made = pipeline.fn.experimental.readers.fits(**{"file_root": str(root), **arguments})
        pipe.set_outputs(*(made if isinstance(made, list | tuple) else (made,)))
    pipe.build()
    try:
        return [[np.array(output.at(index)) for index in range(batch_size)] for output in pipe.run()]
    finally:
        pipe.close()


@pytest.mark.parametrize("name", [*(f"{dtype}.fits" for dtype in DTYPES), "packed/a.fits", "scaled/a.fits"])
def test_image_is_that_of_astropy(root: Path, name: str) -> None:
    expected = fits.getdata(root / name, 1)
    ((result,),) = outputs(root, files=[name])
    assert result.dtype == expected.dtype.newbyteorder("=")
    assert np.array_equal(result, expected)


def test_units_are_outputs(root: Path) -> None:
    (whole,), (real,) = outputs(root, files=["two/a.fits"], hdu_indices=[2, 3], dtypes=[FLOAT, INT16])
    assert (whole.dtype, real.dtype) == (np.float32, np.int16)
    assert (whole[:6] == real).all()


def test_files_are_listed_by_folder_or_text(root: Path) -> None:
    ((first, second),) = outputs(root, 2, file_filter="?2.fits", dtypes=INT16)
    ((listed,),) = outputs(root, file_list=str(root / "files.txt"))
    assert (first == listed).all()
    assert (second == first + 5).all()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"files": ["none.fits"]}, "can't read the file '.*none.fits': No such file"),
        ({"files": ["noise/a.fits"]}, "the file '.*noise/a.fits' can't be read"),
        ({"files": ["table/a.fits"]}, "unit 2 isn't an image"),
        ({"files": ["i2.fits"], "hdu_indices": [3]}, "it has 2 units, so unit 3 doesn't exist"),
        ({"files": ["i2.fits"], "hdu_indices": [1]}, "unit 1 has no data"),
        ({"files": ["i2.fits"], "hdu_indices": [0]}, "'hdu_indices' counts from 1, so 0 isn't a unit"),
        ({"files": ["i2.fits"], "dtypes": [FLOAT, FLOAT]}, "2 dtypes for 1 outputs"),
        ({"file_filter": "*.none"}, "no files to read in"),
    ],
)
def test_bad_file_or_argument_is_an_error(root: Path, arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(PipelineError, match=match):
        outputs(root, **arguments)


def test_missing_package_is_an_error_that_names_the_extra(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "astropy.io.fits", None)
    with pytest.raises(PipelineError, match=r"needs the package 'astropy'.*'dali-proxy\[fits\]'"):
        outputs(root)
