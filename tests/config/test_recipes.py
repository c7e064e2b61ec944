"""Recipes that come with the package: found by name, listed, copied, and of the numbers of the published protocol."""

import json

import pytest
import torch
import yaml

import neurocontrast
from neurocontrast.cli import run
from neurocontrast.config import Config, as_config, load_config
from neurocontrast.config.bases import bases_of, read_config, write_out
from neurocontrast.config.parsing import parse_value, read_yaml
from neurocontrast.config.recipes import describe_recipe, find_config, list_recipes
from neurocontrast.encoders import build_model
from neurocontrast.exceptions import ConfigError
from neurocontrast.kernels.factors import KERNELS
from neurocontrast.losses.registry import LOSSES as LOSSES_BY_NAME
from neurocontrast.losses.registry import loss_model


def test_every_recipe_has_a_name_and_says_what_it_is():
    recipes = list_recipes()
    assert {"yaware", "conditional", "small", "measures", "natural/simclr"} <= set(recipes)
    said = {name: describe_recipe(file) for name, file in recipes.items()}
    assert all(10 < len(each) < 300 for each in said.values())
    assert said["tissue_linear"] == "Principal components of smoothed maps of grey and white matter"


@pytest.mark.parametrize("name", list_recipes())
def test_a_name_is_the_recipe_from_any_working_directory(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert neurocontrast.load_config(name) == neurocontrast.load_config(list_recipes()[name])


def test_a_file_of_that_name_is_read_in_its_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "yaware").write_text("seed: 7\n")
    (tmp_path / "natural").mkdir()
    assert neurocontrast.load_config("yaware").seed == 7
    assert find_config("natural/simclr") == list_recipes()["natural/simclr"]
    with pytest.raises(
        ConfigError, match=r"small\.yaml: there is no such .* Did you mean the recipe 'small'\?"
    ):
        neurocontrast.load_config("small.yaml")
    with pytest.raises(ConfigError, match=r"mine\.yaml: there is no such"):
        neurocontrast.load_config("mine.yaml")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("yawar", "Did you mean 'yaware'"),
        ("natural/simcrl", "Did you mean 'natural/simclr'"),
        ("", "config list"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=said):
        neurocontrast.load_config(name)
    assert run(["config", "show", name]) == 2
    assert said in capsys.readouterr().err.replace("\n", " ")


def test_a_copy_is_the_recipe_beside_its_schema_and_replaces_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["config", "copy", "measures"]) == 0
    first, *lines = (tmp_path / "measures.yaml").read_text(encoding="utf-8").splitlines()
    assert lines == list_recipes()["measures"].read_text(encoding="utf-8").splitlines()
    schema = tmp_path / first.removeprefix("# yaml-language-server: $schema=")
    assert json.loads(schema.read_text())["properties"]["training"]
    assert neurocontrast.load_config(tmp_path / "measures.yaml") == neurocontrast.load_config(
        "measures"
    )
    (tmp_path / "measures.yaml").write_text("seed: 3\n")
    assert run(["config", "copy", "measures"]) == 2
    assert "exists" in capsys.readouterr().err
    assert (tmp_path / "measures.yaml").read_text() == "seed: 3\n"
    assert run(["config", "copy", "natural/simclr", "mine.yaml"]) == 0
    assert (tmp_path / "mine.yaml").is_file()
    schema.write_text('{"mine": 1}')
    assert run(["config", "copy", "mine.yaml", "again.yaml"]) == 2
    assert "'mine.yaml' is no recipe" in capsys.readouterr().err
    assert run(["config", "copy", "yaware", "mine.yaml/yaware.yaml"]) == 2
    assert run(["config", "copy", "yaware"]) == 2
    assert (schema.read_text(), (tmp_path / "yaware.yaml").exists()) == ('{"mine": 1}', False)


@pytest.mark.parametrize("name", list_recipes())
def test_a_recipe_written_out_has_every_key_and_stands_alone(name):
    text = write_out(list_recipes()[name])
    content = parse_value(text, source=name)
    assert "extends" not in content
    assert content == read_config(list_recipes()[name])
    assert text.count("#") > 10
    assert load_config(content) == load_config(name)


def test_a_copy_of_a_recipe_that_extends_another_is_whole(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert list_recipes()["conditional_reference"].read_text().count("extends: ") == 1
    assert run(["config", "copy", "conditional_reference"]) == 0
    text = (tmp_path / "conditional_reference.yaml").read_text(encoding="utf-8")
    assert "extends: " not in text
    assert "learning_rate: 1.0e-4     # [A]" in text
    assert load_config(tmp_path / "conditional_reference.yaml") == load_config(
        "conditional_reference"
    )
    capsys.readouterr()
    assert run(["config", "show", "conditional_reference"]) == 0
    assert capsys.readouterr().out.strip() == text.partition("\n")[2].strip()


def test_what_differs_replaces_keys_and_the_objective_whole(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: conditional\ntraining: {epochs: 3}\nobjective: {loss: ntxent}\n")
    config = load_config(mine)
    base = load_config("conditional")
    assert config.training == base.training.model_copy(update={"epochs": 3})
    assert config.objective.model_dump() == {"loss": "ntxent", "temperature": 0.1}
    assert (config.data, config.encoder) == (base.data, base.encoder)
    again = tmp_path / "again.yaml"
    again.write_text("extends: mine.yaml\nseed: 4\n")
    assert load_config(again, ["training.epochs=5"]) == config.model_copy(
        update={"seed": 4, "training": base.training.model_copy(update={"epochs": 5})}
    )
    from_python = {"extends": "conditional", "training": {"epochs": 3}}
    assert as_config(from_python).training == load_config(from_python).training == config.training


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("yawar", r"mine\.yaml: extends: 'yawar' is no recipe\. Did you mean 'yaware'\?"),
        ("other.yaml", r"mine\.yaml: extends: there is no file '.*other\.yaml'"),
        ("3", r"mine\.yaml: extends: must be the name of a recipe, or a YAML file, found 3"),
        ("[yaware]", r"mine\.yaml: extends: must be the name .* found \['yaware'\]"),
        ("mine.yaml", r"mine\.yaml: extends: 'mine\.yaml' extends this file in turn"),
        ("circle.yaml", r"circle\.yaml: extends: 'mine\.yaml' extends this file in turn"),
    ],
)
def test_a_base_that_is_unknown_or_goes_in_a_circle_is_refused_with_both_names(
    base, message, tmp_path
):
    (tmp_path / "mine.yaml").write_text(f"extends: {base}\n")
    (tmp_path / "circle.yaml").write_text("extends: mine.yaml\n")
    with pytest.raises(ConfigError, match=message):
        load_config(tmp_path / "mine.yaml")


def test_the_schema_knows_the_sections_of_every_recipe(capsys):
    assert run(["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    for file in list_recipes().values():
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert set(content) <= set(schema["properties"])
        training = schema["$defs"]["TrainingSettings"]["properties"]
        assert set(content.get("training") or {}) <= set(training)


@pytest.fixture(scope="module")
def schema():
    return Config.model_json_schema()


def _properties(schema, union):
    """Return the keys of each kind of a union, by its name, with their descriptions."""
    kinds = {}
    for kind in union.get("oneOf", union.get("anyOf")):
        for reference in kind.get("allOf", [kind]):
            if "$ref" in reference:
                name = reference["$ref"].rpartition("/")[2]
                kinds[name] = schema["$defs"][name]["properties"]
    return kinds


def test_the_schema_knows_the_keys_of_every_loss(schema):
    kinds = _properties(schema, schema["properties"]["objective"])
    assert {keys["loss"]["const"] for keys in kinds.values()} == set(LOSSES_BY_NAME)
    for name, keys in kinds.items():
        model = loss_model(keys["loss"]["const"])
        assert list(keys) == list(model.model_fields), name
        told = [key for key, found in keys.items() if key == "loss" or found.get("description")]
        assert told == list(keys), name
    parts = kinds["SumOfObjectives"]["objectives"]["patternProperties"].values()
    (part,) = parts
    assert set(_properties(schema, part)) == set(kinds) - {"SumOfObjectives", "Supervised"}


def test_the_schema_knows_the_keys_of_every_kernel_of_data_and_of_views(schema):
    keys = schema["$defs"]["YAwareInfoNCE"]["properties"]
    for factors in (keys["kernel"], keys["negatives"]["anyOf"][0]):
        kinds = _properties(schema, factors["items"])
        assert {each["type"]["const"] for each in kinds.values()} == set(KERNELS)
        assert kinds["Gaussian"]["sigma"]["description"].startswith("Bandwidth σ, a standard")
    data = _properties(schema, schema["properties"]["data"])
    assert [each["kind"]["const"] for each in data.values()] == ["volumes", "images", "measures"]
    assert "spacing_mm" in data["DataSettings"]
    assert "spacing_mm" not in data["ImageDataSettings"]
    augment = _properties(schema, schema["properties"]["augment"])
    assert set(augment["AugmentSettings"]) >= {"flip", "tissue_shift", "crop"}
    assert set(augment) == {"AugmentSettings", "ImageAugmentSettings", "MeasureAugmentSettings"}


@pytest.mark.parametrize(
    ("section", "is_right"),
    [
        ({"objective": {"loss": "ntxent", "temperature": "learnable"}}, True),
        ({"objective": {"loss": "my_module:Mine", "anything": 1}}, True),
        ({"objective": {"loss": "ntxent", "kernel": []}}, False),
        ({"objective": {"loss": "ntxen"}}, False),
        ({"objective": {"temperature": 0.1}}, False),
        ({"objective": {"loss": "yaware", "kernel": [{"type": "my:Kernel", "width": 1}]}}, True),
        ({"objective": {"loss": "supcon", "label": "sex", "temperature": 0}}, False),
        ({"data": {"kind": "measures", "measures": "measures.tsv"}}, True),
        ({"data": {"participants": "participants.tsv"}}, True),
        ({"data": {"kind": "images", "spacing_mm": 1.0}}, False),
        ({"augment": {"flip": {"axes": [0]}, "noise": None}}, True),
        ({"augment": {"flip": {"axis": [0]}}}, False),
    ],
)
def test_an_editor_finds_wrong_keys_of_a_kind(schema, section, is_right):
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema)
    assert validator.is_valid(section) == is_right


@pytest.mark.parametrize("name", list_recipes())
def test_every_recipe_is_right_in_an_editor(schema, name):
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema)
    assert [*validator.iter_errors(read_yaml(list_recipes()[name]))] == []


AGE = ("gaussian", "age", 5.0)
LOSSES = {
    "yaware": ("yaware", [AGE]),
    "yaware_age_sex": ("yaware", [AGE, ("categorical", "sex", None)]),
    "conditional": ("conditional", [AGE, ("categorical", "sex", None)]),
}


def _recipe(name):
    return load_config(f"{name}_reference")


@pytest.mark.parametrize("name", [*LOSSES, "age_supervised"])
def test_images_views_and_training_are_the_published_ones(name):
    config = _recipe(name)
    assert (config.data.spacing_mm, config.data.shape) == (1.5, (121, 145, 121))
    views = config.augment.model_dump(exclude_none=True, exclude={"kind"})
    chances = {key: each["probability"] for key, each in views.items() if isinstance(each, dict)}
    assert chances == dict.fromkeys(("flip", "blur", "noise", "cutout", "crop"), 0.5)
    assert config.augment.blur.sigma_voxels == config.augment.noise.sigma == (0.1, 1.0)
    assert (config.augment.cutout.fraction, config.augment.crop.fraction) == (
        (0.25, 0.25),
        (0.75, 0.75),
    )
    training = config.training
    assert (training.batch_size, training.epochs, training.optimizer) == (64, 50, "adam")
    assert (training.learning_rate, training.weight_decay) == (1e-4, 5e-5)
    assert (training.schedule, training.step_epochs, training.step_factor) == ("step", 10, 0.9)
    encoder = config.encoder
    assert (encoder.name, encoder.norm, encoder.final_norm, encoder.projection_norm) == (
        "densenet121", "batch", False, "none",
    )  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_loss_and_head_are_the_published_ones(name):
    config, (loss, kernel) = _recipe(name), LOSSES[name]
    assert (config.objective.loss, config.objective.temperature) == (loss, 0.1)
    found = [
        (each.type, each.column, getattr(each, "sigma", None)) for each in config.objective.kernel
    ]
    assert found == kernel
    assert getattr(config.objective, "uniformity_weight", 1.0) == 1.0
    head = build_model(config.encoder).head
    shapes = [layer.weight.shape for layer in head if isinstance(layer, torch.nn.Linear)]
    assert [type(layer).__name__ for layer in head] == ["Linear", "ReLU", "Linear"]
    assert shapes == [(512, 1024), (128, 512)]


def test_age_is_predicted_by_one_linear_layer():
    config = _recipe("age_supervised")
    assert (config.objective.column, config.objective.error) == ("age", "absolute")
    head = build_model(config.encoder, n_outputs=1).head
    assert [tuple(layer.weight.shape) for layer in head] == [(1, 1024)]


def test_a_workflow_names_every_file_that_a_recipe_extends(tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: conditional_reference\n")
    again = tmp_path / "again.yaml"
    again.write_text("extends: mine.yaml\nseed: 4\n")
    recipes = list_recipes()
    bases = [mine, recipes["conditional_reference"], recipes["yaware_age_sex_reference"]]
    assert bases_of(again) == bases
    assert bases_of("yaware") == []
    mine.write_text("extends: again.yaml\n")
    with pytest.raises(ConfigError, match=r"mine\.yaml: extends: 'again\.yaml' extends this file"):
        bases_of(again)
