"""Scans that cannot be used are left out of training and embedding where that is asked for, and named."""

from pathlib import Path

import pandas as pd
import pytest
from small_run import Listening, changed_run, people_of, read_json, weights

import neurocontrast
from neurocontrast.cli.app import run as command_line
from neurocontrast.embedding import read_embeddings
from neurocontrast.exceptions import ConfigError, DataError


@pytest.fixture
def damaged(cohort, tmp_path):
    """Return a table of the same scans, one of them damaged and one absent."""
    table = people_of(cohort)
    (tmp_path / "half.nii.gz").write_bytes(Path(table["path"][1]).read_bytes()[:500])
    table.loc[1, "path"] = str(tmp_path / "half.nii.gz")
    table.loc[3, "path"] = str(tmp_path / "absent.nii.gz")
    table.to_csv(tmp_path / "damaged.tsv", sep="\t", index=False)
    return tmp_path / "damaged.tsv", table["participant_id"][[1, 3]].tolist()


def test_a_run_without_two_scans_is_that_of_a_table_without_them(
    settings, cohort, damaged, tmp_path
):
    participants, names = damaged
    with pytest.raises(DataError, match="absent"):
        neurocontrast.pretrain(
            settings(f"data.participants={participants}"), out=tmp_path / "refused"
        )
    halved = pd.read_csv(participants, sep="\t", dtype=str).drop(index=3)
    halved.to_csv(tmp_path / "halved.tsv", sep="\t", index=False)
    with pytest.raises(DataError, match=r"half[^\n]*\n[^\n]*set data.skip_unreadable=true"):
        neurocontrast.pretrain(
            settings(f"data.participants={tmp_path / 'halved.tsv'}"), out=tmp_path / "refused"
        )
    without = pd.read_csv(participants, sep="\t", dtype=str)
    without[~without["participant_id"].isin(names)].to_csv(
        tmp_path / "without.tsv", sep="\t", index=False
    )
    of_others = settings(f"data.participants={tmp_path / 'without.tsv'}")
    shorter = neurocontrast.pretrain(of_others, out=tmp_path / "shorter")
    overrides = (f"data.participants={participants}", "data.skip_unreadable=true")
    heard = Listening()
    run = neurocontrast.pretrain(settings(*overrides), out=tmp_path / "run", progress=heard)
    assert weights(run) == weights(shorter)
    skipped = pd.read_csv(run / "skipped.tsv", sep="\t")
    assert skipped["scan"].tolist() == names
    assert "half.nii.gz" in skipped["reason"][0]
    assert "absent.nii.gz" in skipped["reason"][1]
    provenance = read_json(run / "provenance.json")
    assert (provenance["n_skipped"], provenance["cohort"]["n_scans"]) == (2, len(without) - 2)
    told = f"2 of {len(without)} scans cannot be used and are left out:\n  {names[0]}"
    assert any(told in line for line in heard.said)
    # A longer run leaves out the same scans, also those that can be used now.
    longer = settings(*overrides, "training.epochs=3")
    (tmp_path / "absent.nii.gz").write_bytes(Path(without["path"][0]).read_bytes())
    neurocontrast.pretrain(longer, out=run, resume=True)
    assert len(pd.read_csv(run / "metrics.csv")) == 3
    assert pd.read_csv(run / "skipped.tsv", sep="\t")["scan"].tolist() == names
    neurocontrast.pretrain(longer, out=run, resume=True)  # finished


def test_embed_leaves_them_out_and_says_so(whole, damaged, cache, tmp_path, capsys):
    participants, names = damaged
    out = tmp_path / "emb.parquet"
    given = ["embed", str(whole), "--participants", str(participants), "--out", str(out)]
    given += ["--set", f"data.cache_dir={cache}"]
    assert command_line(given) == 2
    assert "absent.nii.gz" in capsys.readouterr().err
    assert command_line([*given, "--skip"]) == 0
    assert f"{names[1]}: " in capsys.readouterr().err
    read = read_embeddings(out)
    assert not set(names) & set(read.table["participant_id"])
    assert read.info.flow[-1].content() == {
        "step": "excluded", "n_scans": 2, "n_subjects": 2, "reason": "cannot be used (data.skip_unreadable)",
    }  # fmt: skip
    assert pd.read_csv(tmp_path / "emb.skipped.tsv", sep="\t")["scan"].tolist() == names


def test_what_cannot_be_skipped_is_refused(whole, damaged, tmp_path):
    absent = pd.read_csv(damaged[0], sep="\t", dtype=str)
    absent.assign(path=absent["participant_id"]).to_csv(
        tmp_path / "none.tsv", sep="\t", index=False
    )
    config = {"data": {"skip_unreadable": True, "cache_dir": str(tmp_path / "cache")}}
    options = {"out": tmp_path / "e.parquet", "config": config}
    with pytest.raises(DataError, match="none of 14 scans can be used"):
        neurocontrast.embed(whole, participants=tmp_path / "none.tsv", **options)
    for kind, given in (("images", {"skip_unreadable": True}), ("measures", {"shape": [9, 9, 9]})):
        other = changed_run(whole, tmp_path / kind, preprocessing={"kind": kind})
        with pytest.raises(
            ConfigError,
            match=rf"data\.{next(iter(given))}: is for volumes, and the run was .* {kind}",
        ):
            neurocontrast.embed(
                other, participants=damaged[0], out=options["out"], config={"data": given}
            )
