"""Folds in which no subject stands on both sides: dealt, held out by site, read from a file, or by any splitter."""

from neurocontrast.evaluation.splits.dealing import deal_subjects, subject_values
from neurocontrast.evaluation.splits.fold import Split, check_class_sizes, check_splits, parts_of
from neurocontrast.evaluation.splits.given import describe_splitter, splits_from_cv
from neurocontrast.evaluation.splits.sites import LeaveSiteOut, leave_site_out
from neurocontrast.evaluation.splits.stratified import SiteStratifiedGroupKFold, stratified

__all__ = [
    "LeaveSiteOut",
    "SiteStratifiedGroupKFold",
    "Split",
    "check_class_sizes",
    "check_splits",
    "deal_subjects",
    "describe_splitter",
    "leave_site_out",
    "parts_of",
    "splits_from_cv",
    "stratified",
    "subject_values",
]
