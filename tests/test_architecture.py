"""The house: dependencies point one way, and pure modules import without Beam or TensorFlow."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("shardmill", "transforms", "pipelines")
# Modules of transforms/ that know no Beam.
PURE = (
    "balance",
    "columns",
    "coordinates",
    "csv_scan",
    "encode_examples",
    "exact_sums",
    "feature_columns",
    "feature_entries",
    "feature_stats",
    "framing",
    "bmp_file",
    "exif",
    "foreign_files",
    "gif_file",
    "image_codec",
    "image_error",
    "image_header",
    "infer_types",
    "jpeg_file",
    "key_histogram",
    "keys",
    "nested_lists",
    "npy_file",
    "parse_values",
    "piece_writer",
    "png_file",
    "sketches",
    "stats",
    "string_stats",
    "text_encoding",
    "value_bins",
    "value_hashes",
    "value_stats",
    "varints",
    "webp_file",
)


def modules(package: str) -> list[str]:
    return sorted(f"{package}.{path.stem}" for path in (ROOT / package).glob("*.py") if path.stem != "__init__")


def imported(module: str) -> set[str]:
    """The top-level packages that a module imports, inside functions too."""
    tree = ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return {name.split(".")[0] for name in names}


@pytest.mark.parametrize("module", [module for package in PACKAGES for module in modules(package)])
def test_dependencies_point_one_way(module: str) -> None:
    package = module.split(".")[0]
    above = PACKAGES[PACKAGES.index(package) + 1 :]

    assert not imported(module) & {*above, "tests", "benchmarks"}
    if package == "shardmill":
        assert "apache_beam" not in imported(module)


@pytest.mark.parametrize("module", modules("transforms") + modules("pipelines"))
def test_conversion_never_imports_tensorflow(module: str) -> None:
    assert not imported(module) & {"tensorflow", "tensorflow_datasets", "tensorflow_transform"}


def import_blocked(names: list[str]) -> subprocess.CompletedProcess[str]:
    """Import `names` in a process where Beam and TensorFlow cannot be."""
    script = "\n".join(
        [
            "import importlib, sys",
            "for blocked in ('apache_beam', 'tensorflow', 'tensorflow_datasets'): sys.modules[blocked] = None",
            f"for name in {names!r}: importlib.import_module(name)",
        ]
    )
    return subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_shardmill_imports_without_beam_and_tensorflow() -> None:
    done = import_blocked(["shardmill", *modules("shardmill")])

    assert done.returncode == 0, done.stderr


def test_pure_transforms_import_without_beam() -> None:
    done = import_blocked([f"transforms.{name}" for name in PURE])

    assert done.returncode == 0, done.stderr


def test_the_block_does_block() -> None:
    assert "apache_beam" in import_blocked(["transforms.sharding.cuts"]).stderr
