"""The methods text of an evaluation of images, generated from its record, to be pasted into a paper."""

from __future__ import annotations

from collections.abc import Mapping

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.images.origin import (
    PARTS,
    augment_text,
    dataset_name,
    image_size,
    parts_of,
    read_origin,
    statements,
)
from neurocontrast.reporting.images.sentences import probe_details
from neurocontrast.reporting.methods import cite_encoder, cite_loss, features_place, write_software
from neurocontrast.reporting.methods_statistics import describe_intervals, running_label
from neurocontrast.reporting.metrics import describe_metric
from neurocontrast.reporting.naming import capitalise, encoder_text, join_words, objective_text, value_text
from neurocontrast.reporting.references import Citations

__all__ = ["write_methods"]

_CITED = {"cifar10": "cifar", "cifar100": "cifar", "mnist": "lenet", "fashion-mnist": "fashion-mnist",
          "digits": "digits"}  # fmt: skip

_NORMS = {"layers": ", with batch normalisation after each hidden layer", "batch": ", with batch normalisation"}


def write_methods(files: EvaluationFiles, cite: Citations) -> list[tuple[str, str]]:
    """Return the paragraphs of a methods section, each with its heading, saying only what the files record."""
    paragraphs = [
        ("Images.", _images(files, cite)),
        ("Representation.", _representation(files, cite)),
        ("Views.", _views(files, cite)),
        ("Linear evaluation.", _evaluation(files, cite)),
        ("Performance and uncertainty.", _statistics(files, cite)),
        ("Sensitive variable.", _sensitive(files, cite)),
        ("Software.", write_software(files, cite)),
    ]
    return [(heading, text) for heading, text in paragraphs if text]


def _images(files: EvaluationFiles, cite: Citations) -> str:
    origin = read_origin(files)
    name, settings = dataset_name(origin), origin.get("settings")
    settings = settings if isinstance(settings, Mapping) else {}
    key = str(origin.get("dataset") or settings.get("dataset") or "")
    cited = f" {cite(_CITED[key])}" if key in _CITED else ""
    text = f"The images are those of {name}{cited}" if name else "The data set is not recorded"
    n = (files.summary.get("n") or {}).get("scans")
    parts = parts_of(files)
    if parts:
        text += "; " + join_words([f"{count:,} {PARTS[part]}" for part, count in parts.items()]) + " images were used"
    elif n is not None:
        text += f"; {n:,} of them were evaluated"
    text += f", of {len(files.classes)} classes. " if files.classes else ". "
    text += "".join(f"{sentence} " for sentence in statements(origin))
    if settings.get("background"):
        text += f"The colour of the background is the sensitive variable, as in {cite('cclk')}. "
    contract = files.run.get("preprocessing") or {}
    if image_size(files):
        text += f"Images have {image_size(files)} values (channels × height × width)"
        channels = contract.get("standardise") == "channels" and contract.get("mean") and contract.get("std")
        text += ", standardised by the mean and standard deviation of each channel over the images of pretraining" if (
            channels) else ""  # fmt: skip
        text += ". "
    excluded = (files.summary.get("n") or {}).get("excluded") or {}
    if any(excluded.values()):
        gone = join_words([f"{reason.replace('_', ' ')}: {count:,}" for reason, count in excluded.items() if count])
        text += f"Left out: {gone}."
    return text.strip()


def _representation(files: EvaluationFiles, cite: Citations) -> str:
    objective, run = files.summary.get("objective"), files.run
    if not isinstance(objective, Mapping) or not objective.get("loss"):
        return "How the encoder was pretrained is not recorded in the embeddings."
    text = f"An encoder ({encoder_text(files)}{cite_encoder(files, cite)}) was pretrained by contrastive learning with "
    text += objective_text(objective) + cite_loss(objective, cite)
    if objective.get("temperature") is not None:
        text += f", at temperature {value_text(objective['temperature'])}"
    text += f", for {run['epochs']} epochs" if run.get("epochs") else ""
    text += f" on {run['n_training_scans']:,} images" if isinstance(run.get("n_training_scans"), int) else ""
    encoder = run.get("encoder")
    head = encoder.get("projection") if isinstance(encoder, Mapping) else None
    if head:
        norm = _NORMS.get(str(encoder.get("projection_norm")), "") if isinstance(encoder, Mapping) else ""
        sizes = "–".join(str(size) for size in head) if isinstance(head, list | tuple) else str(head)
        text += f". The projection head has {sizes} units{norm}"
    if isinstance(run.get("training"), Mapping):
        text += ". Training: " + ", ".join(
            f"{str(key).replace('_', ' ')} {value_text(value)}"
            for key, value in run["training"].items()
            if value is not None
        )
    text += f". Features are taken {features_place(files)} the projection head and were frozen."
    if run.get("batchnorm"):
        text += " Batch normalisation statistics were re-estimated on un-augmented training images."
    return text


def _views(files: EvaluationFiles, cite: Citations) -> str:
    if not files.summary.get("objective"):
        return ""
    told = augment_text(files.run.get("augment"))
    text = f"Two random views of each image were compared {cite('ntxent')}"
    return f"{text}: {told}." if told else f"{text}; their operations are in config.yaml of the pretraining run."


def _evaluation(files: EvaluationFiles, cite: Citations) -> str:
    probe = files.summary.get("probe") or {}
    name = probe.get("name")
    by = ", fitted to its optimum by Newton's method" if name == "logistic" and not probe.get("own") else ""
    by = f" with a cosine schedule {cite('cosine')}" if name == "sgd" else by
    text = f"{capitalise(files.target)} was predicted from the standardised features by {probe_details(files, by)}. "
    if files.fixed:
        text += "All figures are of the test images, which had no part in any choice."
    else:
        repeats = f", repeated {files.summary['n_repeats']} times" if (files.summary.get("n_repeats") or 1) > 1 else ""
        text += f"Cross-validation used {files.summary.get('n_folds', '?')} folds stratified by the target{repeats}"
        text += f"; the strength of the penalty was chosen inside each training fold {cite('nested')}."
    seen = ((files.summary.get("split") or {}).get("n_pretrained") or {}).get("test")
    if seen == 0:
        text += " No test image was seen in pretraining."
    elif seen:
        text += f" {seen:,} test images had also been in pretraining."
    elif any("overlap_unknown" in str(warning) for warning in files.summary.get("warnings") or []):
        text += " Whether a tested image had been in pretraining could not be checked."
    copies = ((files.summary.get("split") or {}).get("n_duplicates") or {}).get("test")
    if copies:
        text += f" {copies:,} test images have a copy among the others, as the data set comes."
    return text


def _statistics(files: EvaluationFiles, cite: Citations) -> str:
    labels = [running_label(describe_metric(key, files.words).label) for key in files.metrics]
    text = f"We report {join_words(labels)}. " if labels else ""
    bootstrap = files.summary.get("bootstrap") or {}
    if bootstrap.get("n"):
        of = "the predictions of the test images" if files.fixed else "the pooled out-of-fold predictions"
        text += (
            f"{describe_intervals(files.level, bootstrap.get('method'), cite)} {bootstrap['n']:,} bootstrap draws of "
            f"images from {of}, with encoder and probe held fixed. "
        )
    if files.by_class is not None:
        text += f"Intervals of the recall and precision of single classes are Wilson's {cite('wilson')}. "
    if files.kind != "continuous":
        text += (
            "The expected calibration error is the mean distance between confidence and accuracy in 15 bins of equal "
            f"width {cite('reliability')}. "
        )
    curve = files.summary.get("learning_curve") or {}
    if curve.get("sizes"):
        text += f"Learning curves are of probes fitted on random subsets of {value_text(curve['sizes'])} images."
    return text.strip()


def _sensitive(files: EvaluationFiles, cite: Citations) -> str:
    block = files.summary.get("sensitive")
    if not isinstance(block, Mapping) or not block.get("columns"):
        return ""
    probe = {"ridge": "ridge regression", "linear": "linear regression"}.get(
        str(block.get("probe")), "ridge regression"
    )
    where = "on the same training images, tested on the same test images" if files.fixed else "in the same folds"
    return (
        f"To see what else the features hold, {join_words([str(name) for name in block['columns']])} "
        f"{'were' if len(block['columns']) > 1 else 'was'} predicted from them by {probe} {where} {cite('cclk')}. We "
        "report the mean squared error beside that of the mean of the training images: the closer the two, the fairer."
    )
