"""Scikit-learn transformers that take sites and covariates out of features, or balance blocks of them."""

from neurocontrast.evaluation.transformers.blocks import BlockScaler
from neurocontrast.evaluation.transformers.covariates import Residualiser, SideColumnTransformer, covariate_encoder
from neurocontrast.evaluation.transformers.sites import ComBat, SiteRecentring

__all__ = ["BlockScaler", "ComBat", "Residualiser", "SideColumnTransformer", "SiteRecentring", "covariate_encoder"]
