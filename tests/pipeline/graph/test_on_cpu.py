"""A graph that is moved to the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dali_proxy.pipeline._declaration import registry
from dali_proxy.pipeline._declaration.registry import register
from dali_proxy.pipeline._declaration.schema import Input, OperatorSchema
from dali_proxy.pipeline._graph import Graph, apply_operator
from dali_proxy.pipeline._graph.builder import GraphBuilder
from dali_proxy.pipeline._graph.on_cpu import move_to_cpu
from pipeline import fn
from pipeline.errors import DeviceError


def graph_of(describe: Callable[[], Any]) -> Graph:
    builder = GraphBuilder()
    builder.describe(describe)
    return builder.freeze()


def images() -> Any:
    encoded, labels = fn.readers.file(files=["a.jpg"], name="files")
    decoded = fn.decoders.image(encoded, device="mixed")
    turned = fn.rotate(decoded.cpu(), angle=fn.random.uniform(range=(0, 9)))
    return fn.flip(turned.gpu(), horizontal=fn.random.coin_flip(), name="flipped"), labels.gpu(), labels


def test_moved_graph_has_the_operators_without_the_copies() -> None:
    declared = graph_of(images)
    moved = move_to_cpu(declared)
    assert {node.device for node in moved.graph.nodes} == {"cpu"}
    assert [node.index for node in moved.graph.nodes] == list(range(len(moved.graph.nodes)))
    kept = [node for node in declared.nodes if not node.operator.startswith("copy_to")]
    for name in ("name", "operator", "location", "random_stream", "output_count"):
        assert [getattr(node, name) for node in moved.graph.nodes] == [getattr(node, name) for node in kept], name
    assert moved.graph.outputs[1] == moved.graph.outputs[2]


def test_moved_graph_knows_what_changed() -> None:
    moved = move_to_cpu(graph_of(images))
    assert [node.operator for node in moved.operators] == ["decoders.image", "flip"]
    assert [node.operator for node in moved.copies] == ["copy_to_cpu", "copy_to_gpu", "copy_to_gpu"]
    assert moved.outputs == (0, 1)
    line = images.__code__.co_firstlineno
    assert moved.report().splitlines() == [
        "",
        f"  operators on the CPU: fn.decoders.image (test_on_cpu.py:{line + 2}), "
        f"fn.flip (name='flipped') (test_on_cpu.py:{line + 4})",
        f"  copies left out: 3 (test_on_cpu.py:{line + 3}, test_on_cpu.py:{line + 4})",
        "  outputs on the CPU: 0, 1",
    ]


def test_graph_on_the_cpu_stays_the_same() -> None:
    graph = graph_of(lambda: fn.flip(fn.external_source(name="x")))
    assert move_to_cpu(graph).graph is graph


def test_operator_without_cpu_form_is_an_error_that_names_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SCHEMAS", dict(registry._SCHEMAS))
    register(OperatorSchema("tensor_cores", "Exists only on the GPU.", inputs=(Input("x", "Data."),), devices=("gpu",)))

    def describe() -> Any:
        return apply_operator("tensor_cores", (fn.external_source(name="x"),), {"name": "mine"})

    with pytest.raises(DeviceError, match=r"(?s)fn\.tensor_cores \(name='mine'\) exists only on the GPU.*test_on_cpu"):
        move_to_cpu(graph_of(describe))


def test_public_operators_all_have_a_cpu_form() -> None:
    """Users may develop any pipeline on a machine without a GPU."""
    operators = [registry.lookup(schema.alias_of or schema.name) for schema in registry.all_schemas()]
    missing = [
        schema.name
        for schema in operators
        if not schema.hidden and schema.function is None and not registry.has_implementation(schema.name, "cpu")
    ]
    assert missing == []
