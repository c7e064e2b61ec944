"""Every kernel in float32, in which everyone trains, beside float64, at the sizes of a step."""

import pytest
import torch

from neurocontrast.kernels import ConditionalEmbedding, Kernel
from neurocontrast.kernels.factors import KERNELS

COLUMNS = {"categorical": "sex", "different": "site", "cosine": "scores", "polynomial": "scores"}
GIVEN = {
    "gaussian": [{"sigma": 5.0}, {"sigma": "scott"}, {"sigma": 1.0, "standardise": True}],
    "laplacian": [{"sigma": 5.0}, {"sigma": 5.0, "norm": 2}],
    "linear": [{}, {"twin": "supremum"}],
    "polynomial": [{"degree": 2}],
    "different": [{}, {"within": 0.3}],
}
CASES = [
    pytest.param(name, {**given, "missing": missing}, id=f"{name}-{number}-{missing}")
    for name in KERNELS
    for number, given in enumerate(GIVEN.get(name, [{}]))
    for missing in ("error", "marginal")
]


def columns_of(n: int, *, holes: bool) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    columns = {
        "age": 40 + 15 * torch.randn(n, generator=generator),
        "scores": torch.randn(n, 3, generator=generator),
        "sex": torch.randint(2, (n,), generator=generator),
        "site": torch.randint(4, (n,), generator=generator),
    }
    if holes:
        columns["age"][1::3] = torch.nan
        columns["scores"][2::5, 1] = torch.nan
        columns["sex"][1::4] = -1
        columns["site"][3::4] = -1
    return columns


def build(name: str, given: dict) -> tuple[Kernel, str]:
    column = COLUMNS.get(name, "age")
    return KERNELS[name](column, **given), column


def widened(columns: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {
        name: column.double() if column.is_floating_point() else column
        for name, column in columns.items()
    }


def assert_close(found: torch.Tensor, exact: torch.Tensor) -> None:
    assert found.dtype == torch.float32
    assert exact.dtype == torch.float64
    assert exact.abs().sum() > 0
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n", [64, 300])
@pytest.mark.parametrize(("name", "given"), CASES)
def test_weights_are_those_of_double(name, given, n):
    """Whole and in blocks; the supremum of a batch as well."""
    columns = columns_of(n, holes=given["missing"] == "marginal")
    wide = widened(columns)
    kernel, _ = build(name, given)
    kernel.fit(columns)
    exact = kernel.bind(wide, wide, dtype=torch.float64)(slice(None), slice(None))
    block = kernel.bind(columns, columns, dtype=torch.float32)
    assert_close(block(slice(None), slice(None)), exact)
    parts = [block(slice(start, start + 41), slice(None)) for start in range(0, n, 41)]
    assert_close(torch.cat(parts), exact)
    supremum = torch.as_tensor(kernel.supremum_over(columns, dtype=torch.float32))
    wide_supremum = torch.as_tensor(kernel.supremum_over(wide, dtype=torch.float64))
    torch.testing.assert_close(supremum.double(), wide_supremum.double(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("ridge", [0.01, 1.0])
@pytest.mark.parametrize("n", [64, 300])
@pytest.mark.parametrize(("name", "given"), CASES)
def test_the_conditional_operator_is_that_of_double(name, given, n, ridge):
    """With a ridge of 0.01 the system of 300 scans has a condition number of up to 30,000."""
    columns = columns_of(n, holes=given["missing"] == "marginal")
    kernel, _ = build(name, given)
    kernel.fit(columns)
    if not kernel.positive_semidefinite:
        pytest.skip("is refused")
    wide = {name: column.double() for name, column in columns.items()}
    assert_close(
        ConditionalEmbedding(kernel, ridge=ridge)(columns),
        ConditionalEmbedding(kernel, ridge=ridge)(wide),
    )


@pytest.mark.parametrize("n", [64, 300])
def test_products_and_sums_are_those_of_double(n):
    columns = columns_of(n, holes=False)
    age, _ = build("gaussian", {"sigma": 5.0})
    sex, _ = build("categorical", {})
    for kernel in (age * sex, 0.1 * age + 0.2 * sex, 3.0 * (age * sex) + 0.7 * age):
        assert_close(kernel(columns), kernel(widened(columns)))


@pytest.mark.parametrize("name", ["gaussian", "laplacian"])
def test_vectors_far_from_zero_keep_their_differences(name):
    """Volumes in mm³ differ by little of their size; a matrix product of them would leave no digit."""
    given = {"sigma": 1.0} if name == "gaussian" else {"sigma": 1.0, "norm": 2}
    scores = 1000 + columns_of(64, holes=False)["scores"]
    kernel = KERNELS[name]("scores", **given)
    assert_close(kernel({"scores": scores}), kernel({"scores": scores.double()}))


def test_a_small_ridge_is_the_one_that_was_given():
    age = columns_of(64, holes=False)["age"].double()
    kernel = KERNELS["laplacian"]("age", sigma=5.0)
    matrix = kernel({"age": age})
    system = matrix + 1e-6 * torch.eye(64, dtype=matrix.dtype)
    found = ConditionalEmbedding(kernel, ridge=1e-6)({"age": age})
    torch.testing.assert_close(found, torch.linalg.solve(system, matrix), rtol=0, atol=1e-7)


def test_cosines_are_in_full_precision_and_codes_do_not_lower_that_of_numbers():
    columns = columns_of(64, holes=False)
    scores = columns["scores"].double()
    unit = scores / scores.norm(dim=1, keepdim=True)
    found = KERNELS["cosine"]("scores")({"scores": columns["scores"]})
    assert_close(found, unit @ unit.T)
    product = KERNELS["gaussian"]("age", sigma=5.0) * KERNELS["categorical"]("sex")
    assert product({**columns, "age": columns["age"].double()}).dtype == torch.float64
    whole = KERNELS["gaussian"]("age", sigma=5.0)({"age": columns["age"].round().long()})
    ages = columns["age"].round().double()
    apart = (ages.unsqueeze(1) - ages) / 5
    assert_close(whole, (-0.5 * apart.square()).exp())


def test_a_standardised_bandwidth_has_all_digits():
    age = columns_of(64, holes=False)["age"]
    kernel = KERNELS["gaussian"]("age", sigma=1.0, standardise=True)
    kernel.fit({"age": age})
    assert float(kernel.sigma) == pytest.approx(float(age.double().std()), rel=1e-9)
