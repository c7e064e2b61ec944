"""People are counted as people: with one to four scans each, every count is that of the same people with one."""

import numpy as np
import pandas as pd
import pytest

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation.fit.distribution import DistributionError, fit_distribution
from neurocontrast.evaluation.measure.tables import cohort_table
from neurocontrast.evaluation.plan.leakage import (
    check_duplicates,
    check_overlap,
    pretrained,
)
from neurocontrast.evaluation.plan.models import ConstantModel
from neurocontrast.evaluation.plan.notices import look_at_cohort
from neurocontrast.evaluation.probes.fitting import FitContext, constant_prediction
from neurocontrast.evaluation.rows import scan_codes
from neurocontrast.evaluation.settings import EvaluationSettings
from neurocontrast.evaluation.splits import SiteStratifiedGroupKFold, Split
from neurocontrast.evaluation.splits.splitters import subject_values
from neurocontrast.evaluation.target import Target
from neurocontrast.exceptions import DataError, LeakageError
from neurocontrast.provenance import subject_digest
from tests.evaluation.quick import binary, content, continuous, make_plan, warnings

N_SCANS = np.array([1, 2, 3, 4])


def several(table: pd.DataFrame) -> np.ndarray:
    """Rows of a table of people, each one to four times: the cohort with several scans."""
    return np.repeat(np.arange(len(table)), np.resize(N_SCANS, len(table)))


def with_sessions(cohort):
    """Give the people of a cohort one to four scans, each with features of its own."""
    rows = several(cohort.table)
    table = cohort.table.iloc[rows].reset_index(drop=True)
    table["session"] = table.groupby("subject_id").cumcount().add(1).astype(str)
    table["participant_id"] = table["subject_id"] + "_" + table["session"]
    noise = np.random.default_rng(9).normal(size=(len(rows), cohort.features.shape[1]))
    cohort.table = table
    cohort.features = cohort.features[rows] + 0.01 * noise
    return cohort


def test_people_of_pretraining_are_people():
    people = pd.DataFrame({"subject_id": list("abcdef")})
    table = people.iloc[several(people)].reset_index(drop=True).assign(content_digest="")
    info = EmbeddingsInfo(pretraining_subjects=[subject_digest(name) for name in "bdz"])
    overlap = check_overlap(table, info, allow_overlap=True)
    assert len(overlap.subjects) == 2
    not_compared, seen = overlap.notices
    assert not_compared.message.startswith("Of 6 evaluated, 6 could")
    assert seen.message.startswith("2 of 6 subjects")
    with pytest.raises(LeakageError, match=r"^2 of 6 subjects .* \(b, d\)"):
        check_overlap(table, info)
    assert pretrained(table, info).sum() == table["subject_id"].isin(["b", "d"]).sum() == 6


@pytest.mark.parametrize("target", ["diagnosis", "age"])
def test_notices_of_a_cohort_count_people(make_cohort, target):
    """Sizes of classes and sites, and what goes together with the target, are the same for the same people."""
    found = []
    for prepare in (lambda cohort: cohort, with_sessions):
        cohort = make_cohort(36, n_sites=3)
        cohort.table["site"] = cohort.table["site"].where(cohort.table.index > 3, "site-9")
        told = warnings(
            make_plan(
                prepare(cohort), target=target, n_folds=2, min_site_n=8,
                info={"pretraining_subjects": []},
            )
        )  # fmt: skip
        found.append({code: told[code] for code in told if code not in ("class_imbalance",)})
    assert found[0] == found[1]
    assert "small_site" in found[0]
    assert {"few_subjects_of_class", "few_subjects"} & set(found[0])


def test_what_goes_together_with_the_target_is_of_people():
    """Twenty scans of a person whose age, sex and site fit her class make no association."""
    generator = np.random.default_rng(0)
    n = 60
    people = pd.DataFrame(
        {
            "subject_id": [f"s{row}" for row in range(n)],
            "site": generator.choice(["x", "y"], n),
            "age": generator.uniform(20, 80, n),
            "sex": generator.choice(["F", "M"], n),
        }
    )
    codes = np.arange(n) % 2
    people.loc[0, ["site", "age", "sex"]] = ["x", 20.0, "F"]
    people.loc[1, ["site", "age", "sex"]] = ["y", 80.0, "M"]
    rows = np.concatenate([np.arange(n), np.repeat([0, 1], 40)])
    splits = [Split(0, 0, np.arange(len(rows)), np.arange(len(rows)))]
    told = look_at_cohort(people.iloc[rows], binary(codes[rows]), splits, min_site_n=2)
    assert not {notice.code for notice in told} & {"imbalance", "site_confounded"}


def test_who_changes_class_and_who_sits_out_are_people(make_cohort):
    cohort = with_sessions(make_cohort(40, n_sites=2))
    table = cohort.table
    changing = table["subject_id"].isin(["sub-0001", "sub-0002", "sub-0003"])
    table.loc[changing & (table["session"] == "1"), "diagnosis"] = "control"
    table.loc[changing & (table["session"] != "1"), "diagnosis"] = "patient"
    told = warnings(make_plan(cohort, target="diagnosis", n_folds=2))
    assert "different classes: 3." in told["changing_class"]


def test_counts_of_an_evaluation_are_those_of_its_people(make_cohort):
    cohort = with_sessions(make_cohort(36))
    cohort.table.loc[cohort.table["subject_id"] == "sub-0003", "diagnosis"] = None
    found = content(cohort, target="diagnosis", n_folds=2)
    assert found["n"]["scans"] == len(cohort.table) - 4
    assert found["n"]["subjects"] == 35
    study = make_plan(cohort, target="diagnosis", n_folds=2)
    steps = study.flow.set_index("step")["n_subjects"].to_dict()
    assert steps == {"embedded": 36, "excluded": 1, "evaluated": 35}
    assert f"{found['n']['scans']} scans of 35 subjects" in study.text()


def test_folds_need_people_and_not_scans():
    owners = np.repeat([f"s{row}" for row in range(4)], 5)
    splitter = SiteStratifiedGroupKFold(5)
    with pytest.raises(DataError, match="5 folds need as many subjects, found 4"):
        list(splitter.split(owners, np.arange(20) % 2, groups=owners, sites=["x"] * 20))


def test_a_person_counts_once_in_the_value_by_which_folds_are_dealt():
    owners = np.repeat(["a", "b"], [1, 4])
    assert subject_values(np.array([1.0, 2.0, 2.0, 4.0, 4.0]), owners, average=True).tolist() == [
        1.0,
        3.0,
    ]


def test_the_distribution_of_training_needs_people():
    x = np.random.default_rng(0).normal(size=(60, 3))
    sites = np.full(60, "x", dtype=object)
    with pytest.raises(DistributionError, match=r"\(6\)"):
        fit_distribution(x, sites, np.repeat(np.arange(6), 10).astype(str), seed=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zero_of_either_sign_is_one_image(dtype):
    """0.0 and −0.0 differ in bytes; rectified features are full of both."""
    features = np.random.default_rng(0).normal(size=(5, 6)).astype(dtype)
    features[1] = [0.0, 1.0, 0.0, 2.0, 0.0, 3.0]
    features[3] = [-0.0, 1.0, -0.0, 2.0, 0.0, 3.0]
    features[4] = -features[0]
    codes = scan_codes(features, [""] * 5)
    assert codes[1] == codes[3]
    assert len(set(codes)) == 4
    table = pd.DataFrame({"subject_id": list("abcde")})
    with pytest.raises(LeakageError, match="b = d"):
        check_duplicates(table, features)
    with pytest.raises(LeakageError, match="b = d"):
        check_duplicates(table, features.T.copy().T)  # not contiguous: another order in memory


SKEWED = np.array([20.0, 21.0, 22.0, 24.0, 90.0])


def test_the_constant_is_the_median_of_the_training_rows():
    """The best constant for absolute errors; ages are skewed, so that a mean is another number."""
    train = np.arange(5)
    test = np.array([5, 6])
    target = continuous([*SKEWED, 1.0, 2.0])
    context = FitContext(np.array(list("abcdefg"), dtype=object), EvaluationSettings(), seed=0)
    for predicted in (
        constant_prediction(target, train, 2),
        ConstantModel("constant").predict(target, Split(0, 0, train, test), context),
    ):
        assert predicted.scores.tolist() == [22.0, 22.0]
    even = constant_prediction(target, train[:4], 1)
    assert even.scores.tolist() == [21.5]
    errors = [np.abs(SKEWED - guess).mean() for guess in np.linspace(20, 90, 701)]
    assert np.abs(SKEWED - 22.0).mean() == pytest.approx(min(errors))


def test_the_constant_of_classes_is_their_shares_and_the_most_frequent():
    two = constant_prediction(binary([0, 0, 1, 0, 1, 1]), np.arange(4), 2)
    assert two.scores.tolist() == [0.25, 0.25]
    assert two.decisions.tolist() == [0, 0]
    classes = Target("diagnosis", "multiclass", np.array([2, 2, 1, 0, 1]), ("a", "b", "c"))
    three = constant_prediction(classes, np.arange(4), 1)
    assert three.scores.tolist() == [[0.25, 0.25, 0.5]]
    assert three.decisions.tolist() == [2]


def test_the_spread_of_a_target_at_a_site_says_of_how_many_people(make_cohort):
    cohort = with_sessions(make_cohort(12, n_sites=2))
    study = make_plan(cohort, target="age", n_folds=2)
    table = cohort_table(study.table, study.target).set_index("site")
    people = cohort.table.groupby("site")
    assert table["n"].to_dict() == people.size().to_dict()
    assert table["n_subjects"].to_dict() == people["subject_id"].nunique().to_dict()
    assert (table["n"] > table["n_subjects"]).all()
