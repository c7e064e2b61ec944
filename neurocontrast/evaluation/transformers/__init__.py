"""Scikit-learn transformers that take sites and covariates out of features, estimated on training rows alone."""

from neurocontrast.evaluation.transformers.covariates import CovariateEncoder, Residualiser, SideColumnTransformer
from neurocontrast.evaluation.transformers.sites import ComBat, SiteRecentring

__all__ = ["ComBat", "CovariateEncoder", "Residualiser", "SideColumnTransformer", "SiteRecentring"]
