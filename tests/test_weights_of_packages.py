"""Weights of installed packages are listed, loaded and used by name; damage to one stops no other."""

import shutil
from pathlib import Path

import pytest

import neurocontrast
from neurocontrast import weights
from neurocontrast.cli import run as command
from neurocontrast.exceptions import CheckpointError, ConfigError

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
    folder = shutil.copytree(weights.load(SHIPPED).path, site / package)
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
