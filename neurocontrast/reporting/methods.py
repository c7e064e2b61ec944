"""The methods text, generated from the record of the run, to be pasted into a paper."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.methods_new_site import write_new_site, write_outlyingness
from neurocontrast.reporting.methods_statistics import write_confounds, write_explanation, write_statistics
from neurocontrast.reporting.naming import (
    capitalise,
    covariates_text,
    encoder_text,
    join_words,
    objective_text,
    probe_text,
    threshold_text,
    value_text,
)
from neurocontrast.reporting.references import Citations

__all__ = ["cite_encoder", "cite_loss", "features_place", "write_methods", "write_software"]

_OF_LOSS = {
    "weakly_supervised_cclk": "cclk",
    "fair_cclk": "cclk",
    "hard_negative_cclk": "cclk",
    "conditional_alignment": "conditional",
    "conditional_uniformity": "conditional",
    "global_uniformity": "alignment_uniformity",
}


def write_methods(files: EvaluationFiles, cite: Citations) -> list[tuple[str, str]]:
    """Return the paragraphs of a methods section, each with its heading, saying only what the files record."""
    paragraphs = [
        ("Participants and images.", _images(files, cite)),
        ("Representation.", _pretraining(files, cite)),
        ("Prediction.", _prediction(files, cite)),
        ("Unseen sites.", write_new_site(files, cite)),
        ("Scans outside.", write_outlyingness(files, cite)),
        ("External test set.", _external(files, cite)),
        ("Performance and uncertainty.", write_statistics(files, cite)),
        ("Confounds.", write_confounds(files, cite)),
        ("Where in the brain.", write_explanation(files, cite)),
        ("Software.", write_software(files, cite)),
    ]
    return [(heading, text) for heading, text in paragraphs if text]


def _images(files: EvaluationFiles, cite: Citations) -> str:
    n = files.summary.get("n") or {}
    text = "The data are simulated. " if files.simulated else ""
    text += f"{n.get('scans', 'An unrecorded number of')} scans of {n.get('subjects', 'unrecorded')} subjects"
    text += f" at {n.get('sites', 'unrecorded')} sites were evaluated"
    excluded = {reason: count for reason, count in (n.get("excluded") or {}).items() if count}
    if excluded:
        named = join_words([f"{str(reason).replace('_', ' ')}: {count}" for reason, count in excluded.items()])
        text += f", after {sum(excluded.values())} scans had been excluded ({named})"
    preprocessing = files.run.get("preprocessing")
    text += "."
    return text + (" " + _preprocessing(preprocessing, cite) if isinstance(preprocessing, Mapping) else "")


def _preprocessing(contract: Mapping[str, Any], cite: Citations) -> str:
    if "image_shape" in contract:
        return _users_transforms(contract)
    parts = []
    if contract.get("orientation"):
        parts.append(f"reoriented to {contract['orientation']}")
    if contract.get("spacing_mm"):
        parts.append(f"resampled to {value_text(contract['spacing_mm'])} mm")
    if contract.get("shape"):
        parts.append("cropped or padded to " + " × ".join(str(size) for size in contract["shape"]) + " voxels")
    if contract.get("erode_mm"):
        parts.append(f"eroded by {value_text(contract['erode_mm'])} mm at the brain's edge")
    if contract.get("common_view") == "template":
        parts.append("masked by the brain of the MNI152 template")
    elif contract.get("common_view") == "cohort":
        part = f"{float(contract.get('common_fraction') or 0):.0%}"
        parts.append(f"masked to what is brain in {part} of the training scans of every pretraining site")
    if contract.get("normalise"):
        parts.append(_intensities(contract, cite))
    return f"Volumes were {join_words(parts)}." if parts else ""


def _users_transforms(contract: Mapping[str, Any]) -> str:
    """Name the transforms that took the place of the package's own preprocessing."""
    steps = contract.get("targets") or contract.get("transforms") or []
    classes = [str(step.get("_target_") or step.get("class")) for step in steps if isinstance(step, Mapping)]
    names = join_words([name.rpartition(".")[2] for name in classes])
    shape = " × ".join(str(size) for size in contract["image_shape"][1:])
    return f"Volumes of {shape} voxels were made by the study's own transforms: {names or 'not recorded'}."


def _intensities(contract: Mapping[str, Any], cite: Citations) -> str:
    how, percentiles = str(contract["normalise"]), contract.get("percentiles") or ("", "")
    between = f"the percentiles {value_text(percentiles[0])} and {value_text(percentiles[1])} of the brain"
    if how == "white-matter":
        return f"scaled so that white matter, the brightest peak deep in the brain, lies at 1 {cite('white-matter')}"
    if how == "histogram":
        landmarks = f"the mean landmarks of the training scans, the deciles between {between}"
        return f"brought to one histogram by lines between {landmarks} {cite('histogram')}"
    return {
        "zscore": "standardised over the whole volume",
        "zscore-brain": "standardised over the voxels of the brain",
        "percentile": f"scaled to run from 0 to 1 between {between}, and clipped",
        "none": "left at their intensities",
    }.get(how, f"normalised by {how}")


def _pretraining(files: EvaluationFiles, cite: Citations) -> str:
    objective = files.summary.get("objective")
    if not isinstance(objective, Mapping) or not objective.get("loss"):
        return "How the encoder was pretrained is not recorded in the embeddings."
    text = f"An encoder ({encoder_text(files)}{cite_encoder(files, cite)}) was pretrained by contrastive learning with "
    text += objective_text(objective) + cite_loss(objective, cite)
    if objective.get("temperature") is not None:
        text += f", at temperature {value_text(objective['temperature'])}"
    run = files.run
    text += f", for {run['epochs']} epochs" if run.get("epochs") else ""
    text += f" on {run['n_training_scans']} scans" if run.get("n_training_scans") else ""
    text += (
        ". Two random views of each scan were compared; features are taken "
        f"{features_place(files)} the projection head and were frozen."
    )
    if run.get("batchnorm"):
        text += " Batch normalisation statistics were re-estimated on un-augmented training scans."
    return text


def features_place(files: EvaluationFiles) -> str:
    """Say where features are taken: "before" or "after" the projection head."""
    return "after" if (files.summary.get("embeddings") or {}).get("layer") == "head" else "before"


def cite_encoder(files: EvaluationFiles, cite: Citations) -> str:
    """Return the mark of the encoder's reference, after a space; nothing where it has none."""
    encoder = files.run.get("encoder")
    name = str(encoder.get("name") if isinstance(encoder, Mapping) else encoder)
    found = next((key for key in ("densenet", "resnet", "lenet") if name.startswith(key)), None)
    return f" {cite(found)}" if found else ""


def cite_loss(objective: Mapping[str, Any], cite: Citations) -> str:
    """Return the marks of the references of an objective, after a space; nothing where none is known."""
    parts = objective.get("objectives")
    names = [part.get("loss") for part in parts.values()] if isinstance(parts, Mapping) else [objective["loss"]]
    keys = list(dict.fromkeys(_OF_LOSS.get(str(name), str(name)) for name in names))
    known = [key for key in keys if key in _LOSSES_CITED]
    return f" {cite(*known)}" if known else ""


_LOSSES_CITED = frozenset(
    {"infonce", "ntxent", "yaware", "conditional", "alignment_uniformity", "supcon", "sincere", "epsilon_supinfonce",
     "debiased", "hard_negative", "fair_infonce", "cclk", "triplet"}
)  # fmt: skip


def _prediction(files: EvaluationFiles, cite: Citations) -> str:
    s = files.summary
    probe = s.get("probe") or {}
    name = str(probe.get("name") or "")
    chosen = "its number of neighbours" if name == "knn" else "its penalty"
    penalised = "a " if name in ("svm", "knn") else "L2-penalised "
    by_sklearn = f" as scikit-learn fits it {cite('scikit-learn')}" if probe.get("estimator") else ""
    text = (
        f"{capitalise(files.target)} was predicted from the standardised features by {penalised}{probe_text(files)}"
        f"{by_sklearn}, {chosen} chosen by group-aware cross-validation inside each training fold {cite('nested')}. "
    )
    if probe.get("own"):
        text = (
            f"{capitalise(files.target)} was predicted from the features by an estimator with scikit-learn's interface "
            f"{cite('scikit-learn')}, {probe['estimator']}, fitted anew inside each training fold. "
        )
    text += _folds(files) + "; all sessions of a subject were kept in the same fold."
    if s.get("allow_overlap") and s.get("n_overlap"):
        text += f" {s['n_overlap']} of the subjects had also been in the pretraining cohort."
    elif any("overlap_unknown" in str(warning) for warning in s.get("warnings") or []):
        text += " Whether a subject had been in the pretraining cohort could not be checked."
    elif files.run and s.get("n_overlap") == 0:
        text += " No evaluated subject had been in the pretraining cohort."
    if files.kind != "continuous":
        youden = f" {cite('youden')}" if (s.get("threshold") or {}).get("rule") == "youden" else ""
        text += f" Scans were assigned to classes {threshold_text(files)}{youden}."
    if files.baseline:
        text += f" A baseline of the same form used {covariates_text(files)} only, in the same folds."
    return text + _voxels(files) + _harmonisation(files, cite)


def _voxels(files: EvaluationFiles) -> str:
    about = files.summary.get("voxels_about") or {}
    if not files.voxels:
        return ""
    p_values = [values.get("p_value") for values in files.voxels_increment.values()]
    tested = " Embedding and voxels were compared over folds by the corrected resampled t-test."
    tested = tested if any(p_value is not None for p_value in p_values) else ""
    return (
        f" A second baseline of the same form used the first {about.get('n_components')} principal components of the "
        f"voxels ({about.get('n_voxels')} at {value_text(about.get('spacing_mm'))} mm, {about.get('mask')}; "
        f"standardised: {about.get('standardised')}), fitted inside each training fold.{tested}"
    )


def _folds(files: EvaluationFiles) -> str:
    s = files.summary
    n_folds = s.get("n_folds", "?")
    repeats = f", repeated {s['n_repeats']} times" if (s.get("n_repeats") or 1) > 1 else ""
    if s["splits"] == "leave-site-out":
        return f"Each site was left out once and predicted by a model fitted on all others ({n_folds} folds)"
    if s["splits"] == "file":
        return f"Cross-validation used {n_folds} folds read from a split file{repeats}"
    if s["splits"] == "custom":
        return f"Cross-validation used {n_folds} folds made by {s.get('splitter')}{repeats}"
    return f"Cross-validation used {n_folds} folds stratified by target and site{repeats}"


def _harmonisation(files: EvaluationFiles, cite: Citations) -> str:
    about = files.summary.get("confounds") or {}
    how, text = str(about.get("harmonise") or "none"), ""
    if how == "combat":
        kept = about.get("harmonise_preserve")
        keeping = f", keeping what goes with {join_words([str(name) for name in kept])}" if kept else ""
        text = (
            f" Features were harmonised across sites by ComBat {cite('combat', 'combat_mri')} without the target"
            f"{keeping}, fitted inside each training fold."
        )
    elif how not in ("none", "residualise"):
        text = f" Features were harmonised ({how}) inside each training fold."
    out = about.get("residualise")
    if out or how == "residualise":
        what = join_words([str(name) for name in out]).capitalize() if out else "Covariates"
        text += f" {what} were regressed out of the features by a model fitted inside each training fold."
    return text


def _external(files: EvaluationFiles, cite: Citations) -> str:
    external = files.summary.get("external")
    if not external:
        return ""
    n = external.get("n") or {}
    text = (
        "A probe of the same form, fitted on all evaluated scans, was applied once to an external test set of "
        f"{n.get('scans', 'unrecorded')} scans of {n.get('subjects', 'unrecorded')} subjects at "
        f"{n.get('sites', 'unrecorded')} sites, none of which had a part in any choice."
    )
    methods = {str(values.get("interval_method")) for values in (external.get("metrics") or {}).values()}
    if "delong" in methods:
        text += f" The interval of its AUC is DeLong's {cite('delong')}."
    return text


def _has_run(package: str, files: EvaluationFiles) -> bool:
    """Say whether a package that is installed had a part in what is shown."""
    if package == "nilearn":
        return files.explanation is not None or package in (files.summary.get("software") or [])
    return package != "kornia" or files.words.kind == "images"


def write_software(files: EvaluationFiles, cite: Citations) -> str:
    """Return what computed the results: of what is installed, what had a part in them."""
    environment = files.summary.get("environment") or {}
    packages = environment.get("packages") or {}
    named = []
    for package, key in (
        ("torch", "torch"),
        ("monai", "monai"),
        ("scikit-learn", "scikit-learn"),
        ("nilearn", "nilearn"),
        ("kornia", "kornia"),
    ):
        if packages.get(package) and _has_run(package, files):
            named.append(f"{package} {packages[package]} {cite(key)}")
    text = (
        f"Analyses were run with neurocontrast {environment['neurocontrast']}"
        if environment.get("neurocontrast")
        else ""
    )
    if named:
        text += (", " if text else "Analyses were run with ") + join_words(named)
    python = f" (Python {environment['python']})" if environment.get("python") and text else ""
    seed = files.summary.get("seed")
    text += f"{python}." if text else ""
    return text + (f" Seed {seed}." if seed is not None else "")
