"""The package as an index hands it out: its files, its page, and README's blocks as written in a fresh environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.heads import write_bids

README = (ROOT / "README.md").read_text(encoding="utf-8")
SMALLER = {"epochs: 10": "epochs: 2", "spacing_mm: 4.0": "spacing_mm: 6.0", "[48, 56, 48]": "[32, 36, 32]",
           "batch_size: 16": "batch_size: 4", "val_fraction: 0.1": "val_fraction: 0"}  # fmt: skip


def block(language):
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return text


def test_readme_is_a_first_page():
    lines = README.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 120


@pytest.fixture(scope="module")
def distributions(tmp_path_factory):
    """A wheel and a source distribution, built in a copy of the tracked files."""
    copy, out = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("dist")
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    for kind in ("sdist", "wheel"):
        program = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
        subprocess.run([sys.executable, "-c", program], cwd=copy, check=True, capture_output=True)
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def installed(distributions, tmp_path_factory):
    """Return a function that runs a command line in an environment with the wheel and this one's other packages."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "venv")
    python = folder / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*pip, distributions[0]], check=True, capture_output=True)
    # Editable installs in this environment, such as the repository's own, are not taken over by a path alone.
    (next((folder / "venv").glob("lib/*/site-packages")) / "others.pth").write_text(sysconfig.get_path("purelib"))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(cwd, *command, **variables):
        environment = kept | {"PATH": f"{python.parent}:{os.environ['PATH']}"} | variables
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)

    assert run(folder, "python", "-c", "import neurocontrast; print(neurocontrast.__file__)").stdout.startswith(
        str(folder)
    )
    return run


@pytest.mark.slow
def test_the_distributions_hold_the_package_and_a_page_whose_links_lead_somewhere(distributions):
    wheel, source = distributions
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = message_from_bytes(archive.read(next(name for name in names if name.endswith("/METADATA"))))
    assert {name.split("/")[0].split("-")[0] for name in names} == {"neurocontrast"}
    known = "neurocontrast/weights/brain-maps-lda/answer/"
    scans = {name for name in names if name.endswith((".nii.gz", ".tsv"))}
    assert scans == {f"{known}{tissue}.nii.gz" for tissue in ("gm", "wm", "csf")}, "maps of one person, under CC0"
    with tarfile.open(source) as archive:
        assert {"tests", "sample"}.isdisjoint(Path(name).parts[1] for name in archive.getnames()[1:])
    (repository,) = [url.split(", ")[1] for url in about.get_all("Project-URL") if url.startswith("Repository, ")]
    links = re.findall(r"\]\(([^)]+)\)", about.get_payload())
    assert len(links) == len(re.findall(r"\]\(", README)) > 10
    for link in links:
        assert link.startswith(f"{repository}/"), link
        assert (ROOT / link.removeprefix(f"{repository}/").split("/main/")[1]).exists(), link
    pytest.importorskip("twine")
    checked = [sys.executable, "-m", "twine", "check", "--strict", wheel, source]
    assert subprocess.run(checked, capture_output=True, text=True).stdout.count("PASSED") == 2


@pytest.mark.slow
def test_the_python_of_readme_runs_and_the_sample_is_asked_for(installed, tmp_path):
    absent = installed(tmp_path, "python", "-c", block("python"))
    assert "DataError: load_sample: the folder" in absent.stderr
    assert "clone the repository" in absent.stderr
    done = installed(tmp_path, "python", "-c", block("python"), NEUROCONTRAST_SAMPLE=str(ROOT / "sample"))
    assert done.stdout.strip().endswith("report.html"), done.stderr
    assert (tmp_path / "EVAL" / "evaluation.json").is_file()


@pytest.mark.slow
def test_the_commands_of_readme_lead_to_a_report(installed, shared_folder, tmp_path):
    pytest.importorskip("SimpleITK")
    pytest.importorskip("deepbet")
    write_bids(tmp_path / "bids", shared_folder / "data" / "brains", n_volunteers=4, n_study=12)
    # A file of the name that README gives is read in place of the recipe: README's commands stay as they are.
    assert installed(tmp_path, "neurocontrast", "config", "copy", "small", "small").returncode == 0
    recipe = (tmp_path / "small").read_text(encoding="utf-8")
    for line, smaller in SMALLER.items():
        assert line in recipe
        recipe = recipe.replace(line, smaller)
    (tmp_path / "small").write_text(recipe, encoding="utf-8")
    done = installed(tmp_path, "sh", "-e", "-c", block("sh"))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "evaluation" / "report.html").read_text(encoding="utf-8")
    assert "diagnosis" in page
    assert "novosibirsk" in page
