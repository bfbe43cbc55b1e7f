"""`experimental.readers.fits`: images in FITS files."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from dali_proxy.pipeline._bulk.read_file import read_file
from dali_proxy.pipeline._concurrency.interrupts import pass_on_interrupt
from dali_proxy.pipeline._declaration import Argument, Kind, OperatorSchema
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging import convert
from dali_proxy.pipeline._operator_api.operator import OutputSpec, Setup
from dali_proxy.pipeline._optional import optional_package
from dali_proxy.pipeline._readers.arguments import EPOCH_SHUFFLE_ARGUMENTS, READER_ARGUMENTS, output_dtypes
from dali_proxy.pipeline._readers.data_reader import reads
from dali_proxy.pipeline._readers.listed_files import ListedFilesLoader, listing_arguments
from dali_proxy.pipeline._size_limit import check_size
from dali_proxy.pipeline.errors import ArgumentValueError, InputError
from dali_proxy.pipeline.tensors.cpu import Array

_FIRST = (2,)


def _outputs(arguments: Mapping[str, Any]) -> int:
    return len(arguments.get("hdu_indices") or _FIRST)


@reads(
    OperatorSchema(
        name="experimental.readers.fits",
        doc="""Reads images from FITS files, as arrays of any number of dimensions.

The files come from `file_root` and the folders directly below it, or from `file_list` or `files`. Each output is one
unit (HDU) of a file. Compressed images are decompressed, and values are scaled as their header says.""",
        arguments=(
            *listing_arguments("*.fits"),
            Argument(
                "hdu_indices",
                Kind.INTS,
                "HDU of each output, counted from 1: 1 is the primary HDU, and 2 is the one after it.",
                _FIRST,
            ),
            Argument(
                "dtypes",
                Kind.OBJECT,
                "Dtype to convert each output to, as `fn.cast` does; by default that of the file.",
            ),
            *READER_ARGUMENTS,
            *EPOCH_SHUFFLE_ARGUMENTS,
        ),
        devices=("cpu", "gpu"),
        outputs=_outputs,
    )
)
class FitsLoader(ListedFilesLoader):
    """Reads and parses files with Astropy, on the threads that read ahead."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._fits = optional_package("astropy.io.fits", "reading FITS files", "fits")
        self._units = node.argument("hdu_indices") or _FIRST
        if min(self._units) < 1:
            raise ArgumentValueError(f"argument 'hdu_indices' counts from 1, so {min(self._units)} isn't a unit")
        self._dtypes = output_dtypes(node.argument("dtypes"), len(self._units), None)
        self.outputs = [OutputSpec(dtype=dtype) for dtype in self._dtypes]

    def read(self, entry: int) -> tuple[Array, ...]:
        path = self.path(entry)
        content = read_file(path)
        try:
            with self._fits.open(io.BytesIO(content.data), memmap=False) as units:
                arrays = [self._image(units, number) for number in self._units]
        except Exception as error:  # a damaged file makes Astropy raise errors of any type
            pass_on_interrupt(error)
            raise InputError(f"the file {path!r} can't be read: {error}") from error
        return tuple(
            array if dtype is None else convert(array, dtype) for array, dtype in zip(arrays, self._dtypes, strict=True)
        )

    def _image(self, units: Any, number: int) -> Array:
        if number > len(units):
            raise ValueError(f"it has {len(units)} units, so unit {number} doesn't exist")
        unit = units[number - 1]
        if not unit.is_image:
            raise ValueError(f"unit {number} isn't an image")
        check_size(f"unit {number}", *unit.shape, max(8, abs(unit.header["BITPIX"])) // 8)
        if unit.data is None:
            raise ValueError(f"unit {number} has no data")
        data: Array = np.ascontiguousarray(unit.data)
        return data.astype(data.dtype.newbyteorder("="), copy=False)
