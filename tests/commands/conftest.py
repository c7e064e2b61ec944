import sys
from pathlib import Path

import pytest

import neurocontrast
from neurocontrast.config import load_config

# Tests are imported by path; this lets them share `small_run`.
sys.path.insert(0, str(Path(__file__).parent))

from small_run import FASTEST, MEASURES, OF_MEASURES, PEOPLE, Evaluated


@pytest.fixture(scope="session")
def cohort(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cohort")
    return neurocontrast.simulate(
        folder / "simulated", n_subjects=14, n_sites=2, spacing_mm=8.0, seed=5
    )


@pytest.fixture(scope="session")
def others(tmp_path_factory):
    """People who had no part in pretraining."""
    folder = tmp_path_factory.mktemp("others")
    return neurocontrast.simulate(folder / "made", n_subjects=28, n_sites=2, spacing_mm=8.0, seed=9)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def cached(cache):
    """What is configured of `embed`: where the preprocessed scans of all tests are."""
    return {"data": {"cache_dir": str(cache), "n_workers": 1}}


@pytest.fixture(scope="session")
def settings(cohort, cache):
    """``settings(*overrides)``: the configuration of a small run."""
    small = [
        f"data={{participants: {cohort}, cache_dir: {cache}, spacing_mm: 10, shape: [16, 20, 16], n_workers: 1}}",
        "data.val_fraction=0.3",
        "encoder={name: lenet, projection: [8, 4]}",
        "training={epochs: 2, batch_size: 4, learning_rate: 1e-2, accelerator: cpu}",
    ]
    return lambda *overrides: load_config(None, [*small, *overrides])


@pytest.fixture(scope="session")
def whole(tmp_path_factory, settings):
    """The uninterrupted run that others are compared with, which no test changes."""
    return neurocontrast.pretrain(settings(), out=tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture(scope="session")
def of_others(whole, others, cached, tmp_path_factory):
    """The uninterrupted run, its embeddings of `others`, and an evaluation of their diagnosis."""
    folder = tmp_path_factory.mktemp("others")
    table = neurocontrast.embed(whole, participants=others, out=folder / "e.parquet", config=cached)
    options = FASTEST | {"outlyingness": True, "n_folds": 3}
    return Evaluated(
        whole, table, neurocontrast.evaluate(table, out=folder / "evaluation", **options)
    )


@pytest.fixture(scope="session")
def brain_run(tmp_path_factory, settings):
    """A run whose preprocessing is not the default: what embeds scans must take it from the run."""
    other = settings("data.normalise=zscore-brain", "data.cache_dtype=float32", "training.epochs=1")
    return neurocontrast.pretrain(other, out=tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="session")
def embedded(brain_run, cohort, cached, tmp_path_factory):
    """The embeddings of all scans by that run."""
    out = tmp_path_factory.mktemp("embedded") / "e.parquet"
    return neurocontrast.embed(brain_run, participants=cohort, out=out, config=cached)


@pytest.fixture(scope="session")
def of_measures(tmp_path_factory):
    """A run on regional measures of real people, their embeddings, and an evaluation of sex."""
    folder = tmp_path_factory.mktemp("measures")
    run = neurocontrast.pretrain(OF_MEASURES, out=folder / "run")
    table = neurocontrast.embed(run, participants=PEOPLE, out=folder / "e.parquet", config=MEASURES)
    options = FASTEST | {
        "outlyingness": True,
        "n_folds": 3,
        "allow_overlap": True,
    }
    return Evaluated(
        run,
        table,
        neurocontrast.evaluate(table, out=folder / "evaluation", target="sex", **options),
    )
