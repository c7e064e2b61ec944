"""The section of a report that only natural images have; their words and texts are in ``templates/images``."""

from neurocontrast.reporting.blocks import Block, Facts, Section
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.sections.cohort import flow_table, list_steps
from neurocontrast.reporting.texts import write_paragraphs


def show_images(files: EvaluationFolder) -> Section:
    """Return the data set: its name, parts and size, what pretraining saw of them, and what was left out."""
    blocks: list[Block] = [Facts(write_paragraphs("cohort.j2", files))]
    steps = list_steps(files)
    if steps is not None:
        # With a fixed split, the images that the probe is fitted on leave too, which is no loss.
        lost = steps["left_out"] & ~steps["step"].str.startswith("Left out: Fitted on")
        blocks += [flow_table(files, steps.drop(columns="n_subjects"))] if lost.any() else []
    return Section("cohort", "Images", blocks)


IMAGE_COHORT = Finding("cohort", show_images, of=("images",))
