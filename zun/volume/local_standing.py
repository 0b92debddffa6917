"""What of embedded volumes stands on this machine, found by looking. Blocking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

from zun.domain.container import VolumeMapping
from zun.volume import mounts
from zun.volume.connections import FOLDER


def standing(places: Path, data: Path) -> Sequence[VolumeMapping]:
    """One for each place below ``places`` that this driver made: with a file, with a mount of an image of ``data``, or
    with nothing in it. What else is there is not ours to judge."""
    return list(_found(places, data)) if places.is_dir() else []


def _found(places: Path, data: Path) -> Iterator[VolumeMapping]:
    for place in sorted(places.iterdir()):
        if not _is_uuid(place.name) or (places / FOLDER / f"{place.name}.json").exists():
            continue
        source = mounts.source_of(place)
        if source is not None:
            image = Path(mounts.backing_file(source) or "/")
            if image.parent == data and image.suffix == ".img":
                yield _mapping(place, "volume", image.stem)
        elif place.is_dir():
            names = {one.name for one in place.iterdir()}
            if names <= {"file"}:
                yield _mapping(place, "bind" if names else "volume", None)


def _mapping(place: Path, kind: str, volume_id: str | None) -> VolumeMapping:
    return VolumeMapping(place.name, "", "", "", kind, "local", str(place), volume_id)


def _is_uuid(name: str) -> bool:
    try:
        return str(UUID(name)) == name
    except ValueError:
        return False
