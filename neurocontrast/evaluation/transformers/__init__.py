"""Scikit-learn transformers that take sites and covariates out of features, estimated on training rows alone."""

from neurocontrast.evaluation.transformers.combat import ComBat
from neurocontrast.evaluation.transformers.covariates import CovariateEncoder, Residualiser, SideColumnTransformer
from neurocontrast.evaluation.transformers.recentring import SiteRecentring

__all__ = ["ComBat", "CovariateEncoder", "Residualiser", "SideColumnTransformer", "SiteRecentring"]
