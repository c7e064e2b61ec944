"""Sections that images share with scans, where they have something to show."""

from __future__ import annotations

from dataclasses import replace

from neurocontrast.reporting.blocks import Pictures, Section
from neurocontrast.reporting.figures.points import MAPS, draw_map, list_map_columns
from neurocontrast.reporting.figures.training import draw_training
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.predictions import tested_rows
from neurocontrast.reporting.sections import embedding
from neurocontrast.reporting.style import Picture

__all__ = ["build_map", "build_training"]


def build_map(files: EvaluationFiles, options: ReportOptions) -> Section | None:
    """Build the maps of the embedding; None where none was computed."""
    del options
    pictures = []
    for layout in MAPS:
        drawn = (draw_map(files, layout=layout, column=column) for column in list_map_columns(files))
        pictures += [_about(picture, layout, files) for picture in drawn if picture is not None]
    if not pictures:
        return None
    lead = "Each point is an image. What lies apart here does so in the features; what overlaps here need not."
    return Section("map", "Map of the embedding", [Pictures(pictures)], lead=lead)


def _about(picture: Picture, layout: str, files: EvaluationFiles) -> Picture:
    words = {
        "pca": "PCA: the two directions of largest spread. Most of the embedding is not in this plane.",
        "umap": "UMAP: neighbours are kept together; distances between clusters, and their sizes, mean nothing.",
    }
    placed = 0 if files.points is None else len(files.points)
    tested = tested_rows(files)
    n = int((tested["repeat"] == tested["repeat"].min()).sum())
    some = f"{placed:,} of the {n:,} tested images have a place in it. " if placed < n else ""
    return replace(picture, caption=f"{words[layout]} {some}{picture.caption}".strip())


def build_training(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the training curves, the images trained on per second among them."""
    section = embedding.build_training(files, options)
    table = files.training
    clock = next((name for name in _CLOCKS if table is not None and name in table and table[name].notna().any()), None)
    picture = None if clock is None else draw_training(files, clock)
    if picture is None:
        return section
    return replace(section, blocks=[*section.blocks, Pictures([picture])])


_CLOCKS = ("samples_per_second", "volumes_per_second")
