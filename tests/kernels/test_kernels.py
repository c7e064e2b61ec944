"""Kernels: their formulas, how they compose, what is missing, what is refused."""

from __future__ import annotations

import json
import math

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from scipy.stats import gaussian_kde

from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import Categorical, Cosine, Gaussian, Laplacian, Linear, Polynomial
from neurocontrast.kernels.column import listed
from neurocontrast.kernels.factors import KernelSettings, build_kernel

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
        (Polynomial("y", degree=2, gamma=0.5, coef0=2.0), lambda a, b: float((0.5 * (a @ b) + 2) ** 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_formula(kernel, formula):
    torch.testing.assert_close(kernel({"y": VECTORS}), _pairs(VECTORS, formula), rtol=1e-12, atol=1e-12)


def test_one_dimension_may_be_a_vector_or_a_column():
    kernel = Gaussian("age", sigma=5.0)
    torch.testing.assert_close(kernel({"age": AGES}), kernel({"age": AGES[:, None]}))
    assert kernel({"age": AGES})[0, 1].item() == pytest.approx(math.exp(-0.5))


def test_categories_are_equal_or_not():
    expected = torch.tensor([[1.0, 0, 0, 1], [0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]])
    assert torch.equal(Categorical("sex")({"sex": SEX}), expected)


def test_a_block_is_a_part_of_the_whole():
    kernel = 2.0 * (Gaussian("age", sigma=5.0) * Categorical("sex")) + Laplacian("age", sigma=3.0)
    rows, cols = {"age": AGES[:3], "sex": SEX[:3]}, {"age": AGES[1:], "sex": SEX[1:]}
    torch.testing.assert_close(kernel(rows, cols), kernel({"age": AGES, "sex": SEX})[:3, 1:])


def test_product_and_weighted_sum():
    metadata = {"age": AGES, "sex": SEX}
    age, sex = Gaussian("age", sigma=5.0), Categorical("sex")
    torch.testing.assert_close((age * sex)(metadata), age(metadata) * sex(metadata))
    torch.testing.assert_close((2.0 * age + sex)(metadata), 2 * age(metadata) + sex(metadata).double())
    assert (age * sex).supremum == 1
    assert (2.0 * age + 0.5 * (age * sex)).supremum == 2.5
    assert (age * sex).columns == {"age": "continuous", "sex": "categorical"}


def test_supremum_over_a_batch_where_there_is_none_in_general():
    assert math.isinf(Linear("y").supremum)
    for kernel in (Linear("y"), Polynomial("y"), Linear("y") * Gaussian("y", sigma=9.0)):
        assert float(kernel.supremum_over({"y": VECTORS})) == pytest.approx(float(kernel({"y": VECTORS}).max()))


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
        values = torch.randn(40, n_dims, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 7
        kernel = Gaussian("y", sigma=rule)
        assert kernel.fit({"y": values}) is kernel
        factor = gaussian_kde(values.T.numpy(), bw_method=rule).factor
        torch.testing.assert_close(kernel.sigma, factor * values.std(0))

    def test_missing_values_do_not_count(self):
        some = torch.tensor([1.0, NAN, 4.0, 9.0, NAN])
        sigma = Gaussian("y", sigma="scott").fit({"y": some}).sigma
        torch.testing.assert_close(sigma, Gaussian("y", sigma="scott").fit({"y": some[[0, 2, 3]]}).sigma)

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
        values = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 7 + 100
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

    def test_standardising_twice_measures_the_last_cohort(self):
        kernel = Gaussian("y", sigma=2.0, standardise=True)
        for factor in (1.0, 3.0):
            kernel.fit({"y": AGES * factor})
            assert kernel.sigma.item() == pytest.approx(2.0 * factor * AGES.std().item())

    @pytest.mark.parametrize(
        ("options", "values", "error", "message"),
        [
            ({"sigma": "scott"}, None, ConfigError, "standardise is for a sigma that is a number"),
            ({"sigma": 1.0}, None, ConfigError, "standardise=True of the kernel on 'y' is not fitted yet"),
            ({"sigma": 1.0}, [[1.0, 2, 3], [1, 4, 3]], DataError, r"dimensions \[0, 2\] of 'y' have the same value"),
            ({"sigma": [1.0, 2.0]}, [[1.0, 2, 3], [2, 4, 4]], DataError, "sigma has 2 numbers, but column 'y' has 3"),
        ],
    )
    def test_what_cannot_be_standardised_is_refused(self, options, values, error, message):
        def use():
            kernel = Gaussian("y", **options, standardise=True)
            return kernel({"y": VECTORS}) if values is None else kernel.fit({"y": torch.tensor(values)})

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
        seen, others = [0, 2, 3], ~torch.eye(3, dtype=torch.bool)
        weights = Gaussian("age", sigma=5.0, missing="marginal")({"age": ages})
        observed = Gaussian("age", sigma=5.0)({"age": ages[seen]})
        torch.testing.assert_close(weights[seen][:, seen], observed)
        torch.testing.assert_close(weights[1, seen], observed[others].mean().expand(3))
        torch.testing.assert_close(weights[seen, 1], observed[others].mean().expand(3))

    def test_a_scan_is_alike_to_itself_known_or_not(self):
        for kernel in (Gaussian("age", sigma=5.0, missing="marginal"), Cosine("age", missing="marginal")):
            assert kernel({"age": torch.tensor([20.0, NAN, -60.0, NAN])}).diagonal().tolist() == [1, 1, 1, 1]
        scores = {"score": torch.tensor([1.0, NAN, 3.0])}
        assert Linear("score", missing="marginal")(scores).diagonal().tolist() == [1, 5, 9]

    def test_one_observed_scan_has_its_own_weight_alone(self):
        weights = Linear("score", missing="marginal")({"score": torch.tensor([NAN, 3.0, NAN])})
        assert torch.equal(weights, torch.full((3, 3), 9.0))

    def test_only_the_factor_that_is_missing_is_replaced(self):
        metadata = {"age": torch.tensor([20.0, NAN, 60.0]), "sex": torch.tensor([0, 1, -1])}
        age, sex = Gaussian("age", sigma=5.0, missing="marginal"), Categorical("sex", missing="marginal")
        torch.testing.assert_close((age * sex)(metadata), age(metadata) * sex(metadata))

    def test_nothing_observed_has_no_say(self):
        assert torch.equal(
            Gaussian("age", sigma=5.0, missing="marginal")({"age": torch.full((2,), NAN)}), torch.ones(2, 2)
        )

    def test_blocks_know_which_scans_are_the_same(self):
        ages = {"age": torch.tensor([20.0, NAN, 60.0, NAN], dtype=torch.float64)}
        for kernel in (
            Gaussian("age", sigma=5.0, missing="marginal"),
            Linear("age", twin="supremum", missing="marginal"),
        ):
            whole, block = kernel(ages), kernel.bind(ages, ages)
            for i, j in ((slice(2, 4), slice(0, 4)), (slice(3, 4), slice(1, 4)), (slice(2, 3), slice(0, 2))):
                torch.testing.assert_close(block(i, j), whole[i, j])

    def test_streaming_is_exact(self, monkeypatch):
        ages = torch.randn(11, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 5
        ages[[2, 7]] = NAN
        kernel = Laplacian("age", sigma=5.0, missing="marginal")
        expected = kernel({"age": ages})
        monkeypatch.setattr("neurocontrast.kernels.column._STREAMED_SCANS", 4)
        torch.testing.assert_close(kernel({"age": ages}), expected, rtol=1e-14, atol=0)


class TestTwins:
    def test_supremum_makes_a_scan_as_alike_to_itself_as_anything_can_be(self):
        scores = {"score": torch.tensor([1.0, 2.0, 3.0])}
        weights = Linear("score", twin="supremum")(scores)
        assert weights.diagonal().tolist() == [9, 9, 9]
        off = ~torch.eye(3, dtype=torch.bool)
        assert torch.equal(weights[off], Linear("score")(scores)[off])
        assert Polynomial("score", degree=2, twin="supremum")(scores).diagonal().tolist() == [100, 100, 100]
        product = Gaussian("score", sigma=1.0) * Linear("score", twin="supremum")
        assert product(scores).diagonal().tolist() == [9, 9, 9]


class TestRefused:
    def test_weights_below_zero_are_found_in_the_cohort(self):
        ages = torch.tensor([1.0, 2.0, -3.0])
        Linear("age").check({"age": ages})
        with pytest.raises(DataError, match=r"down to -6 .*a, c|down to -6 .*b, c"):
            Linear("age").check({"age": ages}, names=["a", "b", "c"], nonnegative=True)
        Linear("age").check({"age": ages.abs()}, nonnegative=True)
        with pytest.raises(DataError, match=r"goes down to -0\.25"):
            Linear("age").check({"age": torch.tensor([0.5, -0.5])}, nonnegative=True)
        with pytest.raises(DataError, match=r"goes down to -1"):
            Cosine("age").check({"age": torch.tensor([[0.5], [-0.5]])}, nonnegative=True)

    def test_infinite_values_are_named(self):
        with pytest.raises(DataError, match=r"'age' is infinite for 1 row: 1"):
            Gaussian("age", sigma=5.0).check({"age": torch.tensor([1.0, torch.inf])})

    @pytest.mark.parametrize(
        ("kind", "options", "message"),
        [
            *((Gaussian, {"sigma": sigma}, "sigma") for sigma in (0.0, -1.0, NAN, [1.0, 0.0], "scot")),
            (Gaussian, {"sigma": "silvermann"}, "Did you mean 'silverman'"),
            (Laplacian, {"sigma": 1.0, "norm": 3}, "norm must be 1 or 2"),
            *(
                (Polynomial, {name: x}, name)
                for name, x in (("degree", 0), ("degree", 1.5), ("gamma", 0.0), ("coef0", -1.0))
            ),
            (Categorical, {"missing": "marginall"}, "Did you mean 'marginal'"),
            (Linear, {"twin": "max"}, "twin must be 'formula' or 'supremum'"),
        ],
    )
    def test_settings(self, kind, options, message):
        with pytest.raises(ConfigError, match=message):
            kind("age", **options)

    def test_weight_in_a_sum(self):
        with pytest.raises(ConfigError, match="weight in a sum"):
            -1.0 * Categorical("sex")

    def test_unknown_column(self):
        with pytest.raises(DataError, match="Did you mean 'age'"):
            Gaussian("agee", sigma=5.0)({"age": AGES})

    def test_one_column_read_two_ways(self):
        with pytest.raises(ConfigError, match="'age' is read both"):
            Gaussian("age", sigma=5.0) * Categorical("age")


def test_categories_of_several_columns_are_equal_where_all_are():
    codes = torch.tensor([[0, 1], [0, 1], [0, 2], [1, 1]])
    expected = (codes[:, None] == codes[None]).all(2).float()
    torch.testing.assert_close(Categorical("codes")({"codes": codes}), expected)


def test_twenty_of_more_rows_are_listed():
    assert listed([3], None) == "1 row: 3"
    assert listed([0, 2], ["a", "b", "c"]) == "2 rows: a, c"
    assert listed(list(range(20)), None).endswith("18, 19")
    assert listed(list(range(23)), None).endswith("18, 19 and 3 more")


def test_settings_are_a_list_of_factors_or_a_kernel():
    adapter = TypeAdapter(KernelSettings)
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


def test_what_a_kernel_is_shows_in_its_text():
    kernel = 0.5 * Gaussian("age", sigma=5.0) + 2 * Categorical("sex")
    assert "factors=(0.5, 2.0)" in repr(kernel)
    assert "sigma=tensor(5." in repr(kernel)
    assert "column='sex'" in repr(kernel)


def test_columns_of_another_form_are_refused():
    kernel = Gaussian("age", sigma=5.0)
    for column, found in (
        (torch.ones(2, 2, 2), r"\(2, 2, 2\)"),
        ([[[1.0]]], r"\(1, 1, 1\)"),
        (torch.ones(()), r"\(\)"),
    ):
        with pytest.raises(DataError, match=rf"metadata\['age'\] must have shape .* got shape {found}"):
            kernel({"age": column})
    with pytest.raises(DataError, match="has 2 dimensions in rows and 3 in cols"):
        kernel({"age": torch.ones(4, 2)}, {"age": torch.ones(4, 3)})


def test_a_sum_is_fitted_and_checked_part_by_part():
    total = Gaussian("age", sigma="scott") + Linear("score")
    metadata = {"age": torch.tensor([20.0, 30.0, 50.0]), "score": torch.tensor([1.0, -1.0, 0.5])}
    assert total.fit(metadata) is total
    torch.testing.assert_close(
        total(metadata), Gaussian("age", sigma="scott").fit(metadata)(metadata) + Linear("score")(metadata)
    )
    total.check(metadata)
    with pytest.raises(DataError, match="Linear kernel on 'score' goes down to -1"):
        total.check(metadata, nonnegative=True)


def test_only_powers_that_are_even_are_never_negative():
    ages = {"age": torch.tensor([1.0, -2.0])}
    Polynomial("age", degree=2).check(ages, nonnegative=True)
    with pytest.raises(DataError, match="Polynomial kernel on 'age' goes down to"):
        Polynomial("age", degree=3).check(ages, nonnegative=True)
