from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from neurocontrast.evaluation import EvaluationSettings, plan_study, run_study
from neurocontrast.evaluation.comparison import Evaluated, compare_sensitive
from neurocontrast.evaluation.panels.sensitive import choose_sensitive, error_resamples
from neurocontrast.evaluation.schema import Evaluation
from neurocontrast.exceptions import ConfigError, DataError

FAST = {"target": "label", "n_bootstraps": 300, "umap": False, "C": (0.1,), "outlyingness": False, "confounds": False}


def coloured(strength, n=400, seed=0):
    """Build features of which the first two tell the colours as plainly as `strength` says."""
    generator = np.random.default_rng(seed)
    colours, codes = generator.random((n, 2)), generator.integers(3, size=n)
    features = generator.normal(size=(n, 8)) + 3 * np.eye(3, 8)[codes][:, ::-1]
    features[:, :2] += strength * colours
    table = pd.DataFrame(
        {
            "participant_id": [f"image-{row}" for row in range(n)],
            "session": "",
            "split": np.repeat(["train", "validation", "test"], [n // 2, n // 4, n // 4]),
            "label": [f"class {code}" for code in codes],
            "background_red": colours[:, 0],
            "background_green": colours[:, 1],
            "background_name": generator.choice(["light", "dark"], n),
        }
    )
    return table, features


def summary_of(strength, **options):
    table, features = coloured(strength)
    settings = EvaluationSettings(**{**FAST, "sensitive": ("background_*",), **options})
    return run_study(plan_study(table, features, settings=settings))


def test_the_error_is_that_of_ridge_regression_on_test_images():
    table, features = coloured(3.0)
    result = summary_of(3.0, split_column="split")
    found = result.evaluation.content()["sensitive"]
    fitted, tested = table["split"] != "test", table["split"] == "test"
    scaler = StandardScaler().fit(features[fitted])
    errors, usual = {}, {}
    for name in ("background_red", "background_green"):
        model = Ridge(alpha=found["alpha"][name]).fit(scaler.transform(features[fitted]), table[name][fitted])
        errors[name] = float(((model.predict(scaler.transform(features[tested])) - table[name][tested]) ** 2).mean())
        usual[name] = float(((table[name][fitted].mean() - table[name][tested]) ** 2).mean())
        figures = found["columns"][name]
        assert figures["mse"] == pytest.approx(errors[name])
        assert figures["constant_mse"] == pytest.approx(usual[name])
        assert figures["r2"] == pytest.approx(1 - errors[name] / usual[name])
        assert figures["low"] < figures["mse"] < figures["high"]
        assert figures["r2_low"] < figures["r2"] < figures["r2_high"]
    assert set(found["columns"]) == set(errors)
    assert found["mse"]["value"] == pytest.approx(np.mean(list(errors.values())))
    assert found["mse"]["low"] < found["mse"]["value"] < found["mse"]["high"]
    assert found["r2"]["value"] == pytest.approx(1 - found["mse"]["value"] / found["constant_mse"])
    assert 0 < found["r2"]["low"] < found["r2"]["value"] < found["r2"]["high"] < 1
    assert (found["n"], found["design"], found["probe"]) == (100, "fixed", "ridge")
    predicted = result.tables["sensitive_predictions"]
    again = (predicted["true_background_red"] - predicted["predicted_background_red"]) ** 2
    assert again.mean() == pytest.approx(errors["background_red"])


@pytest.mark.parametrize("options", [{"split_column": "split"}, {"n_folds": 3}])
def test_an_embedding_that_tells_less_is_fairer_and_one_that_tells_nothing_is_at_the_constant(options):
    told, hidden = (summary_of(strength, **options).evaluation.content()["sensitive"] for strength in (4.0, 0.0))
    assert told["mse"]["value"] < 0.6 * hidden["mse"]["value"]
    assert hidden["mse"]["value"] == pytest.approx(hidden["constant_mse"], rel=0.1)
    assert hidden["r2"]["low"] < 0.02 < told["r2"]["low"]  # one interval reaches down to nothing, the other does not
    assert told["constant_mse"] == pytest.approx(1 / 12, rel=0.2)  # the variance of a uniform number
    assert hidden["n"] == (100 if "split_column" in options else 400)


def test_without_resamples_there_are_no_intervals():
    found = summary_of(1.0, split_column="split", n_bootstraps=0).evaluation.content()["sensitive"]
    assert found["mse"]["low"] is None
    assert found["columns"]["background_red"]["r2_high"] is None
    assert found["columns"]["background_red"]["mse"] > 0


def test_nothing_is_said_where_nothing_is_asked():
    result = summary_of(1.0, sensitive=())
    assert result.evaluation.content()["sensitive"] is None
    assert "sensitive_predictions" not in result.tables


def test_the_interval_of_an_error_holds_the_true_one():
    generator, n_held = np.random.default_rng(0), 0
    for draw in range(200):
        squares = generator.chisquare(1, size=(150, 1))
        low, high = error_resamples(squares, np.arange(150), n_bootstraps=300, seed=draw)[0].interval(level=0.95)
        n_held += low <= 1.0 <= high
    assert 0.89 <= n_held / 200 <= 0.98


class TestColumns:
    def test_a_pattern_names_columns_of_numbers(self):
        table, _ = coloured(1.0)
        assert choose_sensitive(table, ("background_*",), target="label") == ("background_red", "background_green")
        assert choose_sensitive(table, ("background_red", "*_red"), target="label") == ("background_red",)

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("backgroud_red", r"'backgroud_red' is no column .* Did you mean 'background_red'"),
            ("colour_*", "is no column of the table, nor a pattern"),
            ("background_name", "holds text"),
            ("participant_id", "identifies rows"),
        ],
    )
    def test_what_is_no_number_is_refused(self, name, message):
        table, _ = coloured(1.0)
        with pytest.raises(ConfigError, match=f"sensitive: .*{message}"):
            choose_sensitive(table, (name,), target="label")

    def test_the_target_is_refused(self):
        table, _ = coloured(1.0)
        with pytest.raises(ConfigError, match="'background_red' is the target"):
            choose_sensitive(table, ("background_red",), target="background_red")

    def test_missing_numbers_are_refused_with_their_rows(self):
        table, _ = coloured(1.0)
        table.loc[[2, 7], "background_red"] = np.nan
        with pytest.raises(DataError, match=r"'background_red' has no number in 2 of 400 rows \(image-2, image-7"):
            choose_sensitive(table, ("background_red",), target="label")

    def test_a_constant_is_refused(self):
        table, _ = coloured(1.0)
        table["background_red"] = 0.5
        with pytest.raises(DataError, match=r"is 0\.5 in every row"):
            choose_sensitive(table, ("background_red",), target="label")


def compared(tables, n_bootstraps):
    content = {"format": 1, "target": "a", "kind": "continuous", "splits": "fixed", "n": {}, "metrics": {}}
    evaluation = Evaluation.model_validate(content | {"sensitive": {"columns": {"red": {"constant_mse": 1 / 12}}}})
    folds = pd.DataFrame()
    loaded = [Evaluated(name, evaluation, folds, folds, sensitive=table) for name, table in tables.items()]
    return compare_sensitive(loaded, n_bootstraps=n_bootstraps, level=0.95, seed=0)


def predictions(noise, seed, n=500):
    truth = np.random.default_rng(0).random(n)
    guess = truth + noise * np.random.default_rng(seed).normal(size=n)
    rows = np.random.default_rng(seed).permutation(n)  # whatever their order, the same image is compared
    names = np.array([f"image-{row:03d}" for row in range(n)], dtype=object)
    return pd.DataFrame({"participant_id": names, "session": "", "true_red": truth, "predicted_red": guess}).iloc[rows]


def test_differences_of_errors_are_paired():
    tables = {"told": predictions(0.1, 1), "fair": predictions(0.3, 2)}
    found = compared(tables, 300)
    fair = found.set_index(["model", "column"]).loc[("fair", "red")]
    assert fair["difference"] == pytest.approx(0.09 - 0.01, abs=0.02)
    assert 0 < fair["difference_low"] < fair["difference"] < fair["difference_high"]
    assert found["column"].tolist() == ["red", "all", "red", "all"]
    told = found[found["model"] == "told"]
    assert told["difference"].isna().all()
    assert told["mse"].tolist() == pytest.approx([0.01, 0.01], abs=0.003)


def test_other_images_are_not_paired():
    tables = {"told": predictions(0.1, 1), "fair": predictions(0.3, 2).iloc[1:], "none": None}
    for other in ("fair", "none"):
        given = {name: tables[name] for name in ("told", other)}
        assert compared(given, 10).empty
