"""Names of the public packages, listed whether they are loaded or not."""

import importlib

import pytest

PACKAGES = ["config", "data", "embedding", "encoders", "evaluation", "explanation", "kernels", "losses", "training"]


@pytest.mark.parametrize("name", [f"neurocontrast.{each}" for each in [*PACKAGES, "transforms"]])
def test_dir_lists_the_public_names(name):
    package = importlib.import_module(name)
    assert set(package.__all__) <= set(dir(package))
    assert all(getattr(package, public) is not None for public in package.__all__)


@pytest.mark.parametrize("name", ["losses", "data", "transforms", "embedding", "encoders", "training"])
def test_dir_of_a_lazy_package_lists_nothing_else(name):
    package = importlib.import_module(f"neurocontrast.{name}")
    assert {public for public in dir(package) if not public.startswith("__")} == set(package.__all__)


def test_packages_are_found_from_the_root():
    neurocontrast = importlib.import_module("neurocontrast")
    assert {*neurocontrast.__all__, "losses", "kernels", "evaluation"} <= set(dir(neurocontrast))
    assert not {"Any", "import_module", "annotations", "TYPE_CHECKING"} & set(dir(neurocontrast))
    assert neurocontrast.kernels.Gaussian.__module__.startswith("neurocontrast.kernels")
    for name in ("index", "convert", "qc"):
        assert callable(getattr(neurocontrast, name))
