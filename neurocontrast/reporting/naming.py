"""How the parts of a run are called in running text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.words import IMAGES

__all__ = [
    "bare_text",
    "capitalise",
    "covariates_text",
    "encoder_text",
    "flatten",
    "join_words",
    "kernel_text",
    "objective_text",
    "probe_text",
    "shorten_paths",
    "split_name",
    "splits_text",
    "target_text",
    "threshold_text",
    "value_text",
]

_LOSSES = {
    "infonce": "InfoNCE",
    "ntxent": "NT-Xent (SimCLR)",
    "yaware": "y-Aware InfoNCE",
    "conditional": "conditional alignment + uniformity",
    "conditional_alignment": "conditional alignment",
    "conditional_uniformity": "conditional uniformity",
    "global_uniformity": "uniformity",
    "alignment_uniformity": "alignment + uniformity",
    "supcon": "SupCon",
    "sincere": "SINCERE",
    "epsilon_supinfonce": "ε-SupInfoNCE",
    "debiased": "debiased InfoNCE",
    "hard_negative": "InfoNCE with hard negatives",
    "fair_infonce": "fair InfoNCE",
    "triplet": "triplet loss",
    "weakly_supervised_cclk": "weakly supervised CCL-K",
    "fair_cclk": "fair CCL-K",
    "hard_negative_cclk": "CCL-K with hard negatives",
}
_ENCODERS = {
    "densenet121": "DenseNet121 (3D)",
    "densenet_small": "small DenseNet (3D)",
    "lenet": "LeNet (3D)",
    "resnet18": "ResNet-18 (3D)",
}
_IMAGE_ENCODERS = {
    "lenet5": "LeNet-5",
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
_ABSOLUTE_PATH = re.compile(r"(?<![\w.…])(?:/[^/\s'\"=,;:]+)+/(?=[^/\s'\"=,;:]|$|\s)")


def join_words(words: Sequence[str]) -> str:
    """Join words as prose does: "a, b and c"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def target_text(files: EvaluationFiles) -> str:
    """Say what was predicted: "diagnosis: patient against control"."""
    if files.kind == "binary":
        return f"Predicting {files.target}: “{files.positive}” against “{files.negative}”"
    if files.kind == "multiclass" and files.words is IMAGES:
        return f"Predicting {files.target}: {len(files.classes)} classes"
    if files.kind == "multiclass":
        return f"Predicting {files.target}: {join_words([f'“{name}”' for name in files.classes])}"
    return f"Predicting {files.target}"


def capitalise(text: str) -> str:
    """Return text with a capital first letter, the rest as it is."""
    return text[:1].upper() + text[1:]


def covariates_text(files: EvaluationFiles) -> str:
    """Name the covariates of the baseline."""
    return join_words(files.covariates) if files.covariates else "the covariates"


def kernel_text(kernel: Any) -> str:
    """Write a kernel as a product: "age (gaussian, sigma 5.0) × sex (categorical)"."""
    if not isinstance(kernel, (list, tuple)):
        return "" if kernel is None else value_text(kernel)
    factors = []
    for factor in kernel:
        if not isinstance(factor, Mapping):
            factors.append(value_text(factor))
            continue
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
    name = str(objective["loss"])
    parts = objective.get("objectives")
    if isinstance(parts, Mapping):
        weights = objective.get("weights") or {}
        named = [f"{value_text(weights.get(key, 1))} × ({objective_text(part)})" for key, part in parts.items()]
        return "sum of " + join_words(named)
    text = _LOSSES.get(name, name.replace("_", " "))
    if objective.get("kernel"):
        negatives = objective.get("negatives")
        against = f", negatives weighted by {kernel_text(negatives)}" if negatives else ""
        return f"{text}, kernel on {kernel_text(objective['kernel'])}{against}"
    column = objective.get("label") or objective.get("cluster")
    return f"{text}, groups of {column}" if column else f"{text}, no metadata"


def encoder_text(files: EvaluationFiles) -> str:
    """Name the encoder and its number of features."""
    run = files.summary.get("run") or {}
    encoder = run.get("encoder") if isinstance(run, Mapping) else None
    name = encoder.get("name") if isinstance(encoder, Mapping) else encoder
    names = _IMAGE_ENCODERS if files.words is IMAGES else _ENCODERS
    text = names.get(str(name), str(name)) if name else "encoder not recorded"
    stem = encoder.get("stem") if isinstance(encoder, Mapping) and files.words is IMAGES else None
    text += f", {_STEMS.get(str(stem), f'stem {stem}')}" if stem and "ResNet" in text else ""
    n_features = (files.summary.get("n") or {}).get("features")
    return f"{text}, {n_features} features" if n_features else text


def split_name(name: str) -> str:
    """Say how folds were made: "stratified by target × site"."""
    return _SPLITS.get(name, name)


def splits_text(files: EvaluationFiles) -> str:
    """Say how the folds were made: "5 folds, stratified by target × site"."""
    name = str(files.summary["splits"])
    n_folds = files.summary.get("n_folds") or files.folds.get("fold", files.predictions["fold"]).nunique()
    n_repeats = files.summary.get("n_repeats") or 1
    repeats = f" × {n_repeats} repeats" if n_repeats > 1 else ""
    how = f"made by {files.summary.get('splitter')}" if name == "custom" else split_name(name)
    return f"{n_folds} folds{repeats}, {how}"


def probe_text(files: EvaluationFiles) -> str:
    """Name the model that was put on the frozen features."""
    default = "ridge" if files.kind == "continuous" else "logistic"
    name = str((files.summary.get("probe") or {}).get("name") or default)
    if name == "logistic" and files.kind == "multiclass":
        return "multinomial logistic regression"
    return _PROBES.get(name, name)


def threshold_text(files: EvaluationFiles) -> str:
    """Say by which rule a scan was given to a class: "at the threshold 0.5"."""
    threshold = files.summary.get("threshold") or {}
    rule, values = threshold.get("rule"), [v for v in threshold.get("values") or [] if isinstance(v, int | float)]
    if rule is None:
        return "at the threshold 0.5" if files.kind == "binary" else "by the highest probability"
    if files.kind != "binary":
        against = " beside each class's share of the training fold" if rule == "prevalence" else ""
        return f"by the highest probability{against}"
    if rule == "half" or isinstance(rule, int | float):
        return f"at the threshold {0.5 if rule == 'half' else rule:g}"
    spread = f" ({min(values):.2f} to {max(values):.2f} over folds)" if values else ""
    return f"at the threshold of each fold{spread}, set {_rule_text(rule)}"


def _rule_text(rule: object) -> str:
    aim, _, share = str(rule).partition("=")
    words = {
        "prevalence": "to the share of positives in the training fold",
        "youden": "on inner folds of the training fold to the largest sum of sensitivity and specificity",
    }
    return words.get(str(rule)) or (
        f"on inner folds of the training fold to reach a {aim} of {share}" if share else aim
    )


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
