"""Train on tar files through webdataset's own loader, WebLoader, which mixes the samples of all workers.

    python examples/webloader.py
    python examples/webloader.py --data /data/shards --classes 1000 --image-size 224 --batch-size 256

--data is that of webdataset_shards.py, which also has the functions that write and read shards.

Needs the package webdataset.
"""

# webdataset loads its names when they are used.
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from contextlib import ExitStack

import webdataset
from torch.utils.data import default_collate

import common
import dali_proxy
from imagenet import training_pipe, validation_pipe
from networks import classifier
from webdataset_shards import accuracy, read_shards, train, write_shards


def web_loader(
    server: dali_proxy.DALIServer, dataset: webdataset.WebDataset, batch_size: int, num_workers: int
) -> webdataset.WebLoader:
    """Return a WebLoader over a dataset of samples: its batches are those of the pipeline."""
    # The dataset makes the batches, so batch_size=None. Without collation_fn, images would be a list.
    batches = dataset.batched(batch_size, collation_fn=default_collate)
    loader = dali_proxy.DataLoader(server, batches, batch_size=None)
    return webdataset.WebLoader(
        batches,
        batch_size=None,
        num_workers=num_workers,
        collate_fn=loader.collate_fn,  # which carries the server
    )


def main() -> None:
    parser = common.make_parser(__doc__, epochs=8)
    parser.add_argument("--classes", type=int, help="number of classes in --data")
    options = common.parse(parser)
    if options.data and not options.classes:
        parser.error("--data needs --classes")
    pipe_options = common.pipeline_options(options)
    with ExitStack() as stack:
        folder, classes = options.data, options.classes
        if folder is None:
            folder = stack.enter_context(common.temporary_folder())
            for split, images in zip(("train", "val"), stack.enter_context(common.class_folders(None)), strict=True):
                classes = write_shards(images, folder / split)

        server = stack.enter_context(dali_proxy.DALIServer(training_pipe(**pipe_options)))
        dataset = read_shards(folder / "train", server.proxy, shuffle=True, seed=options.seed)
        loader = web_loader(server, dataset, options.batch_size, options.num_workers)
        loader = loader.unbatched().shuffle(4 * options.batch_size).batched(options.batch_size, partial=False)
        network = classifier(classes).to(options.device)
        meter = train(options, network, loader)
        if options.picture:
            common.save_picture(options.picture, next(iter(loader))[0])

        val_server = stack.enter_context(dali_proxy.DALIServer(validation_pipe(**pipe_options)))
        val_set = read_shards(folder / "val", val_server.proxy, shuffle=False, seed=options.seed)
        val_loader = web_loader(val_server, val_set, options.batch_size, options.num_workers)
        score, count = accuracy(options, network, val_loader)
    meter.report(None, accuracy=f"{score:.1%} of {count} (guessing: {1 / classes:.1%})")


if __name__ == "__main__":
    main()
