"""Batches that the user keeps need no descriptors: thousands fit the usual limit."""

from __future__ import annotations

import pytest

from tests.environment import ROOT, with_project
from tests.preloaded import run_python
from tests.thorough import thorough_except

PROGRAM = """
import resource, sys
import numpy as np
import dali_proxy
from pipeline import Pipeline, fn
from torch.utils.data import Dataset

mode, workers = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))

class Numbers(Dataset):
    def __init__(self, transform): self.transform = transform
    def __len__(self): return 1200 * 2
    def __getitem__(self, index): return self.transform(np.full(5, index, np.int32)), index

if __name__ == "__main__":
    with Pipeline(batch_size=2, num_threads=1, device_id=None, seed=1) as pipe:
        x = fn.external_source(name="x")
        pipe.set_outputs(x * 2, x + 1)
    with dali_proxy.DALIServer(pipe, mode=mode) as server:
        loader = dali_proxy.DataLoader(server, Numbers(server.proxy), 2, num_workers=workers)
        kept = list(loader)
        assert len(kept) == 1200
        for (doubled, next_), indices in kept:
            assert (doubled[:, 0] == indices * 2).all() and (next_[:, 4] == indices + 1).all()
        kept[0][0][0].fill_(7)
        assert (kept[1][0][0][:, 0] == kept[1][1] * 2).all()
        del kept, doubled, next_
        loader = dali_proxy.DataLoader(server, Numbers(server.proxy), 2, num_workers=2)
        for number, ((doubled, next_), indices) in enumerate(loader):
            assert (doubled[:, 0] == indices * 2).all()
            if number == 20:
                break
    print("right")
"""


@pytest.mark.parametrize(
    ("mode", "workers"), thorough_except([("process", 0), ("process", 2), ("thread", 0)], ("process", 2))
)
def test_1200_kept_batches_fit_a_limit_of_400_descriptors(mode: str, workers: int) -> None:
    run = run_python("-c", PROGRAM, mode, str(workers), cwd=ROOT, env=with_project(), forks_servers=True)
    assert run.stdout == "right\n", run.stderr
