"""Who or what was evaluated: sizes, the flow of scans into the evaluation, and the cohort by site and class."""

from __future__ import annotations

from neurocontrast.reporting.blocks import Block, Facts, Paragraph, Pictures, Section, Table
from neurocontrast.reporting.figures.flow import draw_flow, list_steps
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.naming import PARTS, dataset_name, flatten, image_size, shorten_paths
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.section import Input, SectionBuilder
from neurocontrast.reporting.tables import Column, make_table, table_cohort
from neurocontrast.reporting.words import IMAGES

__all__ = ["COHORT"]

_CHOICES = ("size", "seed", "background", "attributes", "clusters")


def _build(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build sizes, the flow of scans with who was left out and why, and the table by site."""
    del options
    if files.words is IMAGES:
        return _build_images(files)
    n = files.summary.n
    counts = {"Scans evaluated": n.scans, "Subjects": n.subjects, "Sites": n.sites}
    facts = [(label, "not recorded" if count is None else f"{count:,}") for label, count in counts.items()]
    table = table_cohort(files) or Paragraph("cohort.tsv is absent: no counts by site can be shown.", role="note")
    return Section("cohort", "Cohort", [Facts(facts), *_flow(files), table])


def _flow(files: EvaluationFiles) -> list[Block]:
    notes = []
    if files.flow is None and not any(files.summary.n.excluded.values()):
        notes.append("No scan was excluded.")
    picture = draw_flow(files)
    if files.flow is None:
        notes.append("flow.tsv is absent: what happened before the embeddings were made is not known here.")
    blocks: list[Block] = [Pictures([picture]), _flow_table(files)] if picture else []
    return [*blocks, *(Paragraph(text, role="note") for text in notes)]


def _flow_table(files: EvaluationFiles) -> Table:
    rows = [{**vars(step), "name": ("Left out: " if step.left_out else "") + step.name} for step in list_steps(files)]
    columns = (
        Column("Step", "name", "heading"),
        Column("Scans", "n_scans", "count"),
        Column("Subjects", "n_subjects", "count", reason="subjects not counted at this step"),
    )
    return make_table("The flow of scans in numbers.", rows, columns, folded=True)


def _build_images(files: EvaluationFiles) -> Section:
    """Build the data set: its name, parts and size, what pretraining saw of them, who was left out."""
    blocks: list[Block] = [Facts(_image_facts(files))]
    if files.origin.get("statement"):
        blocks.append(Paragraph(" ".join(files.origin["statement"]), label="How they were prepared."))
    # With a fixed split, the images that the probe is fitted on leave too, which is no loss.
    if any(step.left_out and not step.name.startswith("Fitted on") for step in list_steps(files)):
        picture = draw_flow(files)
        blocks += [Pictures([picture])] if picture else []
    return Section("cohort", "Images", blocks)


def _image_facts(files: EvaluationFiles) -> list[tuple[str, str]]:
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
    if files.classes:
        facts.append(("Classes", f"{len(files.classes)}"))
    if image_size(files):
        facts.append(("Channels × height × width", image_size(files)))
    facts += [
        (f"{PARTS[name].capitalize()} images with a copy elsewhere", f"{count:,}") for name, count in copies.items()
    ]
    chosen = {key: value for key, value in (files.origin.get("settings") or {}).items() if key in _CHOICES}
    leaves = flatten({key: value for key, value in chosen.items() if value is not None})
    return facts + [(f"Prepared with {name.replace('_', ' ')}", shorten_paths(text)) for name, text in leaves]


COHORT = SectionBuilder(
    "cohort",
    "Cohort",
    order=40,
    build=_build,
    inputs=(
        Input("flow.tsv", "what was lost before the evaluation", "flow"),
        Input("cohort.tsv", "counts by site", "cohort", of=("scans",)),
    ),
    covers="cohort",
)
