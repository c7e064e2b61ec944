"""The package as an index hands it out: its files, its page, and README's blocks as written in a fresh environment."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import ROOT
from tests.heads import write_bids

README = (ROOT / "README.md").read_text(encoding="utf-8")
NAME = "tissue_linear"
SMALLER = {
    "n_components: 60": "n_components: 1",
    "spacing_mm: 4.0": "spacing_mm: 6.0",
    "[48, 56, 48]": "[32, 36, 32]",
}


def block(language):
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    return text


def test_readme_is_a_first_page():
    lines = README.splitlines()
    assert len(lines) <= 60
    assert max(map(len, lines)) <= 120


@pytest.fixture(scope="module")
def tracked_files(tmp_path_factory):
    """A copy of the tracked files, in which builds leave what they like."""
    copy = tmp_path_factory.mktemp("copy")
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    for name in filter(None, tracked.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    return copy


def build(project, out):
    """Build the wheel and the source distribution of a project."""
    for kind in ("sdist", "wheel"):
        program = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
        subprocess.run(
            [sys.executable, "-c", program], cwd=project, check=True, capture_output=True
        )
    return next(out.glob("*.whl")), next(out.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def distributions(tracked_files, tmp_path_factory):
    """Return the wheel and the source distribution of the package."""
    return build(tracked_files, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def weights_distributions(tracked_files, tmp_path_factory):
    """Return the wheel and the source distribution of the weights of measures."""
    project = tracked_files / "weights" / "measures"
    return build(project, tmp_path_factory.mktemp("dist-weights"))


@pytest.fixture(scope="module")
def installed(distributions, weights_distributions, tmp_path_factory):
    """Return a function that runs a command line in an environment with both wheels and this one's other packages."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder / "venv")
    python = folder / "venv" / "bin" / "python"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
    ]
    wheels = (distributions[0], weights_distributions[0])
    subprocess.run([*pip, *wheels], check=True, capture_output=True)
    # Editable installs in this environment, such as the repository's own, are not taken over by a
    # path alone.
    (next((folder / "venv").glob("lib/*/site-packages")) / "others.pth").write_text(
        sysconfig.get_path("purelib")
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(cwd, *command, **variables):
        environment = kept | {"PATH": f"{python.parent}:{os.environ['PATH']}"} | variables
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)

    assert run(
        folder, "python", "-c", "import neurocontrast; print(neurocontrast.__file__)"
    ).stdout.startswith(str(folder))
    return run


@pytest.mark.slow
def test_the_distributions_hold_the_package_and_a_page_whose_links_lead_somewhere(distributions):
    wheel, source = distributions
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = message_from_bytes(
            archive.read(next(name for name in names if name.endswith("/METADATA")))
        )
    assert {name.split("/")[0].split("-")[0] for name in names} == {"neurocontrast"}
    recipes = {path.relative_to(ROOT).as_posix() for path in (ROOT / "configs").glob("*/*.yaml")}
    assert {name for name in names if "/configs/" in name} == {
        f"neurocontrast/{recipe}" for recipe in recipes
    }
    known = "neurocontrast/weights/brain-maps-lda/answer/"
    scans = {name for name in names if name.endswith((".nii.gz", ".tsv"))}
    assert scans == {f"{known}{tissue}.nii.gz" for tissue in ("gm", "wm", "csf")}, (
        "maps of one person, under CC0"
    )
    with tarfile.open(source) as archive:
        paths = [Path(name) for name in archive.getnames()[1:]]
    assert {"tests", "sample", "weights"}.isdisjoint(path.parts[1] for path in paths)
    assert about["License-Expression"] == "BSD-3-Clause AND CC-BY-SA-3.0"
    assert recipes <= {Path(*path.parts[1:]).as_posix() for path in paths}
    (repository,) = [
        url.split(", ")[1] for url in about.get_all("Project-URL") if url.startswith("Repository, ")
    ]
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
    done = installed(
        tmp_path, "python", "-c", block("python"), NEUROCONTRAST_SAMPLE=str(ROOT / "sample")
    )
    assert done.stdout.strip().endswith("report.html"), done.stderr
    assert (tmp_path / "EVAL" / "evaluation.json").is_file()


@pytest.mark.slow
def test_the_commands_of_readme_lead_to_a_report(installed, shared_folder, tmp_path):
    pytest.importorskip("SimpleITK")
    pytest.importorskip("deepbet")
    write_bids(tmp_path / "bids", shared_folder / "data" / "brains", n_volunteers=2, n_study=10)
    # A file of the name that README gives is read in place of the recipe: README's commands stay as
    # they are.
    assert installed(tmp_path, "neurocontrast", "config", "copy", NAME, NAME).returncode == 0
    recipe = (tmp_path / NAME).read_text(encoding="utf-8")
    for line, smaller in SMALLER.items():
        assert line in recipe
        recipe = recipe.replace(line, smaller)
    (tmp_path / NAME).write_text(recipe, encoding="utf-8")
    done = installed(tmp_path, "sh", "-e", "-c", block("sh"))
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "evaluation" / "report.html").read_text(encoding="utf-8")
    assert "diagnosis" in page
    assert "novosibirsk" in page


@pytest.fixture(scope="module")
def journey(installed, tmp_path_factory):
    """A folder with real brains, one file of them cut short, and what runs a command line of the wheel in it."""
    folder = tmp_path_factory.mktemp("journey")
    sample = pd.read_csv(ROOT / "sample" / "participants.tsv", sep="\t", dtype=str)
    people = pd.concat(
        [part.head(8) for _, part in sample[sample["site"] != "ucla"].groupby(["site", "sex"])]
    )
    for column in ("path", "gm", "wm", "csf"):
        people[column] = [str(ROOT / "sample" / path) for path in people[column]]
    for place in people.columns.get_indexer(["path", "gm"]):
        whole = Path(people.iloc[0, place])
        cut = folder / f"cut-{place}.nii.gz"
        cut.write_bytes(whole.read_bytes()[:900])
        people.iloc[0, place] = str(cut)
    people.to_csv(folder / "people.tsv", sep="\t", index=False)

    def run(line, *more, fails=False):
        done = installed(folder, *shlex.split(line), *more)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done

    return folder, run, people["participant_id"].iloc[0]


@pytest.fixture(scope="module")
def evaluated(journey):
    """The journey up to two evaluations, with the damaged scan left out by each command."""
    folder, run, damaged = journey
    few = ["--set", "encoder.n_components=5"]
    refused = run(
        "neurocontrast pretrain --config tissue_linear --participants people.tsv --out no",
        *few,
        fails=True,
    )
    assert "--skip" in refused.stderr
    run(
        "neurocontrast pretrain --config tissue_linear --participants people.tsv --out run --skip",
        *few,
    )
    embedded = run("neurocontrast embed run --participants people.tsv --out table.parquet --skip")
    assert damaged in embedded.stderr
    assert "Next: neurocontrast evaluate table.parquet" in embedded.stdout
    known = "--allow-overlap --n-folds 3 --set evaluation.where.site=[london,novosibirsk]"
    quick = "--set evaluation.voxels=off --set evaluation.n_bootstraps=200"
    run(f"neurocontrast evaluate table.parquet --target sex --out sex {known} {quick}")
    shutil.copytree(folder / "sex", folder / "again")
    return folder, run


@pytest.mark.slow
def test_recipes_go_by_name(journey):
    folder, run, _ = journey
    assert "tissue_linear" in run("neurocontrast config list").stdout
    recipe = run("neurocontrast config show tissue_linear").stdout
    run("neurocontrast config copy tissue_linear mine.yaml")
    first, rest = (folder / "mine.yaml").read_text(encoding="utf-8").split("\n", 1)
    assert first.startswith("# yaml-language-server: $schema=")
    assert rest.strip() == recipe.strip()
    assert "encoder" in json.loads(run("neurocontrast config schema").stdout)["properties"]


@pytest.mark.slow
def test_one_bad_scan_stops_no_one(journey):
    folder, run, damaged = journey
    run("neurocontrast qc people.tsv --out qc", fails=True)  # exit code 1: a part failed
    cards = (folder / "qc" / "qc.html").read_text(encoding="utf-8")
    assert "cannot be read: " in cards
    assert damaged in cards
    run("neurocontrast check people.tsv --write-good good.tsv")
    assert damaged not in (folder / "good.tsv").read_text(encoding="utf-8")
    run("neurocontrast check good.tsv")


@pytest.mark.slow
def test_weights_are_listed_and_verified(evaluated):
    _, run = evaluated
    assert "brain-maps-lda" in run("neurocontrast weights list").stdout
    for name in ("brain-maps-lda", "run"):
        said = run(f"neurocontrast weights verify {name}").stdout
        assert "PASS" in said
        assert "FAIL" not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("project", "licence_file", "licence_name", "most_bytes"),
    [
        ("measures", "LICENSE", "CC-BY-NC-SA-4.0", 6e6),
        ("brains", "neurocontrast_weights_brains/README.md", "CC-BY-SA-3.0", 45e6),
    ],
)
def test_the_distributions_of_the_weights_hold_them_alone_with_their_licence(
    tracked_files, tmp_path, project, licence_file, licence_name, most_bytes
):
    wheel, source = build(tracked_files / "weights" / project, tmp_path)
    folder = ROOT / "weights" / project
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
    files = {name for name in tracked.split("\0") if "/" in name}
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = message_from_bytes(
            archive.read(next(name for name in names if name.endswith("/METADATA")))
        )
        (licence,) = [name for name in names if name.endswith(f"/licenses/{licence_file}")]
        assert archive.read(licence) == (folder / licence_file).read_bytes()
    assert {name for name in names if ".dist-info/" not in name} == files
    assert about["License-Expression"] == licence_name
    assert [name for name in about.get_all("Requires-Dist") if "neurocontrast" in name]
    assert wheel.stat().st_size < most_bytes
    with tarfile.open(source) as archive:
        paths = {Path(*Path(name).parts[1:]).as_posix() for name in archive.getnames()}
    assert {*files, licence_file, "pyproject.toml"} <= paths
    pytest.importorskip("twine")
    checked = [sys.executable, "-m", "twine", "check", "--strict", wheel, source]
    assert subprocess.run(checked, capture_output=True, text=True).stdout.count("PASSED") == 2


@pytest.mark.slow
def test_both_wheels_lead_from_tables_to_predicted_ages(installed, tmp_path):
    def run(line):
        done = installed(tmp_path, *shlex.split(line))
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert "measures  predicts age and sex; neurocontrast-weights-measures" in run(
        "neurocontrast weights list"
    )
    assert run("neurocontrast weights verify measures").count("PASS") == 3
    folder = Path(run("neurocontrast weights path measures").strip())
    assert ROOT not in folder.parents
    hospital = ROOT / "sample" / "measures_ds000222"
    run(f"neurocontrast embed {folder} --participants {hospital}/participants.tsv --out e.parquet")
    run(f"neurocontrast predict {folder}/age e.parquet --out age.tsv")
    ages = pd.read_csv(tmp_path / "age.tsv", sep="\t")
    assert len(ages) == 79
    assert ages["y_score"].between(5, 90).all()


@pytest.mark.slow
def test_an_evaluation_is_explained_compared_and_shown(evaluated):
    folder, run = evaluated
    assert "report sex" in run("neurocontrast explain sex --set explanation.n_subjects=4").stdout
    run("neurocontrast compare sex again --out both")
    run("neurocontrast report sex --map")
    for page in ("sex/report.html", "sex/map.html", "both/comparison.html"):
        text = (folder / page).read_text(encoding="utf-8")
        assert not re.search(r"""(?:src|href)=["']?https?://""", text), page


PYTHON = """
import os, pickle
import numpy as np, pandas as pd, torch
from torch.utils.data import DataLoader
import neurocontrast
from neurocontrast import losses, transforms
from neurocontrast.data import CohortDataset, read_cohort
from neurocontrast.embedding import ScanEmbedder
from neurocontrast.kernels import Categorical, Gaussian

people = pd.read_csv("people.tsv", sep="\\t").iloc[1:]
preprocess = transforms.brain_transforms(spacing_mm=8.0, shape=(24, 28, 24))
batch = next(iter(DataLoader(CohortDataset(read_cohort(people), transform=preprocess), batch_size=4)))
z1, z2 = torch.randn(2, 4, 8)
loss = losses.YAwareInfoNCE(Gaussian("age", sigma=5.0) * Categorical("sex"))
assert loss(z1, z2, batch, reduction="none").shape == (2, 4)

config = neurocontrast.load_config("tissue_linear", ["encoder.n_components=3"])
run = neurocontrast.pretrain(config, out="from_python", participants=people)
table = neurocontrast.embed(run, participants=people, out="from_python.parquet")
found = neurocontrast.evaluate(table, target="sex", out="in_python", n_folds=3, allow_overlap=True)
assert 0 <= found.auc <= 1 and (found / "folds.tsv").is_file() and os.fspath(found) == "in_python"
assert "embedding" in set(found.table["model"]) and "<table" in found._repr_html_()

known = pickle.dumps(ScanEmbedder("run"))
scans = people[["gm", "wm"]].head(2).to_numpy().tolist()
here = ScanEmbedder("run").fit(scans).transform(scans)
os.makedirs("elsewhere", exist_ok=True)
os.chdir("elsewhere")
assert np.array_equal(pickle.loads(known).fit(scans).transform(scans), here)
"""


@pytest.mark.slow
def test_python_as_its_users_write_it(evaluated):
    _, run = evaluated
    run("python -c", PYTHON)
