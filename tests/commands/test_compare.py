import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_run import FASTEST, embedded_people, read_json

from neurocontrast.commands.evaluate import evaluate
from neurocontrast.commands.report import compare, report
from neurocontrast.exceptions import ConfigError, DataError

FAST = FASTEST | {"n_bootstraps": 50}
AT_SITES = dict.fromkeys(("confounds", "new_site", "outlyingness"), True)
N = 80


def write(path: Path, strength: float, **changed) -> Path:
    """Write embeddings that tell the class as plainly as `strength` says."""
    change = lambda table: table.assign(**changed)  # noqa: E731
    return embedded_people(path, n=N, strength=strength, change=change, pretraining_subjects=[])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("models")
    for name, strength in (("weak", 0.2), ("strong", 1.5)):
        source = write(root / f"{name}.parquet", strength)
        evaluate(source, out=root / name, n_repeats=2, **FAST)
        evaluate(source, out=root / f"{name}-sites", splits="leave-site-out", **FAST)
        evaluate(source, out=root / f"{name}-age", target="age", **FAST | AT_SITES)
    return root


def test_the_better_model_is_found_and_drawn(folder, tmp_path):
    out = compare(
        [folder / "weak", folder / "strong"],
        names=["weak", "y-Aware"],
        out=tmp_path / "c",
        n_bootstraps=200,
    )
    differences = pd.read_csv(out / "differences.tsv", sep="\t").set_index("metric")
    auc = differences.loc["auc"]
    assert (auc["model"], auc["reference"], auc["n_folds"]) == ("y-Aware", "weak", 4)
    assert 0 < auc["low"] < auc["difference"] < auc["high"]
    assert auc["p_value"] < 0.05
    models = pd.read_csv(out / "models.tsv", sep="\t").set_index(["model", "metric"])
    pooled = read_json(folder / "strong" / "evaluation.json")["metrics"]
    for metric, values in pooled.items():
        assert models.loc[("y-Aware", metric), "value"] == pytest.approx(values["pooled"]), metric
    assert read_json(out / "comparison.json")["reference"] == "weak"
    assert re.search(
        "stratified by target × site(?s:.)*y-Aware is better", (out / "comparison.html").read_text()
    )
    drawn = {path.name for path in (out / "figures").iterdir()}
    assert {
        "differences_auc.svg",
        "differences_auc.png",
        "differences_auc.tsv",
        "models_auc.svg",
    } <= drawn
    assert not (out / "learning_curves.tsv").exists()


@pytest.mark.usefixtures("blank_figures")
def test_new_sites_and_what_the_site_costs(folder, tmp_path):
    out = compare([folder / "weak-age", folder / "strong-age"], out=tmp_path / "c", n_bootstraps=50)
    table = pd.read_csv(out / "tradeoff.tsv", sep="\t").set_index("model")
    models = pd.read_csv(out / "models.tsv", sep="\t").set_index(["model", "metric"])
    for name in ("weak-age", "strong-age"):
        summary = read_json(folder / name / "evaluation.json")
        told = summary["new_site"]
        row = table.loc[name]
        assert row["metric"] == "mae"
        assert row["unseen"] == pytest.approx(told["unseen"]["embedding"]["mae"]["value"])
        assert row["ratio_low"] == pytest.approx(told["ratio"]["embedding"]["mae"]["low"])
        assert row["constant"] == pytest.approx(told["unseen"]["constant"]["mae"]["value"])
        assert row["site_balanced_accuracy"] == pytest.approx(
            told["site_predictability"]["balanced_accuracy"]
        )
        assert (row["n"], row["n_outside"]) == tuple(
            summary["outlyingness"][key] for key in ("n", "n_outside")
        )
        assert models.loc[(name, "r2"), "unseen"] == pytest.approx(
            told["unseen"]["embedding"]["r2"]["value"]
        )
        assert models.loc[(name, "mae"), "value"] == pytest.approx(row["known"])
    assert "New sites, and site against target" in (out / "comparison.html").read_text()


@pytest.mark.usefixtures("blank_figures")
def test_where_sites_are_held_out_the_comparison_is_of_unseen_ones(folder, tmp_path):
    splits = str(folder / "weak-sites" / "splits.tsv")
    again = evaluate(folder / "strong.parquet", out=tmp_path / "again", split_file=splits, **FAST)
    assert "at sites that it was not fitted on" in report(again, figures=False).read_text()
    out = compare([folder / "weak-sites", again], out=tmp_path / "c", n_bootstraps=50)
    table = pd.read_csv(out / "tradeoff.tsv", sep="\t")
    models = pd.read_csv(out / "models.tsv", sep="\t").query("metric == 'auc'")
    assert table["unseen"].tolist() == pytest.approx(models["value"].tolist())
    assert table["known"].isna().all()
    differences = pd.read_csv(out / "differences.tsv", sep="\t")
    assert "auc" in set(differences["metric"])
    assert differences["p_value"].isna().all(), "sites are no random draws of folds"
    assert differences["low"].notna().all()


def test_a_comparison_names_nobody(folder, tmp_path):
    again = shutil.copytree(folder / "strong", tmp_path / "again")
    about = read_json(folder / "strong/evaluation.json")
    about["warnings"] = [{"code": "duplicate_overlap", "message": "sub-003 = sub-007"}]
    (again / "evaluation.json").write_text(json.dumps(about))
    out = compare([folder / "weak", again], out=tmp_path / "c", n_bootstraps=20)
    assert "[id] = [id]" in (out / "comparison.html").read_text()
    assert not re.search(
        r"sub-\d", (out / "comparison.html").read_text() + (out / "comparison.json").read_text()
    )


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.slow
def test_what_cannot_be_paired_is_refused(folder, tmp_path):
    with pytest.raises(DataError, match="different target: 'diagnosis' and 'age'"):
        compare([folder / "weak", folder / "weak-age"], out=tmp_path / "c")
    other = evaluate(folder / "weak.parquet", out=tmp_path / "seed", n_repeats=2, seed=1, **FAST)
    with pytest.raises(DataError, match=r"another fold .*split_file=weak/splits\.tsv"):
        compare([folder / "weak", other], out=tmp_path / "c")
    splits = str(folder / "weak" / "splits.tsv")
    again = evaluate(
        folder / "strong.parquet", out=tmp_path / "again", split_file=splits, seed=9, **FAST
    )
    assert compare([folder / "weak", again], out=tmp_path / "paired", n_bootstraps=50).is_dir()
    rest = pd.read_parquet(folder / "weak.parquet").iloc[5:]
    fewer = evaluate(rest, out=tmp_path / "few", **FAST)
    with pytest.raises(DataError, match=r"tested different scans.*sub-00"):
        compare([folder / "weak", fewer], out=tmp_path / "c")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"evaluations": ["weak"]}, "needs two or more, got 1"),
        ({"evaluations": ["weak", "weak"]}, "'weak' is given twice"),
        ({"names": ["a"]}, "one for each of the 2 evaluations is needed, got 1"),
        ({"evaluations": ["weak", "nowhere"]}, "there is no folder"),
        ({"n_bootstraps": 0}, "n_bootstraps must be 1 or more"),
        ({"confidence_level": 95.0}, "confidence_level between 0 and 1"),
    ],
)
def test_wrong_arguments_are_answered(folder, tmp_path, arguments, message):
    names = arguments.pop("evaluations", ["weak", "strong"])
    with pytest.raises(ConfigError, match=message):
        compare([folder / name for name in names], out=tmp_path / "c", **arguments)


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.slow
def test_sites_are_resampled_where_the_evaluation_did(tmp_path):
    source = write(
        tmp_path / "many.parquet", 1.0, site=[f"site-{row % 20:02d}" for row in range(N)]
    )
    found = {}
    for unit in ("auto", "subject"):
        folder = evaluate(source, out=tmp_path / unit, bootstrap_unit=unit, **FAST)
        out = compare([folder] * 2, names=["a", "b"], out=tmp_path / f"c-{unit}", n_bootstraps=200)
        found[unit] = pd.read_csv(out / "models.tsv", sep="\t")
    assert read_json(tmp_path / "auto" / "evaluation.json")["bootstrap"]["unit"] == "site"
    np.testing.assert_allclose(found["auto"]["value"], found["subject"]["value"])
    assert (found["auto"]["low"] != found["subject"]["low"]).any()


@pytest.mark.parametrize(
    ("file", "column"), [("predictions.tsv", "subject_id"), ("folds.tsv", "held_out_site")]
)
def test_a_table_that_lacks_a_column_is_named(folder, tmp_path, file, column):
    broken = tmp_path / "broken"
    shutil.copytree(folder / "strong", broken)
    pd.read_csv(broken / file, sep="\t").drop(columns=column).to_csv(
        broken / file, sep="\t", index=False
    )
    with pytest.raises(DataError, match=f"{file}: missing columns: '{column}'"):
        compare([folder / "weak", broken], out=tmp_path / "c")
