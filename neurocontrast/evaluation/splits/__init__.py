"""Make folds without a subject on both sides: at random, by site, file, column or splitter."""

from neurocontrast.evaluation.splits.splitters import (
    LeaveSiteOut,
    SiteStratifiedGroupKFold,
    Split,
    check_class_sizes,
    check_splits,
    deal_subjects,
    group_sites,
    leave_site_out,
    parts_of,
    stratified,
    subject_values,
)

__all__ = [
    "LeaveSiteOut",
    "SiteStratifiedGroupKFold",
    "Split",
    "check_class_sizes",
    "check_splits",
    "deal_subjects",
    "group_sites",
    "leave_site_out",
    "parts_of",
    "stratified",
    "subject_values",
]
