"""Train with DistributedDataParallel, and continue after an interruption, on any number of processes.

torchrun --nproc_per_node 2 examples/torch_ddp.py datasets/rows run
python examples/torch_ddp.py datasets/rows run --processes 2

The data set has the features `n` and `x`. `run/state.pt` is what the program continues with.
"""

import argparse
import os
from pathlib import Path

import torch
from torch import distributed

import shardmill
import shardmill.torch

BATCH = 8


def train(rank: int, options: argparse.Namespace) -> None:
    """Train as one of several processes; torchrun sets the variables that name the others."""
    if options.processes:
        meeting = (Path(options.folder) / f"meeting-{os.getppid()}").absolute().as_uri()
        distributed.init_process_group("gloo", meeting, rank=rank, world_size=options.processes)
    else:
        distributed.init_process_group("gloo")
    rank, state = distributed.get_rank(), Path(options.folder, "state.pt")
    source = shardmill.source(options.dataset, features=["n", "x"])
    dataset = shardmill.torch.Dataset(source, batch_size=BATCH, remainder="pad")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), 1e-5)
    if state.exists():
        saved = torch.load(state)
        dataset.load_state_dict(saved["data"])
        model.module.load_state_dict(saved["model"])
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=options.workers)
    left = options.stop or -1
    for epoch in range(dataset.epoch, options.epochs):
        for batches, batch in enumerate(loader, dataset.first_batch + 1):
            optimizer.zero_grad()
            (model(batch["x"][:, None])[:, 0] - batch["x"])[~batch["is_padding"]].square().sum().backward()
            optimizer.step()
            with Path(options.folder, f"seen-{rank}").open("a") as seen:
                print(epoch, *batch["n"][~batch["is_padding"]].tolist(), file=seen)
            left -= 1
            if rank == 0:
                torch.save({"data": dataset.state_dict(batches), "model": model.module.state_dict()}, state)
            if left == 0:
                break
        if left == 0:
            break
    distributed.destroy_process_group()


def main() -> None:
    """Train in this process of torchrun, or start the processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="the data set")
    parser.add_argument("folder", help="folder of the state")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="worker processes of each loader")
    parser.add_argument("--stop", type=int, help="batches after which to stop, as if interrupted")
    parser.add_argument("--processes", type=int, help="number of processes to start; none with torchrun")
    options = parser.parse_args()
    if options.processes:
        torch.multiprocessing.spawn(train, (options,), options.processes)
    else:
        train(0, options)


if __name__ == "__main__":
    main()
