"""Put the collection into the wheel, beside the Python package.

Only into a real wheel: hatchling would also *copy* the files of a force-include table into the
environment of an editable install, where they would stay as they were on that day. A checkout is
reached through the link in .cache/collections instead (`dev-mode-dirs` in pyproject.toml).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TARGET = "ansible_collections/nearmetal/rack"
PARTS = ("plugins", "roles", "playbooks", "meta", "galaxy.yml", "README.md", "CHANGELOG.rst")


class CollectionHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the parts of the collection under `TARGET`."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Register the files; `version` is "editable" for a development install."""
        if version == "editable":
            return
        for part in PARTS:
            source = Path(self.root) / part
            if not source.exists():
                raise FileNotFoundError(f"{source} belongs into the wheel, but is not there")
            build_data["force_include"][str(source)] = f"{TARGET}/{part}"
