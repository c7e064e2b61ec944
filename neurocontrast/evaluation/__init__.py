"""What frozen embeddings can tell: cross-validated models of them, of covariates and of the scans, site by site.

Pure NumPy, pandas and scikit-learn. `plan_study` checks everything and makes folds and models;
`fits.fit` predicts by each model; `measure.measure` computes tables, figures and findings;
`run_study` fits and measures the models alone. The command `neurocontrast.evaluate` reads
and writes the files.
"""

from neurocontrast.documents.notice import Notice
from neurocontrast.documents.result import Result, read_evaluation
from neurocontrast.evaluation.designs import BlockScaler
from neurocontrast.evaluation.encoding import covariate_encoder
from neurocontrast.evaluation.fits import Fits
from neurocontrast.evaluation.planning import plan_study
from neurocontrast.evaluation.results import StudyResult, run_study
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import LeaveSiteOut, SiteStratifiedGroupKFold
from neurocontrast.evaluation.splits.given import read_split_file
from neurocontrast.evaluation.stored_probe import FittedProbe, load_probe, save_probe
from neurocontrast.evaluation.study import External, Study
from neurocontrast.evaluation.transformers import ComBat, Residualiser

__all__ = [
    "BlockScaler",
    "ComBat",
    "EvaluationSettings",
    "External",
    "Fits",
    "FittedProbe",
    "LeaveSiteOut",
    "Notice",
    "Residualiser",
    "Result",
    "SiteStratifiedGroupKFold",
    "Study",
    "StudyResult",
    "covariate_encoder",
    "load_probe",
    "plan_study",
    "read_evaluation",
    "read_split_file",
    "run_study",
    "save_probe",
]
