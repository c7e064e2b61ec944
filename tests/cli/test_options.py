"""Options reach the keys of the configuration, above the file and ``--set``."""

import pytest

from neurocontrast.cli import run
from neurocontrast.exceptions import DataError

NUMBERS = {"n_folds": 7, "n_repeats": 1, "seed": 9}
WORDS = {"target": "age", "splits": "leave-site-out", "positive": "ad", "threshold": "half"}
OF_PROBES = {"n_permutations": 11, "n_jobs": 2, "probe": "ridge", "n_draws": 4}
OF_MAPS = {"n_subjects": 5, "patch_mm": 12.0, "positive": "ad"}
IMAGES = {
    "dataset": "cifar10",
    "size": 16,
    "background": "random",
    "n_train": 5,
    "n_validation": 6,
    "n_test": 7,
}
COMMANDS = {
    "simulate": (
        "simulate",
        ["out"],
        "simulation",
        {"n_subjects": 7, "n_sites": 3, "patients": 0.25, "site_seed": 4},
    ),
    "images": ("prepare_images", ["out"], "images", {**IMAGES, "seed": 3}),
    "embed": (
        "embed",
        ["RUN", "--participants", "p.tsv", "--out", "e.parquet"],
        "data",
        {"images_root": "scans"},
    ),
    "pretrain": ("pretrain", ["--out", "RUN"], "data", {"participants": "p.tsv"}),
    "evaluate": (
        "evaluate",
        ["e.parquet", "--out", "E"],
        "evaluation",
        NUMBERS | WORDS | OF_PROBES,
    ),
    "finetune": (
        "finetune",
        ["RUN", "--participants", "p.tsv", "--out", "E"],
        "evaluation",
        NUMBERS | WORDS,
    ),
    "explain": (
        "explain",
        ["E", "--run", "RUN", "--participants", "p.tsv"],
        "explanation",
        OF_MAPS,
    ),
}


@pytest.fixture
def given(monkeypatch):
    """``given(function, *arguments)``: what the command line hands to a function of the package."""

    def call(function, *arguments):
        found = []

        def keep(*positional, **options):
            found.extend([*positional, *options.values()])
            raise DataError("far enough")

        monkeypatch.setattr(f"neurocontrast.{function}", keep)
        assert run([str(argument) for argument in arguments]) == 2
        return found

    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_sets_its_key(given, command):
    function, places, section, values = COMMANDS[command]
    flags = [
        text for name, value in values.items() for text in (f"--{name.replace('_', '-')}", value)
    ]
    found = given(function, command, *places, *flags)
    whole = next((getattr(item, section) for item in found if hasattr(item, section)), None)
    settings = whole or next(item for item in found if hasattr(item, "model_dump"))
    assert {name: str(getattr(settings, name)) for name in values} == {
        name: str(values[name]) for name in values
    }


def test_an_option_is_above_set_and_set_above_the_file(given, tmp_path):
    (tmp_path / "c.yaml").write_text(
        "evaluation: {target: sex, n_folds: 3, n_repeats: 2, seed: 4}\n"
    )
    command = f"evaluate e.parquet --out E --config {tmp_path / 'c.yaml'} --set evaluation.n_folds=6 --n-repeats 5"
    settings = next(
        each for each in given("evaluate", *command.split()) if hasattr(each, "n_repeats")
    )
    assert (settings.target, settings.n_folds, settings.n_repeats, settings.seed) == (
        "sex",
        6,
        5,
        4,
    )


def test_a_wrong_option_is_named_by_its_key(capsys, tmp_path):
    assert run(["evaluate", "e.parquet", "--out", str(tmp_path / "E"), "--n-folds", "0"]) == 2
    assert (
        "error: --n-folds: must be greater than or equal to 2, found 0." in capsys.readouterr().err
    )
