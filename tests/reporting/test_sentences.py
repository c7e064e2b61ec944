"""What a report says in words of each result, of other models beside the embedding, and of the software that ran."""

import json
import re
from importlib.metadata import version

import pytest

from neurocontrast.documents.encoder import ObjectiveRecord
from neurocontrast.exceptions import DataError
from neurocontrast.reporting.baselines import list_baselines
from neurocontrast.reporting.blocks import Citations
from neurocontrast.reporting.findings import build_sections, open_folder, render_report
from neurocontrast.reporting.naming import name_kernel, name_objective
from neurocontrast.reporting.result_prose import ScanResult, result_prose
from neurocontrast.reporting.sections.curves import draw_curve
from neurocontrast.reporting.sections.external import external_tables
from neurocontrast.reporting.sections.folds import table_folds
from neurocontrast.reporting.sections.methods import write_methods
from neurocontrast.reporting.sections.result import draw_headline, table_metrics
from neurocontrast.reporting.sections.silences import show_silences
from neurocontrast.reporting.sections.warnings import list_warnings
from neurocontrast.reporting.texts import permutation_result
from neurocontrast.reporting.wording import DASH, interval_text, number_text, shorten_paths
from tests.reporting.folders import INFO

ABOUT = {
    "spacing_mm": 4,
    "mask": "MNI152 brain",
    "n_voxels": 29398,
    "n_components": 60,
    "standardised": "each scan",
}


def methods_of(files) -> str:
    return " ".join(text for _, text in write_methods(files, Citations()))


@pytest.fixture
def changed(binary_folder, changing):
    return changing(binary_folder)


@pytest.mark.parametrize(
    ("metric", "interval", "says"),
    [
        ("auc", [0.02, 0.2], "holds information beyond age, sex and site"),
        ("auc", [-0.1, 0.2], "not settled by these data"),
        ("auc", [-0.2, -0.1], "does worse than age, sex and site alone"),
        ("auc", None, "stays open"),
        ("mae", [-3.0, -1.0], "holds information"),
        ("mae", [1.0, 3.0], "does worse"),
    ],
)
def test_the_increment_is_read_by_its_interval_and_of_errors_less_is_better(
    changed, metric, interval, says
):
    increment = {"difference": sum(interval or [0.2]) / 2, "interval": interval}
    assert says in ScanResult(changed(increment={metric: increment}), metric).increment()


def test_pairs_for_a_clinician(changed):
    values = {"mean": 0.7, "sd": 0.1, "pooled": 0.78, "interval": [0.7, 0.85], "n_folds_defined": 5}
    text = result_prose(
        changed(metrics={"auc": values}, baseline={"auc": values | {"pooled": 0.64}})
    ).plain()
    assert "in 78 of 100 such pairs (95% interval 70 to 85)" in text
    assert "gives 64" in text
    assert (
        "Knowing only age and head size (TIV)"
        in result_prose(
            changed(baseline={"auc": values}, baseline_covariates=["age", "tiv"])
        ).plain()
    )
    drawn = {"n": 2000, "unit": "subject", "level": 0.95}
    text = result_prose(changed(metrics={"auc": values}, baseline={}, bootstrap=drawn)).reviewer()
    assert "AUC 0.780 (95% bootstrap over subjects, 2,000 draws: 0.700 to 0.850)" in text
    assert "not a confidence interval" in text


def test_what_was_done_to_volumes_is_told(changed):
    contract = {
        "spacing_mm": 4.0,
        "shape": [46, 55, 46],
        "smooth_mm": 0.0,
        "normalise": "percentile",
        "erode_mm": 4.0,
    }
    text = methods_of(
        changed(
            run={"preprocessing": contract | {"percentiles": [1.0, 99.0], "transform_version": 1}}
        )
    )
    told = "spacing 4 mm; shape 46, 55, 46; normalise percentile; erode 4 mm; percentiles 1, 99."
    assert f"Preprocessing: {told}" in text


@pytest.mark.parametrize(
    ("warnings", "shown"),
    [
        (["a bare one"], [("a bare one", "")]),
        (
            [{"code": "few_subjects", "message": "Only 9.", "explanation": "Beware."}],
            [("Only 9.", "Beware.")],
        ),
        # Digits are hidden only where people are listed.
        (
            [
                {
                    "code": "duplicate_overlap",
                    "message": "sub-0001 and sub-0002 are the same; 12 of 120 scans.",
                }
            ],
            [("[id] and [id] are the same; 12 of 120 scans.", "")],
        ),
        (
            [
                {
                    "code": "voxels_left_out",
                    "message": "7 of 120 are absent (7, sub-0002): /people/x/sub-0002_T1w.nii",
                }
            ],
            [("7 of 120 are absent ([id], [id]): …/[id]_T1w.nii", "")],
        ),
    ],
)
def test_warnings_come_with_their_explanation_and_without_names(changed, warnings, shown):
    files = changed(warnings=warnings)
    files.predictions.loc[0, "participant_id"] = "7"
    assert list_warnings(files) == shown


PARTS = {
    "n": {"train": 90, "validation": 10, "test": 20},
    "chosen_on": "validation",
    "refit_on": ["train"],
}
UNKNOWN = [{"code": "overlap_unknown", "message": "?"}]


@pytest.mark.parametrize(
    ("keys", "says", "untrue"),
    [
        (
            {},
            "No evaluated subject.*says nothing about patients.*only sites left out",
            "could not be checked|in turn",
        ),
        ({"simulated": False}, "no diagnosis of any one person", "nothing about patients"),
        ({"warnings": UNKNOWN}, "could not be checked", "No evaluated subject"),
        ({"splits": "leave-site-out"}, "left out in turn", "only sites left out"),
        (
            {"splits": "custom", "splitter": "Own(n_splits=5)"},
            r"3 folds, made by Own\(n_splits=5\)",
            "stratified",
        ),
        (
            {"splits": "fixed", "split": PARTS},
            "strength chosen on the validation scans",
            "training fold|same folds|mean o",
        ),
        (
            {"baseline_covariates": []},
            "No baseline of covariates",
            "covariates alone|Knowing only|baseline used|beyond",
        ),
        (
            {"bootstrap": {"n": 9, "unit": "site", "level": 0.975}},
            "central 97.5%",
            "98%|draws of subjects",
        ),
    ],
)
def test_what_is_said_follows_the_evaluation(changed, keys, says, untrue):
    files = changed(**keys)
    told = [
        methods_of(files),
        draw_headline(files).caption,
        result_prose(files).plain(),
        result_prose(files).reviewer(),
    ]
    text = " ".join(told + [text for _, text in show_silences(files).blocks[0].items])
    assert re.search(says, text)
    assert not re.search(untrue, text)


def test_objective_and_kernel():
    kernel = [
        {"column": "age", "type": "gaussian", "sigma": 5.0},
        {"column": "sex", "type": "categorical"},
    ]
    assert name_kernel(kernel) == "age (gaussian, sigma 5) × sex (categorical)"
    vector = {
        "column": "anatomy",
        "type": "gaussian",
        "sigma": 1.0,
        "standardise": True,
        "columns": ["gm_ml", "wm_ml"],
    }
    text = "anatomy (gaussian, sigma 1, standardise yes, columns gm_ml, wm_ml)"
    assert name_kernel([vector]) == text
    assert name_kernel([vector | {"standardise": False}]) == text.replace("standardise yes, ", "")
    assert (
        name_kernel([{"column": "site", "type": "different", "within": 0.0}])
        == "site (different, within 0)"
    )
    simclr = {
        "loss": "ntxent",
        "title": "NT-Xent (SimCLR)",
        "citation": "Chen T. SimCLR. ICML 2020.",
    }
    assert (
        name_objective(ObjectiveRecord.model_validate({**simclr, "kernel": None}))
        == "NT-Xent (SimCLR), no metadata"
    )
    assert (
        name_objective(ObjectiveRecord.model_validate({"loss": "supcon", "label": "diagnosis"}))
        == "supcon, groups of diagnosis"
    )
    parts = {"a": simclr, "b": {"loss": "fair_cclk", "title": "fair CCL-K", "kernel": kernel[1:]}}
    assert ObjectiveRecord.model_validate({"loss": "sum", "objectives": parts}).citations == [
        "Chen T. SimCLR. ICML 2020."
    ]
    assert name_objective(
        ObjectiveRecord.model_validate({"loss": "sum", "objectives": parts, "weights": {"b": 0.5}})
    ) == (
        "sum of 1 × (NT-Xent (SimCLR), no metadata) and 0.5 × (fair CCL-K, kernel on sex (categorical))"
    )
    assert name_objective(ObjectiveRecord()) == "not recorded"


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("/data/people/data/x.parquet", "…/x.parquet"),
        ("embeddings: /data/people/x.parquet\n", "embeddings: …/x.parquet\n"),
        ("--out=/a/b/c", "--out=…/c"),
        ("scans: '/data/Anna, Müller/x y.tsv'\nlog: /b c/d", "scans: '…/x y.tsv'\nlog: …/d"),
        ("a/b relative/path 1/2", "a/b relative/path 1/2"),
    ],
)
def test_paths_are_shortened(text, short):
    assert shorten_paths(text) == short


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, DASH), (float("nan"), DASH), (0.1234, "0.123"), (-0.0001, "0.000"), (-1.5, "−1.500")],
)
def test_numbers(value, text):
    assert number_text(value) == text


def test_intervals():
    assert interval_text([0.1, 0.25], digits=2) == "0.10 to 0.25"
    assert interval_text(None) == interval_text([1.0, 1.0]) == interval_text([None, 1.0]) == DASH


@pytest.fixture
def with_voxels(changing, full_folder):
    def add(difference=-0.05, interval=(-0.09, -0.01), p_value=0.02):
        metrics = json.loads((full_folder / "evaluation.json").read_text())["metrics"]
        increment = {
            "difference": difference,
            "interval": interval and list(interval),
            "p_value": p_value,
        }
        software = ["scikit-learn", "nilearn"]
        return changing(full_folder)(
            voxels=metrics,
            voxels_increment=dict.fromkeys(metrics, increment),
            voxels_about=ABOUT,
            software=software,
        )

    return add


def test_the_headline_has_three_models(with_voxels, full_folder):
    rows = draw_headline(with_voxels()).numbers
    assert list(rows["model"]) == ["Embedding", "Only age + sex + site", "Only voxels"]
    assert list(draw_headline(open_folder(full_folder)).numbers["model"]) == [
        "Embedding",
        "Only age + sex + site",
    ]


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ((-0.09, -0.01), "the embedding does worse"),
        ((-0.09, 0.01), "that the embedding does better is not shown"),
        ((0.01, 0.09), "the embedding does better"),
        (None, "no interval of the difference was computed"),
    ],
)
def test_the_comparison_is_read_by_its_interval(with_voxels, interval, words):
    text = result_prose(with_voxels(interval=interval)).plain()
    assert "without any encoder, reach AUC" in text
    assert words in text


def test_a_reviewer_is_told_the_test_and_the_components(with_voxels):
    text = result_prose(with_voxels()).reviewer()
    assert "60 principal components of the voxels" in text
    assert (
        "difference −0.050 (−0.090 to −0.010), corrected resampled t-test over folds p = 0.02"
        in text
    )
    assert "t-test over folds" not in result_prose(with_voxels(p_value=None)).reviewer()


def test_tables_and_methods_have_them(with_voxels):
    files = with_voxels()
    assert "Voxels only" in table_metrics(files).header
    assert "Voxels" in table_folds(files).header
    text = methods_of(files)
    assert "first 60 principal components of the voxels (29398 at 4 mm, MNI152 brain" in text
    assert "compared over folds by the corrected resampled t-test" in text
    assert "compared over folds" not in methods_of(with_voxels(p_value=None))


def test_regional_measures_stand_beside_them(changing, full_folder):
    metrics = json.loads((full_folder / "evaluation.json").read_text())["metrics"]
    increment = {"difference": 0.05, "interval": [0.01, 0.09], "p_value": 0.02}
    columns = [f"vol_{number}" for number in range(12)]
    files = changing(full_folder)(
        regional=metrics,
        regional_increment=dict.fromkeys(metrics, increment),
        regional_columns=columns,
    )
    assert list(draw_headline(files).numbers["model"])[2:] == ["Only regions"]
    assert {"Regions only", "Minus regions"} <= set(table_metrics(files).header)
    assert "Regions" in table_folds(files).header
    assert "12 regional measures, without any encoder, reach" in result_prose(files).plain()
    assert "; 12 regional measures " in result_prose(files).reviewer()
    assert "used 12 regional measures (vol_0, " in methods_of(files)
    assert "Regions only" in render_report(files, build_sections(files))
    assert not list_baselines(external_tables(files).summary)


def test_the_external_baseline_is_named_by_the_covariates_that_it_had(full_folder):
    files = open_folder(full_folder)
    assert "site" in files.summary.baseline_covariates
    assert "Baseline (age + sex): " in draw_curve(external_tables(files), "roc").alt, (
        "its site was never seen"
    )


def test_one_test_set_is_not_called_out_of_fold(changing, full_folder):
    files = changing(full_folder)(splits="fixed")
    assert "AUC of the test scans 0." in result_prose(files).reviewer()
    assert "at sites" not in result_prose(files).sentence()
    assert "out-of-fold" not in draw_headline(files).alt
    assert "fitted on the scans of training" in methods_of(files)
    external = json.loads((full_folder / "evaluation.json").read_text())["external"] | {
        "n_overlap": 3
    }
    assert "3 of the subjects had been seen before" in methods_of(
        changing(full_folder)(external=external)
    )


def test_nilearn_is_named_only_where_it_ran(changed, changing, full_folder):
    full = changing(full_folder)
    environment = {
        "neurocontrast": "0.1.0",
        "packages": {"scikit-learn": "1.9.0", "nilearn": "0.14.1"},
    }
    assert "nilearn 0.14.1" in methods_of(
        full(environment=environment, software=["scikit-learn", "nilearn"])
    )
    assert "nilearn 0.14.1" in methods_of(
        full(environment=environment, software=None)
    )  # which shows a map
    text = methods_of(changed(environment=environment, software=None))
    assert "nilearn" not in text
    assert "scikit-learn 1.9.0" in text


# --- the methods text: citations have references, p-values are what they are called
# ----------------------------------
IMPORTED = {"title": "MONAI's DenseNet121", "citation": "Cardoso MJ (2022). MONAI."}


@pytest.fixture
def files(full_folder, changing):
    harmonised = json.loads((full_folder / "evaluation.json").read_text())["confounds"] | {
        "harmonise": "combat"
    }
    permutation = {"n": 999, "unit": "subject", "within_site": True, "p_values": {"auc": 0.004}}
    return changing(full_folder)(confounds=harmonised, permutation=permutation)


@pytest.fixture
def written(files):
    cite = Citations()
    return write_methods(files, cite), cite


def test_citations_are_numbered_as_they_come(written):
    paragraphs, cite = written
    marks = re.findall(r"\[([\d, ]+)\]", " ".join(text for _, text in paragraphs))
    numbers = [int(number) for mark in marks for number in mark.split(",")]
    first_met = list(dict.fromkeys(numbers))
    assert first_met == sorted(first_met) == [number for number, _ in cite.listed()]
    assert len({text for _, text in cite.listed()}) == len(first_met)


def test_the_p_value_is_named(written, files):
    text = dict(written[0])["Performance and uncertainty."]
    assert "(1 + k)/(1 + n)" in text
    assert "k = 3, n = 999, p = 0.004" in text
    assert "of the same site" in text
    assert "pooled out-of-fold AUC" in text
    assert permutation_result(files, "brier") is None
    assert (
        "permutation p = 0.004 (3 of 999 permutations within site as good)"
        in result_prose(files).reviewer()
    )


def test_the_text_follows_the_run(written):
    text = " ".join(text for _, text in written[0])
    for words in (
        "DenseNet121", "y-Aware", "share of positives in the training fold", "ComBat",
        "external test set of 60 scans", "3 sites were each left out in turn", "beyond percentile 97.5",
        "raised to the power of 0.3", "Patches of 16 mm", "40 subjects", f"scikit-learn {version('scikit-learn')}",
        "20 and 40 training", "internal–external cross-validation", "Mahalanobis distance",
        "without its own subject",
    ):  # fmt: skip
        assert words in text, words


def test_an_older_evaluation_claims_nothing_of_it(binary_folder):
    cite = Citations()
    text = " ".join(text for _, text in write_methods(open_folder(binary_folder), cite))
    assert "No permutation test was made" in text
    for words in ("ComBat", "external", "OpenBHB", "Patches", "Learning curves", "left out in turn",
                  "Mahalanobis"):  # fmt: skip
        assert words not in text, words


def test_references_are_written_in_full(written):
    references = [text for _, text in written[1].listed()]
    assert len(references) > 14
    assert all(re.search(r"(19|20)\d\d", text) and text.endswith(".") for text in references)


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ({"imported": IMPORTED}, "The weights were taken over from MONAI's DenseNet121 ["),
        (
            {"init": {"imported": IMPORTED}},
            "Training began with the weights of MONAI's DenseNet121 [",
        ),
        ({"init": {"name": "first"}}, "Training began with the weights of another run, “first”."),
    ],
)
def test_weights_that_training_began_with_and_those_taken_over_are_cited(
    full_folder, changing, run, told
):
    cite = Citations()
    paragraphs = dict(write_methods(changing(full_folder)(run=INFO["run"] | run), cite))
    assert told in paragraphs["Representation."]
    assert any("(2022)" in text for _, text in cite.listed()) == ("[" in told)


def test_a_linear_encoder_has_no_epochs_and_no_head(full_folder, changing):
    objective = {
        "loss": "none",
        "title": "none: fitted in one pass",
        "citation": "Hotelling H (1933).",
    }
    written = write_methods(
        changing(full_folder)(objective=objective, run=INFO["run"] | {"epochs": 50}), Citations()
    )
    text = dict(written)["Representation."]
    assert "epochs" not in text
    assert text.endswith("Features were frozen.")


def test_a_users_own_loss_may_mean_another_thing_by_a_key(changed):
    settings = {"temperature": [0.1, 0.2], "weights": 0.5, "kernel": "triangle"}
    files = changed(objective={"loss": "theirs:Loss", "title": "their loss"} | settings)
    assert "their loss" in methods_of(files)
    with pytest.raises(DataError, match=r"objective\.temperature.*must be a valid number"):
        methods_of(changed(objective={"loss": "yaware"} | settings))
