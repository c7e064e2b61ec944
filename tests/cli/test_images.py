"""Natural images, command by command, and what is refused on the way with one message and nothing half-written."""

import json

import pandas as pd
import pytest

from neurocontrast.cli import run
from tests.cli.conftest import refused

TINY = ["--set", "data.kind=images", "--set", "encoder={name: lenet5, projection: [8, 4]}"]
TINY += ["--set", "training={epochs: 1, batch_size: 32, learning_rate: 1e-3, accelerator: cpu}"]
TRAIN = [
    *TINY,
    "--set",
    "data.where={split: [train]}",
    "--set",
    "augment={crop: {scale: [0.6, 1]}}",
]


@pytest.fixture(scope="module")
def road(tmp_path_factory):
    """The whole path through the commands; returns the folder, and what each command returned."""
    folder = tmp_path_factory.mktemp("images") / "Büro zwei"
    folder.mkdir()
    at = {
        name: str(folder / name)
        for name in ("digits", "RUN", "EMB.parquet", "EVAL", "AGAIN", "BOTH", "P.tsv")
    }
    table = f"{at['digits']}/participants.tsv"
    sizes = ["--n-train", "300", "--n-validation", "60", "--n-test", "90"]
    evaluate = [
        "evaluate",
        at["EMB.parquet"],
        "--target",
        "label",
        "--set",
        "evaluation.n_bootstraps=50",
    ]
    evaluate += ["--set", "evaluation.split_column=split"]
    commands = {
        "images": ["images", at["digits"], "--background", "random", *sizes],
        "check": ["check", table],
        "doctor": ["doctor", "--participants", table, *TRAIN],
        "pretrain": ["pretrain", "--participants", table, "--out", at["RUN"], *TRAIN],
        "embed": ["embed", at["RUN"], "--participants", table, "--out", at["EMB.parquet"]],
        "evaluate": [*evaluate, "--out", at["EVAL"]],
        "evaluate again": [*evaluate, "--out", at["AGAIN"], "--seed", "1"],
        "report": ["report", at["EVAL"]],
        "predict": ["predict", at["EVAL"], at["EMB.parquet"], "--out", at["P.tsv"]],
        "compare": ["compare", at["EVAL"], at["AGAIN"], "--out", at["BOTH"]],
    }
    return folder, {name: run([*arguments, "--quiet"]) for name, arguments in commands.items()}


def test_every_command_succeeds_and_figures_are_of_the_test_images(road):
    folder, codes = road
    assert codes == dict.fromkeys(codes, 0)
    assert not list(folder.rglob(".tmp-*"))
    assert "brain" not in (folder / "EVAL" / "report.html").read_text(encoding="utf-8").lower()
    summary = json.loads((folder / "EVAL" / "evaluation.json").read_text(encoding="utf-8"))
    assert summary["run"]["preprocessing"]["kind"] == "images"
    assert summary["n_overlap"] == 0
    predictions = pd.read_csv(folder / "EVAL" / "predictions.tsv", sep="\t")
    assert len(predictions) == 90
    accuracy = (predictions["y_true"] == predictions["y_pred"]).mean()
    assert accuracy == pytest.approx(summary["metrics"]["accuracy"]["mean"])
    assert accuracy > 0.5
    assert len(pd.read_csv(folder / "P.tsv", sep="\t")) == 450


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            ["--set", "encoder.name=densenet121"],
            ["encoder.name: 'densenet121' encodes volumes", "or lenet5"],
        ),
        (
            ["--set", "data.vectors={rgb: [backgrond_red]}"],
            ["vectors.rgb", "Did you mean 'background_red'?"],
        ),
        (
            ["--set", "objective={loss: supcon, label: labl}"],
            ["no column 'labl'", "Did you mean 'label'?"],
        ),
    ],
)
def test_a_wrong_configuration_is_told_before_anything_is_written(
    road, tmp_path, capsys, more, said
):
    table = road[0] / "digits" / "participants.tsv"
    out = tmp_path / "run"
    refused(["pretrain", "--participants", table, "--out", out, *TRAIN, *more], capsys, *said)
    assert not out.exists()


def test_a_table_of_the_other_kind_is_told_by_every_command(road, study, tmp_path, capsys):
    folder = road[0]
    people = study.path("study/participants.tsv")
    table = folder / "digits" / "participants.tsv"
    out = tmp_path / "out"
    scans = "scans of brains are wanted"
    images = "images of a store, as `neurocontrast images` writes them, are wanted"
    refused(
        ["pretrain", "--participants", people, "--out", out, *TINY],
        capsys,
        images,
        "set data.kind to volumes",
    )
    refused(
        ["pretrain", "--participants", table, "--out", out],
        capsys,
        scans,
        "set data.kind to images",
    )
    refused(
        ["embed", folder / "RUN", "--participants", people, "--out", f"{out}.parquet"],
        capsys,
        images,
    )
    refused(
        ["embed", study.path("RUN"), "--participants", table, "--out", f"{out}.parquet"],
        capsys,
        scans,
    )
    refused(["check", people, "--set", "data.kind=images"], capsys, images)
    refused(["check", table, "--set", "data.kind=volumes"], capsys, scans)
    refused(["doctor", "--participants", table], capsys, scans)
    assert not list(tmp_path.iterdir())
