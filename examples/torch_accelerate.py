"""Train with Hugging Face Accelerate, and continue after an interruption, on any number of processes.

torchrun --nproc_per_node 2 examples/torch_accelerate.py datasets/rows run

The data set has the features `n` and `x`. `run/state.pt` is what the program continues with. The loader is not given to
`prepare`, which would divide among the processes what each reads for itself.
"""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator

import shardmill
import shardmill.torch

BATCH = 8


def train(options: argparse.Namespace) -> None:
    """Train as one of the processes that torchrun or `accelerate launch` starts."""
    accelerator, state = Accelerator(cpu=True), Path(options.folder, "state.pt")
    source = shardmill.source(options.dataset, features=["n", "x"])
    dataset = shardmill.torch.Dataset(source, batch_size=BATCH, remainder="pad")
    model = torch.nn.Linear(1, 1)
    if state.exists():
        saved = torch.load(state)
        dataset.load_state_dict(saved["data"])
        model.load_state_dict(saved["model"])
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 1e-5))
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=options.workers)
    left = options.stop or -1
    for epoch in range(dataset.epoch, options.epochs):
        for batches, batch in enumerate(loader, dataset.first_batch + 1):
            x, is_real = batch["x"].to(accelerator.device), ~batch["is_padding"].to(accelerator.device)
            optimizer.zero_grad()
            accelerator.backward((model(x[:, None])[:, 0] - x)[is_real].square().sum())
            optimizer.step()
            with Path(options.folder, f"seen-{accelerator.process_index}").open("a") as seen:
                print(epoch, *batch["n"][~batch["is_padding"]].tolist(), file=seen)
            left -= 1
            weights = accelerator.get_state_dict(model)
            accelerator.save({"data": dataset.state_dict(batches), "model": weights}, state)  # on one process
            if left == 0:
                accelerator.end_training()
                return
    accelerator.end_training()


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="the data set")
    parser.add_argument("folder", help="folder of the state")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="worker processes of each loader")
    parser.add_argument("--stop", type=int, help="batches after which to stop, as if interrupted")
    train(parser.parse_args())


if __name__ == "__main__":
    main()
