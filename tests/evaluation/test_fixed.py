import os

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, top_k_accuracy_score
from sklearn.preprocessing import StandardScaler

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation import EvaluationSettings, plan_evaluation
from neurocontrast.exceptions import ConfigError, DataError, LeakageError
from neurocontrast.provenance import subject_digest
from tests.evaluation.quick import evaluate_study, warnings

GRID = (1e-3, 1e-2, 1e-1, 1.0)
FAST = {"target": "label", "split_column": "split", "C": GRID, "alpha": (1.0, 100.0)}
SIZES = {"train": 240, "validation": 80, "test": 120}


def images(n_classes=7, sizes=SIZES, n_features=12, seed=0, signal=1.0):
    """Build features of images whose classes and background colour can partly be told from them."""
    generator = np.random.default_rng(seed)
    parts = np.repeat(list(sizes), list(sizes.values()))
    n = len(parts)
    codes = generator.integers(n_classes, size=n)
    colours = generator.random((n, 2))
    features = signal * generator.normal(size=(n_classes, n_features))[codes] + generator.normal(
        size=(n, n_features)
    )
    features[:, :2] += 3 * colours
    table = pd.DataFrame(
        {
            "participant_id": [f"{part}-{row:05d}" for row, part in enumerate(parts)],
            "path": [f"/data/people/images.npy#{row}" for row in range(n)],
            "split": parts,
            "label": [f"class {code}" for code in codes],
            "background_red": colours[:, 0],
            "background_green": colours[:, 1],
        }
    )
    order = generator.permutation(n)
    return table.iloc[order].reset_index(drop=True), features[order].astype(np.float32)


def make_plan(table, features, info=None, **options):
    return plan_evaluation(
        table,
        features,
        settings=EvaluationSettings(**FAST | {"n_bootstraps": 200, **options}),
        info=EmbeddingsInfo.model_validate(info or {}),
    )


def test_a_penalty_that_no_inner_fold_could_choose_is_said():
    """One training image of a class cannot be in two parts of the training images."""
    table, features = images(sizes={"train": 120, "test": 60})
    rare = np.flatnonzero((table["label"] == "class 0") & (table["split"] == "train"))[1:]
    plan = make_plan(
        table.drop(index=rare).reset_index(drop=True),
        np.delete(features, rare, axis=0),
        n_bootstraps=0,
    )
    assert warnings(evaluate_study(plan))["penalty_not_chosen"].startswith(
        "1 fits have a penalty that was not chosen"
    )
    whole = evaluate_study(make_plan(table, features, n_bootstraps=0))
    assert "penalty_not_chosen" not in warnings(whole)


@pytest.fixture(scope="module")
def evaluated():
    table, features = images()
    info = {
        "pretraining_subjects": [
            subject_digest(name) for name in table["participant_id"] if "train" in name
        ],
        "pretraining_contents": [],
        "pretraining_contents_complete": True,
    }
    table["content_digest"] = "of-" + table["participant_id"]
    plan = make_plan(table, features, info)
    return table, features, plan, evaluate_study(plan)


def parts(table, features):
    codes = np.unique(table["label"], return_inverse=True)[1]
    return {
        name: (features[table["split"] == name].astype(float), codes[table["split"] == name])
        for name in SIZES
    }


def test_the_figures_are_those_of_scikit_learn_chosen_on_validation_and_fitted_on_both(evaluated):
    table, features, _, result = evaluated
    data = parts(table, features)
    scaler = StandardScaler().fit(data["train"][0])
    losses = []
    for strength in GRID:
        model = LogisticRegression(C=strength, tol=1e-10, max_iter=10000)
        model.fit(scaler.transform(data["train"][0]), data["train"][1])
        losses.append(
            log_loss(
                data["validation"][1], model.predict_proba(scaler.transform(data["validation"][0]))
            )
        )
    chosen = GRID[int(np.argmin(losses))]
    both = [np.concatenate([data["train"][side], data["validation"][side]]) for side in (0, 1)]
    scaler = StandardScaler().fit(both[0])
    model = LogisticRegression(C=chosen, tol=1e-10, max_iter=10000).fit(
        scaler.transform(both[0]), both[1]
    )
    scores = model.predict_proba(scaler.transform(data["test"][0]))
    truth = data["test"][1]
    assert result.evaluation.content()["probe"]["strength"] == chosen
    metrics = {
        name: figures["pooled"] for name, figures in result.evaluation.content()["metrics"].items()
    }
    assert metrics["accuracy"] == accuracy_score(truth, scores.argmax(axis=1))
    assert metrics["top5_accuracy"] == pytest.approx(top_k_accuracy_score(truth, scores, k=5))
    assert metrics["log_loss"] == pytest.approx(log_loss(truth, scores), abs=1e-5)
    predictions = result.tables["predictions"]
    np.testing.assert_allclose(predictions.filter(like="score_class").to_numpy(), scores, atol=1e-5)
    # No folder: results travel.
    assert (
        predictions["path"].tolist()
        == table["path"][table["split"] == "test"].map(os.path.basename).tolist()
    )
    assert table["path"].str.startswith("/data/people").all()


def test_the_summary_says_what_was_done(evaluated):
    _, _, plan, result = evaluated
    summary = result.evaluation.content()
    assert summary["splits"] == "fixed"
    assert summary["split"] == {
        "column": "split",
        "n": SIZES,
        "chosen_on": "validation",
        "refit_on": ["train", "validation"],
        "n_fitted": 320,
        "n_pretrained": {"train": 240, "validation": 0, "test": 0},
        "n_duplicates": {"test": 0},
    }
    assert summary["bootstrap"]["n_units"] == 120
    assert summary["n_overlap"] == 0
    assert summary["warnings"] == []
    assert summary["new_site"] is None
    accuracy = summary["metrics"]["accuracy"]
    assert accuracy["interval"][0] < accuracy["pooled"] < accuracy["interval"][1]
    shares = np.bincount(plan.target.values[plan.splits[0].train]) / 320
    tested = plan.target.values[plan.splits[0].test]
    assert summary["baseline"]["accuracy"]["pooled"] == (tested == shares.argmax()).mean()
    assert summary["baseline"]["top5_accuracy"]["pooled"] == pytest.approx(
        np.isin(tested, np.argsort(-shares)[:5]).mean()
    )


def test_every_table_is_of_test_images(evaluated):
    table, _, _, result = evaluated
    tested = set(table["participant_id"][table["split"] == "test"])
    for name in ("predictions", "outlyingness"):
        assert set(result.tables[name]["participant_id"]) == tested, name
    assert set(result.tables["scans"]["participant_id"]) < tested
    splits = result.tables["splits"].set_index("participant_id")
    assert (splits["split"] == table.set_index("participant_id")["split"]).all()
    assert splits["fold"].notna().sum() == 120
    assert result.tables["sites"].empty
    flow = result.tables["flow"]
    assert flow["n_scans"].tolist() == [440, 320, 120]
    assert flow["reason"][1] == "fitted on (train and validation)"


def test_without_validation_a_fifth_of_train_takes_its_place():
    table, features = images(sizes={"train": 300, "test": 100})
    plan = make_plan(table, features)
    assert list(warnings(plan)) == ["overlap_unknown", "no_validation"]
    summary = evaluate_study(plan).evaluation.content()
    assert summary["split"]["chosen_on"] == "a fifth of train"
    assert summary["split"]["refit_on"] == ["train"]
    assert summary["split"]["n"] == {"train": 300, "validation": 0, "test": 100}
    assert summary["metrics"]["accuracy"]["pooled"] > 0.5


def test_what_else_the_embedding_knows_is_asked_of_test_images():
    table, features = images()
    result = evaluate_study(
        make_plan(
            table, features, covariates=("background_red",), n_bootstraps=50, outlyingness=False
        )
    )
    reading = result.tables["confounds"].set_index("metric").loc["r2"]
    assert reading["n"] == 120
    assert reading["value"] > 0.1
    assert result.evaluation.content()["baseline_covariates"] == ["background_red"]


class TestLeaks:
    def test_a_test_image_of_pretraining_is_refused_and_named(self):
        table, features = images()
        table["subject_id"] = "cat of " + table["participant_id"]
        name = table["participant_id"][table["split"] == "test"].iloc[3]
        info = {"pretraining_subjects": [subject_digest(f"cat of {name}")]}
        with pytest.raises(
            LeakageError, match=f"1 of 120 subjects were in the pretraining cohort .cat of {name}"
        ):
            make_plan(table, features, info)
        plan = make_plan(table, features, info, allow_overlap=True)
        assert len(plan.overlap.subjects) == 1
        assert "pretraining_overlap" in warnings(plan)

    def test_a_test_image_that_is_a_training_image_is_counted(self):
        table, features = images()
        train, test = (np.flatnonzero(table["split"] == name) for name in ("train", "test"))
        features[test[:2]] = features[train[:2]]
        features[train[5]] = features[train[6]]  # twice among those fitted: no leak
        plan = make_plan(table, features)
        assert plan.split_design.fixed.n_duplicates == {"test": 2}
        assert "2 of 120 rows of test" in warnings(plan)["duplicate_overlap"]

    @pytest.mark.parametrize(
        "pair", [("train", "test"), ("validation", "test"), ("train", "validation")]
    )
    def test_a_subject_in_two_parts_is_refused(self, pair):
        table, features = images()
        table["subject_id"] = table["participant_id"]
        for part in pair:
            table.loc[np.flatnonzero(table["split"] == part)[0], "subject_id"] = "cat"
        with pytest.raises(
            LeakageError, match=f"1 subjects are in {pair[0]} and in {pair[1]} .cat"
        ):
            make_plan(table, features)


def without(table, features, label, part):
    rows = ((table["label"] != label) | (table["split"] != part)).to_numpy()
    return table[rows].reset_index(drop=True), features[rows]


def test_another_value_is_refused_with_its_rows():
    table, features = images()
    table.loc[[3, 8], "split"] = ["val", "Train"]
    names = ", ".join(f"{table['participant_id'][row]}: '{table['split'][row]}'" for row in (3, 8))
    allowed = "train, validation or test in every row"
    with pytest.raises(DataError, match=f"{allowed}.*2 of 440 have something else .{names}"):
        make_plan(table, features)


@pytest.mark.parametrize(
    ("n_classes", "label", "part", "message"),
    [
        (7, "class 3", "train", "no row of train has 'class 3', which validation or test has"),
        (2, "class 1", "train", "rows of train have the one class 'class 0'"),
        (2, "class 1", "test", "rows of test have the one class 'class 0'"),
    ],
)
def test_parts_without_a_class_are_named(n_classes, label, part, message):
    with pytest.raises(DataError, match=message):
        make_plan(*without(*images(n_classes), label, part))


def test_a_class_without_test_images_is_said():
    plan = make_plan(*without(*images(), "class 3", "test"))
    assert "No row of test has 'class 3'" in warnings(plan)["class_untested"]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"where": {"split": ["validation", "test"]}}, DataError, "no row is of 'train'"),
        ({"where": {"split": ["train", "validation"]}}, DataError, "no row is of 'test'"),
        (
            {"split_column": "splits"},
            ConfigError,
            r"there is no column 'splits'\. Did you mean 'split'",
        ),
        *[
            (options, ValidationError, f"split_column: .* so {named} cannot be had")
            for options, named in (
                ({"splits": "leave-site-out"}, "splits=leave-site-out"),
                ({"split_file": "splits.tsv", "n_repeats": 2}, "split_file and n_repeats"),
                ({"n_permutations": 10}, "n_permutations"),
                ({"inner_splits": "leave-site-out"}, "inner_splits=leave-site-out"),
                ({"regional": ("vol_*",)}, "regional"),
            )
        ],
        (
            {"scans": "s.tsv", "voxels": "off"},
            ValidationError,
            "scans: is for the baseline of voxels",
        ),
    ],
)
def test_what_does_not_go_with_a_fixed_split_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        make_plan(*images(), **options)


def test_more_than_a_hundred_classes_are_classes_of_images_and_elsewhere_identifiers():
    table, features = images(n_classes=101, sizes={"train": 808, "test": 303})
    table["label"] = [f"class {row % 101:03d}" for row in range(len(table))]
    rest = table.sort_values("label", ignore_index=True)
    rest["split"] = np.where(np.arange(len(rest)) % 11 < 8, "train", "test")
    assert len(make_plan(rest, features).target.classes) == 101
    with pytest.raises(DataError, match="looks like an identifier"):
        make_plan(rest, features, split_column=None)


def test_the_stored_probe_keeps_the_strength_that_was_chosen():
    """Where validation is noise it chooses otherwise than cross-validation over all would."""
    table, features = images()
    rows = np.flatnonzero(table["split"] == "validation")
    table.loc[rows, "label"] = table["label"].to_numpy()[np.roll(rows, 7)]
    result = evaluate_study(make_plan(table, features))
    scores = result.probe.predict(features[table["split"] == "test"])
    found = result.tables["predictions"].filter(like="score_class").to_numpy()
    np.testing.assert_allclose(scores, found, atol=1e-6)
