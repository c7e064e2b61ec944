"""Section of the data set, in reports on samples other than scans, such as images."""

from neurocontrast.reporting.blocks import Block, Facts, Section
from neurocontrast.reporting.finding import Finding
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.sections.cohort import flow_table, list_steps
from neurocontrast.reporting.texts import write_paragraphs
from neurocontrast.reporting.voices import VOICES
from neurocontrast.reporting.wording import capitalise


def show_samples(files: EvaluationFolder) -> Section:
    """Return the section of the data set: facts, and how many samples were left out."""
    blocks: list[Block] = [Facts(write_paragraphs("cohort.j2", files))]
    steps = list_steps(files)
    if steps is not None:
        # With a fixed split, the samples that the probe is fitted on leave too, which is no loss.
        lost = steps["left_out"] & ~steps["step"].str.startswith("Left out: Fitted on")
        if lost.any():
            blocks.append(flow_table(files, steps.drop(columns="n_subjects")))
    return Section("cohort", capitalise(files.words.items), blocks)


SAMPLES = Finding("cohort", show_samples, of=VOICES.names())
