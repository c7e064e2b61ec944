"""Experiments and the workflow's own keys: the files shipped are sound, and what is wrong is named."""

import pytest
import yaml

from neurocontrast.exceptions import ConfigError
from pipelines.natural.experiment import load_experiment, load_natural
from tests.pipelines.snakemake_runs import ROOT, settings_of

FILES = sorted((ROOT / "pipelines" / "natural").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


def _config(name, variant=None, size="full"):
    experiment = load_experiment(ROOT / "pipelines" / "natural" / f"{name}_{size}.yaml")
    return experiment, settings_of(experiment, variant or experiment.reference)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_variant_of_a_shipped_experiment_is_a_valid_configuration(path):
    experiment = load_experiment(path)
    assert len(experiment.seeds) >= 3
    for name in experiment.variants:
        config = settings_of(experiment, name)
        assert config.data.kind == "images"
        assert config.evaluation.split_column == "split"
        if "tradeoff" in experiment.figures:
            assert config.evaluation.confounds
            assert "background_red" in config.evaluation.covariates
        if experiment.milestones:
            assert config.training.epochs == experiment.milestones[-1]
            assert config.training.schedule == "constant", (
                "training that goes on needs a schedule that does not end"
            )


def test_the_command_line_is_set_over_the_file(tmp_path):
    asked, _ = load_natural(
        {"experiment": "linear", "size": "full", "dataset": "cifar100", "source": str(tmp_path)}
    )
    assert asked.folder == "results/linear_full-cifar100"
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
    _, experiment = load_natural(
        {**given, "images": {"attributes": str(table), "attributes_key": "file"}}
    )
    assert experiment.annotation is None
    assert experiment.prepared_images["attributes"] == str(table)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "give one of 'cclk', 'cub', 'fair', 'hard', 'imagenet', 'linear', 'rates', 'sincere'"),
        ({"experiment": "linear", "sede": [1]}, "seeds"),
        (
            {"experiment": "linear", "dataset": "digits", "variants": ["supcn"]},
            "did you mean 'supcon'",
        ),
        ({"experiment": "linear"}, "source: the files of cifar10 are needed"),
        (
            {"experiment": "fair", "images": {"attributes": "no.tsv"}},
            "attributes: there is nothing at 'no.tsv'",
        ),
    ],
)
def test_a_wrong_command_line_is_named(config, said):
    with pytest.raises(ConfigError, match=f"(?i){said}"):
        load_natural(config)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reference": "infonc"}, "did you mean 'infonce'"),
        (
            {"orderings": [{"higher": "rbf", "lower": "fare", "source": "table 5"}]},
            "there is no 'fare'",
        ),
        ({"variants": {"../a": {"label": "a"}}, "reference": "../a"}, "letters, digits"),
        ({"variants": {"infonce": {"label": "a", "series": "b"}}}, "give at"),
        ({"annotation": {"columns": ["attr_a"], "classes": {"a": [1], "b": [1, 0]}}}, "b"),
    ],
)
def test_a_wrong_experiment_is_named(tmp_path, changes, said):
    content = (
        yaml.safe_load((ROOT / "pipelines" / "natural" / "fair_full.yaml").read_text()) | changes
    )
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match=f"(?i){said}"):
        load_experiment(tmp_path / "mine.yaml")


def _training(config, *names):
    return tuple(getattr(config.training, name) for name in names)


def test_figure_2_of_dufumier_has_one_network_and_optimiser_for_all_losses():
    experiment, _ = _config("linear")
    configs = [_config("linear", variant)[1] for variant in experiment.variants]
    assert {config.objective.loss for config in configs} == {
        "ntxent",
        "alignment_uniformity",
        "supcon",
        "conditional",
    }
    for config in configs:
        found = _training(config, "batch_size", "optimizer", "learning_rate", "weight_decay")
        assert found == (1024, "adam", 1e-3, 5e-5)
        assert (config.encoder.name, config.encoder.projection[-1]) == ("resnet18", 128)
        assert (config.data.where, config.data.val_fraction) == ({"split": ("train",)}, 0)
    assert experiment.prepared_images["validation_fraction"] == 0.2, "40,000 and 10,000 of 50,000"
    assert len(experiment.seeds) == 3


def test_sincere_and_supcon_have_the_settings_of_section_4_3():
    for variant in ("sincere", "supcon"):
        experiment, config = _config("sincere", variant)
        names = (
            "epochs",
            "batch_size",
            "optimizer",
            "learning_rate",
            "min_learning_rate",
            "warmup_epochs",
            "schedule",
        )
        assert _training(config, *names) == (1000, 512, "sgd", 0.5, 5e-4, 10, "cosine")
        assert _training(config, "weight_decay", "momentum") == (1e-4, 0.9)
        assert (config.objective.temperature, config.encoder.name) == (0.1, "resnet50")
    published = experiment.variants["sincere"].published
    losses = {"initial_loss": 6.82, "final_loss": 0.24}
    assert published["cifar10"] == {"sgd_accuracy": 95.93, "sgd_top5_accuracy": 99.78, **losses}
    assert published["cifar100"]["sgd_accuracy"] == 75.86
    rates, _ = _config("rates")
    found = [
        _training(_config("rates", name)[1], "learning_rate", "min_learning_rate")
        for name in rates.variants
    ]
    assert [rate for rate, _ in found] == [0.005, 0.05, 0.1, 0.5, 1, 5] * 2
    assert all(lowest == pytest.approx(rate / 1000) for rate, lowest in found)


@pytest.mark.parametrize(
    ("name", "variant", "expected"),
    [
        ("cclk", "cosine", (1000, 152, 1.5 * 152 / 256)),
        ("cub", "cosine", (1000, 128, 1.5 * 128 / 256)),
        ("imagenet", "cosine", (200, 128, 1.5 * 128 / 256)),
        ("imagenet", "hard_negative_cclk", (200, 512, 1.5 * 512 / 256)),
        ("hard", "hard_negative_cclk", (400, 256, 1.5)),
        ("hard", "hard_negative_cclk_2", (1000, 512, 3.0)),
        ("fair", "fair_cclk", (5, 256, 1.5)),
    ],
)
def test_cclk_has_the_settings_of_its_appendix(name, variant, expected):
    _, config = _config(name, variant)
    assert _training(config, "epochs", "batch_size", "learning_rate", "optimizer") == (
        *expected,
        "lars",
    )
    assert config.data.where == {"split": ("train", "validation")}
    assert config.data.val_fraction == 0
    if name in ("cclk", "cub", "imagenet"):
        assert (config.encoder.name, config.encoder.projection) == ("resnet50", (2048, 128))
        assert config.encoder.stem == ("cifar" if name == "cclk" else "imagenet")


def test_a_small_experiment_has_what_its_base_says_and_it_does_not():
    (full, _), (small, _) = (_config("sincere", size=size) for size in ("full", "small"))
    assert small.orderings == full.orderings
    assert small.recipe != full.recipe
    assert small.embedded_layers == ("encoder", "head"), "cosines are of what the loss saw"
