"""The commands that need no network: `join`, `evaluate`, `predict`, `report`, `compare`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pandas as pd

import neurocontrast
from neurocontrast.cli.command import (
    Configured,
    Evaluated,
    Evaluating,
    Given,
    ImagesRoot,
    Overwrite,
    Result,
    argument,
    option,
    print_line,
)
from neurocontrast.documents.document import Json
from neurocontrast.reporting.wording import count_text, level_text

if TYPE_CHECKING:
    from neurocontrast.commands.predicting import PeoplePredictions
    from neurocontrast.commands.report import ComparisonResult
    from neurocontrast.documents.findings import ExternalTest
    from neurocontrast.documents.predicted import IncomingRecord, ProbePredictionsRecord
    from neurocontrast.documents.result import Result as EvaluationContent

_OPEN = "Next: open the page in a browser. Read its warnings first."
_PROBES = "auto|logistic|ridge|MODULE:OBJECT"


def join(
    given: Given,
    embeddings: Annotated[
        list[Path],
        argument("A.parquet B.parquet ...", "Embeddings of the same scans; or runs, RUN RUN ..."),
    ],
    out: Annotated[
        Path, option("Embeddings table to write; of runs a run directory.", metavar="AB.parquet")
    ],
    names: Annotated[
        str | None,
        option("Names of the blocks or runs, separated by commas (default: the files or folders)."),
    ] = None,
    overwrite: Overwrite = False,
) -> Result:
    """Join embeddings of the same scans to one table, or runs to one that averages predictions."""
    listed_names = None if names is None else names.split(",")
    path = neurocontrast.join(
        embeddings, out=out, names=listed_names, overwrite=overwrite, progress=given.progress
    )
    if path.is_dir():
        return _joined_runs(path)
    return _joined_tables(path)


def _joined_tables(path: Path) -> Result:
    """Return the blocks of a joined table, and the command for its evaluation."""
    from neurocontrast.documents.embeddings import read_embeddings

    read = read_embeddings(path)
    blocks = {name: block.n_features for name, block in read.info.run.blocks.items()}
    listed = ", ".join(f"{name} {n:,}" for name, n in blocks.items())
    title = f"{len(read.table):,} scans, {read.features.shape[1]:,} features each: {listed}"
    following = evaluation_of(path, read.table.columns)
    return Result({"n_scans": len(read.table), "blocks": blocks}, title, next=following, path=path)


def _joined_runs(run: Path) -> Result:
    """Return the members of a joined run, and the command for embedding scans."""
    from neurocontrast.encoders.members import read_record

    record = read_record(run)
    members = []
    for number, member in enumerate(record.joined or ()):
        shown = {"member": number, **member.model_dump(), "seed": record.seeds[number]}
        members.append(shown)
    table = pd.DataFrame(members)
    n_kinds = table["kind"].nunique()
    title = f"{count_text(len(table), 'member')} of {count_text(n_kinds, 'kind')}"
    following = ("embed", run, "--participants", "PARTICIPANTS.tsv", "--out", "embeddings.parquet")
    return Result({"members": members}, title, table, next=following, path=run)


def evaluation_of(embeddings: Path, columns: Collection[str]) -> tuple[object, ...]:
    """Return the words of the command that evaluates embeddings, with a target that their table has."""
    target = next(
        (name for name in ("diagnosis", "age", "sex", "label") if name in columns), "COLUMN"
    )
    return "evaluate", embeddings, "--target", target, "--out", "evaluation"


def evaluate(
    given: Evaluating,
    embeddings: Annotated[Path, argument("EMB.parquet", "Embeddings table of `embed`.")],
    out: Annotated[Path, option("Evaluation directory to write.")],
    test: Annotated[
        Path | None, option("Other people, to test on once, at the end.", metavar="EMB2.parquet")
    ] = None,
    scans: Annotated[
        Path | None,
        option("Table of the scans, for the baseline from their voxels.", metavar="TABLE"),
    ] = None,
    probe: Annotated[str | None, option("Estimator that is fitted.", metavar=_PROBES)] = None,
    train_sizes: Annotated[
        str | None, option("Sizes of a learning curve.", metavar="100,200,...")
    ] = None,
    n_draws: Annotated[
        int | None, option("Number of draws of the training subjects, per size and fold.")
    ] = None,
    n_permutations: Annotated[
        int | None, option("Permutations of the labels within sites, for a test.")
    ] = None,
    n_jobs: Annotated[
        int | None, option("Processes that fit probes; they change no result.")
    ] = None,
    report: Annotated[
        bool, option("Make the report too, as `neurocontrast report` does.", "--report")
    ] = False,
) -> Result:
    """Predict a column from frozen embeddings by cross-validation, and compare with age, sex and site alone."""
    parts = [part.strip() for part in (train_sizes or "").split(",") if part.strip()]
    # Parts that are not numbers are left to the settings, which refuse them.
    sizes = (
        None if train_sizes is None else [int(part) if part.isdecimal() else part for part in parts]
    )
    others = {
        "test": test,
        "scans": scans,
        "probe": probe,
        "n_jobs": n_jobs,
        "n_permutations": n_permutations,
    }
    config = given.resolve_evaluation(**others, train_sizes=sizes, n_draws=n_draws)
    result = neurocontrast.evaluate(
        embeddings,
        settings=config.evaluation,
        out=out,
        overwrite=given.overwrite,
        progress=given.progress,
    )
    shown = {"show_ids": config.report.show_ids, "progress": given.progress}
    return evaluation_result(result.folder, page=result.report(**shown) if report else None)


def predict(
    given: Configured,
    probe: Annotated[
        Path,
        argument(
            "WEIGHTS|EVAL",
            "Weights by name (`weights list`) or folder, NAME/PROBE for one probe of them; or an "
            "evaluation directory, or its folder `probe`.",
        ),
    ],
    embeddings: Annotated[
        Path,
        argument(
            "MEASURES|SCANS|EMB.parquet",
            "With weights, or --run: a table or folder of measures (FreeSurfer's), or a scan, folder "
            "or table of scans. With EVAL alone: embeddings by the same run.",
        ),
    ],
    out: Annotated[Path, option("Table to write, ending in .tsv.")],
    run: Annotated[
        Path | None,
        option("Run directory with the encoder that embeds the scans, for EVAL.", metavar="RUN"),
    ] = None,
    images_root: ImagesRoot = None,
    jsonl: Annotated[
        bool, option("Print one JSON object per scan, in place of the result.")
    ] = False,
    calibrate: Annotated[
        Path | None,
        option("Table with the target (age, sex) of some people of each new site."),
    ] = None,
    features: Annotated[
        bool, option("Write the features of each person too, with weights.", "--features")
    ] = False,
    overwrite: Overwrite = False,
) -> Result:
    """Predict people by weights, all of their probes at once; or with the probe of an evaluation.

    With weights, such as `predict measures FREESURFER --out people.tsv`, the table says who lies
    outside of the people learned from, and why. A bad scan stops no other; the exit code is then 1.
    """
    from neurocontrast.commands.predicting import Predictions

    options = {name: value for name, value in given.options.items() if name != "jsonl"}
    is_configured = run is not None or given.config is not None or given.overrides
    options |= {
        "config": given.resolve() if is_configured else None,
        "on_scan": print_line if jsonl else None,
    }
    written = neurocontrast.predict(**options, progress=given.progress)
    exit_code = 0
    if written.record.n_failed:
        exit_code = 1
    if jsonl:
        return Result(exit_code=exit_code)
    if isinstance(written, Predictions):
        return _probe_result(written.location, written.record, exit_code)
    return _people_result(written, exit_code)


_REPEAT = "Next: mend them and repeat the command with --overwrite."


def _failures(scans: IncomingRecord) -> list[str]:
    """Return a line for each scan that failed, and the next step."""
    lines = []
    for scan in scans.failed:
        lines.append(f"failed: {scan.participant_id}: {scan.error}")
    if lines:
        lines.append(_REPEAT)
    return lines


def _people_result(written: PeoplePredictions, exit_code: int) -> Result:
    """Return the summary of people that weights predicted."""
    content = written.record.content()
    title, *notes = written.summary().splitlines()
    failed = _failures(written.record.scans)
    following = "Next: open the table, and read why_outside before the predictions."
    facts = {key: content[key] for key in ("n", "reasons", "calibration")}
    notes += failed or [following]
    return Result(facts, title, notes=notes, path=written.location, exit_code=exit_code)


def _probe_result(path: Path, record: ProbePredictionsRecord, exit_code: int) -> Result:
    """Return how many scans the probe of an evaluation predicted, with its calibration."""
    from neurocontrast.commands.predicting import describe_calibration

    outside = record.outlyingness
    facts: Json = {"n_scans": record.n.scans, "n_trained_on": record.n.of_trained_subjects}
    title = f"{record.target} predicted for {record.n.scans - record.n_failed:,} scans"
    if outside is not None:
        facts["n_outside"] = outside.n_outside
        title += f", {outside.n_outside:,} of them outside the training distribution"
    following = (
        "Next: open the table, and read its columns trained_on and outside before the predictions."
    )
    notes = describe_calibration(record)
    if record.scans is None:
        return Result(facts, title, notes=[*notes, following], path=path)
    notes += _failures(record.scans) or [following]
    facts["n_failed"] = record.n_failed
    return Result(facts, title, notes=notes, path=path, exit_code=exit_code)


def report(
    given: Configured,
    evaluation: Evaluated,
    out: Annotated[
        Path | None, option("HTML file to write (default: report.html in the directory).")
    ] = None,
    figures: Annotated[bool, option("Write the figures as files too: SVG, PNG and TSV.")] = True,
    show_ids: Annotated[
        bool | None, option("Show participant identifiers.", "--show-ids/--hide-ids")
    ] = None,
    viewer: Annotated[
        bool, option("Write map.html too, to look into the embedding; do not share it.", "--map")
    ] = False,
) -> Result:
    """Make one self-contained HTML report of an evaluation."""
    page = neurocontrast.report(
        evaluation,
        out=out,
        show_ids=given.resolve(report={"show_ids": show_ids}).report.show_ids,
        figures=figures,
        viewer=viewer,
        progress=given.progress,
    )
    return Result(notes=[_OPEN], path=page)


def compare(
    given: Configured,
    evaluations: Annotated[
        list[Path], argument("EVAL1 EVAL2 ...", "Evaluation folders; the first is the reference.")
    ],
    out: Annotated[Path, option("Comparison directory to write.")],
    names: Annotated[
        str | None, option("Names of the models, separated by commas (default: the folders).")
    ] = None,
    overwrite: Overwrite = False,
) -> Result:
    """Compare evaluations of the same scans in the same folds, with tests for overlapping folds."""
    settings = given.resolve().evaluation
    result = neurocontrast.compare(
        evaluations,
        out=out,
        names=None if names is None else [name.strip() for name in names.split(",")],
        n_bootstraps=settings.n_bootstraps,
        confidence_level=settings.confidence_level,
        seed=settings.seed,
        overwrite=overwrite,
        progress=given.progress,
    )
    return comparison_result(result)


def evaluation_result(folder: Path, *, page: Path | None = None) -> Result:
    """Return the first metric of an evaluation for each model, the number of warnings, and its report, if made."""
    from neurocontrast.commands.evaluate import EvaluationResult
    from neurocontrast.documents.findings import ExternalTest

    result = EvaluationResult(folder)
    read = result.record
    metric = next(iter(result.record.metrics), "")
    figures = {
        name: metrics[metric] for name, metrics in result.models.items() if metric in metrics
    }
    found = {
        name: {"value": each.value, "interval": each.interval} for name, each in figures.items()
    }
    level = read.bootstrap.level or 0.95
    title = f"{metric} [{level_text(level)} interval]"
    rows = []
    for name, figure in figures.items():
        rows.append({"": name, title: _figure(figure.value, figure.interval)})
    n = len(read.warnings)
    warnings = [f"{n} warning{'' if n == 1 else 's'}: read them in the report."] if n else []
    facts = {"target": read.target, "metric": metric, "models": found, "n_warnings": n}
    external = read.part(ExternalTest)
    if external is not None:
        facts["external"] = external_figures(external, metric)
        rows += external_rows(external, metric, title=title)
    notes = [*new_site_lines(read), *warnings, *([_OPEN] if page else [])]
    following = () if page else ("report", folder)
    heading = f"{read.target}, {read.splits}"
    return Result(facts, heading, pd.DataFrame(rows), notes, next=following, path=page or folder)


def external_figures(external: ExternalTest, metric: str) -> dict[str, object]:
    """Return a metric of the external test set for each model, with the number of scans tested."""
    figures: dict[str, object] = {"n_scans": external.n.scans, "metric": metric}
    models = {"embedding": external.metrics, "covariates only": external.baseline}
    for name, metrics in models.items():
        if metric in metrics:
            figures[name] = metrics[metric].model_dump()
    return figures


def external_rows(external: ExternalTest, metric: str, *, title: str) -> list[dict[str, str]]:
    """Return the rows of the terminal's table that are of the external test set; an undefined figure has its reason."""
    models = {"embedding": external.metrics, "covariates only": external.baseline}
    rows = []
    for name, metrics in models.items():
        if metric not in metrics:
            continue
        figure = _figure(metrics[metric].value, metrics[metric].interval)
        reason = metrics[metric].reason
        shown = f"{figure} ({reason})" if reason and metrics[metric].value is None else figure
        rows.append({"": f"{name}, external test of {external.n.scans} scans", title: shown})
    return rows


def comparison_result(result: ComparisonResult) -> Result:
    """Return every model's difference from the first one, with its interval and p-value."""
    differences = result.table
    record = result.record
    records = differences.astype(object).where(differences.notna(), None).to_dict("records")
    shown = [_figure(row["difference"], [row["low"], row["high"]]) for row in records]
    title = f"difference [{level_text(record.confidence_level)} interval]"
    table = differences[["metric", "model"]].assign(**{title: shown})
    table["p (Holm)"] = differences["p_adjusted"]
    facts = {"target": record.target, "reference": record.reference, "differences": records}
    title = f"{record.target}: differences from {record.reference}"
    return Result(facts, title, table, [_OPEN], path=result / "comparison.html")


def new_site_lines(evaluation: EvaluationContent) -> Iterator[str]:
    """Yield lines about unseen sites and scans outside, where the evaluation measured them."""
    from neurocontrast.documents.findings import ExternalTest, NewSite, Outlyingness

    block = evaluation.part(NewSite)
    extra = evaluation.model_extra or {}
    if block is not None:
        metric = block.metric or ""
        sites = f"{block.n_sites} sites left out"
        for model in block.models:
            both = (figures[model][metric] for figures in (block.home, block.unseen))
            home, unseen = (_figure(each.value, [each.low, each.high]) for each in both)
            name = metric if model == "embedding" else f"{metric} {model}"
            if model != "baseline":
                yield f"New site: {name} {home} at known sites, {unseen} at unseen ones ({sites})."
    elif extra.get("new_site_note") and evaluation.splits != "fixed":
        yield f"Not measured at sites left out: {extra['new_site_note']}."
    tested = evaluation.part(ExternalTest)
    external = None if tested is None else tested.outlyingness
    for name, found in (("Scans", evaluation.part(Outlyingness)), ("External scans", external)):
        if found is not None:
            yield f"{name} outside the training distribution: {found.n_outside} of {found.n}."


def _figure(value: float | None, interval: Sequence[float | None] | None) -> str:
    if value is None or value != value:
        return "not defined"
    low, high = interval or (None, None)
    return (
        f"{value:.3g}"
        if low is None or high is None or low != low
        else f"{value:.3g} [{low:.3g}, {high:.3g}]"
    )
