"""Kernels on metadata: similarity of two scans by their recorded metadata, such as age and sex.

A kernel is a symmetric weight w(y, y'). Kernels compose with ``*`` (product) and ``+`` (weighted
sum):

>>> w = Gaussian("age", sigma=5.0) * Categorical("sex")
>>> sorted(w.columns)
['age', 'sex']
"""

from neurocontrast.kernels.base import Block, Kernel, Kind, Metadata, Product, WeightedSum
from neurocontrast.kernels.categorical import Categorical, Different
from neurocontrast.kernels.column import ColumnKernel, FactorSettings, Missing
from neurocontrast.kernels.conditional import ConditionalEmbedding
from neurocontrast.kernels.continuous import Cosine, Gaussian, Laplacian, Linear, Polynomial

__all__ = [
    "Block",
    "Categorical",
    "ColumnKernel",
    "ConditionalEmbedding",
    "Cosine",
    "Different",
    "FactorSettings",
    "Gaussian",
    "Kernel",
    "Kind",
    "Laplacian",
    "Linear",
    "Metadata",
    "Missing",
    "Polynomial",
    "Product",
    "WeightedSum",
]
