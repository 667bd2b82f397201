"""The two ways a job ends without a data set, as the user sees them."""


class UserError(ValueError):
    """A mistake in a flag, a manifest or an input: one sentence that names it. Exit status 2."""


class JobError(RuntimeError):
    """The job ran and must not publish what it made: one sentence that says why. Exit status 1."""


class CorruptDataError(ValueError):
    """A shard, record or manifest on disk is not what was written. The message names file and record."""
