"""What each warning of an evaluation means for a reader, in plain words."""

from __future__ import annotations

import re

from neurocontrast.reporting.folder import EvaluationFiles, external_part
from neurocontrast.reporting.new_site_sentences import say_new_site, say_nothing_left
from neurocontrast.reporting.new_sites import is_lost, new_site_metric, nothing_left
from neurocontrast.reporting.outlyingness import count_outside
from neurocontrast.reporting.outlyingness_sentences import say_outside
from neurocontrast.reporting.words import IMAGES, SCANS, Words

__all__ = ["explain_warning", "hide_ids", "list_warnings"]

_SEEN = (
    "The encoder has already seen these people. Its features can fit them better than anybody new, so the figures "
    "below may be too good."
)
_CONFOUNDED = (
    "Where {what} and target go together, a model that reads {what} off the scan looks as if it had read the target. "
    "Compare with the baseline, which knows {what} and nothing of the scan."
)
_FEW = "With so few scans chance alone moves the result a lot. Read the interval, not the point."
_SELECTED = "They are in no figure below. If they differ from the others, the result holds for a selected group."
_BASELINE = "Without a full baseline nobody can say what the scan adds to what was known without it."
_ELSEWHERE = (
    "The result below is of sites that were trained on. At another scanner expect the error of unseen sites, or a "
    "larger one. See “At a site it has not seen”."
)
_USELESS = (
    "At a scanner that was not trained on, do not trust the number: as far as these data tell, a guess without the "
    "scan serves as well. See “At a site it has not seen”."
)
_OUTSIDE = (
    "Do not trust the number for these scans: the model gives one wherever they lie, but it learned from nothing like "
    "them. They count in the figures below. See “Scans unlike those it learned from”."
)
_RECENTRED = (
    "The figures hold for batches of scans of a site, not for a scan that comes alone, and a site whose people differ "
    "from the others is made to look like them."
)
_EXPLANATIONS = {
    "pretraining_overlap": _SEEN,
    "overlap_unknown": "If some of them were in pretraining, the figures below may be too good.",
    "duplicate_overlap": (
        "The same image on both sides of a fold is learned by heart, not understood: the figures below may be too good."
    ),
    "single_class_site": (
        "A site where everybody has the same label says nothing about telling labels apart, and rewards a model that "
        "has merely learned to recognise the site."
    ),
    "single_class_fold": "The mean over folds leaves these folds out; the pooled figures hold all scans.",
    "fold_unseen_class": "No model can name a class that it was never shown; its scans count as errors.",
    "site_confounded": _CONFOUNDED.format(what="site"),
    "age_imbalance": _CONFOUNDED.format(what="age"),
    "sex_imbalance": _CONFOUNDED.format(what="sex"),
    "few_subjects": _FEW,
    "small_site": _FEW,
    "class_imbalance": (
        "Where one class is rare, accuracy looks high for a model that never names it; balanced accuracy does not."
    ),
    "single_site": "Nothing here tells whether the result would hold at another scanner.",
    "site_missing": "Differences between scanners cannot be told apart from differences between people there.",
    "site_shared_subjects": "Their other scans are left out of training, so that nobody is recognised again.",
    "changing_class": "Their scans stay in one fold together, so that nobody is recognised again.",
    "site_predictable": (
        "A model can use the scanner where sites differ in the target. See Confounds, and the result site by site."
    ),
    "few_sites_resampled": "Read the intervals as lower bounds of the uncertainty.",
    "fold_untested": "They are in no figure of the result, but shaped the models.",
    "external_shared_subjects": _SEEN.replace("The encoder", "The model").replace("below", "of the external test set"),
    "external_duplicates": (
        "The same image on both sides is learned by heart: the figures of the external test set may be too good."
    ),
    "external_baseline": _BASELINE,
    "voxels_as_good": (
        "A linear model of the scans themselves needs no pretraining, and does as well here. Do not credit the encoder "
        "with what the scans give away so easily."
    ),
    "voxels_left_out": "Whether a linear model of the scans themselves does as well was not asked.",
    "encoder_unknown": "If the encoders differ, the figures of the external test set mean nothing.",
    "baseline_empty": _BASELINE,
    "baseline_incomplete": _BASELINE,
    "excluded_missing_target": _SELECTED,
    "permutation_moves_few": "A large permutation p-value is no evidence against the model here.",
    "perfect_separation": "Such a figure comes from a leak more often than from a disease.",
    "not_converged": "Their coefficients are not the best ones; more scans or a smaller C usually help.",
    "new_site_worse": _ELSEWHERE,
    "new_site_no_better_than_constant": _USELESS,
    "new_site_skipped": "What the model does there, were the site new to it, is not known.",
    "recentred": _RECENTRED,
    "recentred_small_site": _RECENTRED,
    "inner_splits_dealt": "There the penalty was chosen for people of known sites, as it is by default.",
    "outside_distribution": _OUTSIDE,
    "external_outside_distribution": _OUTSIDE,
    "pooled_auc_mixes_folds": (
        "Pooling compares scores of models that were fitted on different scans. The AUC within folds does not."
    ),
}
_SEEN_IMAGE = "The encoder has already seen these images, so the figures below may be too good."
_COPIED = "The same image on both sides is learned by heart, not recognised: the figures below may be too good."
_OF_IMAGES = {
    "pretraining_overlap": _SEEN_IMAGE,
    "overlap_unknown": "If some of the test images were in pretraining, the figures below may be too good.",
    "duplicate_overlap": _COPIED,
    "external_duplicates": _COPIED,
    "external_shared_subjects": _SEEN_IMAGE,
    "validation_pretrained": (
        "What was chosen on these images was chosen on images that the encoder knows, so the choice may not be the "
        "best for new ones. The figures of the test images are not touched by it."
    ),
    "no_validation": "The strength of the probe's penalty was chosen within the training images instead.",
    "few_subjects": "With so few images chance alone moves the result a lot. Read the interval, not the point.",
    "class_untested": "Nothing is known of these classes; balanced accuracy is of the others.",
    "fold_unseen_class": "No probe can name a class that it was never shown; its images count as errors.",
    "excluded_missing_target": "They are in no figure below.",
    "perfect_separation": "Look for a copy of the label in the images, or of test images in training.",
    "not_converged": "Its coefficients are not the best ones; a smaller C, or more steps, usually help.",
    "class_imbalance": _EXPLANATIONS["class_imbalance"],
}
"""What a warning means where images were evaluated."""
_NOT_OF_IMAGES = frozenset(
    {"site_missing", "single_site", "baseline_empty", "baseline_incomplete", "outside_distribution"}
)
"""Warnings about what an evaluation of images does not have."""

# A code of another version still finds its family by a word in it.
_FAMILIES = (
    ("overlap", _SEEN),
    ("confound", _CONFOUNDED.format(what="site")),
    ("single_class", _EXPLANATIONS["single_class_site"]),
    ("few", _FEW),
    ("small", _FEW),
    ("exclu", _SELECTED),
    ("missing", _SELECTED),
    ("baseline", _BASELINE),
)
_GENERAL = "Keep this in mind while reading the figures below."


def explain_warning(code: str, words: Words = SCANS) -> str:
    """Return what a warning of this code means for the reading of the report."""
    name = code.lower().replace("-", "_")
    if words is IMAGES:
        return _OF_IMAGES.get(name, _GENERAL)
    if name in _EXPLANATIONS:
        return _EXPLANATIONS[name]
    return next((text for word, text in _FAMILIES if word in name), _GENERAL)


def list_warnings(files: EvaluationFiles, *, show_ids: bool = False) -> list[tuple[str, str]]:
    """Return each warning with its explanation, in the order of the evaluation.

    An allowed overlap with pretraining is told even where the evaluation lists no warning of it.
    """
    words = files.words
    found, codes = [], []
    for warning in files.summary.get("warnings") or []:
        # A bare sentence is accepted too: a warning must never be lost over its form.
        parts = warning if isinstance(warning, dict) else {"message": warning}
        code = str(parts.get("code", ""))
        message = str(parts.get("message") or code)
        if words is IMAGES and code in _NOT_OF_IMAGES:
            continue
        codes.append(code)
        found.append((message if show_ids else hide_ids(message, files, code=code), explain_warning(code, words)))
    n_overlap = files.summary.get("n_overlap") or 0
    if n_overlap and not any("overlap" in code for code in codes):
        message = (
            f"{n_overlap} of the {words.units} evaluated here were also in the pretraining cohort (overlap allowed)."
        )
        found.insert(0, (message, explain_warning("pretraining_overlap", words)))
    if words is IMAGES:
        return found
    derived = [*_look_at_new_site(files, codes), *_look_at_outside(files)]
    return found + [(message, explain_warning(code)) for code, message in derived if code not in codes]


def _look_at_new_site(files: EvaluationFiles, codes: list[str]) -> list[tuple[str, str]]:
    """Return what the panel of unseen sites calls for: nothing left there, or less than at known sites."""
    metric = new_site_metric(files)
    said = say_new_site(files)
    if metric is None or said is None:
        return []
    if nothing_left(files, metric):
        told = "new_site_worse" in codes
        return [("new_site_no_better_than_constant", say_nothing_left(files, metric) if told else said)]
    return [("new_site_worse", said)] if is_lost(files, metric) else []


def _look_at_outside(files: EvaluationFiles) -> list[tuple[str, str]]:
    """Return what the scans outside call for, here and in the external test set."""
    found = []
    external = external_part(files)
    for code, part, whose in (
        ("outside_distribution", files, ""),
        ("external_outside_distribution", external, " of the external test set"),
    ):
        counted = None if part is None else count_outside(part)
        if counted is not None and counted.more_than_chance:
            found.append((code, say_outside(counted, whose=whose)))
    return found


def hide_ids(text: str, files: EvaluationFiles, *, code: str = "") -> str:
    """Replace identifiers of participants in a message.

    Identifiers made of digits alone look like counts, so they are looked for only in warnings
    about duplicates, which list people.
    """
    names = {
        str(name)
        for table in (files.predictions, files.external_predictions, files.outlyingness, files.external_outlyingness)
        for column in ("participant_id", "subject_id")
        if table is not None and column in table
        for name in table[column].dropna()
    }
    if "duplicate" not in code:
        names = {name for name in names if not name.isdigit() and len(name) > 2}
    if not names:
        return text
    longest_first = sorted(names, key=len, reverse=True)
    pattern = r"(?<![\w-])(?:" + "|".join(re.escape(name) for name in longest_first) + r")(?![\w-])"
    return re.sub(pattern, "[id]", text)
