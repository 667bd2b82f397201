"""What a rebuild takes from the version before, instead of reading files again."""

from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.recipes.recipe import Recipe
from shardmill.pipelines.reports.reuse import reuse_lines
from shardmill.transforms.options.reuse import LATEST, NO, RECORD
from shardmill.transforms.publishing.file_index import FileIndex


def reuse_changes(recipe: Recipe, config: JobConfig, full: bool) -> dict[str, str]:
    """What a build of `recipe` is told of older versions, by field: to take from LATEST what did not change, unless the
    recipe says otherwise; but nothing where names, sizes and times do not tell that, as it says by `fingerprint:
    content`.

    Args:
      recipe: that is followed.
      config: of its job.
      full: whether all files are to be read, and remembered for the next build.
    """
    if config.reuse_asked is None:
        return {}
    if full:
        return {"reuse": RECORD}
    return {} if "reuse" in recipe.options else {"reuse": NO if _reads_all(recipe) else LATEST}


def reuse_said(recipe: Recipe, config: JobConfig, index: FileIndex | None) -> list[str]:
    """What is to be said of what a build, which is published, took from the version before."""
    if config.reuse_asked == NO and _reads_all(recipe):
        return ["all files were read: with fingerprint: content, their names, sizes and times prove nothing"]
    return reuse_lines(config, index)


def _reads_all(recipe: Recipe) -> bool:
    return recipe.build.fingerprint == "content"
