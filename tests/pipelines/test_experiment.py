"""Experiments and the workflow's own keys: the files shipped are sound, and what is wrong is named."""

from pathlib import Path

import pytest
import yaml

from neurocontrast.config import load_config
from neurocontrast.exceptions import ConfigError
from pipelines.natural.experiment import load_experiment, load_natural

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "pipelines" / "natural").glob("*.yaml"))
RECIPES = sorted((ROOT / "configs" / "natural").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_variant_of_a_shipped_experiment_is_a_valid_configuration(path):
    experiment = load_experiment(path)
    assert len(experiment.seeds) >= 3
    for name in experiment.variants:
        overrides = [f"{key}={yaml.safe_dump(value, default_flow_style=True)}"
                     for key, value in experiment.settings_of(name).items()]  # fmt: skip
        config = load_config(experiment.recipe_of(name), overrides)
        assert config.data.kind == "images"
        assert config.evaluation.split_column == "split"
        if "tradeoff" in experiment.figures:
            assert config.evaluation.confounds
            assert "background_red" in config.evaluation.covariates
        if "epochs" in experiment.figures:
            assert config.training.epochs // config.training.probe_every >= 2


def test_there_is_a_small_sibling_of_every_recipe_and_experiment():
    names = {path.stem for path in RECIPES}
    assert {f"{name}_small" for name in names if not name.endswith("_small")} <= names
    assert {
        f"{name}_{size}" for name in ("linear", "sincere", "cclk", "fair", "hard") for size in ("small", "full")
    } == {path.stem for path in FILES}


def test_the_command_line_is_set_over_the_file(tmp_path):
    asked, experiment = load_natural({
        "experiment": "fair", "dataset": "mnist", "source": str(tmp_path), "seeds": [7, 8], "variants": ["clusters_5"],
        "settings": {"training.epochs": "2"}, "images": {"n_train": "100"},
    })  # fmt: skip
    assert asked.path.stem == "fair_small"
    assert experiment.seeds == (7, 8)
    assert list(experiment.variants) == ["infonce", "clusters_5"], "the reference is always there"
    assert experiment.settings_of("infonce")["training.epochs"] == 2
    images = experiment.prepared_images
    assert (images["dataset"], images["source"], images["n_train"]) == ("mnist", str(tmp_path), 100)
    assert images["background"] == "random"


def test_attributes_of_ones_own_take_the_place_of_simulated_ones(tmp_path):
    table = tmp_path / "a.tsv"
    table.touch()
    given = {"experiment": "cclk", "source": str(tmp_path)}
    assert load_natural(given)[1].annotation is not None
    _, experiment = load_natural({**given, "images": {"attributes": str(table), "attributes_key": "file"}})
    assert experiment.annotation is None
    assert experiment.prepared_images["attributes"] == str(table)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "give one of linear, sincere, cclk, fair and hard"),
        ({"experiment": "linear", "file": "x.yaml"}, "give one of linear"),
        ({"experiment": "liner"}, "linear"),
        ({"experiment": "linear", "size": "tiny"}, "small"),
        ({"experiment": "linear", "sede": [1]}, "seeds"),
        ({"experiment": "linear", "seeds": []}, "seeds"),
        ({"experiment": "linear", "seeds": [1, 1]}, "different"),
        ({"experiment": "linear", "dataset": "digits", "variants": ["supcn"]}, "did you mean 'supcon'"),
        ({"file": "nowhere.yaml"}, "nowhere.yaml"),
        ({"experiment": "linear"}, "source: the files of cifar10 are needed"),
        ({"experiment": "linear", "source": "no/such.tar"}, "nothing at 'no/such.tar'"),
        ({"experiment": "fair", "images": {"attributes": "no.tsv"}}, "attributes: there is nothing at 'no.tsv'"),
    ],
)
def test_a_wrong_command_line_is_named(config, said):
    with pytest.raises(ConfigError, match=f"(?i){said}"):
        load_natural(config)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reference": "infonc"}, "did you mean 'infonce'"),
        ({"measures": ["acuracy"]}, "accuracy"),
        ({"figures": ["pie"]}, "variants"),
        ({"recipe": "configs/natural/none.yaml"}, "none.yaml"),
        ({"recipe": None}, "fair_cclk"),
        ({"variants": {"../a": {"label": "a"}}, "reference": "../a"}, "letters, digits"),
        ({"variants": {"infonce": {"label": "a", "series": "b"}}}, "give at"),
        ({"annotation": {"columns": ["attr_a"], "classes": {"a": [1], "b": [1, 0]}}}, "b"),
        ({"annotation": {"columns": ["a"], "classes": {"a": [1], "b": [1]}}}, "attr_"),
        ({"variants": {"infonce": {"label": "a", "recipie": "x"}}}, "recipe"),
    ],
)
def test_a_wrong_experiment_is_named(tmp_path, changes, said):
    content = yaml.safe_load((ROOT / "pipelines" / "natural" / "fair_small.yaml").read_text()) | changes
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match=f"(?i){said}"):
        load_experiment(tmp_path / "mine.yaml")
