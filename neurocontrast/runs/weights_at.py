"""Recognise folders of weights, and tables of embeddings, by their files and columns."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd

from neurocontrast.weights.packages import FILES

_PROBE = "probe.json"


def probes_of(path: Path) -> tuple[Path, list[Path]] | None:
    """Return a folder of weights and the folders of its probes; `path` may be that of one probe.

    None is returned if the path is no folder of weights with probes. With the path of one probe,
    that probe alone is listed.
    """
    for folder, pattern in ((path, f"*/{_PROBE}"), (path.parent, f"{path.name}/{_PROBE}")):
        if any(map(Path.is_file, map(folder.joinpath, FILES))):
            probes = [description.parent for description in sorted(folder.glob(pattern))]
            if probes:
                return folder, probes
    return None


def are_embeddings(place: str | os.PathLike[str] | pd.DataFrame) -> bool:
    """Tell whether `place` is a table of embeddings, as `embed` writes, not scans or measures."""
    if isinstance(place, pd.DataFrame):
        return "feature_0000" in place.columns
    path = Path(place)
    if path.suffix != ".parquet" or not path.is_file():
        return False
    import pyarrow.parquet

    return "feature_0000" in pyarrow.parquet.read_schema(path).names
