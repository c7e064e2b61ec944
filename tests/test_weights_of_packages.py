"""Weights of installed packages are listed, loaded and used by name; damage to one stops no other."""

import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import neurocontrast
from neurocontrast import weights
from neurocontrast.cli import run as command
from neurocontrast.datasets import load_measures
from neurocontrast.exceptions import CheckpointError, ConfigError
from tests.conftest import ROOT, install_weights

SHIPPED = "brain-maps-lda"


@pytest.fixture
def site(monkeypatch, tmp_path):
    """Return a folder on the path of modules, as ``site-packages`` is."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def install(site: Path, name: str, *, package: str, entries: str | None = None) -> Path:
    """Install a package with weights as pip does, and return the folder of the weights."""
    folder = shutil.copytree(Path(weights.__file__).parent / SHIPPED, site / package)
    (folder / "__init__.py").write_text("raise AssertionError('code of the package is run')\n")
    about = site / f"{package}-1.0.dist-info"
    about.mkdir()
    title = package.replace("_", "-")
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {title}\nVersion: 1.0\n")
    if entries is None:
        entries = f"{name} = {package}"
    (about / "entry_points.txt").write_text(f"[neurocontrast.weights]\n{entries}\n")
    return folder


def test_weights_of_a_package_go_by_name(site, capsys):
    folder = install(site, "clinic", package="clinic_weights")
    assert {"clinic", SHIPPED} <= set(weights.names())
    loaded = weights.load("clinic")
    assert loaded.path == folder
    assert loaded.origin == "clinic-weights 1.0"
    assert weights.folder_of("clinic") == folder
    assert weights.folder_of("clinic/age") == folder / "age"
    assert neurocontrast.verify_weights("clinic").passed
    assert command(["weights", "path", "clinic"]) == 0
    assert capsys.readouterr().out.strip() == str(folder)
    assert command(["weights", "list"]) == 0
    assert "clinic  predicts age and sex; clinic-weights 1.0" in capsys.readouterr().out
    with pytest.raises(ConfigError, match=r"'clinic' has no probe 'aeg'\. Did you mean 'age'"):
        weights.folder_of("clinic/aeg")


def spoil_weights(folder):
    (folder / "encoder.safetensors").write_bytes(b"cut short")


def spoil_card(folder):
    (folder / "README.md").unlink()


def spoil_contract(folder):
    (folder / "encoder.json").unlink()


def spoil_probe(folder):
    (folder / "age" / "probe.npz").write_bytes(b"cut short")


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (spoil_weights, "encoder.safetensors: SHA-256 is"),
        (spoil_card, "has no card, README.md"),
        (spoil_contract, "has neither encoder.json nor members.json"),
        (spoil_probe, "probe.npz"),
        (shutil.rmtree, "which is no package with a folder"),
    ],
)
def test_a_damaged_package_is_named_and_stops_no_other(site, capsys, spoil, problem):
    spoil(install(site, "clinic", package="clinic_weights"))
    assert command(["weights", "list"]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("clinic ")]
    assert "cannot be used: clinic-weights 1.0: " in line
    assert problem in line
    assert SHIPPED in weights.names()
    assert weights.load(SHIPPED).encoder.n_features == 60


@pytest.mark.parametrize("value", ["csv", "json.nowhere", "no such module", "clinic_weights:age"])
def test_an_entry_point_that_is_no_package_is_refused_by_name(site, value):
    install(site, "clinic", package="clinic_weights", entries=f"clinic = {value}")
    with pytest.raises(CheckpointError, match=f"'clinic' names '{value}', which is no package"):
        weights.load("clinic")
    assert list(weights.problems()) == ["clinic"]


def test_entry_points_that_cannot_be_read_are_named(site):
    install(site, "clinic", package="clinic_weights", entries="no equals sign")
    (problem,) = weights.problems().values()
    assert "clinic-weights 1.0: its entry_points.txt cannot be read" in problem
    assert weights.folder_of(SHIPPED).is_dir()


@pytest.mark.parametrize("name", ["clinic", SHIPPED])
def test_two_packages_with_one_name_are_refused(site, name):
    install(site, name, package="clinic_weights")
    install(site, name, package="hospital_weights")
    with pytest.raises(ConfigError, match=r"bring weights named .* and hospital-weights 1\.0"):
        weights.load(name)
    assert list(weights.problems()) == [name]
    assert name not in weights.names()


def test_a_folder_of_the_user_by_the_name_of_weights_is_ambiguous(site, monkeypatch, tmp_path):
    folder = install(site, "clinic", package="clinic_weights")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clinic").mkdir()
    assert weights.folder_of("clinic") == folder
    run = tmp_path / "clinic" / "encoder.json"
    run.write_text("{}")
    with pytest.raises(ConfigError, match="'clinic' is a folder of yours"):
        weights.folder_of("clinic")
    assert weights.folder_of(run.parent) == run.parent


@pytest.fixture
def without_measures(monkeypatch):
    """Hide a package of weights that this environment has."""
    sources = weights.sources_of_packages
    hidden = [source for source in sources() if source.name != "measures"]
    monkeypatch.setattr(weights, "sources_of_packages", lambda: iter(hidden))


def test_weights_that_are_not_installed_say_how_to_get_them(
    without_measures, monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    how = "pip install neurocontrast-weights-measures, or in a checkout of neurocontrast"
    for name in ("measures", "measures/age"):
        with pytest.raises(ConfigError, match=how):
            weights.folder_of(name)
    assert command(["weights", "verify", "measures"]) == 2
    assert how in capsys.readouterr().err
    assert command(["weights", "list"]) == 0
    assert f"measures  is not installed: {how}" in capsys.readouterr().out
    (tmp_path / "measures").mkdir()
    assert weights.folder_of("measures") == Path("measures")


def block_of(language: str) -> str:
    """Return the block of the page that says how to make a package."""
    page = (ROOT / "docs" / "weights.md").read_text(encoding="utf-8")
    section = page.split("## Weights of your own, as a package")[1].split("\n## ")[0]
    return section.split(f"```{language}\n")[1].split("```")[0]


@pytest.fixture(scope="module")
def packaged(tmp_path_factory):
    """The package of the page: a run of members, exported, with a probe and a card."""
    folder = tmp_path_factory.mktemp("clinic")
    hospital = load_measures("ds000222")
    people = hospital.table.assign(site=np.resize(["a", "b", "c"], len(hospital.table)))
    people.to_csv(folder / "people.tsv", sep="\t", index=False)
    data = {"participants": str(folder / "people.tsv"), "measures": str(hospital.measures[0])}
    config = {
        "data": data,
        "encoder": {"name": "mlp", "widths": [8], "projection": []},
        "objective": {"loss": "ntxent", "temperature": 1.0},
        "augment": {"noise": {"sd": 0.1}},
        "training": {"epochs": 1, "batch_size": 32, "members": 2, "members_leave": "sites"},
    }
    run = neurocontrast.pretrain(config, out=folder / "run").location
    settings = {"data": {"measures": data["measures"]}}
    table = neurocontrast.embed(
        run, participants=data["participants"], out=folder / "e.parquet", config=settings
    )
    quick = {"n_bootstraps": 0, "confounds": False, "new_site": False, "voxels": "off"}
    evaluation = neurocontrast.evaluate(
        table, out=folder / "EVAL", target="age", allow_overlap=True, **quick
    )
    package = folder / "clinic" / "clinic_weights"
    package.parent.mkdir()
    commands = block_of("").replace("RUN", str(run)).replace("EVAL", str(evaluation.folder))
    commands = commands.replace("docs/model_card.md", str(ROOT / "docs" / "model_card.md"))
    for line in commands.strip().splitlines()[1:]:
        words = shlex.split(line.replace(" clinic/", f" {package.parent}/"), comments=True)
        if words[0] == "neurocontrast":
            assert command(words[1:]) == 0
        else:
            subprocess.run(words, check=True)
    (package.parent / "pyproject.toml").write_text(block_of("toml"))
    return package


def test_a_package_made_as_the_page_says_is_listed_embedded_with_and_predicted_from(
    packaged, site, tmp_path, capsys
):
    project = tomllib.loads(block_of("toml"))["project"]
    ((name, package),) = project["entry-points"]["neurocontrast.weights"].items()
    assert package == packaged.name
    options = {"title": project["name"], "version": project["version"]}
    install_weights(site, name, packaged, **options)
    assert command(["weights", "list"]) == 0
    assert "clinic  predicts age; clinic-weights 1.0" in capsys.readouterr().out
    assert neurocontrast.verify_weights("clinic").passed
    hospital = load_measures("ds000222")
    clinic = weights.load("clinic")
    table = neurocontrast.embed(
        clinic, participants=hospital.participants, out=tmp_path / "new.parquet"
    )
    predicted = neurocontrast.predict(clinic.probes["age"], table, out=tmp_path / "age.tsv").table
    assert predicted["y_score"].notna().all()
    assert len(predicted) == len(hospital.table)


@pytest.mark.slow
def test_the_ten_lines_of_the_page_are_a_package_that_pip_installs(packaged, tmp_path, monkeypatch):
    lines = block_of("toml").strip().splitlines()
    assert len(lines) <= 10
    copy = shutil.copytree(packaged.parent, tmp_path / "clinic")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    site = tmp_path / "site-packages"
    subprocess.run([*pip, "--target", site, copy], check=True, capture_output=True)
    monkeypatch.syspath_prepend(str(site))
    assert weights.load("clinic").origin == "clinic-weights 1.0"
    assert neurocontrast.verify_weights("clinic").passed
