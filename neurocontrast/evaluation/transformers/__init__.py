"""Scikit-learn transformers that take sites and covariates out of features, estimated on training rows alone."""

from neurocontrast.evaluation.transformers.combat import ComBat
from neurocontrast.evaluation.transformers.covariates import CovariateEncoder
from neurocontrast.evaluation.transformers.recentring import SiteRecentring
from neurocontrast.evaluation.transformers.residualiser import Residualiser

__all__ = ["ComBat", "CovariateEncoder", "Residualiser", "SiteRecentring"]
