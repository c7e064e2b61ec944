"""Sites from the command line to the files: a fairness weight, balanced batches, the site's probe, what is refused."""

import json
from pathlib import Path

import pandas as pd
import pytest
from small_run import metrics

import neurocontrast
from neurocontrast.cli import run as run_cli
from neurocontrast.config import load_config
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import ConfigError, DataError

RECIPES = Path(__file__).parents[2] / "neurocontrast" / "recipes" / "brain"
SMALL = (
    "data.spacing_mm=10",
    "data.erode_mm=0",
    "data.shape=[16,20,16]",
    "data.val_fraction=0.3",
    "data.n_workers=1",
    "encoder={name: lenet, projection: []}",
    "training.batch_size=4",
    "training.accelerator=cpu",
)


def overrides(cohort, cache, *more):
    return [f"data.participants={cohort}", f"data.cache_dir={cache}", *SMALL, *more]


def test_a_fairness_weight_is_one_key_and_reaches_the_embeddings(tmp_path, cohort, cache):
    chosen = overrides(cohort, cache, "objective.weights.fair=0.3", "training.epochs=1", "training.probe_every=1")
    flags = [part for each in chosen for part in ("--set", each)]
    recipe = str(RECIPES / "conditional_fair.yaml")
    assert run_cli(["pretrain", "--config", recipe, *flags, "--out", str(tmp_path / "run"), "-q"]) == 0
    table = tmp_path / "embeddings.parquet"
    assert run_cli(["embed", str(tmp_path / "run"), "--participants", str(cohort), "--out", str(table), "-q"]) == 0

    objective = json.loads((tmp_path / "run" / "encoder.json").read_text())["objective"]
    assert objective["weights"] == {"learn": 1.0, "fair": 0.3}
    assert read_embeddings(table).info["objective"] == objective
    (row,) = metrics(tmp_path / "run")
    terms = {name: float(value) for name, value in row.items() if name.startswith("train_term_")}
    assert set(terms) == {
        f"train_term_{part}/{kind}" for part in ("learn", "fair") for kind in ("alignment", "uniformity")
    }
    assert sum(terms.values()) == pytest.approx(float(row["train_loss"]), rel=1e-4)
    assert {"probe_age_r2", "probe_sex_balanced_accuracy", "probe_site_balanced_accuracy"} < set(row)


def test_an_unknown_site_is_refused_with_all_rows_before_a_scan_is_read(tmp_path, cohort, cache):
    table = pd.read_csv(cohort, sep="\t")
    table["path"] = [str(cohort.parent / path) for path in table["path"]]
    bad = table["participant_id"][[1, 4]].tolist()
    table.loc[[1, 4], "site"] = "n/a"
    table.to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    given = overrides(tmp_path / "participants.tsv", cache, "data.val_fraction=0", "training.sampling=site-balanced")
    with pytest.raises(DataError, match=f"'site' is missing for '{bad[0]}', '{bad[1]}'"):
        neurocontrast.pretrain(load_config(None, given), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    table.drop(columns="site").to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    with pytest.raises(DataError, match=r"sampling: site-balanced: participants\.tsv has no column 'site'"):
        neurocontrast.pretrain(load_config(None, given), out=tmp_path / "run")


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("{loss: fair_cclk, kernel: [{column: site, type: different}]}", "CCL-K needs a positive semi-definite kernel"),
        (
            "{loss: yaware, kernel: [{column: site, type: categorical, within: 0.5}]}",
            "objective.kernel.0.within: unknown key.",
        ),
        (
            "{loss: supcon, label: site, negatives: [{column: site, type: categorical}]}",
            "objective.negatives: unknown key. Allowed keys: 'loss', 'label' and 'temperature'.",
        ),
    ],
)
def test_kernels_that_make_no_sense_are_named(objective, message):
    with pytest.raises(ConfigError) as found:
        load_config(None, [f"objective={objective}"])
    assert message.replace(" and ", ", ") in str(found.value).replace(" and ", ", ")
