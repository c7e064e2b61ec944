"""FreeSurfer's longitudinal stream: templates and longitudinal copies are no scans, by whatever name."""

import nibabel as nib
import numpy as np
import pytest

from neurocontrast import index
from neurocontrast.data.measures import read_tables
from neurocontrast.exceptions import ConfigError, DataError
from tests.reports.folders import write_aparc, write_aseg

PEOPLE = ("sub-01", "sub-02")
SESSIONS = ("1", "2")
SCANS = [(person, session) for person in PEOPLE for session in SESSIONS]


def write_subject(folder, random):
    write_aseg(folder / "stats" / "aseg.stats", random)
    for side in ("lh", "rh"):
        write_aparc(folder / "stats" / f"{side}.aparc.stats", random)
    voxels = np.zeros((8, 8, 8), np.uint8)
    voxels[2:6, 2:6, 2:6] = random.integers(60, 120, (4, 4, 4))
    (folder / "mri").mkdir()
    nib.save(nib.MGHImage(voxels, np.diag([8.0, 8, 8, 1])), folder / "mri" / "brainmask.mgz")


@pytest.fixture
def make(tmp_path):
    """Write the folders of two people with two scans each; `template` names a person's template."""

    def write(template="{}", *, time_points=True, copies=True):
        random = np.random.default_rng(0)
        root = tmp_path / "subjects"
        rows = ["participant_id\tsession_id\tage\tsex\tsite"]
        for person in PEOPLE:
            base = template.format(person)
            scans = [f"{person}_ses-{session}" for session in SESSIONS]
            longitudinal = [f"{scan}.long.{base}" for scan in scans] if copies else []
            for name in [*scans, base, *longitudinal]:
                write_subject(root / name, random)
            if time_points:
                (root / base / "base-tps").write_text("\n".join(scans) + "\n")
            rows += [f"{person}\tses-{session}\t40\tF\tparis" for session in SESSIONS]
        (tmp_path / "people.tsv").write_text("\n".join(rows) + "\n")
        return root

    return write


def indexed(root, **options):
    out = root.parent / "out"
    out.mkdir(exist_ok=True)
    people = [root.parent / "people.tsv"]
    found = index(root, out / "participants.tsv", phenotypes=people, overwrite=True, **options)
    table = found.table
    scans = zip(table["participant_id"], table["session"], strict=True)
    notes = [*found.notes, *(found.measures.notes if found.measures else ())]
    return sorted(scans), " ".join(notes)


@pytest.mark.parametrize("layout", ["measures", "freesurfer"])
@pytest.mark.parametrize("template", ["{}", "template-of-{}", "{}.base"])
def test_templates_by_any_name_and_copies_are_left_out_with_a_note(make, layout, template):
    scans, note = indexed(make(template), layout=layout)
    assert scans == SCANS
    assert f"(2, such as {template.format('sub-01')}; stream=base)" in note
    assert "(4, such as sub-01_ses-1.long." in note


@pytest.mark.parametrize("layout", ["measures", "freesurfer"])
def test_a_row_a_person_does_not_make_scans_of_templates(make, layout):
    root = make()
    text = "participant_id\tage\tsex\tsite\nsub-01\t40\tF\tparis\nsub-02\t50\tM\tlyon\n"
    (root.parent / "people.tsv").write_text(text)
    assert indexed(root, layout=layout)[0] == SCANS


@pytest.mark.parametrize(("time_points", "copies"), [(True, False), (False, True)])
@pytest.mark.parametrize("layout", ["measures", "freesurfer"])
def test_one_sign_of_a_template_is_enough(make, layout, time_points, copies):
    root = make(time_points=time_points, copies=copies)
    assert indexed(root, layout=layout)[0] == SCANS


@pytest.mark.parametrize("layout", ["measures", "freesurfer"])
def test_longitudinal_copies_can_be_chosen(make, layout):
    root = make()
    scans, note = indexed(root, layout=layout, choose=["stream=long"])
    assert scans == SCANS
    assert "scans as they were taken (4" in note
    long = read_tables(root, stream="long").values["Left-Hippocampus"]
    assert not np.array_equal(long, read_tables(root).values["Left-Hippocampus"])
    with pytest.raises(ConfigError, match=r"found stream=longitudinal; there are 'cross'"):
        indexed(root, layout=layout, choose=["stream=longitudinal"])


def rows_of_table(tmp_path, names):
    columns = "Left-Hippocampus Right-Hippocampus Left-Putamen Right-Putamen Left-Amygdala".split()
    lines = ["\t".join(["Measure:volume", *columns])]
    for number, name in enumerate(names):
        volumes = (4000, 4100, 5000, 5000, 1600)
        lines.append("\t".join([name, *(str(volume + number) for volume in volumes)]))
    path = tmp_path / "aseg.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


CROSS = ["sub-01_ses-1", "sub-01_ses-2", "sub-02"]
STREAM = [*CROSS, "sub-01", "sub-01_ses-1.long.sub-01", "/fs/sub-01_ses-2.long.sub-01/"]


@pytest.mark.parametrize(
    ("names", "stream", "scans", "volumes"),
    [
        (STREAM, "", [("sub-01", "1"), ("sub-01", "2"), ("sub-02", "")], [4000, 4001, 4002]),
        (STREAM, "long", [("sub-01", "1"), ("sub-01", "2")], [4004, 4005]),
        (STREAM[3:], "", [("sub-01", "1"), ("sub-01", "2")], [4001, 4002]),
        ([*CROSS, "bert.base"], "", [("sub-01", "1"), ("sub-01", "2"), ("sub-02", "")],
         [4000, 4001, 4002]),
        (["bert_1.long.mean", "bert_1", "mean"], "", [("bert_1", "")], [4001]),
    ],
)  # fmt: skip
def test_rows_of_freesurfers_own_tables_are_told_apart(tmp_path, names, stream, scans, volumes):
    path = rows_of_table(tmp_path, names)
    for place in (path, tmp_path):
        table = read_tables(place, stream=stream)
        assert table.values.index.tolist() == scans
        assert table.values["Left-Hippocampus"].tolist() == volumes
        assert "longitudinal stream" in " ".join(table.notes)


def test_templates_alone_are_no_scans(make, tmp_path):
    root = make()
    for folder in root.iterdir():
        if folder.name not in PEOPLE:
            folder.rename(tmp_path / folder.name)
    with pytest.raises(DataError, match=r"templates of several scans of a person \(2"):
        read_tables(root)
