"""`segmentation.random_object_bbox`: boxes of random objects in segmentation maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dali_proxy.pipeline._declaration import Argument, Input, Kind, declare_operator, implements
from dali_proxy.pipeline._graph.graph import GraphNode
from dali_proxy.pipeline._imaging.blobs import blob_boxes
from dali_proxy.pipeline._operator_api.arguments import Arguments
from dali_proxy.pipeline._operator_api.batch import Batch
from dali_proxy.pipeline._operator_api.operator import OutputSpec, SampleOperator, Setup
from dali_proxy.pipeline._rng import philox
from dali_proxy.pipeline.errors import ArgumentTypeError, ArgumentValueError
from dali_proxy.pipeline.tensors.cpu import Array


def _outputs(arguments: Mapping[str, Any]) -> int:
    return (1 if arguments.get("format") == "box" else 2) + bool(arguments.get("output_class"))


def _draws(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    form = arguments.get("format") or "anchor_shape"
    box = ("box",) if form == "box" else tuple(form.split("_"))
    return (*box, "class") if arguments.get("output_class") else box


RANDOM_OBJECT_BBOX = declare_operator(
    name="segmentation.random_object_bbox",
    random=True,
    draws=_draws,
    doc="""Draws an object of a segmentation map, and returns its bounding box.

With the probability `foreground_prob`, a class is drawn, then one of its objects: connected regions with the label of
the class. Otherwise, and if no object is large enough, the box is the whole map. A class without a sufficiently large
object isn't drawn. The outputs are INT32: the box, as `format` says, and with `output_class` its label.""",
    inputs=(Input("map", "Integers of any shape: a label for each pixel."),),
    arguments=(
        Argument("foreground_prob", Kind.FLOAT, "Probability of the box of an object, 0 to 1.", 1.0, per_sample=True),
        Argument("classes", Kind.INTS, "Labels of objects; by default all except `background`.", None, per_sample=True),
        Argument(
            "class_weights",
            Kind.FLOATS,
            "Relative probabilities of `classes`, or of the labels 1, 2 and so on; by default they are equal.",
            None,
            per_sample=True,
        ),
        Argument(
            "background",
            Kind.INT,
            "Label of the background; by default 0, or another number if `classes` has 0.",
            0,
            per_sample=True,
        ),
        Argument(
            "threshold",
            Kind.INTS,
            "Smallest extents of a box: one for all axes or one per axis.",
            None,
            per_sample=True,
        ),
        Argument("k_largest", Kind.INT, "Draw only from this many boxes with the largest volumes."),
        Argument(
            "ignore_class",
            Kind.BOOL,
            "Draw from the objects of all classes together; can't be used together with `classes`, "
            "`class_weights` and `output_class`.",
            False,
        ),
        Argument(
            "format",
            Kind.STRING,
            '"anchor_shape" and "start_end" return two outputs; "box" returns start and end in one output.',
            "anchor_shape",
            choices=("anchor_shape", "start_end", "box"),
            unknown='Invalid output format: "{}"',
        ),
        Argument("output_class", Kind.BOOL, "Add an output: the label, or `background` for the whole map.", False),
        Argument("cache_objects", Kind.BOOL, "Accepted for compatibility; objects are found again.", False),
    ),
    outputs=_outputs,
)


@dataclass(frozen=True)
class _Choices:
    """The arguments of a batch.

    Attributes:
        probability: probability of an object's box, (N,).
        classes: labels of each sample; None for all except the background.
        weights: relative probabilities of the labels of each sample; None if they are equal.
        background: label of the background, (N,) int64.
        threshold: smallest extents of each sample.
        keys: keys of the random numbers, (N, 2) uint64.
    """

    probability: Array
    classes: Sequence[Array] | None
    weights: Sequence[Array] | None
    background: Array
    threshold: Sequence[Array] | None
    keys: Array

    @classmethod
    def from_batch(cls, arguments: Arguments, size: int, generator: np.random.Generator) -> _Choices:
        """Return the arguments of a batch.

        Raises:
            ArgumentValueError: Classes, weights and background don't fit together.
        """
        probability = arguments.scalars("foreground_prob")
        background = arguments.scalars("background", np.int64)
        classes = arguments.optional(arguments.rows, "classes", np.int64)
        weights = arguments.optional(arguments.rows, "class_weights")
        if weights is not None:
            if classes is None:
                classes = [np.arange(1, len(row) + 1) for row in weights]
            for labels, row in zip(classes, weights, strict=True):
                if len(labels) != len(row):
                    raise ArgumentValueError(
                        "If both ``classes`` and ``class_weights`` are provided, their shapes must match. Got: "
                        f"classes.shape = {{{len(labels)}}} weights.shape = {{{len(row)}}}"
                    )
                if not (row >= 0).all():
                    raise ArgumentValueError(f"argument 'class_weights' can't be negative: {row.tolist()}")
        if classes is not None:
            background = background.copy()
            for sample, labels in enumerate(classes):
                if background[sample] not in labels:
                    continue
                if arguments.given("background"):
                    raise ArgumentValueError(
                        f"Class label {background[sample]} coincides with background label - please specify a "
                        "different background label or remove it from your list of foreground classes"
                    )
                background[sample] = min(labels.min(), 0) - 1
        keys = generator.integers(0, 1 << 64, (size, 2), dtype=np.uint64)
        threshold = arguments.optional(arguments.rows, "threshold", np.int64)
        return cls(probability, classes, weights, background, threshold, keys)


@implements(RANDOM_OBJECT_BBOX, "cpu")
class RandomObjectBBox(SampleOperator[_Choices]):
    """Finds the objects of the classes that are drawn."""

    def __init__(self, node: GraphNode, setup: Setup) -> None:
        super().__init__(node, setup)
        names = {*node.arguments, *node.argument_inputs}
        if node.argument("ignore_class") and (names & {"classes", "class_weights"} or node.argument("output_class")):
            raise ArgumentValueError(
                "Class-related arguments ``classes``, ``weights`` and ``output_class`` cannot be used when "
                "``ignore_class`` is True"
            )
        count = node.argument("k_largest")
        if count is not None and count < 1:
            raise ArgumentValueError(f"``k_largest`` must be at least 1; got {count}")

    def start(self, batch: Batch, inputs: Sequence[OutputSpec]) -> tuple[_Choices, Sequence[OutputSpec]]:
        choices = _Choices.from_batch(batch.arguments(self.node), batch.size, batch.generator(self.node))
        outputs = _outputs({name: self.node.argument(name) for name in ("format", "output_class")})
        return choices, [OutputSpec(dtype=np.dtype(np.int32))] * outputs

    def run(
        self, state: _Choices, sample: int, inputs: Sequence[Array], out: Array | None
    ) -> tuple[Array, ...] | Array:
        (labels,) = inputs
        if labels.dtype.kind not in "iub":
            raise ArgumentTypeError(f"labels must be integers, not {labels.dtype}; use fn.cast")
        if not labels.ndim:
            raise ArgumentValueError("a segmentation map needs at least one dimension")
        generator = philox(state.keys[sample])
        label, box = int(state.background[sample]), np.array([[0] * labels.ndim, labels.shape])
        if generator.random() < state.probability[sample]:
            label, box = self._draw(state, sample, labels, generator) or (label, box)
        start, end = box.astype(np.int32)
        kind = self.node.argument("format")
        outputs = [np.concatenate([start, end])] if kind == "box" else [start, end - start * (kind == "anchor_shape")]
        if self.node.argument("output_class"):
            outputs.append(np.array(label, np.int32))
        return tuple(outputs) if len(outputs) > 1 else outputs[0]

    def _draw(
        self, state: _Choices, sample: int, labels: Array, generator: np.random.Generator
    ) -> tuple[int, Array] | None:
        """Return the label and the box of an object, or None if there is no object of the required size."""
        least = np.zeros(labels.ndim, np.int64)
        if state.threshold is not None:
            row = state.threshold[sample]
            if len(row) not in (1, labels.ndim):
                raise ArgumentValueError(
                    f'Argument "threshold" expected shape {labels.ndim} but got {len(row)} values, which can\'t be '
                    "interpreted as the expected shape"
                )
            least[:] = row
        candidates: Iterator[tuple[int, Array]]
        if self.node.argument("ignore_class"):
            present = self._present(state, sample, labels)
            found = [blob_boxes(labels == label) for label in present]
            candidates = iter([(0, np.concatenate(found))] if found else [])
        else:
            order = self._order(state, sample, labels, generator)
            candidates = ((label, blob_boxes(labels == label)) for label in order)
        for label, boxes in candidates:
            extents = boxes[:, 1] - boxes[:, 0]
            large = (extents >= least).all(axis=1)
            boxes, extents = boxes[large], extents[large]
            count = self.node.argument("k_largest")
            if count is not None:
                boxes = boxes[np.argsort(-extents.prod(axis=1), kind="stable")[:count]]
            if len(boxes):
                return label, boxes[int(generator.random() * len(boxes))]
        return None

    def _present(self, state: _Choices, sample: int, labels: Array) -> list[int]:
        """Return the labels of a map, except the background."""
        return [label for label in _distinct(labels) if label != state.background[sample]]

    def _order(self, state: _Choices, sample: int, labels: Array, generator: np.random.Generator) -> list[int]:
        """Return labels in random order: the first one is drawn, then the next one from the others, and so on."""
        if state.classes is None:
            chosen = np.array(self._present(state, sample, labels), np.int64)
        else:
            chosen = np.asarray(state.classes[sample])
        weights = np.ones(len(chosen)) if state.weights is None else state.weights[sample]
        chosen, weights = chosen[weights > 0], weights[weights > 0]
        times = -np.log1p(-generator.random(len(chosen))) / weights  # the first of independent events
        return chosen[np.argsort(times)].tolist()


def _distinct(labels: Array) -> list[int]:
    """Return the values of an array of integers, in order."""
    if not labels.size:
        return []
    low = int(labels.min())
    if int(labels.max()) - low > labels.size:  # a count of each value would need more memory than the labels
        return np.unique(labels).astype(np.int64).tolist()
    counts = np.bincount(labels.reshape(-1).astype(np.int64) - low)
    return (np.flatnonzero(counts) + low).tolist()
