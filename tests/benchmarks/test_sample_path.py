from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from benchmarks.sample_path import calls_of_a_batch, place_of

ROOT = Path(__file__).parents[2]


def test_calls_of_the_whole_way_are_counted() -> None:
    calls = calls_of_a_batch(2, 2)
    names = ("__call__", "submit", "outputs")
    found = Counter(place_of(call.code) for call in calls if call.code.co_name in names)
    assert len(calls) > sum(call.is_hop for call in calls) > 100
    assert found["dali_proxy/_worker/proxy.py"] == 2, "one for each sample"
    assert {"dali_proxy/pipeline/_executor/executor.py", "dali_proxy/_consumer/consumer.py"} <= found.keys()


def test_way_in_the_documentation_is_that_of_a_batch() -> None:
    _, _, text = (ROOT / "docs/architecture.md").read_text().partition("## The way of a batch")
    hops = re.findall(r"^\| ([a-z ]*)\| `([\w.]+)` \|.*\| `([\w./]+)` \|$", text.partition("\n## ")[0], re.MULTILINE)
    assert f"The {len(hops)} hops of a batch" in text
    called = [(place_of(call.code), call.code.co_name) for call in calls_of_a_batch(2, 2)]
    position = 0
    for where, name, file in hops:
        if where.strip():  # the processes of the way are threads here, which run beside each other
            position = 0
        call = file, name.rpartition(".")[2]
        assert call in called[position:], f"{name} isn't called, or not after the hop before"
        position += called[position:].index(call) + 1
