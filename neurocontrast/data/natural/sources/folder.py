"""Pictures in class folders, with or without ``train/`` and ``test/`` above the classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from neurocontrast.data.natural.decoding import PICTURE_ENDINGS, decode
from neurocontrast.data.natural.files import FileSet
from neurocontrast.data.natural.images_settings import ImagesSettings
from neurocontrast.data.natural.pictures import Pictures, class_names
from neurocontrast.data.natural.splitting import SPLIT_OF_NAME
from neurocontrast.data.problems import N_SHOWN, Problems, shown
from neurocontrast.exceptions import DataError, one_of

__all__ = ["is_picture", "pictures_of_folders", "read_class_folders"]


def is_picture(name: str) -> bool:
    """Say whether a file is a picture, by the ending of its name."""
    return name.lower().endswith(PICTURE_ENDINGS)


def read_class_folders(settings: ImagesSettings, open_wanted: Callable[[Callable[[str], bool]], FileSet]) -> Pictures:
    """Return the pictures of class folders: ``cat/1.jpg``, or ``train/cat/1.jpg``."""
    del settings
    return pictures_of_folders(open_wanted(is_picture))


def pictures_of_folders(files: FileSet) -> Pictures:
    """Return pictures by class and split, without the folders that all of them share."""
    if not files.names:
        raise DataError(
            f"source: {shown(files.source, 200)} holds no picture ({', '.join(PICTURE_ENDINGS)}); "
            f"it holds {files.n_skipped} other files."
        )
    names = files.names
    paths = _without_common_folders([name.split("/") for name in names])
    splits = _splits(paths, files.source.name)
    below = [path[1:] for path in paths] if splits else paths
    _check_classes(below, files)
    known = sorted({path[0] for path in below})
    named = dict(zip(known, class_names(known), strict=True))
    return Pictures(
        files=["/".join(path) for path in paths],
        labels=[named[path[0]] for path in below],
        splits=splits,
        read=lambda number: decode(files.read(names[number])),
        origin={"kind": "pictures", "n_files_skipped": files.n_skipped, "digest": files.digest},
        has_file_names=True,
    )


def _without_common_folders(paths: list[list[str]]) -> list[list[str]]:
    while (
        all(len(path) > 2 for path in paths)
        and len({path[0] for path in paths}) == 1
        and paths[0][0].lower() not in SPLIT_OF_NAME
    ):
        paths = [path[1:] for path in paths]
    return paths


def _splits(paths: list[list[str]], source: str) -> list[str] | None:
    found = [SPLIT_OF_NAME.get(path[0].lower()) if len(path) > 1 else None for path in paths]
    if not any(found):
        return None
    outside = ["/".join(path) for path, split in zip(paths, found, strict=True) if split is None]
    if outside:
        counts = Counter(path[0] for path, split in zip(paths, found, strict=True) if split is not None)
        more = f" … and {len(outside) - N_SHOWN} more" if len(outside) > N_SHOWN else ""
        raise DataError(
            f"{source}: some pictures lie in {one_of(sorted(counts))}, and {len(outside)} beside them: "
            f"{one_of(outside[:N_SHOWN])}{more}. Divide all, or none."
        )
    return [split for split in found if split is not None]


def _check_classes(below: list[list[str]], files: FileSet) -> None:
    problems = Problems(files.source.name)
    for path, name in zip(below, files.names, strict=True):
        if len(path) < 2:
            problems.add("this picture lies in no class folder", name=shown(name))
    problems.raise_if_any()
