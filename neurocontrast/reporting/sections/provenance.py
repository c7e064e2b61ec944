"""Where it all came from: versions, seeds, digests, settings, and the files behind this report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from neurocontrast.reporting.page import Block, Cell, Code, Facts, Input, Section, SectionBuilder, Table, note
from neurocontrast.reporting.prose import flatten, shorten_paths
from neurocontrast.reporting.read import EvaluationFiles

__all__ = ["PROVENANCE"]

_MAX_LENGTH = 300
# Written in full elsewhere in the report, lists of people, or a packed mask.
_SKIPPED = ("training_metrics", "pretraining_subjects", "participant_digests", "view")


def _build(files: EvaluationFiles, sections: Sequence[SectionBuilder]) -> Section:
    s = files.summary.content()
    bootstrap = dict(s.get("bootstrap") or {})
    if bootstrap.get("unit") == "subject":
        bootstrap["unit"] = files.words.unit
    tested = {key: value for key, value in (s.get("permutation") or {}).items() if key not in ("p_values", "observed")}
    # Coefficients and names of features are in the file.
    short = {k: v for k, v in (files.probe or {}).items() if not isinstance(v, dict | list | tuple) or len(v) <= 8}
    groups: dict[str, Mapping] = {
        "Evaluation": {"format": s["format"], "seed": s.get("seed"), "splits": s["splits"], "folds": s.get("n_folds"),
                       "repeats": s.get("n_repeats"), "overlap allowed": s.get("allow_overlap"),
                       "digest of the splits": s.get("splits_digest"),
                       f"{files.words.units} also in pretraining": s.get("n_overlap"), "bootstrap": bootstrap or None,
                       "permutation": tested or None, "probe": s.get("probe"), "threshold": s.get("threshold")},
        f"Probe on all {files.words.items} (probe/probe.json)": short,
        "Embeddings": s.get("embeddings") or {},
        "Objective": s.get("objective") or {},
        "Encoder and preprocessing contract": {k: v for k, v in files.run.items() if k != "objective"},
        "Simulation": s.get("simulation") or {},
        "Environment": s.get("environment") or {},
    }  # fmt: skip
    blocks: list[Block] = [Facts(_facts(content), title=title) for title, content in groups.items() if content]
    blocks.append(_inputs(files, sections))
    if files.config_text:
        blocks.append(Code("Resolved configuration (config.yaml)", shorten_paths(files.config_text)))
    else:
        blocks.append(note("config.yaml is absent from the evaluation folder."))
    return Section("provenance", "Provenance", blocks)


def _facts(content: Mapping) -> list[tuple[str, str]]:
    kept = {key: value for key, value in content.items() if key not in _SKIPPED}
    leaves = [(name, text) for name, text in flatten(kept) if name.split(".")[-1] not in _SKIPPED]
    return [(name, text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 1] + "…") for name, text in leaves]


def _inputs(files: EvaluationFiles, sections: Sequence[SectionBuilder]) -> Table:
    of_kind = [need for each in sections if each.fits(files) for need in each.inputs if files.words.kind in need.of]
    rows = []
    for need in dict.fromkeys(of_kind):
        there = need.is_there(files)
        rows.append((Cell(need.file, heading=True), Cell(need.gives), Cell("yes" if there else "no"),
                     Cell("" if there else need.how)))  # fmt: skip
    header = ("File", "Gives", "There", "How to make it")
    return Table("Inputs of this report that may be absent.", header, rows, text_columns=(0, 1, 2, 3))


PROVENANCE = SectionBuilder(
    "provenance",
    "Provenance",
    order=240,
    build=_build,
    inputs=(Input("config.yaml", "the resolved configuration", "config_text"),),
    sees_all=True,
)
