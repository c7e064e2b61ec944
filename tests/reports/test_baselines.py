"""Models beside the embedding have the study's estimator, the page names it, and one of them is not linear."""

import re
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import neurocontrast
from neurocontrast.documents.figures import Increment, Metric
from neurocontrast.evaluation import EvaluationSettings, plan_evaluation
from neurocontrast.evaluation.fit.out_of_fold import OutOfFold, cross_validate
from neurocontrast.evaluation.measure.external import measure_external_test
from neurocontrast.evaluation.measure.finding import Inputs
from neurocontrast.evaluation.plan.external import plan_external
from neurocontrast.evaluation.plan.models.own import find_picked_columns
from neurocontrast.evaluation.plan.models.voxels import make, voxel_products
from neurocontrast.evaluation.probes import estimators, search
from neurocontrast.evaluation.probes.designs import standardised
from neurocontrast.exceptions import ConfigError
from neurocontrast.reporting import baselines
from neurocontrast.reporting.blocks import Citations
from neurocontrast.reporting.folder import read_folder
from neurocontrast.reporting.result_prose import result_prose
from neurocontrast.reporting.sections.methods import write_methods
from tests.evaluation.quick import FAST, evaluate_study, warnings

N_SCANS = 120
SVM = make_pipeline(StandardScaler(), SVR(C=30))


def people(n: int = N_SCANS, *, seed: int = 0) -> pd.DataFrame:
    """Invent people whose age is a product of two of their regional measures, and features without age."""
    random = np.random.default_rng(seed)
    regions = random.normal(size=(n, 8))
    age = 40 + 20 * np.tanh(2 * regions[:, 0] * regions[:, 1]) + random.normal(0, 2, n)
    columns = {
        "participant_id": [f"s{seed}{row:03d}" for row in range(n)],
        "age": age,
        "sex": random.choice(["F", "M"], n),
        "site": random.choice(["a", "b", "c"], n),
        "diagnosis": np.where(age > 40, "patient", "control"),
    }
    measures = pd.DataFrame(regions, columns=[f"roi_{number}" for number in range(8)])
    return pd.DataFrame(columns).join(measures)


def features_of(table: pd.DataFrame) -> np.ndarray:
    """Invent features that follow age a little."""
    random = np.random.default_rng(9)
    features = random.normal(size=(len(table), 6))
    features[:, 0] += table["age"] / 20
    return features


def make_plan(table=None, *, estimator=None, **options):
    """Plan an evaluation of age beside the regional measures."""
    table = people() if table is None else table
    chosen = {**FAST, "target": "age", "regional": ("roi_*",), "covariates": ("sex",), **options}
    settings = EvaluationSettings(**chosen)
    return plan_evaluation(table, features_of(table), settings=settings, estimator=estimator)


def predict(plan, name: str) -> OutOfFold:
    """Predict by one model of a study."""
    model = next(model for model in plan.models if model.name == name)
    return cross_validate(model, plan.target, plan.splits, plan.context)


def mean_error(plan, name: str) -> float:
    """Return the mean absolute error of a model over all folds."""
    return float(np.abs(predict(plan, name).scores[0] - plan.target.values).mean())


class TestTheUsersEstimator:
    def test_every_model_is_a_clone_of_it_in_the_same_folds(self):
        plan = make_plan(estimator=SVM)
        names = {model.name for model in plan.models}
        assert {"embedding", "baseline", "regional"} <= names
        assert "regional_kernel" not in names
        measures = plan.table.filter(like="roi_").to_numpy()
        expected = np.zeros(N_SCANS)
        for split in plan.splits:
            fitted = clone(SVM).fit(measures[split.train], plan.target.values[split.train])
            expected[split.test] = fitted.predict(measures[split.test])
        np.testing.assert_allclose(predict(plan, "regional").scores[0], expected)

    def test_voxels_have_it_too(self):
        plan = make_plan(estimator=SVM, regional=())
        values = np.random.default_rng(0).normal(size=(N_SCANS, 50)).astype(np.float32)
        model = make(plan, voxel_products(values), {})
        assert model.estimator is plan.estimator

    def test_a_search_of_the_baseline_gets_the_subjects(self):
        class Remembers(GroupKFold):
            sizes: ClassVar[list[tuple[int, int]]] = []

            def split(self, X, y=None, groups=None):
                self.sizes.append((X.shape[1], len(set(groups))))
                return super().split(X, y, groups)

        search = GridSearchCV(Ridge(), {"alpha": [1.0, 10.0]}, cv=Remembers(3))
        plan = make_plan(estimator=search, n_folds=2)
        Remembers.sizes.clear()
        predict(plan, "regional")
        assert Remembers.sizes == [(8, len(split.train)) for split in plan.splits]

    def test_record_page_table_and_methods_name_it(self, tmp_path):
        table = people()
        columns = [f"feature_{number:04d}" for number in range(6)]
        table = table.join(pd.DataFrame(features_of(table), columns=columns))
        options = {**FAST, "regional": ("roi_*",), "covariates": ("sex",), "n_bootstraps": 50}
        evaluation = neurocontrast.evaluate(
            table, target="age", out=tmp_path / "out", estimator=SVM, **options
        )
        written = evaluation.record.estimators
        assert list(written) == ["embedding", "baseline", "regional"]
        assert {estimator.name for estimator in written.values()} == {"StandardScaler + SVR"}
        assert all("SVR(C=30)" in estimator.estimator for estimator in written.values())
        assert set(evaluation.table["estimator"]) == {"StandardScaler + SVR"}
        files = read_folder(tmp_path / "out")
        reach = "8 regional measures, without any encoder, reach MAE"
        assert reach in result_prose(files).plain()
        named = "embedding, covariates and regions by StandardScaler + SVR"
        assert named in result_prose(files).plain()
        assert named in result_prose(files).reviewer()
        assert "8 regional measures by StandardScaler + SVR" in result_prose(files).sentence()
        methods = " ".join(paragraph for _, paragraph in write_methods(files, Citations()))
        assert methods.count("in the same folds by StandardScaler + SVR") == 2
        page = evaluation.report().read_text()
        assert "of 8 regional measures by StandardScaler + SVR" in page

    @pytest.mark.parametrize(
        ("estimator", "why"),
        [
            (make_pipeline(PCA(5), Ridge()), "must be between 0 and"),
            (
                make_pipeline(ColumnTransformer([("first", PCA(1), [0, 1])]), Ridge()),
                r"takes columns by their position \(ColumnTransformer\)",
            ),
            (
                HistGradientBoostingRegressor(categorical_features=[0], max_iter=2),
                r"takes columns by their position \(categorical_features\)",
            ),
        ],
    )
    def test_a_model_that_it_does_not_fit_is_left_out_with_a_caution(self, estimator, why):
        table = people().drop(columns=[f"roi_{number}" for number in range(3, 8)])
        plan = make_plan(table, estimator=estimator)
        assert [model.name for model in plan.models] == ["embedding", "baseline"]
        notices = {notice.code: notice.message for notice in plan.notices}
        assert notices["baseline_left_out"].startswith("3 regional measures are not compared")
        assert re.search(why, notices["baseline_left_out"])

    def test_a_failure_in_a_later_fold_names_the_model(self):
        class FailsWithEight(Ridge):
            def predict(self, X):
                if X.shape[1] == 8 and len(X) > 1:
                    raise ValueError("eight")
                return super().predict(X)

        plan = make_plan(estimator=FailsWithEight())
        with pytest.raises(ConfigError, match=r"eight \(model 'regional', fold 0 of repeat 0\)"):
            predict(plan, "regional")

    def test_a_baseline_that_it_does_not_fit_says_so_in_the_sentence(self, tmp_path):
        table = people()
        columns = [f"feature_{number:04d}" for number in range(6)]
        table = table.join(pd.DataFrame(features_of(table), columns=columns))
        estimator = make_pipeline(PCA(4), Ridge())
        options = {**FAST, "regional": ("roi_*",), "covariates": ("sex",), "n_bootstraps": 50}
        evaluation = neurocontrast.evaluate(
            table, target="age", out=tmp_path / "out", estimator=estimator, **options
        )
        assert evaluation.record.estimators["baseline"].name == "ridge"
        assert evaluation.record.estimators["regional"].name == "PCA + Ridge"
        said = result_prose(read_folder(tmp_path / "out")).plain()
        assert "The covariates do not have the embedding's estimator" in said
        assert "covariates by ridge regression" in said

    def test_without_a_covariate_the_baseline_is_the_average(self):
        plan = make_plan(estimator=KNeighborsRegressor(3), covariates=())
        predicted = predict(plan, "baseline").scores[0]
        for split in plan.splits:
            average = plan.target.values[split.train].mean()
            np.testing.assert_allclose(predicted[split.test], average)

    def test_an_external_baseline_that_it_does_not_fit_is_named(self):
        table = people()
        estimator = make_pipeline(PCA(3), Ridge())
        plan = make_plan(
            table, estimator=estimator, covariates=("sex", "roi_0"), test="others.parquet"
        )
        assert plan.models[1].estimator is plan.estimator
        others = people(40, seed=1).drop(columns="roi_0")
        external = plan_external(plan, others, features_of(others))
        codes = {notice.code: notice.message for notice in external.notices}
        assert codes["external_baseline_default"].startswith("test: The baseline has the default")
        tested = Inputs(plan.with_external(external), {})
        record = measure_external_test(tested).records["external"]
        assert record.baseline["mae"].value is not None

    def test_positions_are_looked_for_in_every_step(self):
        picking = ColumnTransformer([("first", StandardScaler(), slice(0, 2))])
        assert find_picked_columns(GridSearchCV(make_pipeline(picking, Ridge()), {})) is not None
        whole = ColumnTransformer([("all", StandardScaler(), slice(None))])
        assert find_picked_columns(make_pipeline(whole, Ridge())) is None
        assert find_picked_columns(HistGradientBoostingRegressor()) is None


class TestTheSecondBaseline:
    def test_it_reads_what_no_line_can(self):
        plan = make_plan(alpha=tuple(10.0**power for power in range(-1, 5)))
        assert {"regional", "regional_kernel"} <= {model.name for model in plan.models}
        assert mean_error(plan, "regional_kernel") < 0.7 * mean_error(plan, "regional")

    def test_it_is_the_kernel_ridge_of_scikit_learn(self):
        plan = make_plan(alpha=(3.0,))
        model = plan.models[-1]
        probe = replace(model.estimator, widths=(0.3,))
        train = plan.splits[0].train
        test = plan.splits[0].test
        measures = plan.table.filter(like="roi_").to_numpy()
        scaler = StandardScaler().fit(measures[train])
        gamma = 0.3 / 8
        values = plan.target.values
        fitted = estimators.fit_built_in(
            probe, model.design, train, test, values, [], plan.settings
        )
        mean = values[train].mean()
        kernel = KernelRidge(kernel="precomputed", alpha=3.0 * 2 * gamma)
        x = scaler.transform(measures)
        products = np.exp(-gamma * ((x[:, None] - x[None]) ** 2).sum(axis=2))
        products -= products[:, train].mean(axis=1, keepdims=True)
        products -= products[train].mean(axis=0)
        kernel.fit(products[np.ix_(train, train)], values[train] - mean)
        expected = kernel.predict(products[np.ix_(test, train)]) + mean
        np.testing.assert_allclose(fitted.estimator.predict(fitted.x_test), expected, rtol=1e-6)

    def test_width_and_penalty_are_those_of_a_search_over_both(self):
        plan = make_plan(alpha=(0.1, 10.0, 1000.0))
        model = plan.models[-1]
        train = plan.splits[0].train
        values = plan.target.values
        halves = [(train[::2], train[1::2]), (train[1::2], train[::2])]
        losses = {}
        for width in model.estimator.widths:
            for alpha in plan.settings.alpha:
                probe = replace(model.estimator, widths=(width,))
                settings = plan.settings.model_copy(update={"alpha": (alpha,)})
                errors = []
                for rows, tried in halves:
                    fitted = estimators.fit_built_in(
                        probe, model.design, rows, tried, values, [], settings
                    )
                    predicted = fitted.estimator.predict(fitted.x_test)
                    errors.append(((predicted - values[tried]) ** 2).mean())
                losses[width, alpha] = np.mean(errors)
        width, alpha = min(losses, key=losses.get)
        chosen = estimators.fit_built_in(
            model.estimator, model.design, train, train, values, halves, plan.settings
        )
        settings = plan.settings.model_copy(update={"alpha": (alpha,)})
        best = estimators.fit_built_in(
            replace(model.estimator, widths=(width,)),
            model.design,
            train,
            train,
            values,
            [],
            settings,
        )
        assert chosen.strength == alpha
        np.testing.assert_allclose(chosen.x_test, best.x_test)

    def test_rows_that_are_tested_have_no_part_in_it(self):
        table = people()
        plan = make_plan(table)
        test = plan.splits[0].test
        changed = table.copy()
        changed.loc[test[1:], ["roi_0", "roi_1", "age"]] = [5.0, -5.0, 90.0]
        other = replace(
            make_plan(changed),
            splits=plan.splits,
            target=replace(plan.target, values=changed["age"]),
        )
        first, second = (
            predict(replace(each, splits=plan.splits[:1]), "regional_kernel")
            for each in (plan, other)
        )
        assert first.fits[0].strength == second.fits[0].strength
        assert first.scores[0, test[0]] == second.scores[0, test[0]]

    def test_gaps_are_filled_from_training_rows(self):
        table = people()
        table.loc[[0, 119], "roi_0"] = np.nan
        train = np.arange(60)
        first, second = make_plan(table).models[-1].design(train, np.arange(60, N_SCANS))
        average = table["roi_0"][train].mean()
        assert first[0, 0] == pytest.approx(average)
        assert second[-1, 0] == pytest.approx(average)

    @pytest.mark.parametrize("classes", [2, 3])
    def test_classes_have_probabilities(self, classes):
        table = people()
        ranks = table["age"].rank(pct=True)
        table["diagnosis"] = np.minimum((ranks * classes).astype(int), classes - 1).astype(str)
        table["diagnosis"] = "group " + table["diagnosis"]
        plan = make_plan(table, target="diagnosis", covariates=("sex",))
        scores = predict(plan, "regional_kernel").scores[0]
        assert scores.min() >= 0
        assert scores.max() <= 1
        if classes == 3:
            np.testing.assert_allclose(scores.sum(axis=1), 1)

    @pytest.mark.parametrize(
        "options", [{"regional": ()}, {"estimator": SVM}, {"estimator": Ridge(), "regional": ()}]
    )
    def test_there_is_none_without_measures_or_beside_an_estimator_of_the_user(self, options):
        assert not any("kernel" in model.name for model in make_plan(**options).models)

    def test_rare_gaps_do_not_set_people_apart(self):
        table = people()
        gaps = table.copy()
        for row in range(8):
            gaps.loc[row, f"roi_{row}"] = np.nan
        whole = make_plan(table)
        gappy = make_plan(gaps)
        others = np.arange(8, N_SCANS)
        first, second = (predict(plan, "regional_kernel").scores[0] for plan in (whole, gappy))
        truth = whole.target.values
        assert np.abs(second - truth)[others].mean() < 1.2 * np.abs(first - truth)[others].mean()

    def test_many_scans_are_compared_with_as_many_landmarks_as_allowed(self, monkeypatch):
        monkeypatch.setattr(search, "N_LANDMARKS", 30)
        plan = make_plan()
        split = plan.splits[0]
        x = standardised(plan.models[-1].design, split.train, split.test)
        train, test = search.expand(x.train, x.test, 0.3)
        assert train.shape[1] < 30
        assert len(test) == len(split.test)
        assert np.isfinite(mean_error(plan, "regional_kernel"))

    def test_p_values_of_two_baselines_are_adjusted(self):
        result = evaluate_study(make_plan(n_bootstraps=50))
        content = result.evaluation.content()
        pairs = [
            (
                content[f"{name}_increment"]["mae"]["p_value"],
                content[f"{name}_increment"]["mae"]["p_adjusted"],
            )
            for name in ("regional", "regional_kernel")
        ]
        smallest = min(pairs)
        assert smallest[1] == pytest.approx(min(1.0, 2 * smallest[0]))
        assert content["rivals"]["regional_kernel"]["of"] == "regional"
        assert content["estimators"]["regional_kernel"]["name"] == "kernel-ridge"
        assert content["estimators"]["regional"]["name"] == "ridge"
        assert {"regional_kernel_mae", "regional_mae"} <= set(result.tables["folds"])
        assert "regional_kernel_as_good" in warnings(content)


def of_measures(
    key: str, by: str, value: float, interval: tuple[float, float] | None
) -> baselines.MeasuredBaseline:
    """Make a baseline of 12 measures with one error."""
    middle = None if interval is None else sum(interval) / 2
    increment = Increment(difference=0.0 if middle is None else middle, interval=interval)
    metrics = {"mae": Metric(pooled=value)}
    return baselines.MeasuredBaseline(
        key, key, "12 measures", metrics, {"mae": increment}, by=by, of="regional"
    )


class TestTheVerdict:
    """The embedding's error minus the baseline's: below zero is better."""

    @pytest.mark.parametrize(
        ("line", "kernel", "verdict"),
        [
            (
                (-3.0, -1.0),
                (-2.0, -0.5),
                "does better than each of them, .* the stronger is kernel ridge",
            ),
            (
                (-3.0, -1.0),
                (-1.0, 1.0),
                r"not shown beside the stronger, kernel ridge \(it does better than ridge alone\)",
            ),
            ((-3.0, -1.0), (0.5, 1.0), "does worse than the stronger, kernel ridge"),
            ((-1.0, 1.0), (-2.0, -0.5), "not shown beside the weaker, ridge"),
            ((-3.0, -1.0), None, "no interval of the differences"),
        ],
    )
    def test_it_holds_beside_both_or_is_not_said(self, monkeypatch, line, kernel, verdict):
        models = [
            of_measures("regional", "ridge", 6.0, line),
            of_measures("second", "kernel ridge", 5.0, kernel),
        ]
        monkeypatch.setattr(baselines, "list_baselines", lambda _: models)
        said = baselines.say_baselines(None, "mae")
        assert "reach MAE 6.00 by ridge and 5.00 by kernel ridge" in said
        assert re.search(verdict, said)

    def test_numbers_in_large_print_are_of_the_stronger(self):
        models = [
            of_measures("regional", "ridge", 6.0, None),
            of_measures("second", "kernel ridge", 5.0, None),
        ]
        assert [model.key for model in baselines.strongest(models, "mae")] == ["second"]
        assert [model.key for model in baselines.strongest(models, "r2")] == []


def test_a_comparison_of_two_estimators_says_so(tmp_path):
    table = people()
    columns = [f"feature_{number:04d}" for number in range(6)]
    table = table.join(pd.DataFrame(features_of(table), columns=columns))
    options = {**FAST, "covariates": ("sex",), "n_bootstraps": 50, "target": "age"}
    first = neurocontrast.evaluate(table, out=tmp_path / "one", **options)
    second = neurocontrast.evaluate(table, out=tmp_path / "two", estimator=SVM, **options)
    neurocontrast.compare([first, second], out=tmp_path / "both", names=["one", "two"])
    html = (tmp_path / "both" / "comparison.html").read_text()
    assert "The models do not have one estimator (one: ridge regression; two: Pipeline(" in html


def test_logistic_baselines_have_the_probe_of_the_settings():
    plan = make_plan(target="diagnosis", probe="logistic", covariates=("sex",))
    described = {model.name: plan.describe(model).name for model in plan.models}
    assert described == {
        "embedding": "logistic",
        "baseline": "logistic",
        "regional": "logistic",
        "regional_kernel": "kernel-logistic",
    }
    assert isinstance(plan.models[-1].estimator.make(False), LogisticRegression)
