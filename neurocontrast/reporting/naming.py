"""Names for a report's sentences: of an evaluation's encoder, pretraining, folds and probe."""

from collections.abc import Mapping, Sequence

from neurocontrast.documents.document import Json
from neurocontrast.documents.encoder import (
    EncoderDescription,
    MemberKind,
    ObjectiveRecord,
    RunDescription,
)
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.result_tables import ResultTables
from neurocontrast.reporting.wording import Words, join_words, value_text

PARTS = {"train": "training", "validation": "validation", "test": "test"}
_ENCODERS = {
    "densenet121": "DenseNet121",
    "densenet_small": "small DenseNet",
    "lenet": "LeNet",
    "lenet5": "LeNet-5",
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "resnet_small": "small ResNet",
}
_LINEAR = {"pca": "principal components of ", "lda": "linear discriminants of subjects over "}
_DESIGNS = {
    "leave-site-out": "one site left out at a time",
    "file": "read from a split file",
    "fixed": "one split into training, validation and test, given beforehand",
}
_PROBES = {
    "logistic": "logistic regression",
    "ridge": "ridge regression",
    "knn": "k-nearest-neighbour classifier",
    "sgd": "linear softmax classifier by stochastic gradient descent",
}
_COLUMNS = {"tiv": "head size (TIV)"}
_MOST_NAMED = 6
"""Most classes that a title lists by name; of more, a title gives the number."""


def quoted(name: object) -> str:
    """Return a name in curly double quotes."""
    return f"“{name}”"


def name_target(files: EvaluationFolder) -> str:
    """Return a report's title: "Predicting" and the target, with its classes if they are few."""
    title = f"Predicting {files.target}"
    if files.kind == "binary":
        return f"{title}: {quoted(files.positive)} against {quoted(files.negative)}"
    if len(files.classes) > _MOST_NAMED:
        return f"{title}: {len(files.classes)} classes"
    if files.classes:
        return f"{title}: {join_words(list(map(quoted, files.classes)))}"
    return title


def name_column(column: str) -> str:
    """Return the name of a cohort table's column for a sentence: "head size (TIV)" for ``tiv``."""
    return _COLUMNS.get(column, column)


def name_covariates(columns: Sequence[str]) -> str:
    """Return the covariates that the baseline reads, in words: "age and head size (TIV)"."""
    return join_words(list(map(name_column, columns))) or "the covariates"


def name_kernel(factors: Sequence[Json]) -> str:
    """Return a kernel on metadata as text: the product of its `factors`.

    A factor is written as a column with its settings.
    """
    return " × ".join(map(_name_factor, factors))


def _name_factor(factor: Json) -> str:
    settings = [str(factor.get("type") or "kernel")]
    for key, value in factor.items():
        is_usual = key in ("type", "column") or (key, value) == ("missing", "error")
        if not is_usual and value is not None and value is not False:
            settings.append(f"{key} {value_text(value)}")
    return f"{factor.get('column') or '?'} ({', '.join(settings)})"


def name_objective(objective: ObjectiveRecord) -> str:
    """Return the name of a pretraining loss with the metadata that the loss uses.

    Several losses are named as a weighted sum. "not recorded" for a record without a loss.
    """
    if not objective.loss:
        return "not recorded"
    if objective.objectives is not None:
        terms = []
        for key, loss in objective.objectives.items():
            weight = value_text(objective.weights.get(key, 1))
            terms.append(f"{weight} × ({name_objective(loss)})")
        return f"sum of {join_words(terms)}"
    return f"{objective.title or objective.loss}{_name_metadata(objective)}"


def _name_metadata(objective: ObjectiveRecord) -> str:
    if objective.loss == "none":
        return ""
    if objective.kernel:
        kernels = f", kernel on {name_kernel(objective.kernel)}"
        if objective.negatives:
            kernels += f", negatives weighted by {name_kernel(objective.negatives)}"
        return kernels
    if objective.column:
        return f" of {objective.column}"
    groups = objective.label or objective.cluster
    if groups:
        return f", groups of {groups}"
    return ", no metadata"


def name_runs(kind: MemberKind) -> str:
    """Return the names of the runs that `kind` describes, in quotes: "“a”, “b” and “c”".

    The encoders of these runs have the same settings, which `kind` holds, and differ only in seed
    and training people.
    """
    return join_words(list(map(quoted, kind.runs)))


def name_pretraining(run: RunDescription, objective: ObjectiveRecord) -> str:
    """Name the pretraining loss of a run; of several joined encoders, each loss if losses differ.

    Encoders are joined when their features are evaluated together.
    """
    losses = []
    named = []
    for name, block in run.blocks.items():
        losses.append(name_objective(block.objective))
        named.append(f"{quoted(name)}: {losses[-1]}")
    for kind in run.kinds:
        epochs = ""
        epochs_are_shared = run.epochs and objective.content()
        if kind.epochs and kind.objective.loss != "none" and not epochs_are_shared:
            epochs = f", for {kind.epochs} epochs"
        losses.append(name_objective(kind.objective) + epochs)
        named.append(f"{name_runs(kind)}: {losses[-1]}")
    if len(set(losses)) > 1:
        return join_words(named)
    if losses:
        return losses[0]
    return name_objective(objective)


def name_architecture(words: Words, encoder: EncoderDescription) -> str:
    """Name an encoder's network, or its linear model of voxels or regional measures."""
    name = encoder.architecture
    samples = "voxels"
    if encoder.preprocessing.kind == "measures":
        samples = "regional measures"
    architecture = name or "encoder not recorded"
    if name in _LINEAR:
        architecture = _LINEAR[name] + samples
    elif name in _ENCODERS:
        architecture = _ENCODERS[name] + words.network
    if encoder.encoder is not None and encoder.encoder.stem and "resnet" in name:
        architecture += f", stem {encoder.encoder.stem}"
    return architecture


def name_encoder(files: EvaluationFolder) -> str:
    """Name the evaluated encoder and its number of features; of joined encoders, name each.

    The result is a text. Encoders are joined when they are evaluated together; each is named with a
    number of features of its own. Members, encoders that differ only in their seeds and in the
    people they were trained on, are named once, with the number of members.
    """
    run = files.run
    if run.blocks:
        blocks = []
        for name, block in run.blocks.items():
            network = name_architecture(files.words, block.run)
            blocks.append(f"{quoted(name)} ({network}, {block.n_features} features)")
        return join_words(blocks)
    if len(run.kinds) > 1:
        n_members = sum(kind.n_members or 0 for kind in run.kinds)
        of_head = files.summary.embeddings.layer == "head"
        kinds = []
        for kind in run.kinds:
            kinds.append(_name_kind(files.words, kind, of_head=of_head))
        return f"{n_members} members of {len(kinds)} kinds: {join_words(kinds)}"
    network = name_architecture(files.words, run)
    if run.members:
        n_features = run.members[0].n_features
        return f"{len(run.members)} members, each a {network} with {n_features} features"
    if files.summary.n.features:
        return f"{network}, {files.summary.n.features} features"
    return network


def _name_kind(words: Words, kind: MemberKind, *, of_head: bool) -> str:
    components = ""
    if kind.beside is not None and not of_head:
        components = f" ({kind.beside.n_components} of them components beside the network)"
    network = name_architecture(words, kind)
    members = f"{kind.n_members} × {network} with {kind.n_features} features"
    return f"{members}{components} ({name_runs(kind)})"


def name_splits(files: EvaluationFolder) -> str:
    """Return words on how scans were split into folds, or on the sizes of a fixed split."""
    s = files.summary
    if files.fixed:
        parts = []
        for name, count in files.parts.items():
            parts.append(f"{count:,} {PARTS[name]}")
        return f"fixed split: {join_words(parts) or '?'}"
    folds = name_folds(s.n_folds, s.n_repeats)
    return f"{folds}, {name_design(s.splits, s.splitter, s.n.sites)}"


def name_folds(n_folds: int | None, n_repeats: int | None) -> str:
    """Return the number of folds and repeats as text: "5 folds × 10 repeats"."""
    folds = f"{n_folds or '?'} folds"
    if (n_repeats or 1) > 1:
        folds += f" × {n_repeats} repeats"
    return folds


def name_design(splits: str, splitter: str | None, n_sites: int | None) -> str:
    """Return the rule by which scans were assigned to folds: "stratified by target × site"."""
    if splits == "custom":
        return f"made by {splitter}"
    if splits != "stratified":
        return _DESIGNS.get(splits, splits)
    if n_sites:
        return "stratified by target × site"
    return "stratified by the target"


def name_probe(files: EvaluationFolder) -> str:
    """Name the estimator that predicts the target from the embedding."""
    usual = "logistic"
    if files.kind == "continuous":
        usual = "ridge"
    name = files.summary.probe.name or usual
    if name == "logistic" and files.kind == "multiclass":
        return "multinomial logistic regression"
    return _PROBES.get(name, name)


def name_estimator(files: EvaluationFolder, model: str) -> str:
    """Name the estimator of the evaluated model with key `model`; empty if none is recorded."""
    estimator = files.summary.estimators.get(model)
    if estimator is None:
        return ""
    name = estimator.name or ""
    return _PROBES.get(name, estimator.title or name)


def say_overlap(who: str, compared: Sequence[str] | None) -> str:
    """Return a sentence: no tested person was in the pretraining cohort, and how this was checked.

    `who` begins the sentence, such as "No evaluated subject". With ``contents`` in `compared`,
    people were compared by the content of scans besides identifiers.
    """
    if "contents" in (compared or ()):
        return (
            f"{who} had been in the pretraining cohort, by identifiers and by the content of what "
            "the encoder read."
        )
    return (
        f"{who} had an identifier of the pretraining cohort; whether people had been in it under "
        "other identifiers was not checked."
    )


def name_threshold(files: ResultTables) -> str:
    """Return the rule that turned scores into predicted classes: "at the threshold 0.5"."""
    rule = files.summary.threshold.rule
    values = [value for value in files.summary.threshold.values if value is not None]
    if files.kind != "binary":
        share = " beside each class's share of the training fold" * (rule == "prevalence")
        return f"by the highest probability{share}"
    if isinstance(rule, float):
        return f"at the threshold {rule:g}"
    if rule in (None, "half"):
        return "at the threshold 0.5"
    ends = ""
    if values:
        ends = f" ({min(values):.2f} to {max(values):.2f} over folds)"
    how = f"set by the rule {rule}"
    if rule == "prevalence":
        how = "set to the share of positives in the training fold"
    return f"at the threshold of each fold{ends}, {how}"


def list_settings(settings: Mapping[str, object], leave: Sequence[str] = ()) -> str:
    """Return settings as one text, without any that is 0 or none: "patch 24 mm" for ``patch_mm``.

    `settings` is name → value, such as those of a kernel; names in `leave` are left out. Semicolons
    separate the settings.
    """
    listed = []
    for key, value in settings.items():
        if value in (None, 0, "none", False) or key in leave:
            continue
        unit = " mm" if key.endswith("_mm") else ""
        name = key.replace("_mm", "").replace("_", " ")
        listed.append(f"{name} {value_text(value)}{unit}")
    return "; ".join(listed)
