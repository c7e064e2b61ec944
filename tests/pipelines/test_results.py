"""An experiment put together from the files of its runs and evaluations: annotation, table, figures."""

import json

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from neurocontrast.exceptions import DataError
from pipelines.natural.annotation import AnnotationSettings, simulate_attributes
from pipelines.natural.experiment import Experiment
from pipelines.natural.intervals import bootstrap_mean, mean_interval
from pipelines.natural.results import summarise_experiment, summarise_seeds

CLASSES = ("boot", "shirt", "bag")


def _experiment(tmp_path, **changes):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("images: {dataset: digits, n_train: 100}\n")
    variants = {
        "infonce": {"label": "InfoNCE"},
        "clusters_3": {"label": "Fair, 3 | clusters", "series": "Fair-InfoNCE", "at": 3},
        "clusters_30": {"label": "Fair, 30 clusters", "series": "Fair-InfoNCE", "at": 30},
        "fair": {
            "label": "Fair CCL-K",
            "published": {"digits": {"accuracy": 86.4}, "mnist": {"accuracy": 91.0}},
        },
    }
    content = {
        "title": "Fair", "question": "Does it forget?", "recipe": str(recipe), "variants": variants,
        "reference": "infonce", "measures": ["accuracy", "sensitive_r2", "minutes"],
        "milestones": [1, 3], "figures": ["epochs"], "series_label": "Clusters",
    }  # fmt: skip
    return Experiment.model_validate(content | changes)


def _write_runs(root, experiment, *, gain=0.05):
    """Write what the workflow's commands write; the n-th variant is better by n times `gain`."""
    for place, variant in enumerate(experiment.variants):
        for seed in experiment.seeds:
            run = root / variant / f"seed-{seed}" / "run"
            run.mkdir(parents=True)
            epochs = pd.DataFrame(
                {"epoch": [1, 2, 3], "train_loss": [3.0, 2.0, 1.0 + place], "seconds": 60.0}
            )
            epochs.to_csv(run / "metrics.csv", index=False)
            for epoch, accuracy in ((1, 0.3), (3, 0.5 + seed / 100)):
                (run.parent / f"epoch-{epoch}.tsv").write_text(f"accuracy\n{accuracy}\n")
            for layer in experiment.layers:
                folder = root / variant / f"seed-{seed}" / layer
                folder.mkdir()
                _write_evaluation(
                    folder, accuracy=0.5 + place * gain + seed / 100, r2=0.01 * (place + 1)
                )


def _write_evaluation(folder, *, accuracy, r2):
    summary = {
        "format": 1, "target": "label", "kind": "multiclass", "classes": list(CLASSES),
        "metrics": {"accuracy": {"pooled": accuracy}},
        "splits": "file",
        "n": {"scans": 140},
        "split": {"n": {"train": 80, "validation": 20, "test": 40}},
        "run": {"encoder": {"name": "lenet5"}, "epochs": 3, "n_training_scans": 72},
    }  # fmt: skip
    (folder / "evaluation.json").write_text(json.dumps(summary))
    rows = [("red", "all", "r2", r2 + 0.1), ("blue", "all", "r2", r2 - 0.1), ("red", "boot", "r2", 0.9),
            ("red", "all", "mae", 0.5)]  # fmt: skip
    table = pd.DataFrame(rows, columns=["column", "within", "metric", "value"])
    table.to_csv(folder / "confounds.tsv", sep="\t", index=False)


def test_the_table_has_paired_differences_and_says_what_they_settle(tmp_path):
    orderings = [
        {"higher": "fair", "lower": "infonce", "source": "table 3"},
        {"higher": "infonce", "lower": "fair", "measure": "sensitive_r2", "source": "figure 1"},
    ]
    experiment = _experiment(tmp_path, orderings=orderings)
    _write_runs(tmp_path / "out", experiment)
    summary = summarise_experiment(tmp_path / "out", experiment=experiment)
    rows = summary[summary["measure"] == "accuracy"].set_index("variant")
    assert rows["mean"].to_dict() == pytest.approx(
        {"infonce": 0.51, "clusters_3": 0.56, "clusters_30": 0.61, "fair": 0.66}
    )
    assert rows.loc["fair", "difference"] == pytest.approx(0.15)
    assert summary.loc[summary["measure"] == "minutes", "mean"].tolist() == pytest.approx([3.0] * 4)
    written = pd.read_csv(tmp_path / "out" / "results.tsv", sep="\t")
    assert written["variant"].tolist() == summary["variant"].tolist()
    assert written["mean"].tolist() == pytest.approx(summary["mean"].tolist())
    page = (tmp_path / "out" / "results.md").read_text()
    assert (
        "| Fair CCL-K | 66.0 [63.5, 68.5] | 0.040 [0.040, 0.040] | 3.0 [3.0, 3.0] | 86.4 |" in page
    )
    assert "| Fair CCL-K | +15.0 [+15.0, +15.0] |" in page
    assert (
        "- Fair CCL-K: Top-1 higher, in 3 of 3 seeds. Sensitive R² higher, in 3 of 3 seeds." in page
    )
    assert r"Fair, 3 \| clusters" in page
    assert "| Fair CCL-K > InfoNCE | Top-1 |" in page
    assert "figure 1 | −0.030 [−0.030, −0.030] | 3 | the opposite appears |" in page
    assert "80 train, 20 validation, 40 test" in page
    assert "lenet5" in page


def test_a_difference_within_the_noise_is_called_not_settled_and_one_seed_tells_nothing(tmp_path):
    experiment = _experiment(tmp_path, measures=["accuracy"])
    _write_runs(tmp_path / "out", experiment, gain=0.0)
    path = tmp_path / "out" / "fair" / "seed-2" / "encoder"
    _write_evaluation(path, accuracy=0.9, r2=0.0)
    summarise_experiment(tmp_path / "out", experiment=experiment)
    assert (
        "- Fair CCL-K: Top-1 not settled; higher in 1 of 3 seeds."
        in (tmp_path / "out" / "results.md").read_text()
    )
    one = _experiment(tmp_path, measures=["accuracy"], seeds=[1])
    summarise_experiment(tmp_path / "out", experiment=one)
    page = (tmp_path / "out" / "results.md").read_text()
    assert "too few seeds to tell" in page
    assert "| InfoNCE | 51.0 |" in page


def test_what_the_workflow_measures_itself_is_read_from_probes(tmp_path):
    experiment = _experiment(
        tmp_path, measures=["accuracy", "sgd_accuracy", "within_cosine"], figures=["variants"]
    )
    _write_runs(tmp_path / "out", experiment)
    for path in (tmp_path / "out").glob("*/seed-*"):
        (path / "probes.json").write_text('{"sgd_accuracy": 0.6, "within_cosine": -0.25}')
        right = [1, 1, 1, 0, 0] if path.parent.name == "fair" else [1, 1, 0, 0, 0]
        pd.DataFrame({"accuracy": right * 20, "top5_accuracy": 1}).to_csv(
            path / "sgd.tsv", sep="\t", index=False
        )
    summary = summarise_experiment(tmp_path / "out", experiment=experiment).set_index(
        ["variant", "measure"]
    )
    assert summary.loc[("fair", "sgd_accuracy"), "mean"] == pytest.approx(0.6)
    assert summary.loc[("fair", "within_cosine"), "mean"] == pytest.approx(-0.25)
    (row,) = [
        line
        for line in (tmp_path / "out" / "results.md").read_text().splitlines()
        if "| +20.0 [" in line
    ]
    mean, low, high = bootstrap_mean([1, 1, 1, 0, 0] * 20)
    assert row.startswith(
        f"| Fair CCL-K | {100 * mean:.1f} [{100 * low:.1f}, {100 * high:.1f}] |"
    ), "of test images"
    (tmp_path / "out" / "fair" / "seed-0" / "sgd.tsv").unlink()
    with pytest.raises(DataError, match=r"sgd\.tsv: missing"):
        summarise_experiment(tmp_path / "out", experiment=experiment)
    (tmp_path / "out" / "fair" / "seed-1" / "probes.json").unlink()
    with pytest.raises(DataError, match=r"probes\.json: not readable"):
        summarise_experiment(tmp_path / "out", experiment=experiment)
    (tmp_path / "out" / "fair" / "seed-0" / "run" / "metrics.csv").write_text(
        "epoch,train_loss,seconds\n"
    )
    with pytest.raises(DataError, match="nothing was trained"):
        summarise_experiment(tmp_path / "out", experiment=_experiment(tmp_path))


def test_the_experiment_is_recorded_without_paths_of_the_data(tmp_path):
    experiment = _experiment(tmp_path, images={"source": "/data/people/cifar10.tar.xz"})
    _write_runs(tmp_path / "out", experiment)
    summarise_experiment(tmp_path / "out", experiment=experiment)
    content = yaml.safe_load((tmp_path / "out" / "experiment.yaml").read_text())
    assert content["images"] == {"dataset": "digits", "n_train": 100, "source": "cifar10.tar.xz"}
    assert content["seeds"] == [0, 1, 2]


def _annotation(**changes):
    content = {
        "columns": ["attr_foot", "attr_arm"],
        "classes": {"boot": [1, 0], "shirt": [0, 1], "bag": [0, 0]},
    }
    return AnnotationSettings.model_validate(content | changes)


def test_attributes_are_those_of_the_class_but_for_as_many_as_are_to_be_wrong():
    labels = list(CLASSES) * 1000
    clean = simulate_attributes(labels, _annotation(flip=0.0))
    assert clean.head(3).to_numpy().tolist() == [[1, 0], [0, 1], [0, 0]]
    noisy = simulate_attributes(labels, _annotation(flip=0.1))
    assert (noisy != clean).to_numpy().mean() == pytest.approx(0.1, abs=0.015)
    assert noisy.equals(simulate_attributes(labels, _annotation(flip=0.1)))
    assert not noisy.equals(simulate_attributes(labels, _annotation(flip=0.1, seed=1)))


def test_the_interval_is_that_of_the_t_test():
    values = [0.61, 0.58, 0.66, 0.6]
    test = stats.ttest_1samp(values, 0.0).confidence_interval(0.9)
    assert mean_interval(values, level=0.9) == pytest.approx((np.mean(values), test.low, test.high))
    assert mean_interval([0.5, np.nan]) == pytest.approx(
        (0.5, np.nan, np.nan), nan_ok=True
    )  # one seed has none
    assert np.isnan(mean_interval([])).all()


def test_differences_are_paired_by_seed_whatever_their_order():
    base = {0: 0.5, 1: 0.7, 2: 0.6}
    gain = {0: 0.01, 1: 0.02, 2: 0.03}
    rows = [("a", "encoder", "accuracy", seed, base[seed]) for seed in (2, 0, 1)]
    rows += [("b", "encoder", "accuracy", seed, base[seed] + gain[seed]) for seed in (0, 1, 2)]
    values = pd.DataFrame(rows, columns=["variant", "layer", "measure", "seed", "value"])
    summary = summarise_seeds(values, reference="a").set_index("variant")
    paired = stats.ttest_rel([0.51, 0.72, 0.63], [0.5, 0.7, 0.6]).confidence_interval(0.95)
    assert summary.loc["b", "difference"] == pytest.approx(0.02)
    assert summary.loc["b", ["difference_low", "difference_high"]].tolist() == pytest.approx(
        [paired.low, paired.high]
    )
    assert summary.loc["b", "n_above"] == 3
    assert summary.loc["b", "low"] < summary.loc["a", "mean"], (
        "unpaired, the gain would not be seen"
    )
    assert summary.loc["a", "difference":].isna().all()
