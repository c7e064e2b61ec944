"""The commands that work without a neural network: join, evaluate, predict, report, compare."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pandas as pd

import neurocontrast
from neurocontrast.cli.command import (
    CommonOptions,
    ConfigOptions,
    Evaluated,
    EvaluationOptions,
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
    from neurocontrast.documents.findings import ExternalTest, NewSite
    from neurocontrast.documents.predicted import IncomingRecord, ProbePredictionsRecord
    from neurocontrast.documents.result import Result as EvaluationContent

_OPEN = "Next: open the page in a browser. Read its warnings first."
_PROBES = "auto|logistic|ridge|MODULE:OBJECT"


def join(
    common: CommonOptions,
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
    """Join embeddings of the same scans to one table, or runs to one that averages predictions.

    The joined run has the encoders of all runs: `evaluate` then fits a probe to the features of
    each, and averages the predictions.
    """
    listed_names = None if names is None else names.split(",")
    path = neurocontrast.join(
        embeddings, out=out, names=listed_names, overwrite=overwrite, progress=common.progress
    )
    if path.is_dir():
        return _joined_runs(path)
    return _joined_tables(path)


def _joined_tables(path: Path) -> Result:
    """Return a `Result` to print after tables were joined: number of features from each of them.

    The next command to suggest evaluates the joined table of embeddings, `path`, with the features
    of all tables together.
    """
    from neurocontrast.documents.embeddings import read_embeddings

    read = read_embeddings(path)
    blocks = {name: block.n_features for name, block in read.info.run.blocks.items()}
    listed = ", ".join(f"{name} {n:,}" for name, n in blocks.items())
    title = f"{len(read.table):,} scans, {read.features.shape[1]:,} features each: {listed}"
    following = evaluation_of(path, read.table.columns)
    return Result({"n_scans": len(read.table), "blocks": blocks}, title, next=following, path=path)


def _joined_runs(run: Path) -> Result:
    """Return a `Result` to print after runs were joined: a table with a row for each encoder.

    `run` is the folder of the joined run. The words of the command that embeds scans by it are the
    next command to suggest.
    """
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
    """Return the command that evaluates `embeddings`, as a tuple of words, to suggest as the next.

    The target is the first of diagnosis, age, sex and label among `columns`; if none is, the word
    ``COLUMN``, which the user replaces.
    """
    target = next(
        (name for name in ("diagnosis", "age", "sex", "label") if name in columns), "COLUMN"
    )
    return "evaluate", embeddings, "--target", target, "--out", "evaluation"


def evaluate(
    common: EvaluationOptions,
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
    """Predict a column from frozen embeddings by cross-validation, and compare with age, sex and
    site alone.
    """
    others = {
        "test": test,
        "scans": scans,
        "probe": probe,
        "n_jobs": n_jobs,
        "n_permutations": n_permutations,
    }
    sizes = None
    if train_sizes is not None:
        sizes = _sizes_of(train_sizes)
    config = common.resolve_evaluation(**others, train_sizes=sizes, n_draws=n_draws)
    result = neurocontrast.evaluate(
        embeddings,
        settings=config.evaluation,
        out=out,
        overwrite=common.overwrite,
        progress=common.progress,
    )
    shown = {"show_ids": config.report.show_ids, "progress": common.progress}
    return evaluation_result(result.folder, page=result.report(**shown) if report else None)


def _sizes_of(words: str) -> list[int | str]:
    """Return the sizes of a learning curve in a text such as "100,200"; other words stay text.

    The settings refuse words that are no numbers.
    """
    sizes: list[int | str] = []
    for word in map(str.strip, words.split(",")):
        if word.isdecimal():
            sizes.append(int(word))
        elif word:
            sizes.append(word)
    return sizes


def predict(
    common: ConfigOptions,
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
            "With weights, or --run: a table or folder of measures (FreeSurfer's), or a scan, "
            "folder or table of scans. With EVAL alone: embeddings by the same run.",
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
    """Predict people's age, sex … by all probes of weights at once, or by an evaluation's probe.

    Weights are a trained encoder with its probes, each for one column; `weights list` names them.
    `predict measures FREESURFER --out people.tsv` predicts by the weights called measures. The
    table says who is unlike the training people, and why. A bad scan stops no other; the exit code
    is then 1.
    """
    from neurocontrast.commands.predicting import Predictions

    options = {name: value for name, value in common.arguments.items() if name != "jsonl"}
    is_configured = run is not None or common.config is not None or common.overrides
    options |= {
        "config": common.resolve() if is_configured else None,
        "on_scan": print_line if jsonl else None,
    }
    written = neurocontrast.predict(**options, progress=common.progress)
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
    """Return a line for each scan that could not be predicted, and how to repeat the command.

    The list is empty if all scans could be.
    """
    lines = []
    for scan in scans.failed:
        lines.append(f"failed: {scan.participant_id}: {scan.error}")
    if lines:
        lines.append(_REPEAT)
    return lines


def _people_result(written: PeoplePredictions, exit_code: int) -> Result:
    """Return a `Result` to print after weights, an encoder with its probes, predicted people.

    It has the lines of `written.summary()`, and a line for each scan or person that could not be
    embedded. Its values for programs are counts of people, reasons to call people outlying, and
    shifts of predictions at calibrated sites.
    """
    content = written.record.content()
    title, *notes = written.summary().splitlines()
    failed = _failures(written.record.scans)
    following = "Next: open the table, and read why_outside before the predictions."
    facts = {key: content[key] for key in ("n", "reasons", "calibration")}
    notes += failed or [following]
    return Result(facts, title, notes=notes, path=written.location, exit_code=exit_code)


def _probe_result(path: Path, record: ProbePredictionsRecord, exit_code: int) -> Result:
    """Return a `Result` to print after scans were predicted by an evaluation's probe.

    It has the numbers of predicted and outlying scans, a sentence on each site whose predictions
    were shifted by calibration, and a line for each scan that could not be embedded. `path` is the
    table of predictions, and `record` the content of the JSON file beside the table.
    """
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
    common: ConfigOptions,
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
        show_ids=common.resolve(report={"show_ids": show_ids}).report.show_ids,
        figures=figures,
        viewer=viewer,
        progress=common.progress,
    )
    return Result(notes=[_OPEN], path=page)


def compare(
    common: ConfigOptions,
    evaluations: Annotated[
        list[Path], argument("EVAL1 EVAL2 ...", "Evaluation folders; the first is the reference.")
    ],
    out: Annotated[Path, option("Comparison directory to write.")],
    names: Annotated[
        str | None, option("Names of the models, separated by commas (default: the folders).")
    ] = None,
    overwrite: Overwrite = False,
) -> Result:
    """Compare evaluations of the same scans in the same folds: differences, intervals and tests.

    Differences are from the first evaluation. The test over folds allows for training folds that
    share scans (Nadeau and Bengio); evaluations with whole sites held out have intervals and no
    test.
    """
    settings = common.resolve().evaluation
    result = neurocontrast.compare(
        evaluations,
        out=out,
        names=None if names is None else [name.strip() for name in names.split(",")],
        n_bootstraps=settings.n_bootstraps,
        confidence_level=settings.confidence_level,
        seed=settings.seed,
        overwrite=overwrite,
        progress=common.progress,
    )
    return comparison_result(result)


def evaluation_result(folder: Path, *, page: Path | None = None) -> Result:
    """Return a `Result` to print after an evaluation: each model's value of the leading metric.

    The leading metric is the first in ``evaluation.json``. The number of warnings is stated. `page`
    is the path of the HTML report, if one was written.
    """
    from neurocontrast.commands.evaluate import EvaluationResult
    from neurocontrast.documents.findings import ExternalTest

    result = EvaluationResult(folder)
    read = result.record
    metric = next(iter(result.record.metrics), "")
    level = read.bootstrap.level or 0.95
    title = f"{metric} [{level_text(level)} interval]"
    models: Json = {}
    rows = []
    for name, metrics in result.models.items():
        if metric not in metrics:
            continue
        figure = metrics[metric]
        models[name] = {"value": figure.value, "interval": figure.interval}
        rows.append({"": name, title: _figure(figure.value, figure.interval)})
    n = len(read.warnings)
    warnings = [f"{n} warning{'' if n == 1 else 's'}: read them in the report."] if n else []
    facts = {"target": read.target, "metric": metric, "models": models, "n_warnings": n}
    external = read.part(ExternalTest)
    if external is not None:
        facts["external"] = external_figures(external, metric)
        rows += external_rows(external, metric, title=title)
    notes = [*new_site_lines(read), *warnings, *([_OPEN] if page else [])]
    following = () if page else ("report", folder)
    heading = f"{read.target}, {read.splits}"
    return Result(facts, heading, pd.DataFrame(rows), notes, next=following, path=page or folder)


def external_figures(external: ExternalTest, metric: str) -> dict[str, object]:
    """Return a mapping of results on the external test set, for programs: metric of each model.

    ``n_scans`` is the number of tested scans, ``metric`` the name of the metric, and each further
    key the name of a model with its value and interval. The external test set are other people, on
    whom models are tested once (``--test``).
    """
    figures: dict[str, object] = {"n_scans": external.n.scans, "metric": metric}
    models = {"embedding": external.metrics, "covariates only": external.baseline}
    for name, metrics in models.items():
        if metric in metrics:
            figures[name] = metrics[metric].model_dump()
    return figures


def external_rows(external: ExternalTest, metric: str, *, title: str) -> list[dict[str, str]]:
    """Return the rows of the terminal's table for the external test set, as dicts, one a model.

    `title` is the name of the column of `metric`. If the metric is undefined, its cell says so and
    gives the reason.
    """
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
    """Return a `Result` to print after a comparison: each evaluation's differences from the first.

    Its table has a row for each metric and compared evaluation, with the difference of the metric,
    its interval, and the p-value corrected for several evaluations (Holm).
    """
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
    """Yield sentences on metrics at sites without training scans, and on outlying scans.

    Training is the fit of the evaluated models, such as the probe. For the first sentences, models
    were fitted again without any scan of a site. Outlying scans have features far from those of the
    training scans. There are no sentences on an analysis that the evaluation lacks.
    """
    from neurocontrast.documents.findings import ExternalTest, NewSite, Outlyingness

    new_site = evaluation.part(NewSite)
    extra = evaluation.model_extra or {}
    if new_site is not None:
        yield from _lines_of_models(new_site)
    elif extra.get("new_site_note") and evaluation.splits != "fixed":
        yield f"Not measured at sites left out: {extra['new_site_note']}."
    tested = evaluation.part(ExternalTest)
    external = None if tested is None else tested.outlyingness
    scans = {"Scans": evaluation.part(Outlyingness), "External scans": external}
    for name, outside in scans.items():
        if outside is not None:
            yield f"{name} outside the training distribution: {outside.n_outside} of {outside.n}."


def _lines_of_models(new_site: NewSite) -> Iterator[str]:
    """Yield a sentence for each model: its metric at sites trained on, and at sites left out.

    `new_site` is the section of ``evaluation.json`` with metrics of both.
    """
    metric = new_site.metric or ""
    sites = f"{new_site.n_sites} sites left out"
    for model in new_site.models:
        if model == "baseline":
            continue
        name = metric
        if model != "embedding":
            name = f"{metric} {model}"
        figure = new_site.home[model][metric]
        home = _figure(figure.value, figure.interval)
        figure = new_site.unseen[model][metric]
        unseen = _figure(figure.value, figure.interval)
        yield f"New site: {name} {home} at known sites, {unseen} at unseen ones ({sites})."


def _figure(value: float | None, interval: Sequence[float | None] | None) -> str:
    """Return a metric with its interval as text, ``0.71 [0.62, 0.8]``; NaN is "not defined"."""
    if value is None or value != value:
        return "not defined"
    low, high = interval or (None, None)
    if low is None or high is None or low != low:
        return f"{value:.3g}"
    return f"{value:.3g} [{low:.3g}, {high:.3g}]"
