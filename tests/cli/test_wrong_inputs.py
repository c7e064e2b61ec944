"""Wrong input ends with code 2 and one message that names the place; nothing is left half-written."""

import json
import shutil
from pathlib import Path

import pyarrow.parquet
import pytest
import torch

from tests.cli.conftest import refused


def rewrite(path, content):
    """Replace a file, or, by a dictionary, some of its keys."""
    changed = (
        content if isinstance(content, str) else json.dumps(json.loads(path.read_text()) | content)
    )
    path.write_text(changed)


@pytest.mark.parametrize(
    "command", ["simulate", "pretrain", "embed", "evaluate", "predict", "report", "compare"]
)
def test_an_output_that_cannot_be_written_is_refused_before_any_work(
    study, tmp_path, capsys, command
):
    (tmp_path / "barrier").write_text("a file where a folder would have to be")
    people = study.path("study/participants.tsv")
    out = tmp_path / "barrier" / "out"
    arguments = {
        "simulate": ["simulate", out],
        "pretrain": ["pretrain", "--participants", people, "--out", out],
        "embed": ["embed", study.path("RUN"), "--participants", people, "--out", f"{out}.parquet"],
        "evaluate": ["evaluate", study.path("EMB.parquet"), "--out", out],
        "predict": [
            "predict",
            study.path("EVAL"),
            study.path("EMB.parquet"),
            "--out",
            f"{out}.tsv",
        ],
        "report": ["report", study.path("EVAL"), "--out", f"{out}.html"],
        "compare": ["compare", study.path("EVAL"), study.path("AGAIN"), "--out", out],
    }
    refused(arguments[command], capsys, "cannot be written", "barrier' is no folder")


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("provenance.json", "[]", "must hold a JSON object"),
        ("provenance.json", "{}", "lacks pretraining_subjects, cohort, environment"),
        ("metrics.csv", "epoch,a\nx,y\n", "metrics.csv"),
        ("metrics.csv", "a\n1\n", "'epoch'"),
        (
            "encoder.json",
            {"preprocessing": {"transform_version": 1, "shape": [1]}},
            "preprocessing",
        ),
        ("encoder.json", {"weights": {}}, "weights"),
    ],
)
def test_a_damaged_run_is_refused(study, tmp_path, capsys, file, content, said):
    damaged = shutil.copytree(study.path("RUN"), tmp_path / "RUN")
    rewrite(damaged / file, content)
    people = study.path("study/participants.tsv")
    out = tmp_path / "e.parquet"
    refused(["embed", damaged, "--participants", people, "--out", out], capsys, file, said)
    assert not out.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"classes": 3}, "'classes"),
        ({"metrics": {"auc": {"interval": [1]}}}, "'metrics"),
        ("[]", "must hold a JSON object"),
        ('{"format": 9}', "evaluation.json"),
    ],
)
def test_a_damaged_evaluation_is_refused(study, tmp_path, capsys, content, said):
    damaged = shutil.copytree(study.path("EVAL"), tmp_path / "DAMAGED")
    rewrite(damaged / "evaluation.json", content)
    refused(["report", damaged], capsys, "evaluation.json", said)
    refused(
        ["compare", study.path("EVAL"), damaged, "--out", tmp_path / "C"],
        capsys,
        "DAMAGED",
        "evaluation.json",
    )


DAMAGES = [
    {"pretraining_subjects": "abc"},
    {"pretraining_subjects": [1]},
    {"training_metrics": "x"},
]


@pytest.mark.parametrize("damage", DAMAGES)
def test_embeddings_whose_description_is_damaged_never_pass_unchecked(
    study, tmp_path, capsys, damage
):
    table = pyarrow.parquet.read_table(study.path("EMB.parquet"))
    info = json.loads(table.schema.metadata[b"neurocontrast"])
    changed = table.replace_schema_metadata({b"neurocontrast": json.dumps(info | damage).encode()})
    pyarrow.parquet.write_table(changed, tmp_path / "e.parquet")
    refused(
        ["evaluate", tmp_path / "e.parquet", "--out", tmp_path / "E"], capsys, "e.parquet", *damage
    )


def test_a_run_is_resumed_as_itself_only(study, tmp_path, capsys):
    again = shutil.copytree(study.path("RUN"), tmp_path / "RUN")
    config = ["--config", again / "config.yaml", "--out", again, "--resume"]
    refused(["pretrain", "--out", tmp_path / "none", "--resume"], capsys, "there is no run in")
    refused(
        ["pretrain", *config, "--participants", study.path("study/participants.tsv")],
        capsys,
        "cohort: was",
    )
    (again / "encoder.json").unlink()
    checkpoint = next(Path(again, "checkpoints").iterdir())
    position = {"epoch": 1, "batch": 0, "sums": {}, "seconds": 0.0, "metrics": []}
    torch.save({"format": 1, "position": position}, checkpoint)
    refused(["pretrain", *config], capsys, checkpoint.name, "does not fit this run")


def test_running_out_of_memory_in_torch_is_no_defect(study, tmp_path, capsys):
    arguments = [
        "pretrain",
        "--participants",
        study.path("healthy/participants.tsv"),
        "--out",
        tmp_path / "RUN",
    ]
    huge = ["--set", "encoder.name=lenet", "--set", "encoder.projection=[1000000000000,8]"]
    refused([*arguments, *huge], capsys, "out of memory", code=1)
    assert not (tmp_path / "RUN").exists()


def test_an_interruption_says_so_and_leaves_nothing(tmp_path, capsys, monkeypatch):
    def interrupted(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr("neurocontrast.simulate", interrupted)
    refused(["simulate", tmp_path / "out"], capsys, "interrupted", code=130)
