"""Train with Lightning, and continue after an interruption, on any number of processes.

python examples/torch_lightning.py datasets/rows run --processes 2

The data set has the features `n` and `x`. `run/last.ckpt` is what the program continues with.
"""

import argparse
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

import shardmill
import shardmill.torch

BATCH = 8


class Rows(lightning.LightningDataModule):
    """The data, whose place in the epoch is in each checkpoint."""

    def __init__(self, directory: str, workers: int) -> None:
        super().__init__()
        source = shardmill.source(directory, features=["n", "x"])
        self.dataset = shardmill.torch.Dataset(source, batch_size=BATCH, remainder="pad")
        self.workers = workers

    def train_dataloader(self) -> Any:
        """Return the loader of this process."""
        return torch.utils.data.DataLoader(self.dataset, batch_size=None, num_workers=self.workers)

    def state_dict(self) -> dict[str, Any]:
        """Return the place in the epoch."""
        return self.dataset.state_dict(self.trainer.fit_loop.epoch_loop.batch_progress.current.processed)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue with the rest of the epoch, or with the next one if there is no rest."""
        self.dataset.load_state_dict(state_dict)
        if self.dataset.first_batch == len(self.dataset):
            self.dataset.set_epoch(self.dataset.epoch + 1)


class Model(lightning.LightningModule):
    """A line."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.line, self.folder = torch.nn.Linear(1, 1), folder

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss."""
        with Path(self.folder, f"seen-{self.global_rank}").open("a") as seen:
            print(self.current_epoch, *batch["n"][~batch["is_padding"]].tolist(), file=seen)
        return (self.line(batch["x"][:, None])[:, 0] - batch["x"])[~batch["is_padding"]].square().sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), 1e-5)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", help="the data set")
    parser.add_argument("folder", help="folder of the state")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="worker processes of each loader")
    parser.add_argument("--stop", type=int, default=-1, help="batches after which to stop, as if interrupted")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    last = Path(options.folder, "last.ckpt")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=options.processes,
        strategy="ddp" if options.processes > 1 else "auto",
        max_epochs=options.epochs,
        max_steps=options.stop,
        callbacks=[ModelCheckpoint(options.folder, save_last=True, every_n_train_steps=1)],
        logger=False,
        enable_progress_bar=False,
    )
    data = Rows(options.dataset, options.workers)
    trainer.fit(Model(options.folder), data, ckpt_path=last if last.exists() else None)


if __name__ == "__main__":
    main()
