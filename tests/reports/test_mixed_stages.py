"""Folders with maps of tissue beside heads, or heads beside brains, become no table in silence."""

import pytest

from neurocontrast import index
from neurocontrast.data import read_cohort
from neurocontrast.data.quality import doubts_about
from neurocontrast.exceptions import DataError
from tests.data.conftest import put


def cat12(root, heads):
    for label in ("01", "02", "03"):
        put(root, f"mri/mwp1sub-{label}_T1w.nii")
    for label in heads:
        put(root, f"mri/wmsub-{label}_T1w.nii")
    return root


def test_heads_of_some_people_beside_maps_are_refused_and_chosen(tmp_path):
    root = cat12(tmp_path / "cat", heads=["02"])
    with pytest.raises(DataError) as error:
        index(root, tmp_path / "out.tsv")
    text = str(error.value)
    assert "sub-02: mri/wmsub-02_T1w.nii: is of stage 'preprocessed', not 'tissue'" in text
    assert "several stages: tissue (2 images), preprocessed (1 images)" in text
    assert "--choose stage=tissue takes maps of grey matter" in text
    assert not (tmp_path / "out.tsv").exists()

    table = index(root, tmp_path / "maps.tsv", choose=["stage=tissue"]).table
    assert table["path"].tolist() == table["gm"].tolist()
    assert table["stage"].tolist() == ["tissue"] * 3

    indexed = index(root, tmp_path / "heads.tsv", choose=["stage=preprocessed"])
    assert indexed.table["path"].tolist() == ["mri/wmsub-02_T1w.nii"]
    assert len(indexed.left_out) == 2

    indexed = index(root, tmp_path / "skip.tsv", skip=True)
    assert indexed.table["participant_id"].tolist() == ["sub-01", "sub-03"]


def test_heads_of_everybody_are_taken(tmp_path):
    root = cat12(tmp_path / "cat", heads=["01", "02", "03"])
    assert set(index(root, tmp_path / "out.tsv").table["stage"]) == {"preprocessed"}


def test_heads_beside_brains_of_freesurfer_are_refused(tmp_path):
    root = tmp_path / "subjects"
    put(root, "sub-01/mri/brainmask.mgz")
    put(root, "sub-02/mri/norm.mgz")
    put(root, "sub-03/mri/T1.mgz")
    with pytest.raises(DataError) as error:
        index(root, tmp_path / "out.tsv")
    assert "sub-03/mri/T1.mgz: is of stage 'preprocessed', not 'stripped'" in str(error.value)
    assert "grey matter" not in str(error.value)
    table = index(root, tmp_path / "out.tsv", choose=["stage=stripped"]).table
    assert table["participant_id"].tolist() == ["sub-01", "sub-02"]


@pytest.mark.parametrize(
    ("stages", "channels", "is_doubtful"),
    [
        (("tissue", "preprocessed"), None, True),
        (("tissue", "preprocessed"), ["gm"], False),
        (("tissue", "tissue"), None, False),
        (("raw", "stripped"), None, False),
    ],
)
def test_maps_among_heads_of_a_table_are_a_doubt(tmp_path, stages, channels, is_doubtful):
    lines = ["participant_id\tpath\tgm\tstage"]
    lines += [f"sub-{stage}{n}\t{n}.nii\t{n}_gm.nii\t{stage}" for n, stage in enumerate(stages)]
    table = tmp_path / "p.tsv"
    table.write_text("\n".join(lines) + "\n")
    doubts = doubts_about(read_cohort(table, channels=channels, check_images=False))
    assert any("maps of tissue among" in doubt for doubt in doubts) is is_doubtful
