"""Describe in words how a graph runs: its phases, and the operators that run together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from dali_proxy.pipeline._compiler.cached_parts import cached_parts, parts_on_cores, parts_on_gpu, reasons_against
from dali_proxy.pipeline._compiler.folded_tables import folded_tables
from dali_proxy.pipeline._compiler.order_keeper import order_keeper
from dali_proxy.pipeline._compiler.plan import PartStep, SampleStep, make_plan, step_name
from dali_proxy.pipeline._compiler.sources_on_gpu import sources_on_gpu
from dali_proxy.pipeline._compiler.steps.cached_step import CachedStep
from dali_proxy.pipeline._compiler.steps.step import FusedStep, Step
from dali_proxy.pipeline._declaration.registry import implementation
from dali_proxy.pipeline._executor.executor import Executor
from dali_proxy.pipeline._graph.graph import Edge, Graph, GraphNode
from dali_proxy.pipeline._operator_api.pixel_operator import PixelOperator

_PLACES = {
    "cpu": "on the CPU",
    "mixed": "between CPU and GPU",
    "gpu": "on the GPU",
}


def explain(graph: Graph, executor: Executor | None = None) -> str:
    """Return a text with a line for each operator or chain, in order of execution.

    It says which operators run as one, and why another one doesn't run together with the operator before it.

    Args:
        graph: the graph.
        executor: its executor, if it was built: then the text also shows the steps that run, the rules that were
            applied, why others weren't, and what the steps take.
    """
    folded = folded_tables(sources_on_gpu(graph)) if executor is None else executor.graph
    plan = make_plan(folded, parts_on_gpu(folded)) if executor is None else executor.program.plan
    lines = []
    for number, phase in enumerate(plan.phases, 1):
        lines.append(f"phase {number}, {_PLACES[phase.device]}:")
        if phase.device == "gpu":
            nodes = [node for step in phase.steps for node in step.nodes]
            lines += [f"  {line}" for line in _gpu_lines(nodes, plan.readers)]
        for step in phase.steps if phase.device != "gpu" else ():
            names = [_name(node) for node in step.nodes]
            if isinstance(step, PartStep):
                lines.append(f"  {' -> '.join(names)}; only for samples that aren't in the cache")
            elif isinstance(step, SampleStep):
                lines.append(f"  {' -> '.join(names)}; sample by sample on the threads")
            else:
                lines += [f"  {name}" for name in names]
        if executor is not None:
            for each in executor.program.phases[number - 1]:
                lines.append(f"  step {each.name}")
                lines += [f"    rule {fused.title!r}: {step_name(fused.nodes)}" for fused in _fused(each.steps)]
                lines += [f"    {line}" for line in (*each.notes, *executor.statistics.describe(each))]
    if executor is not None and executor.cache is not None:
        kept = [*cached_parts(executor.graph), *parts_on_gpu(executor.graph)]
        lines += reasons_against(executor.graph, kept)
        for part in parts_on_cores(executor.graph):
            lines.append(f"cached: images that cores decode for {_name(part.nodes[0])}; only their upload remains")
    if graph.fed_inputs and (keeper := order_keeper(graph)) is not None:
        lines.append(f"in one process of a server: {_name(keeper)} depends on earlier batches, or on their order")
    return "\n".join(lines)


def _fused(steps: Iterable[Step]) -> Iterator[FusedStep]:
    """Return the fused steps, each before those that it replaced."""
    for step in steps:
        if isinstance(step, CachedStep):
            yield from _fused(step.members)
        if isinstance(step, FusedStep):
            yield step
            yield from _fused(step.members)


def _gpu_lines(nodes: list[GraphNode], readers: Counter[Edge]) -> list[str]:
    """Return a line for each chain that runs as one expression, and for each other operator."""
    chains: list[list[GraphNode]] = []
    reasons: list[str] = []
    last: dict[int, int] = {}  # index of the chain that a node ends
    for node in nodes:
        before = node.inputs[0].node if node.inputs else -1
        reason = _reason(node, readers, chains[last[before]] if before in last else None)
        if reason is None:
            chain = last.pop(before)
            chains[chain].append(node)
            last[node.index] = chain
            continue
        chains.append([node])
        reasons.append(reason)
        if _is_pixel(node):
            last[node.index] = len(chains) - 1
    return [
        " -> ".join(map(_name, chain)) + ("; as one kernel" if len(chain) > 1 else "") + (f" ({why})" if why else "")
        for chain, why in zip(chains, reasons, strict=True)
    ]


def _reason(node: GraphNode, readers: Counter[Edge], chain: list[GraphNode] | None) -> str | None:
    """Return why a node doesn't continue the chain of its input; None if it does, empty if there is no such chain."""
    if not _is_pixel(node):
        return "not an expression of pixels"
    if chain is None:
        return ""
    gathers = any(_gathers(each) for each in chain)
    if readers[Edge(chain[-1].index)] > 1 and gathers:
        return "its input has several readers, so it is computed once"
    if gathers and _gathers(node):
        return "its input is computed first, because both read several pixels for each output pixel"
    return None


def _is_pixel(node: GraphNode) -> bool:
    return issubclass(implementation(node.operator, node.device), PixelOperator)


def _gathers(node: GraphNode) -> bool:
    kind = implementation(node.operator, node.device)
    return issubclass(kind, PixelOperator) and kind.traits.gathers


def _name(node: GraphNode) -> str:
    at = f" (line {node.location.line})" if node.location.line else ""
    return f"{node.display}{at}"
