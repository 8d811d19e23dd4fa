"""Entry points: how parts that few use, and those of other packages, are found by name without importing them.

`pyproject.toml` registers this package's own in the same groups; docs/plugins.md tells how another package adds one.
"""

import functools
import sys
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tosaic.errors import Error
from tosaic.install import reinstall_command

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_OURS = "tosaic"


def origin(point: "EntryPoint") -> str:
    """An entry point and whose it is, in words."""
    package = f" of {point.dist.name}" if point.dist else ""
    return f"entry point {point.name}{package} in the group {point.group}"


def points_of(group: str) -> "list[EntryPoint]":
    """The entry points of a group: this package's first, then the others' by name."""
    return list(_points(group, tuple(sys.path)))


def plugins(group: str) -> "Mapping[str, EntryPoint]":
    """The entry points of a group that this package has members of, by name; none is loaded.

    Of several of one name the first counts. Error where the installation is older than the code and lists none of ours.
    """
    found: dict[str, EntryPoint] = {}
    for point in points_of(group):
        found.setdefault(point.name, point)
    if not any(_is_ours(point) for point in found.values()):
        raise Error(
            f"Tosaic's installation is older than its code: it lists nothing in the group {group}; "
            f"install it again: {reinstall_command()}"
        )
    return found


def load_plugin(group: str, name: str, kind: Any) -> Any:
    """What the entry point called `name` stands for.

    Error where it cannot be loaded or is no `kind`. A UserWarning tells of other packages' entry points of that name.
    """
    point = plugins(group)[name]
    for other in points_of(group):
        if other.name == name and other != point:
            warnings.warn(
                f"{origin(other)}: there is an {origin(point)} already; it is left out", stacklevel=2
            )
    try:
        found = point.load()
        if not isinstance(found, kind):
            raise TypeError(f"it is no {kind.__module__}.{kind.__qualname__}")
    except Exception as error:
        if _is_ours(point):
            raise
        reason = f"{type(error).__name__}: {error}"
        raise Error(f"{origin(point)} cannot be used: {reason}; update or uninstall that package") from error
    return found


def _is_ours(point: "EntryPoint") -> bool:
    return point.dist is not None and point.dist.name == _OURS


@functools.cache
def _points(group: str, path: tuple[str, ...]) -> "tuple[EntryPoint, ...]":
    """Kept for each `path`, which is what decides: to look through all packages takes milliseconds."""
    from importlib.metadata import entry_points

    found = entry_points(group=group)
    return tuple(sorted(found, key=lambda point: (not _is_ours(point), point.name)))
