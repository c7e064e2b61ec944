"""The commands that train or run a neural network; and `bundle`, `doctor` and `weights …`."""

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import pandas as pd

import neurocontrast
from neurocontrast.cli.command import (
    CommonOptions,
    ConfigOptions,
    Evaluated,
    EvaluationOptions,
    ImagesRoot,
    Overwrite,
    Participants,
    Result,
    argument,
    option,
)
from neurocontrast.cli.evaluation_commands import evaluation_of, evaluation_result
from neurocontrast.documents.bundle import BundleMetadata
from neurocontrast.documents.explanation import EXPLANATION_FILE, ExplanationRecord, TopRegion
from neurocontrast.reading import read_json

_RUN = (
    "Run directory of `pretrain`, folder of `weights import`, or weights by name (`weights list`); "
    "a run here of that name is refused, so that neither hides the other."
)

_ARCHITECTURE = (
    "Network of the weights: yaware (the y-Aware authors'), nidl-densenet121, monai-densenet121, "
    "medicalnet-resnet10, -resnet18, -resnet34, -resnet50."
)

_RunTable = Annotated[
    Path | None,
    option("Table with one row per scan.", "--participants", metavar="PARTICIPANTS.tsv"),
]

_Skip = Annotated[
    bool | None,
    option(
        "Leave out scans, or people with measures, that cannot be used, and list them in "
        "skipped.tsv, or OUT.skipped.tsv.",
        "--skip",
    ),
]

_SkipUnlisted = Annotated[
    bool | None,
    option("Leave out scans, or people with measures, that cannot be used.", "--skip"),
]


def pretrain(
    common: ConfigOptions,
    out: Annotated[Path, option("Run directory to write.")],
    participants: _RunTable = None,
    init: Annotated[
        Path | None,
        option(f"Weights to start from: {_RUN[0].lower()}{_RUN[1:]}", metavar="WEIGHTS"),
    ] = None,
    resume: Annotated[bool, option("Continue a run that was stopped.", "--resume")] = False,
    skip: _Skip = None,
) -> Result:
    """Pretrain an encoder with a contrastive objective that uses age, sex, site or any other
    column.
    """
    from neurocontrast.runs.folder import read_metrics

    # A run that is resumed has its own configuration, unless `--config` names one.
    if resume and common.config is None and (out / "config.yaml").is_file():
        common = replace(common, config=out / "config.yaml")
    nothing = common.config is None and not common.overrides and not any((participants, init, skip))
    data = {"participants": participants, "skip_unreadable": skip}
    settings = (
        None
        if resume and nothing
        else common.resolve(check_objective=True, data=data, training={"init": init})
    )
    written = neurocontrast.pretrain(settings, out=out, resume=resume, progress=common.progress)
    run = written.location
    if "member" in written.metrics:
        return _result_of_members(run, written.metrics)
    rows = read_metrics(run)
    last = {name: value for name, value in (rows[-1] if rows else {}).items() if value is not None}
    shown = {
        name.replace("_", " "): [value]
        for name, value in last.items()
        if name.startswith(("epoch", "train_loss", "val_loss", "probe_"))
        or name.endswith("_effective_rank")
    }
    table = pd.DataFrame(shown) if last else None
    return Result(
        {"last_epoch": last},
        "The last epoch" if last else "",
        table,
        next=_following(run),
        path=run,
    )


def _following(run: Path) -> tuple[str | Path, ...]:
    """Return the words of the next command to suggest, which embeds scans by `run`.

    `run` is a new run directory, or new weights.
    """
    return ("embed", run, "--participants", "PARTICIPANTS.tsv", "--out", "embeddings.parquet")


def _result_of_members(run: Path, metrics: pd.DataFrame) -> Result:
    """Return a `Result` to print after several encoders (members) were pretrained.

    Its table has the losses of each encoder in the last epoch. `metrics` has one row for each
    encoder of the run and epoch.
    """
    last = metrics.groupby("member").tail(1).dropna(axis=1)
    columns = last.columns[
        last.columns.str.startswith(("member", "epoch", "train_loss", "val_loss"))
    ]
    shown = last[columns].rename(columns=lambda name: name.replace("_", " "))
    records = last.to_dict("records")
    title = "The last epoch of each member"
    return Result({"members": records}, title, shown, next=_following(run), path=run)


def embed(
    common: ConfigOptions,
    run: Annotated[Path, argument("RUN", _RUN)],
    participants: Participants,
    out: Annotated[Path, option("Embeddings table to write.", metavar="EMB.parquet")],
    images_root: ImagesRoot = None,
    overwrite: Overwrite = False,
    skip: _Skip = None,
) -> Result:
    """Embed scans with a frozen encoder, preprocessed as the scans that the encoder learned from.

    The same command continues one that was killed.
    """
    import pyarrow.parquet

    path = neurocontrast.embed(
        run,
        participants=participants,
        out=out,
        config=common.resolve(data={"images_root": images_root, "skip_unreadable": skip}),
        overwrite=overwrite,
        progress=common.progress,
    ).location
    file = pyarrow.parquet.read_metadata(path)
    columns = file.schema.names
    n_features = sum(name.startswith("feature_") for name in columns)
    facts = {"n_scans": file.num_rows, "n_features": n_features}
    title = f"{file.num_rows:,} embedded, {n_features:,} features each"
    return Result(facts, title, next=evaluation_of(path, columns), path=path)


def finetune(
    common: EvaluationOptions,
    run: Annotated[Path, argument("RUN", _RUN)],
    participants: Participants,
    out: Annotated[Path, option("Evaluation directory to write.")],
    from_scratch: Annotated[
        bool, option("Start with random weights, not those of the run.", "--from-scratch")
    ] = False,
    images_root: ImagesRoot = None,
    skip: _Skip = None,
) -> Result:
    """Train a run's encoder end to end on a column in every training fold, and write an evaluation.

    If the run has several encoders (members), each is trained, and their predictions are averaged.
    The same command continues one that was stopped.
    """
    options = dict(common.arguments)
    overrides = list(common.overrides or ())
    if options.pop("skip"):
        overrides.append("data.skip_unreadable=true")
    folder = neurocontrast.finetune(
        **options,
        config=replace(common, overrides=overrides).resolve_evaluation(),
        overwrite=common.overwrite,
        progress=common.progress,
    )
    return evaluation_result(folder.folder)


def explain(
    common: ConfigOptions,
    evaluation: Evaluated,
    run: Annotated[
        Path | None,
        option(
            "Run whose embeddings were evaluated, or weights by name (default: found near EVAL).",
            metavar="RUN",
        ),
    ] = None,
    participants: _RunTable = None,
    out: Annotated[
        Path | None, option("Folder to write (default: EVAL/explanation, where `report` looks).")
    ] = None,
    n_subjects: Annotated[int | None, option("Largest number of subjects to average over.")] = None,
    patch_mm: Annotated[float | None, option("Side of the occluded cubes in mm.")] = None,
    positive: Annotated[
        str | None, option("The class to explain, where there are several.")
    ] = None,
    atlas: Annotated[
        Path | None,
        option(
            "Folder with lh.aparc.annot and rh.aparc.annot of fsaverage5, "
            "to draw regions on the cortex."
        ),
    ] = None,
    images_root: ImagesRoot = None,
    skip: _SkipUnlisted = None,
    overwrite: Overwrite = False,
) -> Result:
    """Map where in the brain a change of the scan changes the prediction, or rank measures.

    The map, or the ranking of regional measures by their share in the prediction's differences
    between subjects, is for `report`. If the run has several encoders (members), the mean of the
    members' scores is explained.
    """
    of_section = {"n_subjects": n_subjects, "patch_mm": patch_mm, "positive": positive}
    options = dict(common.arguments)
    for name in ("skip", *of_section):
        del options[name]
    settings = common.resolve(explanation=of_section, data={"skip_unreadable": skip})
    folder = neurocontrast.explain(**options, config=settings, progress=common.progress)
    file = folder / EXPLANATION_FILE
    record = ExplanationRecord.of(read_json(file), file)
    regions = list(map(TopRegion.content, record.top_regions))
    facts = {
        "target": record.target,
        "n_subjects": record.n_subjects,
        "quantity": record.quantity,
        "top_regions": regions,
    }
    if record.n_members is not None:
        facts["n_members"] = record.n_members
    table = pd.DataFrame(regions)[:5] if regions else None
    title = f"{record.target}: {record.quantity}, {record.n_subjects} subjects"
    return Result(facts, title, table, next=("report", evaluation), path=folder / record.map)


def bundle(
    common: CommonOptions,
    run: Annotated[Path, argument("RUN", _RUN)],
    out: Annotated[Path, option("Folder to make.")],
    evaluation: Annotated[
        Path | None, argument("EVAL", "Evaluation whose probe is included.")
    ] = None,
    licence: Annotated[Path | None, option("Text file with the licence of the weights.")] = None,
    overwrite: Overwrite = False,
) -> Result:
    """Write an encoder, and the probe of an evaluation, as a MONAI bundle."""
    folder = neurocontrast.bundle(**common.arguments)
    file = folder / "configs" / "metadata.json"
    metadata = BundleMetadata.of(read_json(file), file)
    run_it = "python -m monai.bundle run --config_file configs/inference.yaml --dataset_dir PLACE"
    notes = [f"Next, in {folder}: {run_it}"]
    if find_spec("fire") is None:
        notes.insert(0, "That command of MONAI needs fire: pip install 'neurocontrast[serving]'.")
    n_features = metadata.network_data_format.outputs.pred.num_channels
    facts = {"task": metadata.task, "n_features": n_features}
    return Result(facts, metadata.task, notes=notes, path=folder)


def doctor(
    common: ConfigOptions, participants: _RunTable = None, skip: _SkipUnlisted = None
) -> Result:
    """Show versions and devices; check settings and table as `pretrain` would (writes nothing)."""
    data = {"participants": participants, "skip_unreadable": skip}
    settings = common.resolve(check_objective=True, data=data)
    diagnosis = neurocontrast.doctor(settings)
    exit_code = 0
    if diagnosis.problems:
        exit_code = 2
    return Result(diagnosis.content(), notes=[diagnosis.to_text()], exit_code=exit_code)


def import_weights(
    common: ConfigOptions,
    file: Annotated[
        Path, argument("FILE", "State dict or checkpoint: .safetensors, or by torch.save.")
    ],
    architecture: Annotated[str, option(_ARCHITECTURE, metavar="NAME")],
    out: Annotated[Path, option("Folder to write, which embed and pretrain --init take as a run.")],
) -> Result:
    """Import weights of another program; tensors that do not fit are listed, and no code is run."""
    from neurocontrast.encoders.weights import read_contract

    folder = neurocontrast.import_weights(
        file, architecture=architecture, out=out, config=common.resolve(), progress=common.progress
    )
    contract = read_contract(folder)
    content = contract.content()
    facts = {key: content[key] for key in ("imported", "n_features", "n_channels", "preprocessing")}
    facts["has_head"] = contract.head is not None
    title = f"{contract.n_features:,} features"
    if contract.imported is not None:
        title = f"{contract.imported.title}: {title}"
    return Result(facts, title, next=_following(folder), path=folder)


def export_weights(
    common: CommonOptions,
    run: Annotated[Path, argument("RUN", _RUN)],
    out: Annotated[
        Path,
        option(
            "File to write: .pt or .safetensors; a folder for a run of members.", metavar="FILE"
        ),
    ],
    overwrite: Overwrite = False,
) -> Result:
    """Write an encoder's weights as a plain state dict with the names of MONAI's networks.

    A run of several encoders (members) becomes a folder, which other commands take as a run.
    """
    return Result(
        path=neurocontrast.export_weights(
            run, out=out, overwrite=overwrite, progress=common.progress
        )
    )


def find_weights(
    common: CommonOptions,
    name: Annotated[
        str, argument("NAME", "Weights by name, such as measures; `weights list` lists them.")
    ],
) -> Result:
    """Print the folder of shipped or installed weights, which other commands take as RUN."""
    from neurocontrast.weights import load

    weights = load(name)
    return Result(
        {"probes": dict(zip(weights.probes, map(str, weights.probes.values()), strict=True))},
        path=weights.path,
    )


def list_weights(common: CommonOptions) -> Result:
    """List the weights that ship or are installed, and the targets that their probes predict."""
    from neurocontrast.commands.verify_weights import damage_of_weights
    from neurocontrast.weights import CARD, load, names, not_installed, problems

    damaged = problems()
    listed = {}
    notes = []
    for name in names():
        weights = load(name)
        damage = damage_of_weights(weights.path)
        if damage:
            damaged[name] = f"{weights.origin}: {damage}"
            continue
        probes = sorted(weights.probes)
        listed[name] = {"path": str(weights.path), "probes": probes, "origin": weights.origin}
        predicts = ""
        if probes:
            predicts = f"predicts {' and '.join(probes)}; "
        notes.append(f"{name}  {predicts}{weights.origin}; card: {weights.path}/{CARD}")
    notes += [f"{name}  cannot be used: {problem}" for name, problem in damaged.items()]
    absent = not_installed()
    notes += [f"{name}  is not installed: {remedy}" for name, remedy in absent.items()]
    return Result({"weights": listed, "damaged": damaged, "not_installed": absent}, notes=notes)


def verify_weights(
    common: CommonOptions,
    weights: Annotated[str, argument("NAME|RUN", "Weights by name, or a run.")],
    scan: Annotated[
        list[Path] | None,
        option(
            "A scan of yours to compare with those learned from; once a channel.",
            "--scan",
            metavar="FILE",
        ),
    ] = None,
) -> Result:
    """Check that weights give their stated features here, and compare a scan with training scans.

    The features are stated for a test sample, which comes with the weights or is a phantom that is
    computed. Your scan (--scan) is compared by volume and brightness; for weights of regional
    measures give a table of measures.
    """
    verified = neurocontrast.verify_weights(weights, scan=scan or None)
    lines = []
    for passed, sentence in verified.checks:
        verdict = "PASS" if passed else "FAIL"
        lines.append(f"{verdict}  {sentence}")
    lines += [f"      {fact}" for fact in verified.facts]
    lines += [f"DOUBT {doubt}" for doubt in verified.doubts]
    facts = {"passed": verified.passed, "facts": verified.facts, "doubts": verified.doubts}
    return Result(facts, notes=lines, exit_code=0 if verified.passed else 1)
