"""Train a PyTorch model on handwritten digits; each of the loader's processes reads its own batches of the split.

python examples/write_digits.py inputs/digits
shardmill images --input inputs/digits --output datasets --name digits --splits train=0.8,test=0.2 --stratify_by label
python examples/torch_digits.py datasets/digits

`pip install '.[torch]'` installs PyTorch. Neither TensorFlow nor Beam is imported here.
"""

import argparse
from collections.abc import Sequence

import torch

import shardmill
import shardmill.torch

BATCH, EPOCHS, WORKERS = 32, 6, 2


def read(directory: str, split: str, batch_size: int, shuffle: bool = True) -> shardmill.torch.Dataset:
    """A split in batches of images and labels."""
    source = shardmill.source(directory, split, features=["image", "label"], decode=True, image_size=(64, 64))
    return shardmill.torch.Dataset(source, batch_size=batch_size, remainder="pad", shuffle=shuffle)


def train(directory: str, seed: int = 0) -> float:
    """The accuracy on the test split."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.AvgPool2d(4),
        torch.nn.Conv2d(3, 16, 3),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(16 * 14 * 14, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.003)
    digits = read(directory, "train", BATCH)
    loader = torch.utils.data.DataLoader(digits, batch_size=None, num_workers=WORKERS, persistent_workers=True)
    for _ in range(EPOCHS):
        for batch in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch["image"] / 255), batch["label"]).backward()
            optimizer.step()
    with torch.no_grad():
        right = [
            (model(batch["image"] / 255).argmax(1) == batch["label"])[~batch["is_padding"]]
            for batch in read(directory, "test", 256, shuffle=False)
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
