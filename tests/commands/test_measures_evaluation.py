"""An encoder of regional measures is evaluated beside the measures themselves."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import DataError

SAMPLE = Path(__file__).resolve().parents[2] / "sample" / "measures"
TABLES = sorted(map(str, SAMPLE.glob("data-*.tsv")))
MEASURES = {"data": {"measures": TABLES}}
RECIPES = ("measures", "measures_yaware", "measures_linear")
QUICK = {"n_bootstraps": 50, "confounds": False, "new_site": False, "outlyingness": False, "C": (1e-3, 1e-1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Half of the sample is learned from, the other half embedded; sites by turns."""
    place = tmp_path_factory.mktemp("measures")
    people = pd.read_csv(SAMPLE / "participants.tsv", sep="\t", dtype=str, keep_default_na=False)
    people["site"] = ["a", "b"] * (len(people) // 2)
    for name, part in (("train", people[:120]), ("test", people[120:])):
        part.to_csv(place / f"{name}.tsv", sep="\t", index=False)
    for recipe in RECIPES:
        few = "encoder.n_components=20" if recipe == "measures_linear" else "training.epochs=2"
        train = f"data.participants={place / 'train.tsv'}"
        nc.pretrain(nc.load_config(recipe, [train, f"data.measures={TABLES}", few]), out=place / recipe)
        nc.embed(place / recipe, participants=place / "test.tsv", out=place / f"{recipe}.parquet", config=MEASURES)
    return place


@pytest.mark.parametrize("recipe", RECIPES)
def test_embeddings_carry_the_measures_that_the_encoder_reads(folder, recipe):
    read = read_embeddings(folder / f"{recipe}.parquet")
    columns = read.info["run"]["preprocessing"]["columns"]
    listed = pd.read_csv(TABLES[-1], sep="\t").set_index("Measure:volume")
    found = read.table.set_index("participant_id")["Left-Hippocampus"]
    assert set(columns) <= set(read.table)
    assert found.to_dict() == listed["Left-Hippocampus"].loc[found.index].to_dict()


def test_an_encoder_of_measures_stands_beside_a_linear_model_of_the_same_measures(folder, tmp_path):
    nc.evaluate(folder / "measures.parquet", out=tmp_path / "sex", target="sex", **QUICK)
    found = json.loads((tmp_path / "sex" / "evaluation.json").read_text())
    read = read_embeddings(folder / "measures.parquet").info["run"]["preprocessing"]
    assert found["regional_columns"] == read["columns"]
    assert found["regional"]["auc"]["pooled"] > 0.7
    assert "voxels_about" not in found or found["voxels_about"] is None
    nc.report(tmp_path / "sex")
    page = (tmp_path / "sex" / "report.html").read_text()
    text = re.sub(r"<[^>]+>", " ", re.sub(r"<(style|script|svg).*?</\1>", "", page, flags=re.DOTALL))
    assert f"reads {len(found['regional_columns'])} regional measures (atlas aparc.a2009s+aseg" in text
    assert "cut off at 6 standard deviations" in text
    assert "medians 2." not in text
    assert "Participants and measures." in text
    assert "Images." not in text


def test_the_same_measures_are_left_out_where_voxels_are_off_and_others_can_be_asked_for(folder, tmp_path):
    for name, options, expected in (
        ("off", {"voxels": "off"}, []),
        ("others", {"regional": ("Left-Hippocampus", "Right-H*s")}, ["Left-Hippocampus", "Right-Hippocampus"]),
    ):
        nc.evaluate(folder / "measures.parquet", out=tmp_path / name, target="sex", **QUICK, **options)
        assert json.loads((tmp_path / name / "evaluation.json").read_text()).get("regional_columns", []) == expected
    with pytest.raises(DataError, match="this baseline is for scans of brains"):
        nc.evaluate(folder / "measures.parquet", out=tmp_path / "on", target="sex", **QUICK, voxels="on")


@pytest.mark.slow
def test_two_encoders_of_measures_are_compared_on_the_same_folds(folder, tmp_path):
    for name in ("measures", "measures_linear"):
        nc.evaluate(folder / f"{name}.parquet", out=tmp_path / name, target="sex", splits="leave-site-out", **QUICK)
    nc.compare([tmp_path / "measures", tmp_path / "measures_linear"], out=tmp_path / "both")
    rows = pd.read_csv(tmp_path / "both" / "differences.tsv", sep="\t")
    assert set(rows["model"]) == {"measures_linear"}
    assert rows["difference"].notna().any()
