"""Frameworks that rebuild or wrap loaders: which samples they yield, also on several ranks and after a resume."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import default_collate

from dali_proxy import DALIServer, DataLoader
from pipeline.errors import ArgumentMismatchError
from tests.dali_proxy.indexed import SCALE, SHIFT, IndexDataset, affine, sample
from tests.environment import ROOT, with_project
from tests.preloaded import run_python

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def server() -> Iterator[DALIServer]:
    with DALIServer(affine()) as running:
        running.produce_data(running.proxy(sample(0)))  # connects
        yield running


@pytest.fixture
def accelerate() -> Iterator[Any]:
    module = pytest.importorskip("accelerate", reason="needs accelerate")
    yield module
    module.state.AcceleratorState._reset_state(reset_partial_state=True)
    module.state.GradientState._reset_state()


def labels_of(batches: Any) -> list[list[int]]:
    found = []
    for values, labels in batches:
        assert torch.equal(values, labels[:, None].expand(-1, 3) * SCALE + SHIFT)
        found.append(labels.tolist())
    return found


@pytest.mark.parametrize("num_workers", [0, 2])
def test_accelerate_skips_batches_of_the_same_epoch(server: DALIServer, accelerate: Any, num_workers: int) -> None:
    config = accelerate.utils.DataLoaderConfiguration(use_seedable_sampler=True)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=config)
    loader = accelerator.prepare(
        DataLoader(server, IndexDataset(10, server.proxy), batch_size=3, shuffle=True, num_workers=num_workers)
    )
    whole = labels_of(loader)
    loader.set_epoch(0)
    assert labels_of(accelerate.skip_first_batches(loader, 2)) == whole[2:]
    assert sorted(label for labels in whole for label in labels) == list(range(10))


def test_accelerate_dispatches_batches_of_the_first_rank(server: DALIServer, accelerate: Any) -> None:
    config = accelerate.utils.DataLoaderConfiguration(dispatch_batches=True)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=config)
    loader = accelerator.prepare(DataLoader(server, IndexDataset(5, server.proxy), batch_size=2, num_workers=1))
    assert type(loader).__name__ == "DataLoaderDispatcher"
    assert labels_of(loader) == [[0, 1], [2, 3], [4]]


def test_accelerate_names_an_option_that_it_loses(server: DALIServer, accelerate: Any) -> None:
    loader = DataLoader(server, IndexDataset(5, server.proxy), batch_size=2, on_error="skip")
    with pytest.raises(ArgumentMismatchError, match=r"can't apply on_error='skip'.* Remove it, or iterate over the"):
        next(iter(accelerate.Accelerator(cpu=True).prepare(loader)))


RANK = """
import accelerate
from dali_proxy import DALIServer, DataLoader
from tests.dali_proxy.indexed import IndexDataset, noisy
accelerator = accelerate.Accelerator(cpu=True)
with DALIServer(noisy()) as server:
    loader = DataLoader(server, IndexDataset(12, server.proxy), batch_size=3, shuffle=True, num_workers=1)
    for values, labels in accelerator.prepare(loader):
        print(labels.tolist(), [round(float(each), 4) for each in values[:, 0] - labels])
accelerator.end_training()
"""


def test_accelerate_divides_samples_among_ranks(accelerate: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(reserved.getsockname()[1])}
    sizes = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "1"}

    def rank(number: int) -> str:
        environment = with_project(RANK=str(number), LOCAL_RANK=str(number), **sizes, **address)
        ended = run_python("-c", RANK, cwd=ROOT, env=environment, forks_servers=True)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    with ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(rank, range(2)))
    lines = [line for text in printed for line in text.splitlines() if line.startswith("[")]
    labels = [int(word) for line in lines for word in line.partition("]")[0][1:].split(",")]
    assert sorted(labels) == list(range(12))
    assert [text.count("\n[") + text.startswith("[") for text in printed] == [2, 2]
    draws = [line.partition("] ")[2] for line in lines]
    assert len(set(draws)) == 4, "ranks draw different random numbers"


class Recorded(torch.nn.Module):
    """A model that records the labels of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list[list[int]] = []

    def forward(self, values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        assert torch.equal(values, labels[:, None].expand(-1, 3) * SCALE + SHIFT)
        self.seen.append(labels.tolist())
        return {"loss": self.weight.square().sum(), "logits": values.float()}


def named(samples: Any) -> dict[str, Any]:
    values, labels = default_collate(samples)
    return {"values": values, "labels": labels}


@pytest.mark.combinations
@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("prepares", [True, False], ids=["prepared", "as it is"])
@pytest.mark.usefixtures("accelerate")
def test_trainer_of_transformers_resumes_inside_an_epoch(
    server: DALIServer, tmp_path: Path, num_workers: int, prepares: bool
) -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    dataset = IndexDataset(12, server.proxy)

    class Trainer(transformers.Trainer):  # type: ignore[misc,name-defined]
        def get_train_dataloader(self) -> Any:
            loader = DataLoader(
                server, dataset, batch_size=2, shuffle=prepares, num_workers=num_workers, collate_fn=named
            )
            return self.accelerator.prepare(loader) if prepares else loader

        def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
            return self.accelerator.prepare(DataLoader(server, dataset, batch_size=5, collate_fn=named))

    def train(folder: str, steps: int, resumes: Any = None) -> Recorded:
        model = Recorded()
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / folder),
            max_steps=steps,
            save_steps=8,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        )
        trainer = Trainer(model, arguments)
        trainer.train(resume_from_checkpoint=resumes)
        trained = model.seen
        model.seen = []
        trainer.evaluate()
        assert model.seen == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
        model.seen = trained
        return model

    whole = train("whole", 12).seen
    first = train("stopped", 8).seen
    rest = train("stopped", 12, str(tmp_path / "stopped" / "checkpoint-8")).seen
    assert first + rest == whole
    assert sorted(label for labels in whole[6:] for label in labels) == list(range(12))


@pytest.mark.usefixtures("accelerate")
def test_trainer_of_transformers_takes_the_collate_function(server: DALIServer, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    dataset = IndexDataset(8, server.proxy)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), max_steps=2, per_device_train_batch_size=4, report_to=[], use_cpu=True,
        remove_unused_columns=False, save_strategy="no", disable_tqdm=True,
    )  # fmt: skip
    model = Recorded()
    collate = DataLoader(server, dataset, collate_fn=named).collate_fn
    transformers.Trainer(model, arguments, train_dataset=dataset, data_collator=collate).train()
    assert sorted(label for labels in model.seen for label in labels) == list(range(8))


@pytest.mark.parametrize("num_workers", [0, 1])
def test_deterministic_engine_of_ignite_resumes(server: DALIServer, num_workers: int) -> None:
    engine_module = pytest.importorskip("ignite.engine", reason="needs pytorch-ignite")

    def run(epochs: int, state: Any = None) -> tuple[list[Any], Any]:
        seen: list[Any] = []
        loader = DataLoader(server, IndexDataset(6, server.proxy), batch_size=2, shuffle=True, num_workers=num_workers)
        engine = engine_module.DeterministicEngine(lambda engine, batch: seen.extend(labels_of([batch])))
        torch.manual_seed(3)
        if state is not None:
            engine.load_state_dict(state)
        engine.run(loader, max_epochs=epochs)
        return seen, engine.state_dict()

    whole, _ = run(3)
    first, state = run(2)
    assert sorted(label for labels in whole[:3] for label in labels) == list(range(6))
    assert first == whole[:6]
    rest, _ = run(3, state)
    assert rest == whole[6:]


def test_fabric_of_lightning_keeps_the_loader(server: DALIServer) -> None:
    fabric = pytest.importorskip("lightning.fabric", reason="needs lightning").Fabric(accelerator="cpu")
    loader = fabric.setup_dataloaders(
        DataLoader(server, IndexDataset(4, server.proxy), batch_size=2, on_error="skip", num_workers=1)
    )
    assert labels_of(loader) == [[0, 1], [2, 3]]
