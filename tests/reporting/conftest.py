import io
import shutil
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from neurocontrast.reporting.findings import build_sections, open_folder, render_report
from tests.reporting.folders import evaluate_images, evaluate_scans, rewrite


@pytest.fixture(scope="session")
def evaluated(make_cohort, tmp_path_factory: pytest.TempPathFactory):
    """Evaluate an invented cohort in a folder of its own."""

    def evaluate(*given: str, **options: object) -> Path:
        return evaluate_scans(
            tmp_path_factory.mktemp("scans") / "e", make_cohort, *given, **options
        )

    return evaluate


# Evaluations that no test may change: of two classes with little and with everything, thrice, of
# several classes, of age, and of images.
@pytest.fixture(scope="session")
def binary_folder(evaluated) -> Path:
    command = ["neurocontrast", "evaluate", "/data/people/emb.parquet"]
    return rewrite(
        evaluated(), environment={"command": command, "packages": {"scikit-learn": "1.9.0"}}
    )


@pytest.fixture(scope="session")
def full_folder(evaluated) -> Path:
    return evaluated(full=True, threshold="prevalence", n_permutations=19)


@pytest.fixture(scope="session")
def repeated_folder(evaluated) -> Path:
    return evaluated(n_repeats=3)


@pytest.fixture(scope="session")
def several_folder(evaluated) -> Path:
    return evaluated(full=True, classes=("control", "bipolar", "schizophrenia", "depression"))


@pytest.fixture(scope="session")
def age_folder(evaluated) -> Path:
    return evaluated("age", full=True)


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluate_images(tmp_path_factory.mktemp("images") / "e")


@pytest.fixture
def folder(request, tmp_path) -> Path:
    """Copy the evaluation that a module names as EVALUATION, or that of two classes, for a test to change."""
    source = request.getfixturevalue(getattr(request.module, "EVALUATION", "binary_folder"))
    return shutil.copytree(source, tmp_path / "e")


@pytest.fixture
def changing(tmp_path):
    """Make a function that opens a copy of an evaluation folder with other keys of evaluation.json."""

    def of_folder(source):
        def change(**keys):
            copied = shutil.copytree(source, tmp_path / source.parent.name, dirs_exist_ok=True)
            return open_folder(rewrite(copied, **keys))

        return change

    return of_folder


@pytest.fixture(scope="session")
def render():
    """Give the page of an evaluation folder."""

    def page(folder: Path, *, show_ids: bool = False) -> str:
        files = open_folder(folder, show_ids=show_ids)
        return render_report(files, build_sections(files))

    return page


@pytest.fixture(scope="session")
def build():
    """Build one section of an opened folder by its name."""

    def section(name: str, files):
        return next(each for each in files.findings if each.name == name and each.fits(files)).show(
            files
        )

    return section


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave pictures empty, for tests of a page's text."""

    def save(_figure: Figure, stream: io.StringIO | io.BytesIO, **_options: object) -> None:
        empty = '<svg xmlns="http://www.w3.org/2000/svg"/>'
        stream.write(empty if isinstance(stream, io.StringIO) else empty.encode())

    monkeypatch.setattr(Figure, "savefig", save)
