"""Evaluate frozen embeddings: cross-validated models of embeddings, covariates and scans.

Pure NumPy, pandas and scikit-learn. `plan_evaluation` checks everything and makes folds and models;
`fits.fit` predicts by each model; `measure.measure` computes metrics, tables and findings, which
answer questions such as how well the site can be predicted; `fit_and_measure` fits the models and
computes metrics and tables, without findings. The command `neurocontrast.evaluate` reads
and writes the files.
"""

from neurocontrast.documents.notice import Notice
from neurocontrast.documents.result import Result, read_evaluation
from neurocontrast.evaluation.fit.fits import Fits
from neurocontrast.evaluation.fit.stored_probe import FittedProbe, load_probe, save_probe
from neurocontrast.evaluation.measure.results import MeasuredPlan, fit_and_measure
from neurocontrast.evaluation.plan.plan import External, Plan
from neurocontrast.evaluation.plan.planning import plan_evaluation
from neurocontrast.evaluation.probes.designs import BlockScaler
from neurocontrast.evaluation.probes.encoding import covariate_encoder
from neurocontrast.evaluation.probes.transformers import ComBat, Residualiser
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import LeaveSiteOut, SiteStratifiedGroupKFold
from neurocontrast.evaluation.splits.given import read_split_file

__all__ = [
    "BlockScaler",
    "ComBat",
    "EvaluationSettings",
    "External",
    "Fits",
    "FittedProbe",
    "LeaveSiteOut",
    "MeasuredPlan",
    "Notice",
    "Plan",
    "Residualiser",
    "Result",
    "SiteStratifiedGroupKFold",
    "covariate_encoder",
    "fit_and_measure",
    "load_probe",
    "plan_evaluation",
    "read_evaluation",
    "read_split_file",
    "save_probe",
]
