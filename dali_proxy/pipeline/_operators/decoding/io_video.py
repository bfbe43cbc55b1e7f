"""`io.video`: frames of videos whose paths are data, out of a pool that all samples share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from dali_proxy.pipeline._codecs.encoded import flat_bytes
from dali_proxy.pipeline._declaration import Argument, Input, Kind, Role, declare_operator, implements
from dali_proxy.pipeline._graph.graph import Edge, GraphNode
from dali_proxy.pipeline._kernels import Samples
from dali_proxy.pipeline._kernels.strided_copy import plan_strided_copy
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.gpu_operator import GpuOperator, allocate, as_pipeline_error, fail
from dali_proxy.pipeline._operator_api.operator import BatchOperator, Setup
from dali_proxy.pipeline._operator_api.request import Announcement
from dali_proxy.pipeline._operator_api.traits import Traits
from dali_proxy.pipeline._operators.decoding.video import check_fill
from dali_proxy.pipeline._remote.urls import LONGEST_PATH, path_in
from dali_proxy.pipeline._size_limit import check_size
from dali_proxy.pipeline._video.clip import Clip
from dali_proxy.pipeline._video.frame_request import FrameRequest
from dali_proxy.pipeline._video.frames import Decoders, read_frames
from dali_proxy.pipeline._video.missing import require_av
from dali_proxy.pipeline._video.nvdec import require_nvdec
from dali_proxy.pipeline._video.pooled_video import PooledVideo
from dali_proxy.pipeline._video.selection import FILL, PAD_MODES
from dali_proxy.pipeline._video.targets import target_for
from dali_proxy.pipeline._video.video_pool import Ahead, Frames, shared_pool
from dali_proxy.pipeline.errors import ArgumentValueError, PipelineError
from dali_proxy.pipeline.tensors.cpu import TensorListCPU
from dali_proxy.pipeline.types import RGB, DALIImageType

_DOC = """Returns single frames of videos, FHWC, for datasets that ask for frames at random.

The input is the path or the URL of a video, or the content of its file. Pass either
`frames` or `times`. All samples of all batches of the process share a pool of decoded frames: frames that other samples
need, or will need as far as it is known, are decoded together, once, beginning at a key frame. A server knows all
samples that its workers have sent. The pool doesn't change the results, nor their order.

Frames are numbered in display order, from 0. They have the size in which they were encoded; the rotation in a file
isn't applied. Files that are replaced or changed are read again. The content of a file, in place of its path, is
decoded for its sample only. With device='mixed', NVDEC decodes, and frames and pool are on the GPU; the CPU decodes
what NVDEC doesn't support, and groups of pictures for which NVDEC is too busy."""

VIDEO = declare_operator(
    name="io.video",
    doc=_DOC,
    inputs=(
        Input(
            "source",
            "Paths or URLs, or the contents of files. Pass a path to a proxy, or to the function in "
            "`dynamic`, as a string, a `Path` or its bytes.",
        ),
    ),
    arguments=(
        Argument("frames", Kind.INTS, "Numbers of frames, in any order. A number may be repeated.", per_sample=True),
        Argument(
            "times",
            Kind.FLOATS,
            "Presentation times in seconds, in place of `frames`. Each selects the frame with the nearest time, the "
            "earlier one of two.",
            per_sample=True,
        ),
        Argument(
            "tolerance",
            Kind.FLOAT,
            "Largest distance between a time and the nearest frame, in seconds; beyond it, the batch raises an error.",
        ),
        Argument(
            "pad_mode",
            Kind.STRING,
            "Replacement of frames before the start and after the end: an error by default, or as in "
            "`fn.decoders.video`.",
            "none",
            choices=PAD_MODES,
        ),
        Argument("fill_value", Kind.INTS, "Color for 'constant': one value per channel, or one for all.", (0,)),
        Argument("image_type", Kind.IMAGE_TYPE, "Color space of the output: RGB, BGR, GRAY or YCbCr.", RGB),
        Argument(
            "pool_bytes",
            Kind.INT,
            "Largest size of the pool. All operators of a process share one pool for each device, and the largest "
            "value counts.",
            1 << 30,
        ),
    ),
    devices=("cpu", "mixed"),
    role=Role.FILE_READ,
)


class _Frames(BatchOperator):
    """What the operators on both devices have in common."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        on_gpu = node.device != "cpu"
        (require_nvdec if on_gpu else require_av)()
        self._fill = check_fill(node)
        self._output: DALIImageType = node.argument("image_type")
        if self._output is DALIImageType.ANY_DATA:
            raise ArgumentValueError("argument 'image_type' must be RGB, BGR, GRAY or YCbCr, not ANY_DATA")
        self._channels = 1 if self._output is DALIImageType.GRAY else 3
        if len(self._fill) not in (1, self._channels):
            raise ArgumentValueError(
                f"fill_value has {len(self._fill)} values, but the frames have {self._channels} channels"
            )
        if node.argument("pool_bytes") < 0:
            raise ArgumentValueError(f"argument 'pool_bytes' must not be negative, not {node.argument('pool_bytes')}")
        given = [name for name in ("frames", "times") if name in node.argument_inputs or name in node.arguments]
        if len(given) != 1:
            raise ArgumentValueError("pass either 'frames' or 'times'" + ", not both" * (len(given) > 1))
        if "tolerance" in node.arguments and given == ["frames"]:
            raise ArgumentValueError("argument 'tolerance' needs 'times'")
        self._device_id = setup.device_id if on_gpu else None
        self._decoders = Decoders(0, setup.num_threads)  # of files in memory
        self._pool = shared_pool(self._device_id).open(node.argument("pool_bytes"))

    def look_ahead(self, batch: Batch) -> Ahead | None:
        """Let the pool know of a batch that waits, given its inputs; the caller closes the result."""
        sources = batch.values[self.node.inputs[0]]
        if not isinstance(sources, TensorListCPU) or sources.nbytes > LONGEST_PATH * len(sources):
            return None
        try:
            requests = self._requests(batch, sources)
        except PipelineError:  # the batch will raise it
            return None
        return self._pool.announce([request for request in requests if request.source])

    def close(self) -> None:
        """Leave the pool. The executor calls this after the last batch."""
        self._decoders.close()
        self._pool.close()

    def _requests(self, batch: Batch, sources: TensorListCPU) -> list[FrameRequest]:
        """Return what each sample needs, without references to its inputs; the source of contents is empty."""
        arguments = batch.arguments(self.node)
        frames = arguments.optional(arguments.rows, "frames", np.int64)
        times = arguments.optional(arguments.rows, "times", np.float64)
        tolerance = self.node.argument("tolerance")
        if tolerance is None:
            tolerance = np.inf
        return [
            FrameRequest(
                path_in(flat_bytes(sources.at(sample))) or "",
                None if frames is None else np.array(frames[sample]),
                None if times is None else np.array(times[sample]),
                tolerance,
                self.node.argument("pad_mode"),
            )
            for sample in range(batch.size)
        ]

    def _decode(
        self, batch: Batch, sources: TensorListCPU, kernels: Any
    ) -> tuple[list[tuple[PooledVideo, list[int]] | None], Frames, list[Any]]:
        """Decode the frames of a batch.

        Returns:
            Video and frame numbers of each sample, the frames, and the results of samples that are contents of files.

        Raises:
            OperatorError: samples failed.
        """
        requests = self._requests(batch, sources)
        failures: dict[int, PipelineError] = {}
        needs: list[tuple[PooledVideo, list[int]] | None] = [None] * batch.size
        made: list[Any] = [None] * batch.size
        videos: dict[str, PooledVideo | PipelineError] = {}
        for source in {request.source for request in requests} - {""}:
            try:
                videos[source] = self._pool.video(source, self._output)
            except PipelineError as missing:
                videos[source] = missing
        _make_indexes(batch, [each.clip for each in videos.values() if isinstance(each, PooledVideo)])
        contents = [sample for sample, request in enumerate(requests) if not request.source]

        def decode_content(number: int) -> None:
            sample = contents[number]
            clip = Clip(flat_bytes(sources.at(sample)), self._device_id)
            target = target_for(clip, self._output, kernels)
            numbers = _numbers(requests[sample], clip)
            made[sample] = read_frames(clip, numbers, target, self._decoders, self._fill)

        for number, error in batch.pool.run(decode_content, len(contents)):
            failures[contents[number]] = as_pipeline_error(error)
        for sample, request in enumerate(requests):
            video = videos.get(request.source)
            try:
                if isinstance(video, PipelineError):
                    raise video
                if video is not None:
                    needs[sample] = video, _numbers(request, video.clip)
            except PipelineError as refused:
                failures[sample] = refused
        frames, errors = self._pool.frames([each for each in needs if each is not None], batch.pool.run, kernels)
        for sample, need in enumerate(needs):
            wrong = (
                None
                if need is None
                else next((key for number in need[1] if (key := (need[0], number)) in errors), None)
            )
            if wrong is not None:
                failures[sample] = as_pipeline_error(errors[wrong])
        fail(sorted(failures.items()))
        return needs, frames, made

    def _known(self, batch: Batch) -> Announcement | None:
        """Return the announcement of a batch that runs: that of the server, or a new one."""
        return batch.request.ahead.get(self.node.index) or self.look_ahead(batch)

    def _shape(self, need: tuple[PooledVideo, list[int]], frames: Frames) -> tuple[int, ...]:
        """Return the shape of a sample.

        Raises:
            DecodeError: it is too large, or its frames change size.
        """
        video, numbers = need
        encoding = video.clip.encoding
        shapes = {frames[video, number].shape for number in numbers if number != FILL}
        shape = shapes.pop() if shapes else (encoding.height, encoding.width, self._channels)
        if shapes:
            raise PipelineError(f"{video.clip.name} can't be decoded: its frames change size")
        check_size("the decoded video", len(numbers), *shape)
        return len(numbers), *shape


def _make_indexes(batch: Batch, clips: Sequence[Clip]) -> None:
    """Create the indexes of videos on several threads; errors are raised again when the indexes are used."""
    opened = [clip for clip in clips if not clip.indexed]

    def make(number: int) -> None:
        opened[number].make_index()

    batch.pool.run(make, len(opened))


def _numbers(request: FrameRequest, clip: Clip) -> list[int]:
    index = clip.index
    with clip.errors():
        return request.numbers(index)


@implements(VIDEO, "cpu")
class CpuFrames(_Frames):
    """Decodes groups of pictures on the threads of the CPU stage, and copies frames out of the pool."""

    traits = Traits(waits=True)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        ahead = self._known(batch)
        try:
            needs, frames, made = self._decode(batch, inputs[0], None)
            shapes = [
                each.shape if need is None else self._shape(need, frames)
                for need, each in zip(needs, made, strict=True)
            ]
            owner = None
            if len(set(shapes)) == 1:
                dense, owner = batch.allocate(Edge(self.node.index), (batch.size, *shapes[0]), np.dtype(np.uint8))
                result = TensorListCPU.from_dense(dense, "FHWC")
                result.owner = owner
            else:
                result = TensorListCPU([np.empty(shape, np.uint8) for shape in shapes], "FHWC")
            outs = result.samples

            def copy(sample: int) -> None:
                need, out = needs[sample], outs[sample]
                if need is None:
                    out[...] = made[sample]
                    return
                for position, number in enumerate(need[1]):
                    out[position] = self._fill if number == FILL else frames[need[0], number]

            errors = batch.pool.run(copy, batch.size)
            if errors:
                raise errors[0][1]
            return [result]
        finally:
            if ahead is not None:
                ahead.close()


@implements(VIDEO, "mixed")
class MixedFrames(_Frames, GpuOperator):
    """Decodes groups of pictures with NVDEC, on the threads of the CPU stage, and copies frames on the GPU."""

    traits = replace(GpuOperator.traits, only_launches=False, repeatable=False)

    def run(self, batch: Batch, inputs: Sequence[Any]) -> Sequence[Any]:
        ahead = self._known(batch)
        try:
            needs, frames, made = self._decode(batch, inputs[0], self.kernels)
            sources: list[Any] = []  # the frames of all samples
            shapes = []
            filled = cache(self._filled)
            for sample, need in enumerate(needs):
                if need is None:
                    sources += made[sample]
                    shapes.append(made[sample].shape)
                    continue
                video, numbers = need
                shape = self._shape(need, frames)
                shapes.append(shape)
                sources += [filled(shape[1:]) if number == FILL else frames[video, number] for number in numbers]
            with batch.stream:
                result, target = allocate(np.array(shapes, np.int64), np.dtype(np.uint8), "FHWC")
            if sources:
                each = target.parts(*target.positions([0]), [0])
                self.launch(plan_strided_copy(Samples.from_arrays(sources), each), batch)
            batch.keep_alive += sources  # which the launch reads
            return [result]
        finally:
            if ahead is not None:
                ahead.close()

    def _filled(self, shape: tuple[int, ...]) -> Any:
        """Return a frame of the fill color."""
        import cupy

        color = np.broadcast_to(np.array(self._fill, np.uint8), shape[2:])
        with cupy.cuda.Device(self.kernels.device_id), cupy.cuda.Stream.null as stream:
            frame = cupy.asarray(np.ascontiguousarray(np.broadcast_to(color, shape)))
            stream.synchronize()
        return frame
