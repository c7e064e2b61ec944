from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_run import FASTEST, embedded_people

import neurocontrast as nc
from neurocontrast.cli.app import run
from neurocontrast.documents.embeddings import read_embeddings, write_embeddings
from neurocontrast.evaluation import EvaluationSettings, plan_evaluation
from neurocontrast.exceptions import ConfigError, DataError, LeakageError
from neurocontrast.provenance import subject_digest

N = 40


def write(path: Path, *, p: int, encoder: str, seen=("somebody",), change=None) -> Path:
    """Write `p` features of the same scans, as of a run."""
    run = {"name": path.stem, "weights": {"sha256": encoder * 64}, "encoder": {"name": encoder}}
    run["preprocessing"] = {"kind": "volumes", "smooth_mm": p}
    known = None if seen is None else [subject_digest(subject) for subject in seen]
    return embedded_people(
        path, n=N, n_features=p, change=change, run=run, pretraining_subjects=known
    )


@pytest.fixture
def pair(tmp_path) -> list[Path]:
    return [write(tmp_path / f"{name}.parquet", p=3, encoder=name) for name in "ab"]


def test_the_rows_of_the_first_table_get_the_features_of_all(tmp_path):
    scored = lambda table: table.assign(score=np.arange(N))[::-1]  # noqa: E731
    one = write(
        tmp_path / "net.parquet",
        p=3,
        encoder="a",
        change=lambda table: table.assign(path="net.nii.gz"),
    )
    other = write(tmp_path / "linear.parquet", p=2, encoder="b", change=scored)
    read = read_embeddings(nc.join([one, other], out=tmp_path / "both.parquet"))
    assert read.table["participant_id"].tolist() == [f"sub-{row:03d}" for row in range(N)]
    assert read.table["score"].tolist() == list(range(N))  # a column of the other table alone
    np.testing.assert_array_equal(read.features[:, :3], read_embeddings(one).features)
    np.testing.assert_array_equal(read.features[:, 3:], read_embeddings(other).features[::-1])
    assert (
        read.table["path"] == "net.nii.gz"
    ).all()  # where a scan lies may differ, and the first table's stays
    blocks = read.info.run.content()["blocks"]
    assert {name: (block["n_features"], block["columns"]) for name, block in blocks.items()} == {
        "net": (3, ["feature_0000", "feature_0002"]),
        "linear": (2, ["feature_0003", "feature_0004"]),
    }
    assert read.info.run.preprocessing.content() == {"kind": "volumes"}  # what both runs did alike


def test_a_joined_table_says_of_which_encoders_it_is_and_in_which_order(pair, tmp_path):
    one, other = pair
    infos = [read_embeddings(nc.join(pair, out=tmp_path / f"{place}.parquet")).info
             for place, pair in enumerate([(one, other), (one, other), (other, one)])]  # fmt: skip
    digests = [info.encoder_digest for info in infos]
    assert digests[0] == digests[1] != digests[2]
    table = read_embeddings(other)
    write_embeddings(tmp_path / "unknown.parquet", table.table, table.features, {})
    info = read_embeddings(
        nc.join([one, tmp_path / "unknown.parquet"], out=tmp_path / "c.parquet")
    ).info
    assert info.encoder_digest is None


def test_people_of_any_pretraining_are_refused_in_the_evaluation(tmp_path):
    one = write(tmp_path / "a.parquet", p=3, encoder="a", seen=None)
    other = write(tmp_path / "b.parquet", p=2, encoder="b", seen=("sub-001",))
    joined = nc.join([one, other], out=tmp_path / "both.parquet")
    with pytest.raises(LeakageError, match="sub-001"):
        nc.evaluate(joined, target="age", out=tmp_path / "e")
    clean = nc.join(
        [one, write(tmp_path / "c.parquet", p=2, encoder="c")], out=tmp_path / "clean.parquet"
    )
    read = read_embeddings(clean)
    plan = plan_evaluation(
        read.table, read.features, settings=EvaluationSettings(target="age"), info=read.info
    )
    assert [each.message for each in plan.notices if each.code == "overlap_unknown"] == [
        "Of the joined embeddings, 'a' does not say who was in pretraining: an overlap could not be checked."
    ]


def test_all_scans_that_do_not_match_are_named_at_once(tmp_path):
    one = write(tmp_path / "a.parquet", p=3, encoder="a", change=lambda table: table.iloc[:-2])
    other = write(tmp_path / "b.parquet", p=2, encoder="b", change=lambda table: table.iloc[1:])
    with pytest.raises(DataError) as caught:
        nc.join([one, other], out=tmp_path / "both.parquet")
    message = str(caught.value)
    assert "3 problems" in message
    assert all(
        text in message
        for text in ("sub-000 session 1: is not in b", "sub-038 session 1: is not in a")
    )
    assert not (tmp_path / "both.parquet").exists()


def test_metadata_that_differ_are_named_at_once_with_both_values(tmp_path):
    older = {"age": [21.0, 22.0, *[20.0] * (N - 2)], "site": ["c", *["a"] * (N - 1)]}
    one = write(
        tmp_path / "a.parquet",
        p=3,
        encoder="a",
        change=lambda table: table.assign(age=20.0, site="a"),
    )
    other = write(
        tmp_path / "b.parquet", p=2, encoder="b", change=lambda table: table.assign(**older)
    )
    with pytest.raises(DataError) as caught:
        nc.join([one, other], out=tmp_path / "both.parquet")
    message = str(caught.value)
    assert "3 problems" in message
    assert "sub-000 session 1, column 'age': '20' in a and '21' in b" in message
    assert "sub-000 session 1, column 'site': 'a' in a and 'c' in b" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"paths": 1}, "two tables or more"),
        ({"names": ["x"]}, "2 tables need 2 different names, got 'x'"),
        ({"names": ["x", "x"]}, "got 'x', 'x'"),
        ({"out": "a.parquet", "overwrite": True}, "is one of the tables to join"),
        ({"out": "both.tsv"}, "ends in .parquet"),
        ({"out": "there.parquet"}, "exists"),
    ],
)
def test_choices_that_cannot_be_are_refused(pair, tmp_path, change, message):
    paths = pair[: change.get("paths", 2)]
    (tmp_path / "there.parquet").write_text("")
    options = {key: change[key] for key in ("names", "overwrite") if key in change}
    with pytest.raises(ConfigError, match=message):
        nc.join(paths, out=tmp_path / change.get("out", "both.parquet"), **options)


def test_a_joined_table_and_an_encoder_that_is_there_already_are_refused(pair, tmp_path):
    one = pair[0]
    both = nc.join(pair, out=tmp_path / "both.parquet")
    with pytest.raises(DataError, match=r"both: is joined already, of a, b"):
        nc.join([both, write(tmp_path / "c.parquet", p=3, encoder="c")], out=tmp_path / "d.parquet")
    again = write(tmp_path / "again.parquet", p=3, encoder="a")
    with pytest.raises(DataError, match=r"same encoder.*a = again"):
        nc.join([one, again], out=tmp_path / "d.parquet")


def test_the_command_joins_and_says_which_blocks(pair, tmp_path, capsys):
    assert (
        run(
            [
                "join",
                *map(str, pair),
                "--out",
                str(tmp_path / "both.parquet"),
                "--names",
                "net, linear",
            ]
        )
        == 0
    )
    assert "40 scans, 6 features each: net 3, linear 3" in capsys.readouterr().out


FAST = FASTEST | {"n_bootstraps": 20}
RUNS = {
    "net": {
        "encoder": {"name": "lenet"},
        "weights": {"sha256": "a" * 64},
        "preprocessing": {"kind": "volumes"},
    },
    "linear": {
        "encoder": {"name": "pca"},
        "weights": {"sha256": "b" * 64},
        "preprocessing": {"kind": "volumes"},
    },
}
OBJECTIVES = {
    "net": {
        "loss": "ntxent",
        "title": "NT-Xent",
        "citation": "Chen T. SimCLR.",
        "temperature": 0.1,
    },
    "linear": {
        "loss": "none",
        "title": "principal components of voxels",
        "citation": "Jolliffe I. PCA.",
    },
}
SIZES = {"net": 30, "linear": 6}


def embed(folder: Path, name: str, *, n: int, first: int = 0) -> Path:
    """Write features in which the class is seen."""
    about = {
        "run": {"name": name, **RUNS[name]},
        "objective": OBJECTIVES[name],
        "pretraining_subjects": [],
    }
    path = folder / f"{name}-{first}.parquet"
    return embedded_people(path, n=n, first=first, n_features=SIZES[name], strength=0.8, **about)


def join(
    folder: Path, *, n: int, first: int = 0, order: tuple[str, ...] = ("net", "linear")
) -> Path:
    paths = [embed(folder, name, n=n, first=first) for name in order]
    return nc.join(
        paths, out=folder / f"{'-'.join(order)}-{first}.parquet", names=order, overwrite=True
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("joined")
    nc.evaluate(join(root, n=80), out=root / "EVAL", **FAST)
    return root


def test_scans_that_are_joined_alike_are_predicted_as_the_external_test_predicts_them(folder):
    others = join(folder, n=30, first=500)
    nc.evaluate(folder / "net-linear-0.parquet", out=folder / "TESTED", test=str(others), **FAST)
    tested = pd.read_csv(folder / "TESTED" / "external_predictions.tsv", sep="\t")
    found = pd.read_csv(nc.predict(folder / "EVAL", others, out=folder / "p.tsv"), sep="\t")
    np.testing.assert_allclose(found["y_score"], tested["y_score"], atol=1e-9)


@pytest.mark.usefixtures("blank_figures")
def test_the_report_names_the_blocks_and_how_they_are_balanced(folder):
    page = nc.report(folder / "EVAL", figures=False).read_text(encoding="utf-8")
    assert (
        "“net” (LeNet (3D), 30 features) and “linear” (principal components of voxels, 6 features)"
        in page
    )
    assert "“net”: NT-Xent, no metadata and “linear”: principal components of voxels" in page
    assert "features of each encoder were given the same total variance" in page
    assert "Chen T. SimCLR." in page
    assert "Jolliffe I. PCA." in page
