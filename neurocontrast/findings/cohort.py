"""Who was evaluated: sizes, the flow of scans or images into the evaluation, and the cohort by site and class."""

from __future__ import annotations

import pandas as pd

from neurocontrast.findings.finding import Finding
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.prose import PARTS, dataset_name, image_size
from neurocontrast.page.blocks import Block, Column, Facts, Section, Table, make_table, note
from neurocontrast.page.wording import capitalise


def show_cohort(files: EvaluationFolder) -> Section:
    """Return sizes, the flow of scans with who was left out and why, and the table by site."""
    n = files.summary.n
    counts = {"Scans evaluated": n.scans, "Subjects": n.subjects, "Sites": n.sites}
    facts = [(label, "not recorded" if count is None else f"{count:,}") for label, count in counts.items()]
    facts += [(f"Left out: {_label(reason)}", f"{count:,}") for reason, count in n.excluded.items() if count]
    blocks: list[Block] = [Facts(facts)]
    flow, cohort = _flow(files), files.table("cohort", "site")
    if flow is None:
        blocks.append(note("flow.tsv is absent: what happened before the embeddings were made is not known here."))
    else:
        blocks.append(flow_table(files, list_steps(flow)))
    absent = note("cohort.tsv is absent: no counts by site can be shown.")
    blocks.append(absent if cohort is None else _site_table(files, cohort))
    return Section("cohort", "Cohort", blocks)


def _flow(files: EvaluationFolder) -> pd.DataFrame | None:
    return files.table("flow", "step", "n_scans")


def list_steps(flow: pd.DataFrame) -> pd.DataFrame:
    """Return the scans that came in, left, with the reason, and were evaluated: ``step, n_scans, n_subjects``."""
    table = flow.reindex(columns=["step", "n_scans", "n_subjects", "reason"]).fillna({"step": "", "reason": ""})
    leaves = table["step"].str.contains("exclu|left out", case=False)
    named = table["step"].map(_label) + ": " + table["reason"]
    left = "Left out: " + table["reason"].where(table["reason"] != "", table["step"]).map(_label)
    return table.assign(step=left.where(leaves, named.str.removesuffix(": ")), left_out=leaves)


def _label(name: str) -> str:
    return capitalise(name.replace("_", " ").strip())


def flow_table(files: EvaluationFolder, steps: pd.DataFrame) -> Table:
    """Return the steps of `list_steps` as a table."""
    items = files.words.items
    columns = (
        Column("Step", "step", "heading"),
        Column(capitalise(items), "n_scans", "count"),
        Column("Subjects", "n_subjects", "count", reason="not counted at this step") if items == "scans" else None,
    )
    return make_table(f"How the {items} came to be evaluated.", steps, columns)


def _site_table(files: EvaluationFolder, cohort: pd.DataFrame) -> Table:
    """Return the number of scans by site and class, or the target's spread by site."""
    site = Column("Site", "site", "heading")
    names = [name for name in cohort.columns if name != "site"]
    if files.kind == "continuous":
        titles = {"n": "Scans", "mean": f"Mean {files.target}", "sd": "SD", "min": "Smallest", "max": "Largest"}
        columns = [
            Column(titles.get(name, name), name, "count" if name == "n" else "number", 1, reason="fewer than two scans")
            for name in names
        ]
        caption = f"Scans evaluated at each site, and the spread of {files.target} among them."
        return make_table(caption, cohort, [site, *columns])
    columns = [Column("All scans" if name == "total" else name, name, "count") for name in names]
    total, many = {"site": "All sites", **cohort[names].sum().to_dict()}, len(cohort) > 1
    rows = [*cohort.to_dict("records"), *([total] if many else [])]
    caption = f"Scans evaluated at each site, by {files.target}."
    return make_table(caption, rows, [site, *columns], total_rows=int(many))


def show_images(files: EvaluationFolder) -> Section:
    """Return the data set: its name, parts and size, what pretraining saw of them, and what was left out."""
    blocks: list[Block] = [Facts(_image_facts(files))]
    # With a fixed split, the images that the probe is fitted on leave too, which is no loss.
    flow = _flow(files)
    if flow is not None:
        steps = list_steps(flow)
        lost = steps["left_out"] & ~steps["step"].str.startswith("Left out: Fitted on")
        blocks += [flow_table(files, steps)] if lost.any() else []
    return Section("cohort", "Images", blocks)


def _image_facts(files: EvaluationFolder) -> list[tuple[str, str]]:
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


COHORT = Finding("cohort", show_cohort, of=("scans",))
IMAGE_COHORT = Finding("cohort", show_images, of=("images",))
