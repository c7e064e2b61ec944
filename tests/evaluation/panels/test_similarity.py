"""Class similarity: mean cosines of pairs of classes, and of nearest neighbours of the own and of other classes."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast.evaluation import EvaluationSettings, plan_study, run_study
from neurocontrast.evaluation.panels.similarity import class_cosines, nearest_cosines, unit_rows
from neurocontrast.exceptions import ConfigError


def _rows(n, classes, seed, p=5):
    random = np.random.default_rng(seed)
    return unit_rows(random.normal(size=(n, p))), random.permutation(n) % classes


def test_means_and_nearest_equal_a_naive_double_loop():
    tested, tested_codes = _rows(17, 3, 0)
    trained, trained_codes = _rows(23, 3, 1)
    means, pairs = class_cosines(tested, tested_codes, trained, trained_codes, n_classes=3)
    target, noise = nearest_cosines(tested, tested_codes, trained, trained_codes, n_classes=3)
    for one in range(3):
        for other in range(3):
            cosines = [tested[i] @ trained[j] for i in range(17) for j in range(23)
                       if tested_codes[i] == one and trained_codes[j] == other]  # fmt: skip
            assert pairs[one, other] == len(cosines)
            assert means[one, other] == pytest.approx(np.mean(cosines), abs=1e-6)
    for i in range(17):
        same = trained_codes == tested_codes[i]
        assert target[i] == pytest.approx((trained[same] @ tested[i]).max(), abs=1e-6)
        assert noise[i] == pytest.approx((trained[~same] @ tested[i]).max(), abs=1e-6)


def test_a_class_without_training_rows_is_missing_and_no_warning_is_given(recwarn):
    tested, trained = unit_rows(np.eye(3)), unit_rows(np.eye(3)[:2])
    means, pairs = class_cosines(tested, np.array([0, 1, 2]), trained, np.array([0, 1]), n_classes=3)
    target, noise = nearest_cosines(tested, np.array([0, 1, 2]), trained, np.array([0, 1]), n_classes=3)
    assert np.isnan(means[:, 2]).all()
    assert (pairs[:, 2] == 0).all()
    assert np.isnan(target[2])
    assert noise[2] == 0.0
    alone = nearest_cosines(tested[:1], np.array([0]), trained[:1], np.array([0]), n_classes=1)
    assert alone[0] == [1.0]
    assert np.isnan(alone[1])
    assert not recwarn.list


def test_a_row_of_zeros_has_a_cosine_of_zero():
    np.testing.assert_allclose(unit_rows(np.array([[0.0, 0.0], [3.0, 4.0]])), [[0.0, 0.0], [0.6, 0.8]], rtol=1e-6)


def _study(labels, features, **settings):
    n = len(labels)
    table = pd.DataFrame({"participant_id": [f"image-{i:03d}" for i in range(n)], "diagnosis": labels})
    chosen = EvaluationSettings(
        similarity=True,
        n_bootstraps=0,
        n_folds=2,
        confounds=False,
        new_site=False,
        outlyingness=False,
        umap=False,
        **settings,
    )
    return plan_study(table, features, settings=chosen)


def test_an_evaluation_tells_separate_classes_from_mixed_ones():
    random = np.random.default_rng(0)
    labels = np.array(["cat", "dog", "ship"])[np.arange(60) % 3]
    noise = random.normal(0, 0.2, (60, 4))
    apart = run_study(_study(labels, noise + np.eye(4)[np.arange(60) % 3]))
    mixed = run_study(_study(labels, noise + 1.0))
    found, other = apart.evaluation.content()["similarity"], mixed.evaluation.content()["similarity"]
    assert found["n"] == 60
    assert found["n_folds"] == 2
    assert found["n_reference"] == 30
    assert found["own_class_nearest"] == 1.0 > other["own_class_nearest"]
    assert found["within"] - found["between"] > 0.5 > other["within"] - other["between"]
    assert found["difference"]["mean"] == pytest.approx(found["target"]["mean"] - found["noise"]["mean"], abs=1e-6)
    table, cosines = apart.tables["similarity"], apart.tables["cosines"]
    assert table["n_pairs"].sum() == 2 * 30 * 30
    assert cosines.groupby("neighbour")["n"].sum().to_dict() == {"target": 60, "noise": 60}
    centre = (cosines["low"] + cosines["high"]) / 2
    means = {name: np.average(centre[part.index], weights=part["n"]) for name, part in cosines.groupby("neighbour")}
    assert means["target"] == pytest.approx(found["target"]["mean"], abs=0.02)
    assert means["noise"] == pytest.approx(found["noise"]["mean"], abs=0.02)


def test_numbers_have_no_classes_and_by_default_nothing_is_measured():
    with pytest.raises(ConfigError, match="similarity: compares classes, and diagnosis is continuous"):
        _study(np.linspace(0, 1, 40), np.random.default_rng(0).normal(size=(40, 3)))
    assert EvaluationSettings().similarity is False
