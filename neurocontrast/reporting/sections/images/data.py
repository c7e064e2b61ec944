"""Which images were evaluated, and how they are divided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neurocontrast.reporting.blocks import Block, Facts, Paragraph, Pictures, Section
from neurocontrast.reporting.figures.flow import draw_flow, list_steps
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.images.origin import dataset_name, image_size, parts_of, read_origin, statements
from neurocontrast.reporting.naming import flatten, shorten_paths
from neurocontrast.reporting.options import ReportOptions

__all__ = ["build_data"]

_PARTS = {"train": "Training images", "validation": "Validation images", "test": "Test images"}
_SHOWN = ("size", "seed", "background", "attributes", "clusters")


def build_data(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the data set: its name, parts and size, what pretraining saw of them, who was left out."""
    del options
    blocks: list[Block] = [Facts(_facts(files))]
    told = statements(read_origin(files))
    blocks += [Paragraph(" ".join(told), label="How they were prepared.")] if told else []
    # With a fixed split, the images that the probe is fitted on leave too, which is no loss.
    if any(step.left_out and not step.name.startswith("Fitted on") for step in list_steps(files)):
        picture = draw_flow(files)
        blocks += [Pictures([picture])] if picture else []
    return Section("data", "Images", blocks)


def _facts(files: EvaluationFiles) -> list[tuple[str, str]]:
    origin, parts = read_origin(files), parts_of(files)
    facts = [("Data set", dataset_name(origin) or "not recorded")]
    seen = (files.summary.get("split") or {}).get("n_pretrained") or {}
    for name, count in parts.items():
        text = f"{count:,}"
        if seen.get(name) is not None:
            text += f" ({seen[name]:,} of them seen in pretraining)"
        facts.append((_PARTS[name], text))
    n = files.summary.get("n") or {}
    if not parts:
        facts.append(("Images evaluated", f"{n['scans']:,}" if n.get("scans") is not None else "not recorded"))
    if n.get("subjects") is not None and n["subjects"] != n.get("scans"):
        facts.append(("Groups of images kept together (subject_id)", f"{n['subjects']:,}"))
    if files.classes:
        facts.append(("Classes", f"{len(files.classes)}"))
    if image_size(files):
        facts.append(("Channels × height × width", image_size(files)))
    copies = (files.summary.get("split") or {}).get("n_duplicates") or {}
    facts += [
        (f"{_PARTS[name]} with a copy elsewhere", f"{count:,}") for name, count in copies.items() if name in _PARTS
    ]
    return facts + _choices(origin)


def _choices(origin: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was chosen when the data set was prepared, where it was not left as it comes."""
    settings = origin.get("settings")
    if not isinstance(settings, Mapping):
        return []
    kept = {key: settings[key] for key in _SHOWN if settings.get(key) is not None}
    return [(f"Prepared with {name.replace('_', ' ')}", shorten_paths(text)) for name, text in flatten(kept)]
