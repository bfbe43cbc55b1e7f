"""The program of a graph: the steps that run for each batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from dali_proxy.pipeline._cache.gpu_cache import GpuCache, GpuCacheOptions
from dali_proxy.pipeline._cache.value_cache import ValueCache
from dali_proxy.pipeline._compiler.cached_parts import CachedPart, parts_on_cores
from dali_proxy.pipeline._compiler.make_operator import make_operator
from dali_proxy.pipeline._compiler.plan import PartStep, Plan, SampleStep, part_step
from dali_proxy.pipeline._compiler.rules import RULES
from dali_proxy.pipeline._compiler.rules.scope import Scope
from dali_proxy.pipeline._compiler.steps.cached_step import CachedStep
from dali_proxy.pipeline._compiler.steps.chain import ChainStep
from dali_proxy.pipeline._compiler.steps.cores_step import CoresStep, decode_on_cores
from dali_proxy.pipeline._compiler.steps.fast_paths import FastPaths
from dali_proxy.pipeline._compiler.steps.gpu_cached_step import GpuCachedStep
from dali_proxy.pipeline._compiler.steps.step import FedInput, OperatorStep, PixelStep, Step, Steps
from dali_proxy.pipeline._cuda.context import KernelContext
from dali_proxy.pipeline._graph.graph import Graph
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator
from dali_proxy.pipeline._operators.user_code.external_source import ExternalSource


class Program:
    """The steps of each phase of a plan.

    Args:
        graph: the graph.
        plan: its plan.
        operators: implementations of the nodes, by index.
        kernels: context of the launches; None without a GPU.
        seed: seed of the random numbers.
        fuse: whether operators may run together; the results are the same.
        cache: has results of parts of the graph; None for no cache.

    Attributes:
        graph: the graph.
        plan: the plan.
        phases: the steps, by number of the phase.
        takes_inputs: whether a phase only takes fed data, by its number: that needs no other thread.
        fast_paths: failures of steps that run several operators as one.
        cached: the steps whose results a cache may have.
    """

    def __init__(
        self,
        graph: Graph,
        plan: Plan,
        operators: Mapping[int, Any],
        kernels: KernelContext | None,
        seed: int,
        fuse: bool,
        cache: ValueCache | None = None,
    ) -> None:
        self.graph, self.plan, self.fast_paths = graph, plan, FastPaths()
        self.phases: list[list[Steps]] = []
        for number, phase in enumerate(plan.phases):
            self.phases.append([])
            for position, planned in enumerate(phase.steps):
                scope = Scope(graph, operators, plan.readers, kernels, seed, self.fast_paths, phase.device, planned)
                steps = _steps(scope, fuse, cache)
                dead = plan.dead_after.get((number, position), ()) if phase.device == "cpu" else ()
                self.phases[-1].append(Steps(planned, steps, dead, scope.notes))
        every = [step for steps in self.phases for each in steps for step in each.steps]
        self.cached = [step for step in every if isinstance(step, CachedStep)]
        if cache is not None:
            self._cache_on_cores(parts_on_cores(graph), operators, cache)
        self.takes_inputs = [
            phase.device == "cpu" and all(isinstance(each, FedInput) for step in steps for each in step.steps)
            for phase, steps in zip(plan.phases, self.phases, strict=True)
        ]

    def _cache_on_cores(self, parts: Iterable[CachedPart], operators: Mapping[int, Any], cache: ValueCache) -> None:
        """Let decoders on the GPU take from a cache what they would decode on cores."""
        for part in parts:
            decoder = operators[part.nodes[0].index]
            step = CoresStep(make_operator(part.nodes[0], decoder.setup))
            self.cached.append(CachedStep(part_step(part), [step], cache, (), decoder.setup.reading_gpu))
            decoder.on_cores = partial(decode_on_cores, self.cached[-1], part)


def _steps(scope: Scope, fuse: bool, cache: ValueCache | None) -> list[Step]:
    """Return the steps that run the operators of a planned step."""
    planned = scope.planned
    if isinstance(planned, PartStep):
        parts = [_steps(replace(scope, planned=each), fuse, cache) for each in planned.steps]
        steps = [step for steps in parts for step in steps]
        if scope.device == "mixed":
            options = GpuCacheOptions.from_node(planned.nodes[0])
            assert options is not None  # else the plan has no such step
            assert scope.kernels is not None
            on_gpu = GpuCache.shared(options, scope.kernels.device_id)
            return [GpuCachedStep(planned, steps, on_gpu, scope.kernels)]
        assert cache is not None  # else the plan has no such step
        reading_gpu = next((scope.operators[node.index].setup.reading_gpu for node in planned.nodes), None)
        return [CachedStep(planned, steps, cache, scope.graph.outputs, reading_gpu)]
    steps = _leaves(scope, fuse)
    for rule in RULES if fuse else ():
        steps = rule(steps, scope)
    return steps


def _leaves(scope: Scope, fuse: bool) -> list[Step]:
    """Return a step for each operator, or for the chain."""
    operators = [scope.operators[node.index] for node in scope.planned.nodes]
    if isinstance(scope.planned, SampleStep):
        return [ChainStep(scope.planned, operators)]
    steps: list[Step] = []
    for operator in operators:
        if isinstance(operator, ExternalSource):
            steps.append(FedInput(operator, scope.kernels))
        elif isinstance(operator, PixelOperator) and fuse:
            steps.append(PixelStep(operator, scope.kernels, scope.readers))
        else:
            steps.append(OperatorStep(operator, scope.kernels))
    return steps
