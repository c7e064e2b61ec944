import json
import shutil
from itertools import product

import numpy as np
import pytest

from neurocontrast.evaluation import load_probe, save_probe
from neurocontrast.evaluation.fit.distribution import fit_distribution
from neurocontrast.evaluation.fit.final_probe import fit_on_all
from neurocontrast.exceptions import CheckpointError
from neurocontrast.files import digest_of_file
from neurocontrast.provenance import subject_digest
from tests.evaluation.quick import plan_kind


@pytest.fixture(scope="module")
def stored(make_cohort, tmp_path_factory):
    """A probe with what it knows of the distribution of its scans, that no test may change."""
    study = plan_kind(make_cohort, "binary")
    folder = tmp_path_factory.mktemp("stored")
    distribution = fit_distribution(study.features, np.repeat("a", 80), study.subjects, seed=0)[0]
    save_probe(folder, fit_on_all(study, encoder=None, distribution=distribution)[1])
    return folder


@pytest.fixture
def folder(stored, tmp_path):
    return shutil.copytree(stored, tmp_path / "probe")


@pytest.mark.parametrize("kind", ["binary", "multiclass", "continuous"])
@pytest.mark.parametrize("n_features", [20, 120])
def test_stored_arrays_say_what_the_probe_in_memory_says(make_cohort, tmp_path, kind, n_features):
    study = plan_kind(make_cohort, kind, n_features=n_features)
    decided, probe_of_all = fit_on_all(study, encoder="abc")
    save_probe(tmp_path / "probe", probe_of_all)
    stored = load_probe(tmp_path / "probe")
    scores = stored.predict(study.features)
    np.testing.assert_allclose(scores, decided.scores, atol=1e-6)
    np.testing.assert_array_equal(scores, probe_of_all.predict(study.features))
    if kind != "continuous":
        assert (
            stored.decide(scores) == decided.decisions
        ).mean() > 0.98  # a score at the threshold can go either way
    assert stored.strength == decided.strength
    assert stored.classes == study.target.classes
    assert stored.encoder == "abc"
    assert stored.trained_on == {subject_digest(subject) for subject in study.subjects}


def test_the_threshold_goes_with_the_probe(make_cohort):
    study = plan_kind(make_cohort, "binary", threshold="prevalence")
    decided, probe = fit_on_all(study, encoder=None)
    assert probe.threshold == decided.threshold
    assert probe.threshold not in (0.5, "prevalence")
    study = plan_kind(make_cohort, "multiclass", threshold="prevalence")
    decided, probe = fit_on_all(study, encoder=None)
    np.testing.assert_array_equal(probe.decide(probe.predict(study.features)), decided.decisions)


def test_nothing_of_a_person_is_stored_but_digests(stored):
    assert {path.name for path in stored.iterdir()} == {"probe.json", "probe.npz"}
    assert "sub-" not in (stored / "probe.json").read_text()
    with np.load(stored / "probe.npz", allow_pickle=False) as arrays:
        assert all(80 not in arrays[name].shape for name in arrays.files)


def change(key, value):
    def damage(folder):
        content = json.loads((folder / "probe.json").read_text())
        content = (
            {**content, key: value}
            if value is not None
            else {k: v for k, v in content.items() if k != key}
        )
        (folder / "probe.json").write_text(json.dumps(content))

    return damage


def write_arrays(folder, *, digest=True, **arrays):
    np.savez(folder / "probe.npz", **arrays)
    if digest:
        change("arrays", {"file": "probe.npz", "sha256": digest_of_file(folder / "probe.npz")})(
            folder
        )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda folder: (folder / "probe.json").unlink(),
            "there is no probe. Give an evaluation directory",
        ),
        (lambda folder: (folder / "probe.json").write_text("{"), "not readable as JSON"),
        (lambda folder: (folder / "probe.json").write_text("[1]"), "must hold a JSON object"),
        (change("format", 3), "format 3 is not known"),
        (change("limits", [20.0, 80.0]), "do not fit probe.json"),
        (change("classes", None), "'classes' missing or damaged"),
        (change("trained_on", [1, 2]), "'trained_on' missing or damaged"),
        (change("threshold", "half"), "'threshold' missing or damaged"),
        (change("strength", "strong"), "'strength' missing or damaged"),
        (change("kind", "ternary"), "'kind'.* missing or damaged"),
        (change("classes", ["a", "b", "c"]), "do not fit probe.json"),
        (lambda folder: (folder / "probe.npz").unlink(), "missing next to probe.json"),
        (
            lambda folder: write_arrays(folder, digest=False, mean=np.zeros(3)),
            "is not the file that probe.json describes",
        ),
        (
            lambda folder: write_arrays(folder, mean=np.array([{"a": 1}], dtype=object)),
            "allow_pickle=False",
        ),
    ],
)
def test_a_damaged_probe_is_named(folder, damage, message):
    damage(folder)
    with pytest.raises(CheckpointError, match=message):
        load_probe(folder)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        *product(
            ("inside_centres", "inside_axes", "inside_usual", "inside_remainder"),
            (None, np.zeros((7, 3)), np.zeros(0)),
        ),
        (
            "intercept",
            np.zeros(2),
        ),  # of two blocks, each with a probe, which an earlier version averaged
        ("coefficients", np.zeros((20, 2))),
        (
            "platt_slope",
            np.ones(1),
        ),  # of a support vector machine, whose coefficients are no log-odds
    ],
)
def test_further_arrays_that_are_missing_or_do_not_fit_are_refused(folder, name, change):
    load_probe(folder)
    with np.load(folder / "probe.npz") as found:
        arrays = {key: found[key] for key in found if key != name}
    write_arrays(folder, **arrays, **({} if change is None else {name: change}))
    with pytest.raises(CheckpointError, match=r"probe\.npz: arrays are missing, or do not fit"):
        load_probe(folder)
