"""How it was done, what is not said, and where it all came from."""

from __future__ import annotations

from collections.abc import Mapping

from neurocontrast.reporting.blocks import Block, Code, Facts, Items, Paragraph, Section
from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.methods import list_silences, write_methods
from neurocontrast.reporting.naming import flatten, shorten_paths
from neurocontrast.reporting.options import ReportOptions

__all__ = ["build_methods", "build_provenance", "build_silences"]

_MAX_LENGTH = 300
# Written in full elsewhere in the report, or lists of people.
_SKIPPED = ("training_metrics", "pretraining_subjects", "participant_digests")


def build_methods(files: EvaluationFiles, options: ReportOptions) -> Section:
    """Build the methods text, generated from what the run records."""
    del options
    lead = "Generated from the record of this run; check it before it goes into a paper."
    return Section("methods", "Methods", [Paragraph(text) for text in write_methods(files)], lead=lead)


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
                        "subjects also in pretraining": s.get("n_overlap"), "bootstrap": s.get("bootstrap"),
                        }),
        ("Embeddings", s.get("embeddings") or {}),
        ("Objective", s.get("objective") or {}),
        ("Encoder and preprocessing contract", {k: v for k, v in (s.get("run") or {}).items() if k != "objective"}),
        ("Simulation", s.get("simulation") or {}),
        ("Environment", s.get("environment") or {}),
    ]  # fmt: skip
    blocks: list[Block] = [
        Facts(_facts(content), title=title) for title, content in groups if isinstance(content, Mapping) and content
    ]
    if files.config_text:
        blocks.append(Code("Resolved configuration (config.yaml)", shorten_paths(files.config_text)))
    else:
        blocks.append(Paragraph("config.yaml is absent from the evaluation folder.", role="note"))
    return Section("provenance", "Provenance", blocks)


def _facts(content: Mapping) -> list[tuple[str, str]]:
    kept = {key: value for key, value in content.items() if key not in _SKIPPED}
    facts = []
    for name, text in flatten(kept):
        if name.split(".")[-1] in _SKIPPED:
            continue
        text = shorten_paths(text)
        facts.append((name, text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…"))
    return facts
