"""A tiny study that every command line test can use, made once."""

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from neurocontrast.cli import run

TINY = [
    *(
        "--set",
        "encoder.name=lenet",
        "--set",
        "data.spacing_mm=6",
        "--set",
        "data.shape=[32,36,32]",
    ),
    *("--set", "training.epochs=1", "--set", "training.batch_size=8", "--set", "data.n_workers=1"),
]
FEW = [
    "--set",
    "evaluation.n_bootstraps=20",
    "--set",
    "evaluation.C=[0.01,1.0]",
    "--set",
    "evaluation.n_inner_folds=2",
]


def refused(arguments, capsys, *said, code=2):
    """Assert that a command line ends with a code and a message, which says these words and is no defect's."""
    capsys.readouterr()
    # An evaluation is a path whose text is its figures.
    words = [f"{argument}" for argument in arguments]
    assert run([*words, "--quiet"]) == code
    shown = " ".join(capsys.readouterr().err.split())
    assert "unexpected" not in shown
    assert "Traceback" not in shown
    for text in said:
        assert text in shown, shown


@dataclass(frozen=True)
class Study:
    """Where everything is, and what each command returned and said."""

    folder: Path
    codes: dict[str, int]
    said: dict[str, list[str]]

    def path(self, name: str) -> str:
        """Return a path in the study's folder."""
        return str(self.folder / name)


@pytest.fixture(scope="session")
def study(tmp_path_factory) -> Study:
    """The whole path through the commands, in a folder whose name has a space and an umlaut."""
    folder = tmp_path_factory.mktemp("klinik") / "Büro zwei"
    at = {
        name: str(folder / name)
        for name in ("healthy", "study", "RUN", "EMB.parquet", "EVAL", "AGAIN", "BOTH")
    }
    healthy = f"{at['healthy']}/participants.tsv"
    people = f"{at['study']}/participants.tsv"
    cache = ["--set", f"data.cache_dir={folder / 'cache'}"]
    sizes = ["--n-sites", "2", "--spacing-mm", "6"]
    fast = ["--n-folds", "3", *FEW]
    commands = {
        "simulate": ["simulate", at["healthy"], "--n-subjects", "16", *sizes, "--patients", "0"],
        "simulate study": ["simulate", at["study"], "--n-subjects", "24", *sizes, "--seed", "5"],
        "check": ["check", people, "--set", "data.n_workers=1"],
        "pretrain": ["pretrain", "--participants", healthy, "--out", at["RUN"], *TINY, *cache],
        "embed": [
            "embed",
            at["RUN"],
            "--participants",
            people,
            "--out",
            at["EMB.parquet"],
            *TINY,
            *cache,
        ],
        "evaluate": [
            "evaluate",
            at["EMB.parquet"],
            "--target",
            "diagnosis",
            "--out",
            at["EVAL"],
            *fast,
        ],
        "evaluate again": [
            "evaluate",
            at["EMB.parquet"],
            "--out",
            at["AGAIN"],
            "--seed",
            "0",
            *fast,
        ],
        "report": ["report", at["EVAL"]],
        "compare": ["compare", at["EVAL"], at["AGAIN"], "--out", at["BOTH"], *FEW],
    }
    codes = {}
    said = {}
    for name, arguments in commands.items():
        with contextlib.redirect_stdout(io.StringIO()) as out:
            codes[name] = run([*arguments, "--quiet"])
        said[name] = out.getvalue().splitlines()
    return Study(folder, codes, said)
