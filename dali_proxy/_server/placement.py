"""Placement of the stages of a pipeline with a GPU: all in the server, or the device stage in the consumer."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import psutil

from dali_proxy._host.options import Alternative
from dali_proxy._server.trial import Trial
from dali_proxy.pipeline import Pipeline
from dali_proxy.pipeline._cached_property import cached_property
from dali_proxy.pipeline._compiler.device_planner import simple_derivations
from dali_proxy.pipeline._compiler.order_keeper import order_keeper
from dali_proxy.pipeline._compiler.partition import (
    Stages,
    runs_user_code,
    stages_by_device,
    stages_on_cores,
    stages_on_engine,
)
from dali_proxy.pipeline._control_group import cgroup_cores
from dali_proxy.pipeline._declaration.schema import Role
from dali_proxy.pipeline._definition.serializing import serialize_for_host, with_graph
from dali_proxy.pipeline._graph.graph import Graph
from dali_proxy.pipeline._ranks import current_ranks
from dali_proxy.pipeline.errors import ArgumentMismatchError, ArgumentValueError, GraphError

Settled = Literal["server", "engine", "cores", "consumer"]
Placement = Literal[Settled, "auto"]

#: Number of idle cores from which decoding on the CPU is faster: five decode the 4,700 images per second that a
#: ResNet-50 trains on with one GPU, and the training loop uses one.
CORES = 6

_WINDOW = 0.2  # seconds for measuring the load of the cores
_ASKED_FOR = "it was requested"

_log = logging.getLogger("dali_proxy")


@dataclass(frozen=True)
class Choice:
    """A placement and the reason for it.

    Attributes:
        placement: "server", "engine", "cores" or "consumer".
        reason: reason, as text for users.
    """

    placement: Settled
    reason: str


@dataclass(frozen=True, eq=False)
class _Variant:
    """The variant of a pipeline for one placement.

    Attributes:
        server: the pipeline of the server.
        device_stage: the pipeline that continues its batches in the consumer, or None.
    """

    server: Pipeline
    device_stage: Pipeline | None = None

    @classmethod
    def split(cls, pipeline: Pipeline, stages: Stages) -> _Variant:
        """Return the variant whose device stage runs in the consumer."""
        return cls(_host_stage(pipeline, stages), _device_stage(pipeline, stages))

    @cached_property
    def serialized_stage(self) -> bytes | None:
        """The device stage, as `serialize_for_host` returned it, or None."""
        return None if self.device_stage is None else serialize_for_host(self.device_stage)

    @property
    def planned_stage(self) -> bytes:
        """The same if the server plans the device stage, else empty."""
        stage = self.device_stage
        is_simple = stage is not None and simple_derivations(stage._internals.graph) is not None
        return (self.serialized_stage or b"") if is_simple else b""


class Placing:
    """Placement of the pipeline of one server. A requested one is fixed.

    "auto" begins with a guess from the idle cores. If the pipeline's data doesn't depend on the order of its batches,
    the other placements are candidates that `Trial` measures.

    Pickling makes the guess; the pickled object contains only the device stages.

    Args:
        wanted: placement that the user requests.
        pipeline: the pipeline.
        split: splits its graph into host stage and device stage for "consumer".

    Raises:
        ArgumentValueError: the placement doesn't exist.
        ArgumentMismatchError: the pipeline doesn't use a GPU, so `wanted` must be "server".
        GraphError: the user requests another placement than "server", and an operator doesn't support it.

    Attributes:
        device_stages: for each variant of the pipeline, the stage of consumers, from `serialize_for_host`, or None.
        trial: measures the candidates of "auto"; None if there is nothing to choose.
    """

    def __init__(
        self, wanted: Placement, pipeline: Pipeline, split: Callable[[Graph], Stages] = stages_by_device
    ) -> None:
        wanted = self._wanted = check_placement(wanted, pipeline)
        self._whole: Pipeline | None = pipeline
        self._split = split
        self._choice: Choice | None = None
        #: The variants that the server can use: the first one at its start, the others as alternatives.
        self._variants: dict[Settled, _Variant] = {}
        self.device_stages: tuple[bytes | None, ...] = ()
        self.trial: Trial | None = None
        if wanted != "auto":
            self._use({wanted: self._variant(wanted)}, Choice(wanted, "" if wanted == "server" else _ASKED_FOR))

    @property
    def placement(self) -> Placement:
        """The chosen placement; before the choice, the requested one."""
        if self.trial is not None:
            return self.names[self.trial.current]
        return self._wanted if self._choice is None else self._choice.placement

    @property
    def wanted(self) -> Placement:
        """The requested placement."""
        return self._wanted

    @property
    def reason(self) -> str:
        """Reason for the placement, as text for users."""
        if self.trial is not None:
            return self.trial.reason
        return "" if self._choice is None else self._choice.reason

    @property
    def is_settled(self) -> bool:
        """Whether no placement is being measured."""
        return self.trial is None or self.trial.is_settled

    @property
    def names(self) -> tuple[Settled, ...]:
        """The placements that the server can use: the first one at its start, the others as alternatives."""
        return tuple(self._variants)

    def host_options(self) -> dict[str, Any]:
        """Return the settings of the host that follow from the placement: fields of `HostOptions`.

        A host that runs only the host stage sees no GPU, because a library could create a CUDA context there that
        nothing uses. The user's own functions and sources see what this process sees.
        """
        assert self._whole is not None
        first, *others = self._variants.values()
        return {
            "host_stage_only": first.device_stage is not None,
            "device_stage": first.planned_stage,
            "alternatives": tuple(
                Alternative(serialize_for_host(variant.server), variant.device_stage is not None, variant.planned_stage)
                for variant in others
            ),
            "device_id": self._whole._internals.arguments.device_id if others else None,
            "hides_gpus": first.device_stage is not None
            and not others
            and self._wanted != "auto"
            and not calls_the_user(first.server._internals.graph),
        }

    def begin_trial(self, choose: Callable[[int, bool], None], refused: Callable[[int], str]) -> None:
        """Measure the candidates of a server that starts, if there are any; see `Trial`. A decision stays valid."""
        if len(self._variants) > 1 and self.trial is None:
            self.trial = Trial(self.names, choose, refused, self.reason)
        elif self.trial is not None and self.trial.current:
            choose(self.trial.current, False)

    def settle(self) -> Pipeline:
        """Choose the placement and log it, unless it is chosen. Return the pipeline that the server runs."""
        assert self._whole is not None  # a pickled handle can't start a server
        if self._choice is None:
            self._choose(self._whole)
            _log.info("placement=%r: %s", self.placement, self.reason)
        return next(iter(self._variants.values())).server

    def _choose(self, pipeline: Pipeline) -> None:
        server: dict[Settled, _Variant] = {"server": self._variant("server")}
        try:
            split: tuple[Settled, ...] = ("consumer", "cores", "engine")
            variants = {**{placement: self._variant(placement) for placement in split}, **server}
        except GraphError as error:
            self._use(server, Choice("server", str(error)))
            return
        if not decodes_images(pipeline._internals.graph):
            self._use(server, Choice("server", "no images are decoded on the GPU"))
            return
        choice = choose(idle_cores(), pipeline.num_threads)
        first: dict[Settled, _Variant] = {choice.placement: variants[choice.placement]}
        if depends_on_order(pipeline):
            self._use(first, choice)
        else:
            choice = Choice(choice.placement, f"{choice.reason}; others will be measured")
            self._use({**first, **variants}, choice)

    def _variant(self, placement: Settled) -> _Variant:
        assert self._whole is not None
        if placement == "server":
            return _Variant(self._whole)
        split = {"consumer": self._split, "cores": stages_on_cores, "engine": stages_on_engine}[placement]
        return _Variant.split(self._whole, split(self._whole._internals.graph))

    def _use(self, variants: Mapping[Settled, _Variant], choice: Choice) -> None:
        self._variants, self._choice = dict(variants), choice
        self.device_stages = tuple(variant.serialized_stage for variant in self._variants.values())

    def __getstate__(self) -> dict[str, Any]:
        if self._whole is not None:
            self.settle()
        choice = self._choice if self.trial is None else Choice(self.names[self.trial.current], self.reason)
        dropped: dict[str, Any] = {"_whole": None, "_split": None, "_variants": {}, "trial": None}
        return {**vars(self), **dropped, "_choice": choice}


def check_placement(placement: Any, pipeline: Pipeline) -> Placement:
    """Return `placement` if the pipeline supports it; "server" if the pipeline was moved to the CPU.

    Raises:
        ArgumentValueError: the placement doesn't exist.
        ArgumentMismatchError: the pipeline doesn't use a GPU, so `placement` must be "server".
    """
    if placement not in get_args(Placement):
        known = '"server", "engine", "cores", "consumer" or "auto"'
        raise ArgumentValueError(f"DALIServer: placement must be {known}, not {placement!r}")
    if pipeline._internals.on_cpu:  # nothing is left to place
        return "server"
    if placement != "server" and pipeline._internals.arguments.device_id is None:
        raise ArgumentMismatchError(
            f"DALIServer: placement={placement!r} selects where the GPU's part of a pipeline runs, but this pipeline "
            f"has device_id=None"
        )
    checked: Placement = placement
    return checked


def choose(idle: float, num_threads: int) -> Choice:
    """Choose between decoding images on the CPU, which leaves the GPU to the training, and on the training's GPU.

    Args:
        idle: number of idle cores.
        num_threads: number of the pipeline's threads, all of which would decode.

    Example:
        >>> choose(12.0, num_threads=8).placement
        'consumer'
        >>> choose(2.5, num_threads=8)
        Choice(placement='engine', reason='2.5 idle cores, decoding on the CPU needs 6')
    """
    if idle < CORES:
        return Choice("engine", f"{idle:.1f} idle cores, decoding on the CPU needs {CORES}")
    if num_threads < CORES - 1:
        return Choice("engine", f"num_threads={num_threads}, decoding on the CPU needs {CORES - 1}")
    return Choice("consumer", f"{idle:.1f} idle cores, decoding on the CPU needs {CORES}")


def depends_on_order(pipeline: Pipeline) -> bool:
    """Return whether a pipeline's data depends on earlier batches: two variants of it would have different data."""
    return order_keeper(pipeline._internals.graph) is not None


def calls_the_user(graph: Graph) -> bool:
    """Return whether a graph calls the user's functions, or sources of its own."""
    return any(runs_user_code(node) for node in graph.nodes if node.name not in graph.fed_inputs)


def decodes_images(graph: Graph) -> bool:
    """Return whether a graph decodes images on the GPU."""
    return any(node.device == "mixed" and node.schema.role is Role.IMAGE_DECODER for node in graph.nodes)


def idle_cores() -> float:
    """Measure briefly how many of the cores that this process may use are idle, and return its share of them.

    The ranks of a distributed run on one machine measure the same cores, so the cores are divided among them.
    """
    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    busy = psutil.cpu_percent(interval=_WINDOW, percpu=True)
    return usable_cores(
        [1 - busy[core] / 100 for core in usable if core < len(busy)], cgroup_cores(), current_ranks().local_world_size
    )


def usable_cores(idle: list[float], limit: float | None, processes: int) -> float:
    """Return the number of idle cores that each process may use.

    Args:
        idle: idle share of the time, for each core that this process may use.
        limit: number of cores that the control group may use, or None for no limit.
        processes: number of processes that share the cores.

    Example:
        >>> usable_cores([1.0, 0.5, 1.0, 1.0], limit=2.0, processes=1)
        2.0
    """
    total = sum(idle)
    return (total if limit is None else min(total, limit)) / max(processes, 1)


def _host_stage(pipeline: Pipeline, stages: Stages) -> Pipeline:
    """Return the server's pipeline: the host stage, without a GPU."""
    return with_graph(pipeline, stages.host, device_id=None)


def _device_stage(pipeline: Pipeline, stages: Stages) -> Pipeline:
    """Return the consumer's pipeline: the device stage."""
    computes = any(node.device != "gpu" and not node.schema.fed for node in stages.device.nodes)
    return with_graph(
        pipeline,
        stages.device,
        num_threads=pipeline.num_threads if computes else 1,
        py_num_workers=0,
        cache=0,  # the server has it
        set_affinity=False,  # its threads share the process with the training
    )
