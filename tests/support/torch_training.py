"""A rank of a training job without a model, for tests/checks/check_torch.py: it notes the batches of all ranks.

usage: torch_training.py FOLDER DATASET BATCH_SIZE WORKERS EPOCHS; RANK and WORLD_SIZE as torchrun sets them, and
MEETING, the address of a file by which the ranks find each other.

FOLDER/log has a line of JSON for each global batch: epoch, batch, and the examples' numbers in the order of ranks.
FOLDER/state.pt is what the job continues with.
"""

import json
import os
import sys
from itertools import chain
from pathlib import Path

import torch
from torch import distributed

import shardmill
import shardmill.torch


def main(folder: Path, directory: str, batch_size: int, workers: int, epochs: int) -> None:
    places = {"rank": int(os.environ["RANK"]), "world_size": int(os.environ["WORLD_SIZE"])}
    distributed.init_process_group("gloo", init_method=os.environ["MEETING"], **places)
    source = shardmill.source(directory, features=["n"])
    dataset = shardmill.torch.Dataset(source, batch_size=batch_size, remainder="pad", seed=5)
    state = folder / "state.pt"
    if state.exists():
        dataset.load_state_dict(torch.load(state))
    loader = torch.utils.data.DataLoader(
        dataset, batch_size=None, num_workers=workers, persistent_workers=bool(workers), prefetch_factor=workers or None
    )
    for epoch in range(dataset.epoch, epochs):
        dataset.set_epoch(epoch)
        for taken, batch in enumerate(loader, dataset.first_batch + 1):
            kept = [None if padded else n for n, padded in zip(batch["n"].tolist(), batch["is_padding"].tolist())]
            parts: list[list[int]] = [[] for _ in range(distributed.get_world_size())]
            distributed.all_gather_object(parts, kept)
            if distributed.get_rank() == 0:
                with (folder / "log").open("a") as log:
                    print(json.dumps([epoch, taken - 1, [*chain.from_iterable(parts)]]), file=log)
                torch.save(dataset.state_dict(taken), folder / "state.new")
                os.replace(folder / "state.new", state)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
