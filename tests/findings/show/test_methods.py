"""The methods text: every citation has a reference, every reference is cited, and p-values are what they are called."""

import json
import re
from importlib.metadata import version

import pytest

from neurocontrast.findings import open_folder
from neurocontrast.findings.methods import write_methods
from neurocontrast.findings.prose import permutation_result
from neurocontrast.findings.result import say_result
from neurocontrast.page.blocks import Citations
from tests.findings.show.folders import INFO

IMPORTED = {"title": "MONAI's DenseNet121", "citation": "Cardoso MJ (2022). MONAI."}


@pytest.fixture
def files(full_folder, changing):
    harmonised = json.loads((full_folder / "evaluation.json").read_text())["confounds"] | {"harmonise": "combat"}
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
    assert "permutation p = 0.004 (3 of 999 permutations within site as good)" in say_result(files, "reviewer")


def test_the_text_follows_the_run(written):
    text = " ".join(text for _, text in written[0])
    for words in (
        "DenseNet121", "y-Aware", "share of positives in the training fold", "ComBat",
        "external test set of 60 scans",
        "raised to the power of 0.3", "Patches of 16 mm", "40 subjects", f"scikit-learn {version('scikit-learn')}",
        "20 and 40 training", "internal–external cross-validation", "Mahalanobis distance",
        "without its own subject",
        "beyond percentile 97.5",
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
        ({"init": {"imported": IMPORTED}}, "Training began with the weights of MONAI's DenseNet121 ["),
        ({"init": {"name": "first"}}, "Training began with the weights of another run, “first”."),
    ],
)
def test_weights_that_training_began_with_and_those_taken_over_are_cited(full_folder, changing, run, told):
    cite = Citations()
    paragraphs = dict(write_methods(changing(full_folder)(run=INFO["run"] | run), cite))
    assert told in paragraphs["Representation."]
    assert any("(2022)" in text for _, text in cite.listed()) == ("[" in told)


def test_a_linear_encoder_has_no_epochs_and_no_head(full_folder, changing):
    objective = {"loss": "none", "title": "none: fitted in one pass", "citation": "Hotelling H (1933)."}
    written = write_methods(changing(full_folder)(objective=objective, run=INFO["run"] | {"epochs": 50}), Citations())
    text = dict(written)["Representation."]
    assert "epochs" not in text
    assert text.endswith("Features were frozen.")
