"""How it was done, what is not said, and where it all came from."""

from __future__ import annotations

from collections.abc import Mapping

from neurocontrast.reporting.blocks import Block, Cell, Code, Facts, Items, Numbered, Paragraph, Section, Table
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.inputs import inputs_of
from neurocontrast.reporting.methods import write_methods
from neurocontrast.reporting.naming import flatten, shorten_paths
from neurocontrast.reporting.options import ReportOptions
from neurocontrast.reporting.references import Citations
from neurocontrast.reporting.silences import list_silences

__all__ = ["build_methods", "build_provenance", "build_silences"]

_MAX_LENGTH = 300
# Written in full elsewhere in the report, lists of people, or a packed mask.
_SKIPPED = ("training_metrics", "pretraining_subjects", "participant_digests", "view")


def build_methods(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the methods text, generated from what the run records, with its references."""
    del options
    lead = "Generated from the record of this run, to be pasted into a paper; check it before it goes there."
    cite = Citations()
    paragraphs: list[Block] = [Paragraph(text, label=label) for label, text in write_methods(files, cite)]
    return Section("methods", "Methods", [*paragraphs, Numbered("References", cite.listed())], lead=lead)


def build_silences(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the list of what this report leaves unsaid."""
    del options
    return Section("silences", "What this report does not say", [Items(list_silences(files))])


def build_provenance(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build versions, seeds, digests and settings."""
    del options
    s = files.summary
    groups: list[tuple[str, Mapping]] = [
        ("Evaluation", {"format": s["format"], "seed": s.get("seed"), "splits": s["splits"], "folds": s.get("n_folds"),
                        "repeats": s.get("n_repeats"), "overlap allowed": s.get("allow_overlap"),
                        "digest of the splits": s.get("splits_digest"),
                        f"{files.words.units} also in pretraining": s.get("n_overlap"), "bootstrap": _bootstrap(files),
                        "permutation": _permutation(s.get("permutation")), "probe": s.get("probe"),
                        "threshold": s.get("threshold")}),
        ("Probe on all scans (probe/probe.json)", _probe(files)),
        ("Embeddings", s.get("embeddings") or {}),
        ("Objective", s.get("objective") or {}),
        ("Encoder and preprocessing contract", {k: v for k, v in (s.get("run") or {}).items() if k != "objective"}),
        ("Simulation", s.get("simulation") or {}),
        ("Environment", s.get("environment") or {}),
    ]  # fmt: skip
    blocks: list[Block] = [
        Facts(_facts(content), title=title) for title, content in groups if isinstance(content, Mapping) and content
    ]
    blocks.append(_inputs(files))
    if files.config_text:
        blocks.append(Code("Resolved configuration (config.yaml)", shorten_paths(files.config_text)))
    else:
        blocks.append(Paragraph("config.yaml is absent from the evaluation folder.", role="note"))
    return Section("provenance", "Provenance", blocks)


def _bootstrap(files: EvaluationFiles) -> Mapping | None:
    bootstrap = files.summary.get("bootstrap")
    unit = (bootstrap or {}).get("unit")
    return bootstrap and {**bootstrap, "unit": files.words.unit if unit == "subject" else unit}


def _permutation(permutation: Mapping | None) -> Mapping | None:
    return permutation and {key: value for key, value in permutation.items() if key not in ("p_values", "observed")}


def _probe(files: EvaluationFiles) -> Mapping:
    """Return what is short in probe.json: its coefficients and feature names are in the file."""
    kept = (dict, list, tuple)
    return {key: value for key, value in (files.probe or {}).items() if not isinstance(value, kept) or len(value) <= 8}


def _inputs(files: EvaluationFiles) -> Table:
    rows = []
    for each in inputs_of(files):
        if each.kinds and files.kind not in each.kinds:
            continue
        there = getattr(files, each.attribute) is not None
        rows.append(
            (
                Cell(each.file, heading=True),
                Cell(each.gives),
                Cell("yes" if there else "no"),
                Cell("" if there else each.how),
            )
        )
    header = ("File", "Gives", "There", "How to make it")
    return Table("Inputs of this report that may be absent.", header, rows, text_columns=(0, 1, 2, 3))


def _facts(content: Mapping) -> list[tuple[str, str]]:
    kept = {key: value for key, value in content.items() if key not in _SKIPPED}
    facts = []
    for name, text in flatten(kept):
        if name.split(".")[-1] in _SKIPPED:
            continue
        text = shorten_paths(text)
        facts.append((name, text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"))
    return facts
