"""The statistics of the methods text: metrics, intervals, tests, confounds, and the map of the brain."""

from __future__ import annotations

from neurocontrast.reporting.folder import EvaluationFiles
from neurocontrast.reporting.metrics import choose_headline, describe_metric
from neurocontrast.reporting.naming import join_words
from neurocontrast.reporting.references import Citations
from neurocontrast.reporting.testing import permutation_result

__all__ = ["describe_intervals", "running_label", "write_confounds", "write_explanation", "write_statistics"]


def write_statistics(files: EvaluationFiles, cite: Citations) -> str:
    """Return how performance and its uncertainty were computed."""
    names = join_words([running_label(describe_metric(key).label) for key in files.metrics])
    text = f"We report {names}." if names else ""
    if "calibration_slope" in files.metrics:
        text += (
            " The calibration slope is that of a logistic regression of the outcome on the logit of the predicted "
            f"probability{_and_intercept(files)} {cite('calibration')}."
        )
    bootstrap = files.summary.get("bootstrap") or {}
    if bootstrap.get("n"):
        text += (
            f" {describe_intervals(files.level, bootstrap.get('method'), cite)} {bootstrap['n']:,} bootstrap draws of "
            f"{bootstrap.get('unit', 'subject')}s from the pooled out-of-fold predictions, with models held fixed."
        )
    text += _permutation(files, cite)
    curve = files.summary.get("learning_curve") or {}
    if curve.get("sizes"):
        sizes = join_words([f"{size:,}" for size in curve["sizes"]])
        unit = curve.get("unit") or "scan"
        draws = f", {curve['n_draws']} draws each" if curve.get("n_draws") else ""
        text += (
            f" Learning curves were made by fitting the probe on random subsets of {sizes} training {unit}s{draws}, "
            "tested in the same folds."
        )
    return text.strip()


def describe_intervals(level: float, method: object, cite: Citations) -> str:
    """Return how an interval was taken from bootstrap draws, up to their number."""
    if method == "BCa":
        return f"{level:.0%} intervals are bias-corrected and accelerated {cite('bootstrap', 'bca')}, from"
    return f"Intervals hold the central {level:.0%} {cite('bootstrap')} of"


def running_label(label: str) -> str:
    """Return a metric's label within a sentence."""
    if label.isupper():
        return label
    return label.lower().replace("roc", "ROC").replace("(r²)", "(R²)").replace("pearson", "Pearson").replace(
        "spearman", "Spearman").replace("brier", "Brier").replace("auc", "AUC")  # fmt: skip


def _permutation(files: EvaluationFiles, cite: Citations) -> str:
    key = choose_headline(files.kind, files.metrics)
    result = permutation_result(files, key) if key else None
    if key is None or result is None:
        return " No permutation test was made." if not files.summary.get("permutation") else ""
    among = " of the same site" if result.within_site else ""
    among += (" and test fold" if among else " of the same test fold") if result.within_fold else ""
    redone = "choice of penalty and probe" if result.within_fold else "folds, choice of penalty and probe"
    value = f" ({result.observed:.3f})" if result.observed is not None else ""
    first = " of the first repeat" if (files.summary.get("n_repeats") or 1) > 1 and result.observed is not None else ""
    return (
        f" Chance was tested by permutation {cite('permutation')}: labels were exchanged between {result.unit}s{among} "
        f"{result.n:,} times, and the nested procedure ({redone}) was repeated each time. The statistic was the pooled "
        f"out-of-fold {describe_metric(key).name}{first}. With k of n permutations at least as good as the observed "
        f"value{value}, the one-sided p-value is (1 + k)/(1 + n) {cite('never_zero')}: k = {result.k:,}, "
        f"n = {result.n:,}, p = {result.p_value:.3g}. It asks whether scan and target go together at all "
        f"{'within sites' if result.within_site else 'in this cohort'}, not whether the scan adds to the covariates."
    )


def _and_intercept(files: EvaluationFiles) -> str:
    return "; its intercept is that with the slope held at 1" if "calibration_intercept" in files.metrics else ""


def write_confounds(files: EvaluationFiles, cite: Citations) -> str:
    """Return how confounds were looked at; nothing where they were not."""
    parts = []
    if files.confounds is not None:
        columns = join_words(list(dict.fromkeys(files.confounds["column"].dropna())))
        parts.append(
            f"We asked how well {columns} can be predicted from the embedding by linear probes, over all scans and "
            "within classes."
        )
    score = (files.summary.get("confounds") or {}).get("openbhb")
    if score:
        parts.append(
            "The OpenBHB score is the mean absolute error of age at unseen sites times the balanced accuracy of site, "
            f"raised to the power of 0.3; lower is better {cite('openbhb')}."
        )
    if files.dependence is not None:
        n = files.dependence.get("n_permutations")
        how = f", with p-values from {n.max():,.0f} permutations" if n is not None and n.notna().any() else ""
        parts.append(
            "Dependence of any form between the embedding and each column was measured by the Hilbert–Schmidt "
            f"independence criterion {cite('hsic')}, normalised as in centred kernel alignment {cite('cka')}{how}."
        )
    return " ".join(parts)


def write_explanation(files: EvaluationFiles, cite: Citations) -> str:
    """Return how the map of the brain was made; nothing where there is none."""
    if files.explanation is None:
        return ""
    about = files.explanation.about
    n = about.get("n_subjects")
    who = f"{n} subjects" if n else "subjects"
    if about.get("method") == "occlusion":
        patch = about.get("patch_mm")
        size = f" of {patch:g} mm" if isinstance(patch, int | float) else ""
        how = (
            f"Patches{size} of each volume were replaced, one after another, and the change of the predicted score was "
            f"put where the patch was {cite('occlusion')}"
        )
    else:
        how = (
            "The gradient of the predicted score with respect to each voxel was computed through the frozen encoder "
            f"and the probe {cite('gradient')}"
        )
        if (about.get("n_noisy") or 1) > 1:
            how += f", averaged over {about['n_noisy']} copies with noise added {cite('smoothgrad')}"
    shares = str(about.get("quantity") or "").startswith("share")
    averaged = f"of {who} were regressed on their scores" if shares else f"were averaged over {who}"
    return (
        f"{how}; maps {averaged} and are shown on the MNI152 template {cite('mni')} with nilearn "
        f"{cite('nilearn')}. Such a map shows what the model used, not what causes the condition."
    )
