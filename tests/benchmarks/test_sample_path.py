from __future__ import annotations

from benchmarks.sample_path import count, place_of


def test_calls_of_the_whole_way_are_counted() -> None:
    counts, hops = count(2, 2)
    names = ("__call__", "submit", "outputs")
    found = {place_of(code): calls for code, calls in counts.items() if code.co_name in names}
    assert counts.total() > hops > 100
    assert found["dali_proxy/_worker/proxy.py"] == 2, "one for each sample"
    assert {"dali_proxy/pipeline/_executor/executor.py", "dali_proxy/_consumer/consumer.py"} <= found.keys()
