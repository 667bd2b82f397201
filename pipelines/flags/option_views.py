"""Beam's options, each view of them parsed once: building a graph asks for hundreds, a third of a short job's time."""

from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

View = TypeVar("View", bound=PipelineOptions)
_VIEWS = "_remembered_views"


class RememberingOptions(PipelineOptions):
    """Options as Beam's own; a view is made once.

    A view holds no values: all views of one object share them. So an older one says and sets what a new one would.
    """

    def view_as(self, cls: type[View]) -> View:
        """The view as `cls`, the same each time."""
        views: dict[type[PipelineOptions], Any] = self.__dict__.setdefault(_VIEWS, {type(self): self})
        if cls not in views:
            views[cls] = super().view_as(cls)
        return views[cls]

    def __getstate__(self) -> dict[str, Any]:
        """What a copy has: no views, as Beam may give each copied view values of its own, where it leaves a credential
        out."""
        return {name: value for name, value in super().__getstate__().items() if name != _VIEWS}
