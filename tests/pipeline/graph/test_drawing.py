from __future__ import annotations

import xml.etree.ElementTree
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dali_proxy.pipeline._graph.drawing import draw
from pipeline import Pipeline, fn


@pytest.fixture
def pipe() -> Pipeline:
    with Pipeline(batch_size=2, num_threads=1, device_id=0) as made:
        x = fn.external_source(name='a "quoted" name')
        angle = fn.random.uniform(name="angle")
        made.set_outputs(fn.crop(x, crop=(2, 2), crop_pos_x=angle, name="crop").gpu(), x)
    return made


def saved(pipe: Pipeline, folder: Path, **options: bool) -> list[str]:
    pipe.save_graph_to_dot_file(folder / "graph.dot", **options)
    return [line.strip() for line in (folder / "graph.dot").read_text().splitlines()]


def test_operators_and_arrows(pipe: Pipeline, tmp_path: Path) -> None:
    lines = saved(pipe, tmp_path)
    assert lines[0] == "digraph pipeline {"
    assert lines[-1] == "}"
    assert r'"a \"quoted\" name" [label="fn.external_source\na \"quoted\" name"];' in lines
    assert r'"a \"quoted\" name" -> "crop";' in lines
    assert '"angle" -> "crop" [label="crop_pos_x", style=dashed];' in lines
    assert not any("color" in line or "box" in line for line in lines)


def test_tensors_ids_and_colors(pipe: Pipeline, tmp_path: Path) -> None:
    lines = saved(pipe, tmp_path, show_tensors=True)
    assert '"crop[0]" [shape=box];' in lines
    assert '"crop" -> "crop[0]";' in lines
    assert '"crop[0]" -> "__copy_to_gpu_3";' in lines
    assert '"__copy_to_gpu_3[0]" [shape=box, penwidth=2];' in lines, "outputs of the pipeline stand out"
    assert r'"crop" [label="fn.crop\ncrop\nid 2"];' in saved(pipe, tmp_path, show_ids=True)
    lines = saved(pipe, tmp_path, use_colors=True)
    assert r'"crop" [label="fn.crop\ncrop", color="blue"];' in lines
    assert r'"__copy_to_gpu_3" [label="copy_to_gpu", color="#76b900"];' in lines
    everything = saved(pipe, tmp_path, show_tensors=True, show_ids=True, use_colors=True)
    assert everything == pipe.show(show_tensors=True, show_ids=True).dot.replace("\n  ", "\n").splitlines()


def test_notebooks_get_a_drawing(pipe: Pipeline, tmp_path: Path) -> None:
    assert pipe._repr_html_().startswith("<pre>&lt;Pipeline")
    drawing = pipe.show()
    assert str(drawing) == drawing.dot
    root = xml.etree.ElementTree.fromstring(drawing._repr_html_())
    texts = set(root.itertext())
    assert {"fn.external_source", 'a "quoted" name', "crop_pos_x", "output 0", "output 1"} <= texts
    assert [text for text in texts if text.startswith("fn.crop (name='crop') on cpu")], "a tooltip names the device"
    drawing.save(tmp_path / "graph.svg")
    assert (tmp_path / "graph.svg").read_text() == drawing.svg()
    assert (tmp_path / "graph.svg").read_text().startswith("<svg")
    batches = set(xml.etree.ElementTree.fromstring(pipe.show(show_tensors=True).svg()).itertext())
    assert {"crop[0]", "angle[0]", "__copy_to_gpu_3[0]"} <= batches


def test_pipeline_that_is_not_described_yet_has_no_drawing() -> None:
    class Later(Pipeline):
        def define_graph(self) -> Any:
            return fn.external_source(name="x")

    pipe = Later(batch_size=1)
    assert "fn." not in pipe._repr_html_(), "displaying it in a notebook doesn't fix its graph"
    assert '"x"' in pipe.show().dot


def test_mermaid_and_text_show_names_devices_and_arrows(pipe: Pipeline, tmp_path: Path) -> None:
    drawing = pipe.show()
    lines = [line.strip() for line in drawing.mermaid.splitlines()]
    assert lines[0] == "flowchart TD"
    assert 'n0("fn.external_source<br>a #quot;quoted#quot; name")' in lines
    assert {"n0 --> n2", "n1 -. crop_pos_x .-> n2", "n3 --> output0[output 0]"} <= set(lines)
    table = [line.split() for line in drawing.text.splitlines()]
    assert table[0] == ["operator", "reads", "device"]
    assert table[3][-3:] == ["0,", "crop_pos_x=1", "cpu"]
    assert table[-1] == ["outputs:", "3,", "0"]
    for name, content in (("graph.mmd", drawing.mermaid), ("graph.txt", drawing.text)):
        drawing.save(tmp_path / name)
        assert (tmp_path / name).read_text() == content


def test_times_are_shown_and_colored(pipe: Pipeline) -> None:
    drawing = draw(pipe._internals.graph, times={0: 0.0, 2: 3.0, 1: 1.0})
    assert r'"crop" [label="fn.crop\ncrop\n3.000 ms", style=filled, fillcolor="#ffa52d"];' in drawing.dot
    assert "style n0 fill:#ffffff,color:#000" in drawing.mermaid
    assert "n3(" in drawing.mermaid
    assert "style n3" not in drawing.mermaid
    assert drawing.svg().count('fill="#ffa52d"') == 1
    assert ">crop · 3.000 ms</text>" in drawing.svg()
    assert [line.split()[-2:] for line in drawing.text.splitlines()[1:4]] == [
        ["0.000", "0%"],
        ["1.000", "25%"],
        ["3.000", "75%"],
    ]


def test_functions_of_the_user_have_their_names() -> None:
    def blur(x: Any) -> Any:
        return x

    with Pipeline(batch_size=2, num_threads=1, device_id=None) as made:
        x = fn.external_source(name="x")
        named = fn.python_function(x, function=blur, name="mine")
        outputs = [fn.python_function(x, function=each) for each in (blur, partial(blur), lambda x: x)]
        made.set_outputs(named, *outputs)
    labels = [node.display for node in made._internals.graph.nodes[1:]]
    ours = "fn.python_function"
    assert labels == [f"{ours} (name='mine')", f"{ours} (blur)", f"{ours} (blur)", ours]
    assert f"{ours} (blur)" in draw(made._internals.graph).text
    assert f"{ours} (blur)" in draw(made._internals.graph).mermaid
