"""Recipes that come with the package: found by name, listed, copied, and known to the schema."""

import json

import pytest
import yaml

import neurocontrast
from neurocontrast.cli import run
from neurocontrast.config.load import describe_recipe, find_config, list_recipes
from neurocontrast.exceptions import ConfigError


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
    with pytest.raises(ConfigError, match=r"small\.yaml: there is no such .* Did you mean the recipe 'small'\?"):
        neurocontrast.load_config("small.yaml")
    with pytest.raises(ConfigError, match=r"mine\.yaml: there is no such"):
        neurocontrast.load_config("mine.yaml")


@pytest.mark.parametrize(
    ("name", "said"),
    [("yawar", "Did you mean 'yaware'"), ("natural/simcrl", "Did you mean 'natural/simclr'"), ("", "config list")],
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
    assert neurocontrast.load_config(tmp_path / "measures.yaml") == neurocontrast.load_config("measures")
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


def test_the_schema_knows_the_sections_of_every_recipe(capsys):
    assert run(["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    for file in list_recipes().values():
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert set(content) <= set(schema["properties"])
        training = schema["$defs"]["TrainingSettings"]["properties"]
        assert set(content.get("training") or {}) <= set(training)
