"""`io.file.read`: contents of files whose paths are data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dali_proxy.pipeline._bulk.files import BatchOfFiles, FileBuffers
from dali_proxy.pipeline._bulk.paths import PathTable
from dali_proxy.pipeline._declaration import Argument, Input, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline._remote.urls import SCHEME_OF_FILES
from dali_proxy.pipeline.errors import ArgumentTypeError, OperatorError

FILE_READ = declare_operator(
    name="io.file.read",
    doc="""Reads files on the threads of the CPU stage.

Pass a path to a proxy, or to the function in `dynamic`, as a string, a `Path` or its bytes. The data of a pipeline is a
1-D array of its bytes: `np.frombuffer(os.fsencode(path), np.uint8)`. Relative paths are those of this
process, or of the dataset that passes them to a server's proxy. The output is the file's bytes. URLs such as
`s3://bucket/key` are read through fsspec, many at once (`pip install 'dali-proxy[remote]'`).""",
    inputs=(Input("filepaths", "Paths, as 1-D uint8 or int8 arrays of their bytes."),),
    arguments=(
        Argument("dont_use_mmap", Kind.BOOL, "Accepted for compatibility; files are never memory-mapped.", False),
        Argument("use_o_direct", Kind.BOOL, "Accepted for compatibility.", False),
    ),
    role=Role.FILE_READ,
)


def _check_dtype(dtype: np.dtype[Any] | None) -> None:
    if dtype is not None and dtype not in (np.uint8, np.int8):
        raise ArgumentTypeError(f"a path must be an array of uint8 or int8, not {dtype}")


@implements(FILE_READ, "cpu")
class FileRead(BatchOperator):
    """Reads a batch with one call, into memory that batches reuse.

    Reading file by file in a chain would need the GIL several times per file, which many threads share.
    """

    traits = Traits(waits=True)

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        self._buffers = FileBuffers(setup.reading_gpu)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        (paths,) = inputs
        _check_dtype(paths.table().dtype)
        files = BatchOfFiles(PathTable.from_samples(paths, SCHEME_OF_FILES.encode()), self._buffers)
        files.read_all(batch.pool)
        if files.failures:
            raise OperatorError.from_failures(files.failures)
        return [files.batch()]
