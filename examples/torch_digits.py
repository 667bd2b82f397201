"""Train a PyTorch model on handwritten digits; each of the loader's processes reads its own part of the split.

python examples/write_inputs.py digits inputs/digits
shardmill images --input inputs/digits --output datasets --name digits --splits train=0.8,test=0.2 --stratify_by label \
  --num_shards train=4,test=1
python examples/torch_digits.py datasets/digits

PyTorch is not a dependency of shardmill: `pip install torch`. Neither TensorFlow nor Beam is imported here.
"""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from stream_digits import stream

BATCH, EPOCHS, WORKERS = 32, 6, 2


class Digits(torch.utils.data.IterableDataset):
    """A split, shuffled or in the order of its files; fill `epoch` before each, for its order."""

    def __init__(self, directory: str, split: str, shuffle: bool = False) -> None:
        self.directory, self.split, self.shuffle = directory, split, shuffle
        # Shared memory: workers that persist keep the object of the first epoch, and would not see a plain attribute
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        worker = torch.utils.data.get_worker_info()
        count, index = (1, 0) if worker is None else (worker.num_workers, worker.id)
        epoch = int(self.epoch) if self.shuffle else None
        for image, digit in stream(self.directory, self.split, epoch=epoch, num_workers=count, worker_index=index):
            yield torch.from_numpy(image)[None], digit


def train(directory: str, seed: int = 0) -> float:
    """The accuracy on the test split."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.AvgPool2d(4),
        torch.nn.Conv2d(1, 16, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 14 * 14, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    digits = Digits(directory, "train", shuffle=True)
    loader = torch.utils.data.DataLoader(digits, BATCH, num_workers=WORKERS, persistent_workers=True)
    for epoch in range(EPOCHS):
        digits.epoch.fill_(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    with torch.no_grad():
        right = [
            model(images).argmax(1) == labels
            for images, labels in torch.utils.data.DataLoader(Digits(directory, "test"), 256)
        ]
    return torch.cat(right).float().mean().item()


def main(arguments: Sequence[str] | None = None) -> float:
    """Train, and print the accuracy, which is returned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", help="the data set")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    accuracy = train(options.directory, options.seed)
    print(f"accuracy on the test split: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
