"""Natural images: accuracies next to chance, and the data set with what pretraining saw of it."""

from __future__ import annotations

from neurocontrast.findings.cohort import flow_table, list_steps
from neurocontrast.findings.finding import Finding
from neurocontrast.findings.folder import EvaluationFolder
from neurocontrast.findings.prose import PARTS, dataset_name, image_size
from neurocontrast.findings.result import say_result
from neurocontrast.page.blocks import Block, Card, Cards, Column, Facts, Paragraph, Section, Table, ends, make_table
from neurocontrast.page.wording import capitalise, interval_phrase, metric_range, metric_text, point_estimate


def show_result(files: EvaluationFolder) -> Section:
    """Return the leading accuracies in large print, the plain sentences, and all metrics."""
    blocks: list[Block] = [Cards(_cards(files))] if files.headline else []
    blocks += [
        Paragraph(say_result(files, "plain"), label="In plain words.", role="quote"),
        Paragraph(say_result(files, "reviewer"), label="For a methods reviewer.", role="quote"),
    ]
    return Section("result", "Result", [*blocks, table_metrics(files)] if files.metrics else blocks)


def _cards(files: EvaluationFolder) -> list[Card]:
    cards = []
    for place, key in enumerate(files.leading[:2]):
        values, chance = files.metrics[key], files.chance(key)
        detail = interval_phrase(files.level, metric_range(key, values.interval))
        detail += f"; chance {metric_text(key, chance)}" if chance is not None else ""
        name = capitalise(files.describe(key).name)
        cards.append(Card(name, metric_text(key, point_estimate(values)), detail, place == 0))
    return cards


def table_metrics(files: EvaluationFolder) -> Table:
    """Return every metric with its interval, next to chance."""
    keys, rows, texts = list(dict.fromkeys([*files.leading, *files.metrics])), [], []
    for key in keys:
        values, about = files.metrics[key], files.describe(key)
        row = {"metric": about.label, "pooled": values.pooled, **ends("pooled", values.interval)}
        rows.append(row | {"pooled_reason": values.reason or "not defined", "chance": files.chance(key)})
        texts += [f"{about.short}: {about.meaning}"] if about.meaning else []
    texts.append("Chance: naming classes at random, whatever their sizes.")
    columns = (
        Column("Metric", "metric", "heading"),
        Column("Value", "pooled", interval=True),
        Column("Chance", "chance", reason="depends on the data"),
    )
    caption = f"All metrics, of all tested images at once, with their {files.level:.0%} intervals."
    return make_table(caption, rows, columns, note=" ".join(texts))


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


IMAGE_RESULT = Finding("result", show_result, of=("images",))
IMAGE_COHORT = Finding("cohort", show_images, of=("images",))
