"""How the parts of an evaluation are called in running text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import DASH
from neurocontrast.reporting.words import IMAGES

PARTS = {"train": "training", "validation": "validation", "test": "test"}
"""What the parts of a fixed split are called."""
DATASETS = {
    "digits": "the handwritten digits of scikit-learn",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
}
_ENCODERS = {
    "densenet121": "DenseNet121",
    "densenet_small": "small DenseNet",
    "lenet": "LeNet",
    "lenet5": "LeNet-5",
    "pca": "principal components of voxels",
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "resnet_small": "small ResNet",
}
_STEMS = {"cifar": "3 × 3 stem without max-pooling", "imagenet": "7 × 7 stem with max-pooling"}
_SPLITS = {
    "stratified": "stratified by target × site",
    "leave-site-out": "one site left out at a time",
    "file": "read from a split file",
    "fixed": "one split into training, validation and test, given beforehand",
}
_PROBES = {
    "logistic": "logistic regression",
    "ridge": "ridge regression",
    "svm": "linear support vector machine",
    "knn": "k-nearest-neighbour classifier",
    "sgd": "linear softmax classifier",
}
_RULES = {
    "prevalence": "to the share of positives in the training fold",
    "youden": "on inner folds of the training fold to the largest sum of sensitivity and specificity",
}
_ABSOLUTE_PATH = re.compile(r"(?<![\w.…])(?:/[^/\s'\"=,;:]+)+/(?=[^/\s'\"=,;:]|$|\s)")


def join_words(words: Sequence[str]) -> str:
    """Join words as prose does: "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def capitalise(text: str) -> str:
    """Return text with a capital first letter, the rest as it is."""
    return text[:1].upper() + text[1:]


def target_text(files: EvaluationFiles) -> str:
    """Say what was predicted: "diagnosis: patient against control"."""
    if files.kind == "binary":
        return f"Predicting {files.target}: “{files.positive}” against “{files.negative}”"
    if files.kind == "continuous":
        return f"Predicting {files.target}"
    if files.words is IMAGES:
        return f"Predicting {files.target}: {len(files.classes)} classes"
    return f"Predicting {files.target}: {join_words([f'“{name}”' for name in files.classes])}"


def head_facts(files: EvaluationFiles) -> list[tuple[str, str]]:
    """Return what a reader wants to know first: encoder, objective, folds and data."""
    n = files.summary.n
    counts = {"scans": n.scans, "subjects": n.subjects, "sites": n.sites}
    sizes = [f"{count:,} {key}" for key, count in counts.items() if count is not None]
    labels = ("Embedding", "Cross-validation", "Data")
    if files.words is IMAGES:
        labels = ("Encoder", "Evaluation", "Images")
        classes = f"{len(files.classes)} classes" if files.classes else ""
        sizes = [part for part in (dataset_name(files), classes, image_size(files)) if part]
    return [
        (labels[0], encoder_text(files)),
        ("Pretraining", objective_text(files.summary.objective)),
        (labels[1], splits_text(files)),
        (labels[2], ", ".join(sizes) or "not recorded"),
    ]


def dataset_name(files: EvaluationFiles) -> str:
    """Name the data set of images as its field does; empty where it is not recorded."""
    key = str(files.origin.get("dataset") or (files.origin.get("settings") or {}).get("dataset") or "")
    return str(files.origin.get("name") or "") if key == "folder" else DATASETS.get(key, key)


def image_size(files: EvaluationFiles) -> str:
    """Write the size of an image: "3 × 32 × 32"; empty where it is not recorded."""
    return " × ".join(str(size) for size in (files.run.get("preprocessing") or {}).get("shape") or ())


def covariates_text(files: EvaluationFiles) -> str:
    """Name the covariates of the baseline."""
    return join_words(files.summary.baseline_covariates) or "the covariates"


def kernel_text(kernel: Any) -> str:
    """Write a kernel as a product: "age (gaussian, sigma 5.0) × sex (categorical)"."""
    factors = []
    for factor in kernel or []:
        about = [str(factor.get("type", "kernel"))]
        about += [
            f"{key} {value_text(value)}"
            for key, value in factor.items()
            if key not in ("type", "column") and value is not None and (key, value) != ("missing", "error")
        ]
        factors.append(f"{factor.get('column', '?')} ({', '.join(about)})")
    return " × ".join(factors)


def objective_text(objective: Any) -> str:
    """Name the loss and the metadata it uses."""
    if not isinstance(objective, Mapping) or not objective.get("loss"):
        return "not recorded"
    parts = objective.get("objectives")
    if isinstance(parts, Mapping):
        weights = objective.get("weights") or {}
        named = [f"{value_text(weights.get(key, 1))} × ({objective_text(part)})" for key, part in parts.items()]
        return "sum of " + join_words(named)
    text = str(objective.get("title") or objective["loss"])
    if objective["loss"] == "none":
        return text
    if objective.get("kernel"):
        negatives = objective.get("negatives")
        against = f", negatives weighted by {kernel_text(negatives)}" if negatives else ""
        return f"{text}, kernel on {kernel_text(objective['kernel'])}{against}"
    column = objective.get("label") or objective.get("cluster")
    return f"{text}, groups of {column}" if column else f"{text}, no metadata"


def loss_citations(objective: Mapping[str, Any]) -> list[str]:
    """Return the references of an objective and its parts, each once."""
    parts = [objective, *(objective.get("objectives") or {}).values()]
    return list(dict.fromkeys(str(part["citation"]) for part in parts if part.get("citation")))


def encoder_text(files: EvaluationFiles) -> str:
    """Name the encoder and its number of features."""
    encoder = files.run.get("encoder")
    about = encoder if isinstance(encoder, Mapping) else {"name": encoder}
    name = str(about.get("name") or "")
    text = _ENCODERS.get(name, name) or "encoder not recorded"
    if files.words is not IMAGES and name in _ENCODERS and name != "pca":
        text += " (3D)"
    if about.get("stem") and "ResNet" in text:
        text += f", {_STEMS.get(str(about['stem']), about['stem'])}"
    return f"{text}, {files.summary.n.features} features" if files.summary.n.features else text


def split_name(name: str) -> str:
    """Say how folds were made: "stratified by target × site"."""
    return _SPLITS.get(name, name)


def splits_text(files: EvaluationFiles) -> str:
    """Say how the folds were made: "5 folds, stratified by target × site"; of a fixed split, the sizes of its parts."""
    if files.fixed:
        return "fixed split: " + (
            join_words([f"{count:,} {PARTS[name]}" for name, count in files.parts.items()]) or "?"
        )
    s, name = files.summary, files.summary.splits
    repeats = f" × {s.n_repeats} repeats" if s.n_repeats > 1 else ""
    how = f"made by {s.splitter}" if name == "custom" else split_name(name)
    how = "stratified by the target" if files.words is IMAGES and name == "stratified" else how
    return f"{s.n_folds} folds{repeats}, {how}"


def probe_text(files: EvaluationFiles) -> str:
    """Name the model that was put on the frozen features."""
    default = "ridge" if files.kind == "continuous" else "logistic"
    name = files.summary.probe.name or default
    if name == "logistic" and files.kind == "multiclass":
        return "multinomial logistic regression"
    return _PROBES.get(name, name)


def probe_details(files: EvaluationFiles, by: str = "") -> str:
    """Name the probe, `by` what it is fitted, on which images, and how its strength was chosen."""
    probe, split = files.summary.probe, files.summary.split
    name = probe_text(files) + by
    if probe.sgd:
        settings = [f"{key.replace('_', ' ')} {value}" for key, value in probe.sgd.items() if value is not None]
        name += f", by stochastic gradient descent ({', '.join(settings)})"
    strength = ""
    if probe.strength is not None and probe.strength_name:
        strength = f"{probe.strength_name.replace('_', ' ')} = {value_text(probe.strength)}"
    if split is None:
        inside = ", inside" if by else " fitted inside"
        return f"{name}{inside} each training fold, {strength or 'its penalty'} chosen there"
    if strength:
        on = "the validation images" if split.chosen_on == "validation" else split.chosen_on
        strength = f", {strength}" + (f" chosen on {on}" if on else "")
    fitted = join_words([PARTS.get(part, part) for part in split.refit_on])
    on = f", fitted on the {split.n_fitted:,} images of {fitted}" if split.n_fitted else ""
    return f"{name}{strength}{on}"


def threshold_text(files: EvaluationFiles) -> str:
    """Say by which rule a scan was given to a class: "at the threshold 0.5"."""
    rule = files.summary.threshold.rule
    values = [value for value in files.summary.threshold.values if value is not None]
    if files.kind != "binary":
        against = " beside each class's share of the training fold" if rule == "prevalence" else ""
        return f"by the highest probability{against}"
    if rule in (None, "half") or isinstance(rule, int | float):
        return f"at the threshold {rule if isinstance(rule, int | float) else 0.5:g}"
    spread = f" ({min(values):.2f} to {max(values):.2f} over folds)" if values else ""
    aim, _, share = str(rule).partition("=")
    reach = f"on inner folds of the training fold to reach a {aim} of {share}" if share else aim
    return f"at the threshold of each fold{spread}, set {_RULES.get(str(rule), reach)}"


def interval_phrase(files: EvaluationFiles, text: str) -> str:
    """Return "95% interval 0.70 to 0.85" for an interval that is written already; "no interval" for a dash."""
    return "no interval" if text == DASH else f"{files.level * 100:g}% interval {text}"


def value_text(value: Any) -> str:
    """Write a value of a configuration as one line of text."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        shown = ", ".join(value_text(item) for item in value[:8])
        return shown + (f", … ({len(value)} in all)" if len(value) > 8 else "")
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value_text(item)}" for key, item in value.items())
    return str(value)


def flatten(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of a nested mapping under dotted names."""
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            yield from flatten(value, f"{name}.")
        elif key == "command" and isinstance(value, list):
            yield name, " ".join(str(part) for part in value)
        else:
            yield name, value_text(value)


def shorten_paths(text: str) -> str:
    """Leave only the last part of absolute paths: reports travel, and folders can name people."""
    return _ABSOLUTE_PATH.sub("…/", text)


def bare_text(text: object) -> str:
    """Return text without the control characters that no page can show."""
    return "".join(letter for letter in str(text) if letter.isprintable() or letter in "\n\t ")
