"""The loop of plain torch."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path
from typing import Any

import torch

import dali_proxy
from dali_proxy._new.kinds.classification import (
    SCORE,
    Samples,
    augment,
    compute_loss,
    compute_scores,
    make_network,
    prepare,
    write_data,
)

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train(options: argparse.Namespace) -> None:
    """Train and validate, from the checkpoint if there is one."""
    torch.manual_seed(options.seed)
    serving = {"batch_size": options.batch_size, "num_threads": options.num_threads, "seed": options.seed}
    with dali_proxy.serve(augment, **serving) as train_server, dali_proxy.serve(prepare, **serving) as val_server:
        train_set = Samples(options.data / "train", train_server.proxy)
        val_set = Samples(options.data / "val", val_server.proxy)
        loading: dict[str, Any] = {"batch_size": options.batch_size, "num_workers": options.num_workers}
        loading.update(persistent_workers=options.num_workers > 0, worker_init_fn=ignore_interrupts)
        order = torch.Generator().manual_seed(options.seed)
        train_loader = dali_proxy.DataLoader(train_server, train_set, shuffle=True, generator=order, **loading)
        val_loader = dali_proxy.DataLoader(val_server, val_set, **loading)

        network = make_network(train_set).to(DEVICE)
        optimizer = torch.optim.AdamW(network.parameters(), lr=options.learning_rate)
        parts: dict[str, Any] = {"network": network, "optimizer": optimizer, "loader": train_loader}
        if options.checkpoint.exists():
            state = torch.load(options.checkpoint)
            for name, part in parts.items():
                part.load_state_dict(state[name])
            print(f"resumed from {options.checkpoint}")

        first = train_loader.state_dict()["epoch"]
        if first >= options.epochs:
            print(f"already trained for {first} epochs: raise --epochs")
            return
        interrupts = record_interrupts()
        for epoch in range(first, options.epochs):
            network.train()
            losses = []
            for step, batch in enumerate(train_loader, 1):  # after a resume, the batches that are left
                loss = compute_loss(network, [each.to(DEVICE) for each in batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
                if interrupts or step % options.save_every == 0:
                    save(options.checkpoint, parts)
                if interrupts:
                    print(f"interrupted in epoch {epoch + 1}: saved {options.checkpoint}; start again to continue")
                    return
            save(options.checkpoint, parts)
            network.eval()
            with torch.no_grad():
                scores = [compute_scores(network, [each.to(DEVICE) for each in batch]) for batch in val_loader]
            mean_loss = torch.stack(losses).mean().item() if losses else float("nan")
            score = torch.cat(scores).float().mean().item()
            part = f" (loss of the last {len(losses)} batches)" if len(losses) < len(train_loader) else ""
            print(f"epoch {epoch + 1}: loss {mean_loss:.3f}, {SCORE} {score:.1%}{part}")
            if interrupts:
                return
        print(train_server.stats().advice)


def record_interrupts() -> list[int]:
    """Make Ctrl-C add to a list, so that the loop ends after its batch. A second Ctrl-C ends the script at once."""
    interrupts: list[int] = []

    def record(number: int, _: Any) -> None:
        interrupts.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    signal.signal(signal.SIGINT, record)
    return interrupts


def ignore_interrupts(_: int) -> None:
    """Let workers live after Ctrl-C, which the terminal sends to them, too: the loop ends them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def save(path: Path, parts: dict[str, Any]) -> None:
    """Save the states of all parts. There is always a complete file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    torch.save({name: part.state_dict() for name, part in parts.items()}, beside)
    os.replace(beside, path)


def main() -> None:
    """Read the command line, and train."""
    here = Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=here / "data", help="your data (default: data that is drawn)")
    parser.add_argument("--checkpoint", type=Path, default=here / "checkpoint.pt", help="to save, and to resume from")
    parser.add_argument("--save-every", type=int, default=100, help="batches between two checkpoints in an epoch")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--num-workers", type=int, default=2, help="processes that read the dataset")
    parser.add_argument("--num-threads", type=int, default=os.cpu_count(), help="threads of each pipeline")
    parser.add_argument("--seed", type=int, default=0, help="of the network, the order and the augmentation")
    options = parser.parse_args()
    if not options.data.exists():
        if options.data != here / "data":
            parser.error(f"{options.data} doesn't exist")
        print(f"generating data in {options.data}")
        write_data(options.data)
    train(options)


if __name__ == "__main__":  # for workers that don't fork
    main()
