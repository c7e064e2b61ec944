"""The conditional embedding operator: (K + λI)⁻¹ K by every route."""

from functools import partial

import pytest
import torch

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import (
    Categorical,
    ConditionalEmbedding,
    Cosine,
    Gaussian,
    Laplacian,
    Linear,
    Polynomial,
)
from neurocontrast.kernels.conditional import conditional_operator

N = 12
KERNELS = {
    "gaussian": Gaussian("age", sigma=5.0),
    "laplacian": Laplacian("age", sigma=5.0),
    "linear": Linear("scores"),
    "cosine": Cosine("scores"),
    "polynomial": Polynomial("scores", degree=2),
    "categorical": Categorical("site"),
    "categories": Categorical("site") * Categorical("sex"),
    "age-within-sex": Gaussian("age", sigma=5.0) * Categorical("sex"),
    "age-or-site": 2.0 * Gaussian("age", sigma=5.0) + Categorical("site"),
    "sum-of-features": 2.0 * Cosine("scores") + Linear("scores"),
    "more-features-than-samples": Linear("wide"),
    "some-missing": Gaussian("partial", sigma=5.0, missing="marginal"),
}


@pytest.fixture
def metadata():
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    partial = 40 + 10 * normal(N)
    return {
        "age": 40 + 10 * normal(N),
        "scores": normal(N, 3),
        "wide": normal(N, 30),
        "site": torch.randint(3, (N,), generator=generator),
        "sex": torch.randint(2, (N,), generator=generator),
        "partial": partial,
    }


@pytest.mark.parametrize("ridge", [0.01, 1.0])
def test_every_route_equals_the_definition(metadata, ridge):
    for name, kernel in KERNELS.items():
        matrix = kernel(metadata).double()
        expected = torch.linalg.inv(matrix + ridge * torch.eye(N, dtype=torch.float64)) @ matrix
        embedding = ConditionalEmbedding(kernel, ridge=ridge)
        message = partial("{}: {}".format, name)
        torch.testing.assert_close(
            embedding(metadata).double(), expected, rtol=1e-6, atol=1e-6, msg=message
        )
        operator = conditional_operator(kernel, metadata, ridge=ridge, dtype=torch.float64)
        torch.testing.assert_close(operator, expected, rtol=1e-10, atol=1e-10, msg=message)


def test_a_double_result_from_single_precision_metadata_is_exact(metadata):
    single = {"scores": metadata["scores"].float()}
    double = {"scores": single["scores"].double()}
    embedding = ConditionalEmbedding(Cosine("scores"), ridge=0.01)
    got = conditional_operator(Cosine("scores"), single, ridge=0.01, dtype=torch.float64)
    torch.testing.assert_close(got, embedding(double), rtol=1e-12, atol=1e-12)


def test_no_gradient_and_no_wider_type(metadata):
    age = metadata["age"].float().requires_grad_()
    operator = ConditionalEmbedding(Gaussian("age", sigma=5.0))({"age": age})
    assert operator.dtype == torch.float32
    assert not operator.requires_grad


def test_the_same_under_autocast(metadata):
    single = {"scores": metadata["scores"].float()}
    embedding = ConditionalEmbedding(Linear("scores"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = embedding(single)
    torch.testing.assert_close(inside, embedding(single), rtol=0, atol=0)


@pytest.mark.parametrize("degree", [1, 3])
def test_ages_in_years_stand_in_single_precision(degree):
    """Raw ages give K of up to 1e11, whose rounding is far above the ridge."""
    ages = {"age": torch.linspace(20, 90, 64)}
    operator = ConditionalEmbedding(Polynomial("age", degree=degree), ridge=0.01)(ages)
    assert torch.isfinite(operator).all()
    assert torch.linalg.eigvalsh(operator.double()).abs().max() < 1.1


@pytest.mark.parametrize("n_missing", [1, 6, N])
def test_missing_values_filled_with_the_marginal_stay_a_projection(metadata, n_missing):
    """The filled matrix can have negative eigenvalues; the operator's stay between 0 and 1."""
    metadata["partial"][:n_missing] = torch.nan
    kernel = Gaussian("partial", sigma=5.0, missing="marginal")
    operator = conditional_operator(kernel, metadata, ridge=0.01, dtype=torch.float64)
    eigenvalues = torch.linalg.eigvalsh(operator)
    assert eigenvalues.min() > -1e-10
    assert eigenvalues.max() < 1


@pytest.mark.parametrize("ridge", [0, -1.0, float("nan"), float("inf"), True, "1"])
def test_ridge_must_be_positive(ridge):
    with pytest.raises(ConfigError, match="ridge must be a finite number above 0"):
        ConditionalEmbedding(Gaussian("age", sigma=5.0), ridge=ridge)


def test_a_value_that_is_not_finite_is_refused():
    with pytest.raises(DataError, match="not finite"):
        ConditionalEmbedding(Polynomial("age"))({"age": torch.tensor([1.0, float("inf"), 2.0])})
