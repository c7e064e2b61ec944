"""What the workflow measures on embeddings: the SGD classifier, cosines of classes, errors of colours; its figures."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import cosine_similarity

from neurocontrast.documents.embeddings import write_embeddings
from neurocontrast.exceptions import DataError
from pipelines.natural.experiment import Experiment
from pipelines.natural.figures import draw_experiment
from pipelines.natural.probing import (
    class_cosines,
    fit_sgd,
    read_splits,
    write_accuracy,
    write_probes,
)

CLASSES = ("bird", "car", "cat", "dog", "ship", "truck")


def _write(path, *, spread=1.0, n=240, **columns):
    """Write embeddings whose first six features tell the class, and the next three a colour of 0 to 1."""
    generator = np.random.default_rng(0)
    codes = np.arange(n) % len(CLASSES)
    colour = generator.uniform(size=(n, 3))
    features = np.hstack(
        [np.eye(len(CLASSES))[codes] + spread * generator.normal(size=(n, 6)) / 4, colour]
    )
    splits = np.array(["train", "validation", "test"], dtype=object)[
        (np.arange(n) // len(CLASSES)) % 3
    ]
    table = pd.DataFrame({"participant_id": [f"i{place}" for place in range(n)], "split": splits})
    table["label"] = [CLASSES[code] for code in codes]
    for channel, name in enumerate(("red", "green", "blue")):
        table[f"background_{name}"] = colour[:, channel] + 0.01 * generator.normal(size=n)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_embeddings(path, table.assign(**columns), features.astype(np.float32), {})


def _experiment(tmp_path, **changes):
    (tmp_path / "recipe.yaml").write_text("images: {dataset: cifar10}\n")
    content = {
        "title": "Cosines", "question": "?", "recipe": str(tmp_path / "recipe.yaml"), "reference": "a", "seeds": [0, 1],
        "variants": {"a": {"label": "A"}, "b": {"label": "B"}}, "measures": ["accuracy"], "figures": [],
    }  # fmt: skip
    return Experiment.model_validate(content | changes)


def test_the_rate_rises_and_falls_as_section_4_3_says(monkeypatch):
    seen = []
    step = torch.optim.SGD.step

    def watching(self, *arguments, **keywords):
        seen.append(self.param_groups[0]["lr"])
        return step(self, *arguments, **keywords)

    monkeypatch.setattr(torch.optim.SGD, "step", watching)
    fit_sgd(np.eye(4), np.arange(4), seed=0, epochs=100, batch_size=4)
    assert len(seen) == 100
    assert (seen[0], seen[10], seen[-1]) == pytest.approx((0.05, 5.0, 0.05))
    assert np.diff(seen[:11]) == pytest.approx(0.495)
    assert seen[10:] == sorted(seen[10:], reverse=True)


def test_cosines_are_the_means_of_all_pairs_without_an_image_and_itself(tmp_path):
    _write(tmp_path / "head.parquet")
    _, tested = read_splits(tmp_path / "head.parquet")
    found = class_cosines(tested)
    all_pairs = cosine_similarity(tested.features)
    own = tested.labels == "cat"
    other = tested.labels == "dog"
    assert found.loc["cat", "dog"] == pytest.approx(all_pairs[np.ix_(own, other)].mean(), rel=1e-5)
    within = all_pairs[np.ix_(own, own)][~np.eye(own.sum(), dtype=bool)]
    assert found.loc["cat", "cat"] == pytest.approx(within.mean(), rel=1e-5)
    assert found.loc["dog", "cat"] == pytest.approx(found.loc["cat", "dog"])


def test_only_what_is_asked_for_is_measured_and_written(tmp_path):
    _write(tmp_path / "encoder.parquet")
    _write(tmp_path / "head.parquet")
    asked = ["accuracy", "sgd_accuracy", "sgd_top5_accuracy", "colour_mse", "within_cosine"]
    values = write_probes(tmp_path, experiment=_experiment(tmp_path, measures=asked), seed=0)
    written = json.loads((tmp_path / "probes.json").read_text())
    assert set(written) == set(asked) - {"accuracy"}
    assert 0.8 < written["sgd_accuracy"] <= written["sgd_top5_accuracy"] <= 1
    answers = pd.read_csv(tmp_path / "sgd.tsv", sep="\t")
    assert answers["accuracy"].mean() == pytest.approx(written["sgd_accuracy"])
    assert (answers["accuracy"] <= answers["top5_accuracy"]).all()
    fitted, tested = read_splits(tmp_path / "encoder.parquet")
    colours = [f"background_{name}" for name in ("red", "green", "blue")]
    model = LinearRegression().fit(fitted.features, fitted.table[colours])
    error = (
        (255 * (model.predict(tested.features) - tested.table[colours].to_numpy())) ** 2
    ).mean()
    assert values["colour_mse"] == pytest.approx(error, rel=1e-3)


def test_the_accuracy_after_an_epoch_is_of_test_images(tmp_path):
    found = []
    for epoch, spread in ((1, 8.0), (4, 0.5)):
        _write(tmp_path / f"epoch-{epoch}.parquet", spread=spread)
        found.append(
            write_accuracy(tmp_path / f"epoch-{epoch}.parquet", tmp_path / f"epoch-{epoch}.tsv")
        )
        assert (
            pd.read_csv(tmp_path / f"epoch-{epoch}.tsv", sep="\t")["accuracy"].tolist()
            == found[-1:]
        )
    assert found[0] < found[1] == 1


def test_embeddings_that_lack_something_are_refused(tmp_path):
    experiment = _experiment(tmp_path, measures=["colour_mse"])
    _write(tmp_path / "epoch-1.parquet", split=["train", "test"] * 120)
    with pytest.raises(DataError, match="no validation images"):
        write_accuracy(tmp_path / "epoch-1.parquet", tmp_path / "epoch-1.tsv")
    table = pd.DataFrame({"participant_id": ["a", "b"], "split": "test", "label": ["x", "y"]})
    write_embeddings(tmp_path / "encoder.parquet", table, np.eye(2, dtype=np.float32), {})
    with pytest.raises(DataError, match="no column background_red"):
        write_probes(tmp_path, experiment=experiment, seed=0)
    write_embeddings(
        tmp_path / "head.parquet", table.drop(columns="label"), np.eye(2, dtype=np.float32), {}
    )
    with pytest.raises(DataError, match="lacks the column label"):
        read_splits(tmp_path / "head.parquet")


def test_figures_of_cosines_have_every_class_and_all_pairs_of_the_last(tmp_path):
    for variant in ("a", "b"):
        for seed in (0, 1):
            _write(tmp_path / variant / f"seed-{seed}" / "head.parquet")
    nothing = (pd.DataFrame(),) * 2
    draw_experiment(
        tmp_path,
        _experiment(tmp_path, figures=["cosines", "histograms"]),
        *nothing,
        curves=nothing[0],
    )
    cosines = pd.read_csv(tmp_path / "figures" / "cosines.tsv", sep="\t")
    assert cosines["class"].tolist() == [*CLASSES, *CLASSES]
    shares = pd.read_csv(tmp_path / "figures" / "histograms.tsv", sep="\t")
    assert set(shares["pairs"]) == {"truck, truck", "truck, another class"}
    assert shares.groupby(["variant", "pairs"])["share"].sum().tolist() == pytest.approx([1.0] * 4)
    wrong = _experiment(tmp_path, figures=["histograms"], target_class="lorry")
    with pytest.raises(DataError, match="no test image is of 'lorry'"):
        draw_experiment(tmp_path, wrong, *nothing, curves=nothing[0])
