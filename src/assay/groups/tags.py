"""Tags: flat collections that overlap freely and aggregate nothing unless asked."""

from __future__ import annotations

from assay.config import GroupConfig
from assay.errors import ConfigError
from assay.groups.group import Group, Leaf


class TagGroup(Group):
    """The tasks that carry one tag. Flat: a tag holds tasks, never groups."""

    def __init__(self, tag_name: str, description: str | None = None) -> None:
        super().__init__(GroupConfig(group=tag_name, group_alias=description or tag_name, metadata={"type": "tag"}))

    def _accept(self, item: Group | Leaf) -> None:
        if isinstance(item, Group):
            raise ConfigError(
                f"tag {self.name!r} cannot hold the group {item.name!r}: tags are flat",
                hint="Make it a group, or tag the tasks themselves.",
            )

    def _link(self, item: Group | Leaf) -> None:
        # A task lists its tags by name; a task-like object without a list is simply not told.
        tags = getattr(item, "tags", None)
        if isinstance(tags, list) and self.name not in tags:
            tags.append(self.name)
