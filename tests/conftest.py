"""Fixtures that every part of the tests uses."""

import contextlib
import importlib
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no failure.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder of shared data and reference values beside the checkout."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        message = (
            f"needs the shared data folder beside the checkout ({folder.name}/), which is absent"
        )
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder


def install_weights(site: Path, name: str, folder: Path, *, title: str, version: str) -> None:
    """Make weights known to Python as pip does: a folder on its path, and what describes it."""
    package = title.replace("-", "_")
    if not (site / package).exists():
        (site / package).symlink_to(folder)
    about = site / f"{package}-{version}.dist-info"
    about.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {title}\nVersion: {version}\n"
    (about / "METADATA").write_text(metadata)
    (about / "entry_points.txt").write_text(f"[neurocontrast.weights]\n{name} = {package}\n")


@pytest.fixture(scope="session")
def measures_weights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The weights `measures` of this checkout, by name, whether or not they are installed."""
    with installed_weights("measures", tmp_path_factory.mktemp("site-packages")) as folder:
        yield folder


@pytest.fixture(scope="session")
def brains_weights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The weights `brain-maps` of this checkout, by name, whether or not they are installed."""
    with installed_weights("brains", tmp_path_factory.mktemp("site-packages")) as folder:
        yield folder


@contextlib.contextmanager
def installed_weights(project_folder: str, site: Path) -> Iterator[Path]:
    """Put weights of this checkout on the path of modules, as pip installs them."""
    checkout = ROOT / "weights" / project_folder
    project = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]
    ((name, package),) = project["entry-points"]["neurocontrast.weights"].items()
    options = {"title": project["name"], "version": project["version"]}
    install_weights(site, name, checkout / package, **options)
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    yield checkout / package
    sys.path.remove(str(site))


@pytest.fixture
def brain() -> np.ndarray:
    """A lopsided blob on a zero background, (24, 28, 20), so that no flip or transposition looks like another."""
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n) for n in (24, 28, 20)), indexing="ij")
    blob = np.clip(1 - (x**2 + y**2 + z**2) / 0.7, 0, None) * (1 + 0.4 * x + 0.3 * y + 0.2 * z)
    return (1000 * blob).astype(np.float32)


@pytest.fixture
def write_nifti(tmp_path: Path) -> Callable[..., Path]:
    """Write voxels given in RAS order as a NIfTI file whose axes are stored as `axes`."""

    def write(
        voxels: np.ndarray,
        name: str = "scan.nii.gz",
        *,
        axes: str = "RAS",
        spacing: Sequence[float] = (2.0, 2.0, 2.0),
    ) -> Path:
        affine = np.diag([*spacing, 1.0])
        ornt = nib.orientations.ornt_transform(
            nib.orientations.axcodes2ornt("RAS"), nib.orientations.axcodes2ornt(axes)
        )
        image = nib.Nifti1Image(np.asarray(voxels), affine).as_reoriented(ornt)
        image.set_sform(image.affine, 1)
        image.set_qform(image.affine, 1)
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        nib.save(image, path)
        return path

    return write


@pytest.fixture
def blank_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave figures of pages blank in tests of sentences: drawing takes most of a page's time."""
    shown = "neurocontrast.reporting.style.Picture.data_uri"
    monkeypatch.setattr(shown, lambda picture: "data:,")


@dataclass
class Synthetic:
    table: pd.DataFrame
    features: np.ndarray


@pytest.fixture(scope="session")
def make_cohort() -> Callable[..., Synthetic]:
    """Build scans whose features hold the stated shifts by diagnosis, age and site."""

    def make(
        n: int = 120,
        *,
        n_features: int = 20,
        n_sites: int = 3,
        n_sessions: int = 1,
        diagnosis: float = 1.0,
        age: float = 1.0,
        site: float = 0.0,
        classes: tuple[str, ...] = ("control", "patient"),
        seed: int = 0,
    ) -> Synthetic:
        generator = np.random.default_rng(seed)
        codes = generator.integers(len(classes), size=n)
        places = generator.integers(n_sites, size=n)
        ages = generator.uniform(20, 80, size=n)
        directions = generator.normal(size=(2 + len(classes), n_features)) / np.sqrt(n_features)
        by_site = generator.normal(size=(n_sites, n_features))
        subjects = [f"sub-{row:04d}" for row in range(n)]
        means = diagnosis * 3 * directions[2 + codes] + age * np.outer(
            (ages - 50) / 10, directions[0]
        )
        means = means + site * by_site[places]
        table = pd.DataFrame(
            {
                "participant_id": subjects,
                "subject_id": subjects,
                "session": "",
                "path": [f"{subject}.nii.gz" for subject in subjects],
                "age": ages,
                "sex": generator.choice(["F", "M"], size=n),
                "site": [f"site-{place}" for place in places],
                "diagnosis": [classes[code] for code in codes],
            }
        )
        repeated = [
            table.assign(session=str(session + 1) if n_sessions > 1 else "")
            for session in range(n_sessions)
        ]
        features = [means + generator.normal(size=means.shape) for _ in range(n_sessions)]
        return Synthetic(pd.concat(repeated, ignore_index=True), np.concatenate(features))

    return make
