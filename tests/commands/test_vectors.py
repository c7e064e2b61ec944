"""Vectors of measures, such as regional volumes, as metadata that a kernel compares."""

import numpy as np
import pandas as pd
import pytest
from small_run import metrics, read_json

import neurocontrast
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.runs.components import build_components

KERNEL = "[{column: anatomy, type: gaussian, sigma: 1.0, standardise: true}, {column: sex, type: categorical}]"


@pytest.fixture(scope="module")
def volumes(cohort):
    """Volumes of every participant, in millilitres, without identifiers."""
    n = len(pd.read_csv(cohort, sep="\t"))
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {"vol_grey": random.normal(600, 50, n), "vol_white": random.normal(450, 40, n)}
    )


@pytest.fixture
def chosen(settings, cohort, volumes):
    """``chosen(*overrides, **columns)``: the configuration of a run on the cohort with its volumes, or others."""

    def make(*overrides, vectors="{anatomy: ['vol_*']}", kernel=KERNEL, **changes):
        people = pd.read_csv(cohort, sep="\t", dtype=str, keep_default_na=False)
        table = pd.concat([people, volumes], axis=1).assign(**changes)
        table.to_csv(cohort.parent / "with_volumes.tsv", sep="\t", index=False, na_rep="n/a")
        of_table = [
            f"data.participants={cohort.parent / 'with_volumes.tsv'}",
            f"data.vectors={vectors}",
        ]
        return settings(*of_table, f"objective.kernel={kernel}", "training.epochs=1", *overrides)

    return make


def test_a_run_states_the_columns_it_compared_and_what_follows_needs_none(
    chosen, cohort, cached, tmp_path
):
    run = neurocontrast.pretrain(chosen(), out=tmp_path / "run")
    factor = read_json(run / "encoder.json")["objective"]["kernel"][0]
    assert factor["columns"] == ["vol_grey", "vol_white"]
    assert (factor["standardise"], factor["sigma"]) == (True, 1.0)
    assert metrics(run)[0]["train_loss"]
    assert neurocontrast.embed(
        run, participants=cohort, out=tmp_path / "e.parquet", config=cached
    ).is_file()


def test_the_kernel_is_standardised_over_the_training_scans(chosen, cohort):
    settings = chosen()
    parts = build_components(settings, neurocontrast.data.read_cohort(settings.data.participants))
    trained = parts.data.metadata["anatomy"][list(parts.data.training_rows)].double()
    assert len(parts.data.validation_rows) > 0
    sigma = next(
        kernel.sigma
        for kernel in parts.objective.modules()
        if getattr(kernel, "column", "") == "anatomy"
    )
    np.testing.assert_allclose(sigma, trained.std(0) * 2**0.5)


def test_a_run_does_not_continue_with_other_volumes(chosen, cohort, volumes, tmp_path):
    ids = pd.read_csv(cohort, sep="\t", dtype=str)["participant_id"]
    volumes.assign(participant_id=ids).to_csv(tmp_path / "volumes.tsv", sep="\t", index=False)
    of_file = f"{{anatomy: {tmp_path / 'volumes.tsv'}}}"
    run = neurocontrast.pretrain(chosen(vectors=of_file), out=tmp_path / "run")
    (volumes + 1).assign(participant_id=ids).to_csv(tmp_path / "volumes.tsv", sep="\t", index=False)
    with pytest.raises(CheckpointError, match="anatomy holds other vectors than when it began"):
        neurocontrast.pretrain(chosen("training.epochs=2", vectors=of_file), out=run, resume=True)


def test_all_that_a_kernel_cannot_compare_is_one_message(chosen, volumes, tmp_path):
    grey = volumes["vol_grey"].copy()
    n = len(volumes)
    grey[[2, 5]] = np.nan
    settings = chosen(vol_grey=grey, vol_white=[450.0] * n)
    with pytest.raises(DataError) as error:
        neurocontrast.pretrain(settings, out=tmp_path / "run")
    for part in (
        "3 problems",
        "0003 has no value in 'vol_grey'",
        "0006 has",
        "'vol_white': does not vary",
    ):
        assert part in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"vectors": "{anatomi: ['vol_*']}"},
            DataError,
            "no column 'anatomy'.*Did you mean 'anatomi'",
        ),
        (
            {"kernel": KERNEL.replace("1.0", "scott")},
            ConfigError,
            "standardise: is for a sigma that is a number",
        ),
        (
            {"kernel": KERNEL.replace("1.0", "[1, 2, 3]")},
            DataError,
            "sigma has 3 numbers, but column 'anatomy' has 2",
        ),
        (
            {"kernel": "[{column: anatomy, type: cosine, standardise: true}]"},
            ConfigError,
            "standardise: unknown key",
        ),
    ],
)
def test_vectors_and_kernels_that_do_not_fit_are_refused(chosen, tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        neurocontrast.pretrain(chosen(**options), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
