from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.figure import Figure

from neurocontrast.findings import build_sections, open_folder, render_report
from tests.findings.show import comparison_folders, evaluation_folders, image_folders, newer_files
from tests.findings.show import page as pages


@pytest.fixture(scope="session")
def make() -> ModuleType:
    """Makers of evaluation folders: make.make_binary(folder), make_multiclass, make_continuous."""
    return evaluation_folders


@pytest.fixture(scope="session")
def parse() -> ModuleType:
    """Reading of a page: parse.Page(html)."""
    return pages


@pytest.fixture(scope="session")
def comparisons() -> ModuleType:
    """Maker of comparison folders: comparisons.write(folder)."""
    return comparison_folders


@pytest.fixture(scope="session")
def binary_folder(make: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation of a binary target that no test may change."""
    return make.make_binary(tmp_path_factory.mktemp("evaluations") / "binary")


@pytest.fixture(scope="session")
def add_newer_files():
    """Put the files of newer evaluations into a folder of `make`."""
    return newer_files.add_newer_files


@pytest.fixture(scope="session")
def add_new_sites():
    """Put what is said of unseen sites and of scans outside into a folder of `make`."""
    return newer_files.add_new_sites


@pytest.fixture(scope="session")
def full_folder(make: ModuleType, add_newer_files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation of a binary target with every file there is, that no test may change."""
    return add_newer_files(make.make_binary(tmp_path_factory.mktemp("evaluations") / "full", n_boot=10))


@pytest.fixture(scope="session")
def render():
    """Give the page of an evaluation folder."""

    def page(folder: Path, *, show_ids: bool = False) -> str:
        files = open_folder(folder, show_ids=show_ids)
        return render_report(files, build_sections(files))

    return page


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave pictures empty, for tests of a page's text."""

    def save(_figure: Figure, stream: io.StringIO | io.BytesIO, **_options: object) -> None:
        empty = '<svg xmlns="http://www.w3.org/2000/svg"/>'
        stream.write(empty if isinstance(stream, io.StringIO) else empty.encode())

    monkeypatch.setattr(Figure, "savefig", save)


@pytest.fixture(scope="session")
def image_maker() -> ModuleType:
    """Makers of folders of natural images: image_maker.make_images(folder), make_comparison(folder)."""
    return image_folders


@pytest.fixture(scope="session")
def make_images(image_maker: ModuleType):
    """Write an evaluation of images into a folder."""
    return image_maker.make_images


@pytest.fixture(scope="session")
def image_folder(make_images, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation of images that no test may change."""
    return make_images(tmp_path_factory.mktemp("evaluations") / "images")


@pytest.fixture
def changing(tmp_path):
    """Make a function that opens a copy of an evaluation folder with other keys of evaluation.json."""

    def of_folder(source):
        def change(**keys):
            folder = shutil.copytree(source, tmp_path / "evaluation", dirs_exist_ok=True)
            path = folder / "evaluation.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | keys))
            return open_folder(folder)

        return change

    return of_folder
