"""Train with the Trainer of transformers, and continue after an interruption, on any number of processes.

torchrun --nproc_per_node 2 examples/torch_trainer.py datasets/rows run

The data set has the features `n` and `x`. The newest checkpoint in `run` is what the program continues with.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.trainer_utils import get_last_checkpoint

import shardmill
import shardmill.torch

BATCH = 8


class Trainer(transformers.Trainer):
    """A Trainer that reads batches as they are: its own loader would divide them among the processes again."""

    def get_train_dataloader(self) -> Any:
        """Return the loader of this process."""
        workers = self.args.dataloader_num_workers
        return torch.utils.data.DataLoader(self.train_dataset, batch_size=None, num_workers=workers)


class SetEpoch(transformers.TrainerCallback):
    """Tells the data set the epoch. The Trainer itself skips the batches of the epoch that a checkpoint has seen."""

    def __init__(self, dataset: shardmill.torch.Dataset) -> None:
        self.dataset = dataset

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Tell the data set the epoch."""
        self.dataset.set_epoch(int(state.epoch))


class Model(torch.nn.Module):
    """A line."""

    def __init__(self, folder: str, dataset: shardmill.torch.Dataset) -> None:
        super().__init__()
        self.line, self.folder, self.dataset = torch.nn.Linear(1, 1), folder, dataset

    def forward(self, n: torch.Tensor, x: torch.Tensor, is_padding: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the loss of a batch."""
        with Path(self.folder, f"seen-{self.dataset.rank}").open("a") as seen:
            print(self.dataset.epoch, *n[~is_padding].tolist(), file=seen)
        return {"loss": (self.line(x[:, None])[:, 0] - x)[~is_padding].square().sum()}


def main() -> None:
    """Train as one of the processes that torchrun starts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="the data set")
    parser.add_argument("folder", help="folder of the checkpoints")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="worker processes of each loader")
    parser.add_argument("--stop", type=int, default=-1, help="batches after which to stop, as if interrupted")
    options = parser.parse_args()
    source = shardmill.source(options.dataset, features=["n", "x"])
    dataset = shardmill.torch.Dataset(source, batch_size=BATCH, remainder="pad")
    arguments = transformers.TrainingArguments(
        options.folder,
        num_train_epochs=options.epochs,
        max_steps=options.stop,
        save_steps=1,
        save_total_limit=1,
        dataloader_num_workers=options.workers,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(Model(options.folder, dataset), arguments, train_dataset=dataset, callbacks=[SetEpoch(dataset)])
    trainer.train(resume_from_checkpoint=get_last_checkpoint(options.folder))


if __name__ == "__main__":
    main()
