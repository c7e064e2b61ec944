"""Kernels: their formulas, how they compose, what is missing, what is refused."""

import json
import math
from contextlib import nullcontext

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from scipy.stats import gaussian_kde

from neurocontrast import losses
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import (
    Categorical,
    ConditionalEmbedding,
    Cosine,
    Different,
    Gaussian,
    Laplacian,
    Linear,
    Polynomial,
)
from neurocontrast.kernels.factors import KernelLike, build_kernel

AGES = torch.tensor([20.0, 25.0, 60.0, 25.0], dtype=torch.float64)
VECTORS = torch.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0], [1.0, 2.0]], dtype=torch.float64)
SEX = torch.tensor([0, 1, 1, 0])
NAN = float("nan")


def _pairs(values, formula):
    return torch.tensor([[formula(a, b) for b in values] for a in values], dtype=torch.float64)


@pytest.mark.parametrize(
    ("kernel", "formula"),
    [
        (Gaussian("y", sigma=5.0), lambda a, b: math.exp(-0.5 * sum(((a - b) / 5) ** 2))),
        (
            Gaussian("y", sigma=[0.5, 2.0]),
            lambda a, b: math.exp(-0.5 * (((a[0] - b[0]) / 0.5) ** 2 + ((a[1] - b[1]) / 2) ** 2)),
        ),
        (Laplacian("y", sigma=2.0), lambda a, b: math.exp(-sum(abs(a - b)) / 2)),
        (Laplacian("y", sigma=2.0, norm=2), lambda a, b: math.exp(-(a - b).norm() / 2)),
        (Cosine("y"), lambda a, b: float(a @ b / (a.norm() * b.norm()))),
        (Linear("y"), lambda a, b: float(a @ b)),
        (Polynomial("y"), lambda a, b: float((a @ b + 1) ** 3)),
        (
            Polynomial("y", degree=2, gamma=0.5, coef0=2.0),
            lambda a, b: float((0.5 * (a @ b) + 2) ** 2),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_formula(kernel, formula):
    torch.testing.assert_close(
        kernel({"y": VECTORS}), _pairs(VECTORS, formula), rtol=1e-12, atol=1e-12
    )


def test_categories_are_equal_where_those_of_every_column_are():
    for codes in (SEX, torch.tensor([[0, 1], [0, 1], [0, 2], [1, 1]])):
        expected = _pairs(codes, lambda a, b: float((a == b).all())).float()
        assert torch.equal(Categorical("codes")({"codes": codes}), expected)


SITES = torch.tensor([0, 0, 1, 2])


@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * (Gaussian("age", sigma=5.0) * Categorical("sex")) + Laplacian("age", sigma=3.0),
        2.0 * (Gaussian("age", sigma=5.0) * Different("site")) + Categorical("site"),
        Gaussian("partial", sigma=5.0, missing="marginal"),
        Linear("partial", twin="supremum", missing="marginal"),
    ],
)
def test_a_block_is_a_part_of_the_whole_and_knows_a_scan_with_itself(kernel):
    partial = torch.tensor([20.0, NAN, 60.0, NAN], dtype=torch.float64)
    metadata = {"age": AGES, "sex": SEX, "site": SITES, "partial": partial}
    whole = kernel(metadata)
    block = kernel.bind(metadata, metadata)
    for i, j in (
        (slice(2, 4), slice(0, 4)),
        (slice(3, 4), slice(1, 4)),
        (slice(1, 3), slice(0, 2)),
    ):
        torch.testing.assert_close(block(i, j), whole[i, j])


def test_different_is_1_across_sites_as_chosen_within_one_and_1_with_itself():
    site = {"site": SITES}
    expected = torch.tensor([[1.0, 0.3, 1, 1], [0.3, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]])
    torch.testing.assert_close(Different("site", within=0.3)(site), expected)
    assert torch.equal(Different("site", within=1.0)(site), torch.ones(4, 4))
    assert Different("site").supremum == 1
    rows = {"site": torch.tensor([0, 1])}
    others = {"site": torch.tensor([0, 1])}  # between other scans nobody is itself
    assert torch.equal(Different("site")(rows, others), torch.tensor([[0.0, 1], [1, 0]]))
    weights = Different("site", missing="marginal")({"site": torch.tensor([0, 0, 1, -1])})
    torch.testing.assert_close(
        weights[3, :3], torch.full((3,), 4 / 6)
    )  # the chance of another site
    assert torch.equal(weights.diagonal(), torch.ones(4))


@pytest.mark.parametrize(
    "kernel",
    [
        Different("site"),
        Gaussian("age", sigma=5.0) * Different("site"),
        Categorical("sex") + Different("site"),
    ],
    ids=["alone", "product", "sum"],
)
def test_a_conditional_embedding_refuses_what_is_not_positive_semidefinite(kernel):
    assert torch.linalg.eigvalsh(Different("site")({"site": SITES})).min() < -0.1
    for use in (ConditionalEmbedding, losses.FairCCLK, losses.WeaklySupervisedCCLK):
        with pytest.raises(
            ConfigError, match=r"positive semi-definite kernel, and Different\('site'\) is none"
        ):
            use(kernel)
    assert losses.FairCCLK(Different("site", within=1.0)).kernel is not None


def test_product_and_weighted_sum():
    metadata = {"age": AGES, "sex": SEX}
    age = Gaussian("age", sigma=5.0)
    sex = Categorical("sex")
    torch.testing.assert_close((age * sex)(metadata), age(metadata) * sex(metadata))
    torch.testing.assert_close(
        (2.0 * age + sex)(metadata), 2 * age(metadata) + sex(metadata).double()
    )
    assert (age * sex).supremum == 1
    assert (2.0 * age + 0.5 * (age * sex)).supremum == 2.5
    assert (age * sex).columns == {"age": "continuous", "sex": "categorical"}
    fitted = (Gaussian("age", sigma="scott") + sex).fit(metadata)
    torch.testing.assert_close(
        fitted(metadata), Gaussian("age", sigma="scott").fit(metadata)(metadata) + sex(metadata)
    )
    with pytest.raises(ConfigError, match="weight in a sum"):
        -1.0 * sex


def test_supremum_over_a_batch_where_there_is_none_in_general():
    assert math.isinf(Linear("y").supremum)
    for kernel in (Linear("y"), Polynomial("y"), Linear("y") * Gaussian("y", sigma=9.0)):
        assert float(kernel.supremum_over({"y": VECTORS})) == pytest.approx(
            float(kernel({"y": VECTORS}).max())
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
def test_no_float64_from_other_types(dtype):
    kernel = Gaussian("age", sigma=5.0) * Laplacian("age", sigma=5.0) + Categorical("sex")
    assert kernel({"age": AGES.to(dtype), "sex": SEX}).dtype == torch.float32


def test_weights_carry_no_gradient():
    assert not Gaussian("age", sigma=5.0)({"age": AGES.clone().requires_grad_()}).requires_grad


def test_full_precision_under_autocast():
    wide = torch.randn(6, 64, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = Linear("y")({"y": wide})
    torch.testing.assert_close(half, Linear("y")({"y": wide}), rtol=0, atol=0)


class TestBandwidth:
    @pytest.mark.parametrize("n_dims", [2, 4])
    @pytest.mark.parametrize("rule", ["scott", "silverman"])
    def test_rule_is_that_of_scipy(self, rule, n_dims):
        values = (
            torch.randn(40, n_dims, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            * 7
        )
        kernel = Gaussian("y", sigma=rule)
        assert kernel.fit({"y": values}) is kernel
        factor = gaussian_kde(values.T.numpy(), bw_method=rule).factor
        torch.testing.assert_close(kernel.sigma, factor * values.std(0))

    def test_missing_values_do_not_count(self):
        some = torch.tensor([1.0, NAN, 4.0, 9.0, NAN])
        sigma = Gaussian("y", sigma="scott").fit({"y": some}).sigma
        torch.testing.assert_close(
            sigma, Gaussian("y", sigma="scott").fit({"y": some[[0, 2, 3]]}).sigma
        )

    def test_it_is_needed_before_use_and_travels_in_the_state(self):
        kernel = Gaussian("y", sigma="scott") * Categorical("sex")
        metadata = {"y": VECTORS, "sex": SEX}
        with pytest.raises(ConfigError, match="fit"):
            kernel(metadata)
        expected = kernel.fit(metadata)(metadata)
        loaded = Gaussian("y", sigma="scott") * Categorical("sex")
        loaded.load_state_dict(kernel.state_dict())
        assert torch.equal(loaded(metadata), expected)

    @pytest.mark.parametrize(("kind", "power"), [(Gaussian, 2.0), (Laplacian, 1.0)])
    def test_standardised_dimensions_count_by_their_mean_difference(self, kind, power):
        values = (
            torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 7
            + 100
        )
        kernel = kind("y", sigma=0.8, standardise=True).fit({"y": values})
        z = (values - values.mean(0)) / values.std(0)
        difference = ((z[0] - z[1]).abs() / (0.8 if power == 1 else 1)).pow(power).mean()
        expected = (-difference if power == 1 else -difference / (2 * 0.8**2)).exp()
        assert kernel({"y": values})[0, 1].item() == pytest.approx(expected.item())
        loaded = kind("y", sigma=0.8, standardise=True)
        loaded.load_state_dict(kernel.state_dict())
        assert torch.equal(loaded({"y": values}), kernel({"y": values}))

    def test_standardised_weights_depend_neither_on_units_nor_on_copies_of_dimensions(self):
        values = torch.randn(30, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        first = Gaussian("y", sigma=1.0, standardise=True).fit({"y": values})({"y": values})
        for other in (values * torch.tensor([1e6, 1e-3]) + 5, torch.cat([values, values], dim=1)):
            kernel = Gaussian("y", sigma=1.0, standardise=True).fit({"y": other})
            torch.testing.assert_close(kernel({"y": other}), first)

    @pytest.mark.parametrize(
        ("options", "values", "error", "message"),
        [
            ({"sigma": "scott"}, None, ConfigError, "standardise is for a sigma that is a number"),
            (
                {"sigma": 1.0},
                None,
                ConfigError,
                "standardise=True of the kernel on 'y' is not fitted yet",
            ),
            (
                {"sigma": 1.0},
                [[1.0, 2, 3], [1, 4, 3]],
                DataError,
                r"dimensions \[0, 2\] of 'y' have the same value",
            ),
            (
                {"sigma": [1.0, 2.0]},
                [[1.0, 2, 3], [2, 4, 4]],
                DataError,
                "sigma has 2 numbers, but column 'y' has 3",
            ),
        ],
    )
    def test_what_cannot_be_standardised_is_refused(self, options, values, error, message):
        def use():
            kernel = Gaussian("y", **options, standardise=True)
            return (
                kernel({"y": VECTORS})
                if values is None
                else kernel.fit({"y": torch.tensor(values)})
            )

        with pytest.raises(error, match=message):
            use()

    def test_a_constant_column_is_named(self):
        with pytest.raises(DataError, match="'age' has the same value"):
            Gaussian("age", sigma="scott").fit({"age": torch.ones(5)})


class TestMissing:
    def test_is_refused_with_rows_named(self):
        metadata = {"age": torch.tensor([20.0, NAN, 60.0]), "sex": torch.tensor([0, 1, -1])}
        with pytest.raises(DataError, match=r"'age' is missing for 1 row: 1"):
            Gaussian("age", sigma=5.0)(metadata)
        with pytest.raises(DataError, match=r"'sex' is missing for 1 row: sub-3"):
            Categorical("sex").check(metadata, names=["sub-1", "sub-2", "sub-3"])

    def test_takes_the_mean_over_pairs_of_different_observed_scans(self):
        ages = torch.tensor([20.0, NAN, 60.0, 25.0], dtype=torch.float64)
        seen = [0, 2, 3]
        others = ~torch.eye(3, dtype=torch.bool)
        weights = Gaussian("age", sigma=5.0, missing="marginal")({"age": ages})
        observed = Gaussian("age", sigma=5.0)({"age": ages[seen]})
        torch.testing.assert_close(weights[seen][:, seen], observed)
        torch.testing.assert_close(weights[1, seen], observed[others].mean().expand(3))
        torch.testing.assert_close(weights[seen, 1], observed[others].mean().expand(3))

    def test_a_scan_is_alike_to_itself_known_or_not(self):
        for kernel in (
            Gaussian("age", sigma=5.0, missing="marginal"),
            Cosine("age", missing="marginal"),
        ):
            assert kernel({"age": torch.tensor([20.0, NAN, -60.0, NAN])}).diagonal().tolist() == [
                1,
                1,
                1,
                1,
            ]
        scores = {"score": torch.tensor([1.0, NAN, 3.0])}
        assert Linear("score", missing="marginal")(scores).diagonal().tolist() == [1, 5, 9]

    def test_one_observed_scan_has_its_own_weight_alone(self):
        weights = Linear("score", missing="marginal")({"score": torch.tensor([NAN, 3.0, NAN])})
        assert torch.equal(weights, torch.full((3, 3), 9.0))

    def test_nothing_observed_has_no_say(self):
        assert torch.equal(
            Gaussian("age", sigma=5.0, missing="marginal")({"age": torch.full((2,), NAN)}),
            torch.ones(2, 2),
        )

    def test_streaming_is_exact(self, monkeypatch):
        ages = torch.randn(11, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 5
        ages[[2, 7]] = NAN
        kernel = Laplacian("age", sigma=5.0, missing="marginal")
        expected = kernel({"age": ages})
        monkeypatch.setattr("neurocontrast.kernels.column._STREAMED_SCANS", 4)
        torch.testing.assert_close(kernel({"age": ages}), expected, rtol=1e-14, atol=0)


def test_supremum_makes_a_scan_as_alike_to_itself_as_anything_can_be():
    scores = {"score": torch.tensor([1.0, 2.0, 3.0])}
    weights = Linear("score", twin="supremum")(scores)
    assert weights.diagonal().tolist() == [9, 9, 9]
    off = ~torch.eye(3, dtype=torch.bool)
    assert torch.equal(weights[off], Linear("score")(scores)[off])
    assert Polynomial("score", degree=2, twin="supremum")(scores).diagonal().tolist() == [
        100,
        100,
        100,
    ]
    product = Gaussian("score", sigma=1.0) * Linear("score", twin="supremum")
    assert product(scores).diagonal().tolist() == [9, 9, 9]


class TestRefused:
    @pytest.mark.parametrize(
        ("kernel", "ages", "message"),
        [
            (Linear("age"), [1.0, 2.0, -3.0], r"down to -6 .*b, c"),
            (Linear("age"), [0.5, -0.5], r"goes down to -0\.25"),
            (Linear("age"), [0.5, 1.0], None),
            (Cosine("age"), [[0.5], [-0.5]], r"goes down to -1"),
            (Polynomial("age", degree=3), [1.0, -2.0], "Polynomial kernel on 'age' goes down to"),
            (Polynomial("age", degree=2), [1.0, -2.0], None),
            (
                Gaussian("age", sigma=1.0) + Linear("age"),
                [1.0, -1.0],
                "Linear kernel on 'age' goes down to -1",
            ),
        ],
    )
    def test_weights_below_zero_are_found_in_the_cohort(self, kernel, ages, message):
        ages = {"age": torch.tensor(ages)}
        kernel.check(ages)
        with pytest.raises(DataError, match=message) if message else nullcontext():
            kernel.check(ages, names=["a", "b", "c"], nonnegative=True)

    def test_infinite_values_are_named(self):
        with pytest.raises(DataError, match=r"'age' is infinite for 1 row: 1"):
            Gaussian("age", sigma=5.0).check({"age": torch.tensor([1.0, torch.inf])})

    @pytest.mark.parametrize(
        ("kind", "options", "message"),
        [
            *(
                (Gaussian, {"sigma": sigma}, "sigma")
                for sigma in (0.0, -1.0, NAN, [1.0, 0.0], "scot")
            ),
            (Gaussian, {"sigma": "silvermann"}, "Did you mean 'silverman'"),
            (Laplacian, {"sigma": 1.0, "norm": 3}, "norm must be 1 or 2"),
            *(
                (Polynomial, {name: x}, name)
                for name, x in (("degree", 0), ("degree", 1.5), ("gamma", 0.0), ("coef0", -1.0))
            ),
            (Categorical, {"missing": "marginall"}, "Did you mean 'marginal'"),
            (Linear, {"twin": "max"}, "twin must be 'formula' or 'supremum'"),
            *(
                (Different, {"within": within}, "within must be ")
                for within in (-0.1, 1.1, NAN, True, "0.5")
            ),
        ],
    )
    def test_settings(self, kind, options, message):
        with pytest.raises(ConfigError, match=message):
            kind("age", **options)


def test_settings_are_a_list_of_factors_or_a_kernel():
    adapter = TypeAdapter(KernelLike)
    age = {"type": "gaussian", "column": "age", "sigma": 5.0}
    factors = adapter.validate_python([age, {"type": "categorical", "column": "sex"}])
    kernel = build_kernel(factors)
    metadata = {"age": torch.tensor([20.0, 25.0, 20.0]), "sex": torch.tensor([0, 0, 1])}
    expected = Gaussian("age", sigma=5.0)(metadata) * Categorical("sex")(metadata)
    torch.testing.assert_close(kernel(metadata), expected)
    assert build_kernel(kernel) is adapter.validate_python(kernel) is kernel
    assert adapter.validate_json(json.dumps([age])) == adapter.validate_python([age]) == factors[:1]
    for wrong, message in (
        ("age", "must be a kernel on metadata such as .*, got str"),
        ([], "at least 1 item"),
        ([{**age, "type": "gausian"}], "gausian"),
        ([{**age, "sigmas": 1.0}], "sigmas"),
    ):
        with pytest.raises(ValidationError, match=message):
            adapter.validate_python(wrong)


def test_columns_of_another_form_are_refused():
    kernel = Gaussian("age", sigma=5.0)
    for column, found in (
        (torch.ones(2, 2, 2), r"\(2, 2, 2\)"),
        ([[[1.0]]], r"\(1, 1, 1\)"),
        (torch.ones(()), r"\(\)"),
    ):
        with pytest.raises(
            DataError, match=rf"metadata\['age'\] must have shape .* got shape {found}"
        ):
            kernel({"age": column})
    with pytest.raises(DataError, match="has 2 dimensions in rows and 3 in cols"):
        kernel({"age": torch.ones(4, 2)}, {"age": torch.ones(4, 3)})
