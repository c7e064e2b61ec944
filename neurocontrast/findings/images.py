"""Natural images: the data set, and what pretraining saw of it."""

from __future__ import annotations

from neurocontrast.findings.cohort import flow_table, list_steps
from neurocontrast.findings.finding import Finding
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.prose import PARTS, dataset_name, image_size
from neurocontrast.page.blocks import Block, Facts, Section


def show_images(files: EvaluationFolder) -> Section:
    """Return the data set: its name, parts and size, what pretraining saw of them, and what was left out."""
    blocks: list[Block] = [Facts(_facts(files))]
    # With a fixed split, the images that the probe is fitted on leave too, which is no loss.
    if files.flow is not None:
        steps = list_steps(files.flow)
        lost = steps["left_out"] & ~steps["step"].str.startswith("Left out: Fitted on")
        blocks += [flow_table(files, steps)] if lost.any() else []
    return Section("cohort", "Images", blocks)


def _facts(files: EvaluationFolder) -> list[tuple[str, str]]:
    sizes, split = files.summary.n, files.summary.split
    seen, copies = (split.n_pretrained, split.n_duplicates) if split else ({}, {})
    facts = [("Data set", dataset_name(files) or "not recorded")]
    for name, count in files.parts.items():
        also = f" ({seen[name]:,} of them seen in pretraining)" if seen.get(name) is not None else ""
        facts.append((f"{PARTS[name].capitalize()} images", f"{count:,}{also}"))
    if not files.parts:
        facts.append(("Images evaluated", "not recorded" if sizes.scans is None else f"{sizes.scans:,}"))
    if sizes.subjects not in (None, sizes.scans):
        facts.append(("Groups of images kept together (subject_id)", f"{sizes.subjects:,}"))
    facts.append(("Channels × height × width", image_size(files) or "not recorded"))
    facts += [
        (f"{PARTS[name].capitalize()} images with a copy elsewhere", f"{count:,}") for name, count in copies.items()
    ]
    return facts


IMAGE_COHORT = Finding("cohort", show_images, of=("images",))
