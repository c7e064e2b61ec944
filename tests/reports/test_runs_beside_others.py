"""Runs repeat images of one kind: an image with a contrast agent is no run before the first."""

import pytest

from neurocontrast import index
from neurocontrast.exceptions import DataError
from tests.data.conftest import put


def bids(root, *words):
    for middle in words:
        put(root, f"sub-01/anat/sub-01{middle}_T1w.nii.gz")
    return root


@pytest.mark.parametrize("rule", ["run=first", "run=all"])
@pytest.mark.parametrize(
    ("another", "flags"),
    [
        ("_ce-gadolinium", "--choose ce=gadolinium or --choose ce=none"),
        ("_acq-lowres", "--choose acq=lowres or --choose acq=none"),
    ],
)
def test_another_kind_of_image_is_no_run(tmp_path, rule, another, flags):
    root = bids(tmp_path / "bids", "_run-1", "_run-2", another)
    with pytest.raises(DataError) as error:
        index(root, tmp_path / "out.tsv", choose=[rule])
    assert f"decide with {flags}\n" in str(error.value)
    assert "run=" not in str(error.value)
    key = flags.partition("=")[0].split()[-1]
    table = index(root, tmp_path / "out.tsv", choose=[rule, f"{key}=none"]).table
    assert table["run"].tolist() == {"run=first": ["1"], "run=all": ["1", "2"]}[rule]


def test_acquisitions_with_other_runs_are_no_runs_of_each_other(tmp_path):
    root = bids(tmp_path / "bids", "_acq-a_run-1", "_acq-b_run-2", "_acq-b_run-3")
    for rule in ("run=first", "run=all"):
        with pytest.raises(DataError, match=r"decide with --choose acq=a or --choose acq=b\n"):
            index(root, tmp_path / "out.tsv", choose=[rule])
    table = index(root, tmp_path / "out.tsv", choose=["run=first", "acq=b"]).table
    assert table["run"].tolist() == ["2"]


def test_an_image_without_run_is_the_first_of_its_kind(tmp_path):
    root = bids(tmp_path / "bids", "_acq-a", "_acq-a_run-2")
    with pytest.raises(DataError, match=r"decide with --choose run=first or --choose run=all\n"):
        index(root, tmp_path / "out.tsv")
    table = index(root, tmp_path / "out.tsv", choose=["run=first"]).table
    assert table["path"].tolist() == ["sub-01/anat/sub-01_acq-a_T1w.nii.gz"]
