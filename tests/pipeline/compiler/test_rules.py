"""The rules of the compiler, each alone: the steps that it makes of those of a graph."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dali_proxy.pipeline._compiler.rules.equal_operators import stack_equal_operators
from dali_proxy.pipeline._compiler.rules.fused_images import fuse_images
from dali_proxy.pipeline._compiler.rules.joint_draws import join_draws
from dali_proxy.pipeline._compiler.rules.joint_uploads import join_uploads
from dali_proxy.pipeline._compiler.rules.postponed_rows import postpone_rows
from dali_proxy.pipeline._compiler.rules.prepared_step import prepare_launches
from dali_proxy.pipeline._compiler.rules.scope import Rule, replaced
from dali_proxy.pipeline._compiler.rules.tabulated_operators import tabulate_operators
from dali_proxy.pipeline._compiler.steps.fast_paths import FastPaths
from dali_proxy.pipeline._compiler.steps.step import FusedStep, Step
from dali_proxy.pipeline._executor import program
from dali_proxy.pipeline._graph.selecting import select
from pipeline import Pipeline, fn
from pipeline.auto_aug.core.magnitudes import take
from tests import host_cupy
from tests.pipeline.kernels import emulator


def shown(step: Step) -> str:
    """Return the operators of a step; those of a fused step in brackets behind its title."""
    if isinstance(step, FusedStep):
        return f"{step.title}({', '.join(map(shown, step.members))})"
    return " ".join(node.schema.name for node in step.nodes)


def steps(define: Callable[[Any], Any], *rules: Rule, on_gpu: bool = True) -> list[list[str]]:
    """Return the steps of each phase of a graph of images, if only these rules apply."""
    if on_gpu and emulator.COMPILER is None:
        pytest.skip("needs a C++ compiler")
    with host_cupy.installed(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "RULES", rules)
        pipe = Pipeline(batch_size=4, num_threads=1, device_id=0 if on_gpu else None)
        with pipe:
            images = fn.external_source(name="images", layout="HWC")
            outputs = define(images.gpu() if on_gpu else images)
            pipe.set_outputs(*(outputs if isinstance(outputs, tuple) else (outputs,)))
        pipe.build()
        try:
            phases = pipe._internals.runner.executor.program.phases
            return [[shown(step) for planned in phase for step in planned.steps] for phase in phases]
        finally:
            pipe.close()


def views(images: Any) -> Any:
    small = [fn.flip(fn.resize(images, size=(8, 8)), horizontal=fn.random.coin_flip()) for _ in range(3)]
    return *small, fn.flip(images), fn.brightness(small[0], brightness=2)


def turned(images: Any) -> Any:
    index, angles = fn.random.uniform(values=[0, 1, 2]), np.array([10.0, 20.0, 30.0])
    images = fn.resize(images, size=(8, 8))
    return select(
        fn.random.coin_flip(),
        [
            lambda: fn.rotate(images, angle=take(angles, index), keep_size=True),
            lambda: fn.brightness(images, brightness=take(np.array([0.5, 1.0, 2.0]), index)),
        ],
    )


def test_equal_operators_run_when_the_inputs_of_all_are_known() -> None:
    assert steps(views)[-1] == ["resize", "flip", "flip", "flip", "flip", "brightness"]
    together = ["resize", "equal operators(flip, flip, flip)", "flip", "brightness"]
    assert steps(views, stack_equal_operators)[-1] == together


def test_draws_with_constant_arguments_are_one_step() -> None:
    def define(images: Any) -> Any:
        low = fn.random.uniform()
        return images, fn.random.coin_flip(), fn.random.uniform(range=fn.stack(low, low + 1))

    *_, phase = steps(define, join_draws, on_gpu=False)
    assert "joint draws(random.uniform, random.coin_flip)" in phase
    assert "random.uniform" in phase


def test_copies_of_what_earlier_phases_computed_are_one_step() -> None:
    def define(images: Any) -> Any:
        return images, fn.random.coin_flip().gpu(), fn.random.uniform().gpu()

    title = "joint copies to the GPU"
    assert f"{title}(copy_to_gpu, copy_to_gpu, copy_to_gpu)" in str(steps(define, join_uploads))
    assert title not in str(steps(lambda images: images, join_uploads))


def test_chain_of_resize_and_normalize_is_one_step() -> None:
    def define(images: Any) -> Any:
        return fn.crop_mirror_normalize(fn.resize(images, size=(8, 8)))

    title = "resize and crop_mirror_normalize"
    assert steps(define, fuse_images, on_gpu=False)[-1][-1] == f"{title}(resize crop_mirror_normalize)"
    assert title not in str(steps(lambda images: fn.flip(define(images)), fuse_images, on_gpu=False))


def test_operators_with_tables_of_arguments_are_one_step() -> None:
    assert "operators with tables of arguments(rotate, brightness)" in steps(turned, tabulate_operators)[-1]


def test_only_tabulated_operators_postpone_rows() -> None:
    assert "rows of a table(table_row)" in steps(turned, postpone_rows)[0]
    assert "rows of a table(table_row)" not in str(steps(turned, postpone_rows, on_gpu=False))

    def also_returned(images: Any) -> Any:
        angle = take(np.array([10.0, 20.0]), fn.random.coin_flip())
        return fn.rotate(images, angle=angle), angle

    assert "rows of a table" not in str(steps(also_returned, postpone_rows))


def test_launches_of_a_whole_step_are_prepared() -> None:
    def define(images: Any) -> Any:
        return fn.flip(fn.brightness(images, brightness=fn.random.uniform()))

    assert steps(define, prepare_launches)[-1] == ["prepared launches(brightness, flip)"]
    # Three equal operators take less time as one.
    assert "prepared" not in str(steps(views, stack_equal_operators, prepare_launches))


class Fused(FusedStep):
    title = "fused"

    def run_as_one(self, batch: Any) -> bool:
        return False


class Alone(Step):
    def run(self, batch: Any) -> None: ...


def graph_nodes() -> Any:
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        data = fn.external_source(name="x")
        pipe.set_outputs(fn.flip(fn.flip(data, vertical=1)), fn.flip(fn.flip(data, vertical=0), horizontal=0))
    return pipe._internals.graph.nodes


def test_fused_steps_come_behind_the_inputs_of_all_members() -> None:
    alone = [Alone([node]) for node in graph_nodes()]
    first = [step for step in alone if step.nodes[0].inputs and step.nodes[0].inputs[0].node == 0]
    last = [step for step in alone[1:] if step not in first]
    fused: list[FusedStep] = [Fused(last), Fused(first)]
    scope: Any = SimpleNamespace(fast_paths=FastPaths())
    assert [each.nodes[0] for each in replaced(alone, scope, fused)] == [
        alone[0].nodes[0], first[0].nodes[0], last[0].nodes[0],
    ]  # fmt: skip
    assert replaced(alone, scope, []) == alone
