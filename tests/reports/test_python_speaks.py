"""From Python: warnings are Python's own, long work says so where somebody watches, results print figures."""

import inspect
import sys
import tomllib
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast import display
from neurocontrast.cli.app import run as command
from neurocontrast.embedding import ScanEmbedder, write_embeddings
from neurocontrast.exceptions import DataError, NeurocontrastWarning
from neurocontrast.progress import ONLY_WARNINGS, SILENT, warn_caller
from neurocontrast.provenance import subject_digest
from tests.commands.small_run import FASTEST, MEASURES, OF_MEASURES, Listening
from tests.reports.people import draw_measures

ROOT = Path(__file__).resolve().parents[2]
INFO = {
    "pretraining_subjects": [subject_digest("somebody")],
    "run": {"weights": {"sha256": "a" * 64}},
}
FAST = FASTEST | {"n_bootstraps": 50, "n_folds": 2}


def write_people(path: Path, *, n: int, site: str | None = "london", shift: float = 0.0) -> Path:
    """Write embeddings of few people, whose first feature tells the age."""
    generator = np.random.default_rng(n)
    age = generator.uniform(20, 80, n)
    features = generator.normal(size=(n, 4))
    features[:, 0] = age / 10 + shift
    names = [f"{path.stem}{row:02d}" for row in range(n)]
    table = pd.DataFrame(
        {"participant_id": names, "subject_id": names, "session": "", "age": age, "site": site}
    )
    table["diagnosis"] = np.array(["control", "patient"])[generator.integers(2, size=n)]
    write_embeddings(path, table, features.astype(np.float32), INFO)
    return path


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return write_people(tmp_path_factory.mktemp("people") / "known.parquet", n=36)


@pytest.fixture(scope="module")
def of_age(people):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NeurocontrastWarning)
        return nc.evaluate(people, out=people.parent / "age", target="age", **FAST)


def test_warnings_reach_a_program_with_their_category_and_its_own_line(people, tmp_path, capsys):
    """Few people are warned about; nothing is printed where nobody watches."""
    with pytest.warns(NeurocontrastWarning, match="intervals are wide") as caught:
        nc.evaluate(people, out=tmp_path / "eval", target="age", **FAST)
    assert {Path(each.filename) for each in caught} == {Path(__file__)}
    lines = Path(__file__).read_text().splitlines()
    assert "nc.evaluate(people" in lines[caught[0].lineno - 1]
    assert capsys.readouterr() == ("", "")


def test_warnings_can_be_raised(people, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", NeurocontrastWarning)
        with pytest.raises(NeurocontrastWarning):
            nc.evaluate(people, out=tmp_path / "eval", target="age", **FAST)
    assert not (tmp_path / "eval").exists()


def test_a_progress_that_is_given_gets_the_warnings(people, tmp_path):
    heard = Listening()
    with warnings.catch_warnings():
        warnings.simplefilter("error", NeurocontrastWarning)
        nc.evaluate(people, out=tmp_path / "own", target="age", progress=heard, **FAST)
        nc.evaluate(people, out=tmp_path / "silent", target="age", progress=SILENT, **FAST)
        nc.evaluate(people, out=tmp_path / "false", target="age", progress=False, **FAST)
    assert any("intervals are wide" in text for text in heard.warned)


def test_lines_are_shown_in_a_terminal_or_a_notebook_and_nowhere_else(monkeypatch, capsys):
    assert display.as_progress(None) is ONLY_WARNINGS
    shell = SimpleNamespace(get_ipython=lambda: object())
    monkeypatch.setitem(sys.modules, "IPython", shell)
    shown = display.as_progress(None)
    with shown.task("Fitting probes", 3, "fold") as task:
        task.advance(3)
    shown.message("done")
    assert "Fitting probes …" in capsys.readouterr().err
    with pytest.warns(NeurocontrastWarning, match="few people") as caught:
        shown.warning("few people")
    assert caught[0].filename == __file__
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert display.as_progress(None) is ONLY_WARNINGS
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert display.as_progress(None) is not ONLY_WARNINGS


def test_every_function_that_reports_progress_shows_it_by_default():
    for name in nc.__all__:
        parameter = inspect.signature(getattr(nc, name)).parameters.get("progress")
        if parameter is not None:
            assert parameter.default is None, name


def test_a_warning_from_the_program_itself_is_at_its_line():
    with pytest.warns(NeurocontrastWarning) as caught:
        warn_caller("read me")
    assert caught[0].filename == __file__


def test_an_evaluation_prints_its_figures_with_intervals_and_baselines(of_age):
    printed = str(of_age)
    lines = printed.splitlines()
    assert lines[0] == "age, stratified: 36 scans of 36 subjects"
    assert {"mae", "r2"} <= set(lines[1].split())
    row = next(line for line in lines if line.startswith("embedding"))
    low, high = of_age.record.metrics["mae"].interval
    assert f"{of_age.mae:.3f} ({low:.3f} to {high:.3f})" in row
    assert any(line.startswith("covariates only") for line in lines)
    assert lines[-1] == str(of_age.folder)
    assert f"{of_age}/folds.tsv" == str(of_age.folder / "folds.tsv")


def test_predictions_print_what_was_predicted_and_say_what_calibration_moved(of_age, tmp_path):
    new = write_people(tmp_path / "new.parquet", n=30, site="ucla", shift=1.0)
    table = pd.read_parquet(new)[["participant_id", "age"]].iloc[:12]
    table.to_csv(tmp_path / "known.tsv", sep="\t", index=False)
    found = nc.predict(
        of_age, new, out=tmp_path / "p.tsv", calibrate=tmp_path / "known.tsv", progress=SILENT
    )
    printed = repr(found)
    moved = (found.table["y_score"] - found.table["y_score_zero_shot"]).iloc[0]
    assert "age predicted for 30 scans" in printed
    assert str(found) == str(tmp_path / "p.tsv")
    assert f"site ucla moved by {moved:.2f}".replace("-", "−") in printed
    assert "learned from 12 labelled people" in printed
    assert (tmp_path / "p.tsv").samefile(found)
    assert found.read_text().startswith("participant_id")


def test_calibrate_without_a_site_says_how_to_give_one(of_age, tmp_path):
    new = write_people(tmp_path / "new.parquet", n=12, site=None)
    pd.read_parquet(new)[["participant_id", "age"]].to_csv(tmp_path / "k.tsv", sep="\t")
    with pytest.raises(DataError, match=r"no scan has a site.* Give a column 'site' to the table"):
        nc.predict(of_age, new, out=tmp_path / "p.tsv", calibrate=tmp_path / "k.tsv")
    assert not (tmp_path / "p.tsv").exists()


def test_a_comparison_prints_its_differences(of_age, people, tmp_path):
    other = nc.evaluate(
        people, out=tmp_path / "other", target="age", progress=SILENT,
        split_file=str(of_age / "splits.tsv"), probe="ridge", **FAST | {"alpha": (1e4,)},
    )  # fmt: skip
    found = nc.compare([of_age, other], out=tmp_path / "c", n_bootstraps=50, progress=SILENT)
    printed = str(found)
    assert printed.startswith("age: differences from age\n")
    assert "difference [95% interval]" in printed
    assert set(found.table["model"]) == {"other"}
    assert str(tmp_path / "c") in printed


def test_a_run_and_its_embeddings_print_whom_they_are_of(tmp_path):
    config = {**OF_MEASURES, "training": {"epochs": 1, "batch_size": 64}}
    run = nc.pretrain(config, out=tmp_path / "run", progress=SILENT)
    table = OF_MEASURES["data"]["participants"]
    embedded = nc.embed(run, participants=table, out=tmp_path / "e.parquet", config=MEASURES)
    printed = f"{run!r}\n{embedded!r}"
    assert "1 epoch, " in printed
    assert "loss " in printed
    assert len(run.metrics) == 1
    assert f"{len(pd.read_parquet(embedded)):,} scans of " in printed
    assert (str(run), str(embedded)) == (str(tmp_path / "run"), str(tmp_path / "e.parquet"))
    assert (run / "encoder.json").is_file()


@pytest.mark.parametrize("is_there", [True, False])
def test_bundle_names_the_extra_that_its_next_command_needs(
    is_there, tmp_path, monkeypatch, capsys
):
    """MONAI's `python -m monai.bundle` reads its command line by fire, which MONAI does not bring."""
    config = {**OF_MEASURES, "training": {"epochs": 1, "batch_size": 64}}
    run = nc.pretrain(config, out=tmp_path / "run", progress=SILENT)
    found = SimpleNamespace() if is_there else None
    monkeypatch.setattr("neurocontrast.cli.network_commands.find_spec", lambda _: found)
    assert command(["bundle", str(run), "--out", str(tmp_path / "bundle")]) == 0
    said = capsys.readouterr().out
    assert "python -m monai.bundle run" in said
    assert ("pip install 'neurocontrast[serving]'" in said) != is_there
    assert "neurocontrast[serving]" in (tmp_path / "bundle" / "docs" / "README.md").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert extras["optional-dependencies"]["serving"][0].startswith("fire")
    assert "\nfire==" in (ROOT / "constraints.txt").read_text()


def test_an_embedder_says_how_measures_are_read(tmp_path):
    """Zeros count as missing, and medians take their place: features change."""
    people = [f"sub-{number:02d}" for number in range(24)]
    table = draw_measures(people)
    table.to_csv(tmp_path / "measures.tsv", sep="\t", index=False)
    ages = pd.DataFrame({"participant_id": people, "age": range(20, 44)})
    ages.to_csv(tmp_path / "participants.tsv", sep="\t", index=False)
    settings = [f"data.participants={tmp_path / 'participants.tsv'}", "encoder.n_components=3"]
    config = nc.load_config("measures_linear", settings)
    nc.pretrain(config, out=tmp_path / "run", progress=SILENT)
    embedder = ScanEmbedder(tmp_path / "run", overlap="ignore").fit(table)
    table.iloc[0, 1] = 0.0
    with pytest.warns(NeurocontrastWarning, match="1 thicknesses are 0.*taken as missing"):
        embedder.transform(table.assign(weight=70.0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        embedder.transform(table.iloc[1:].assign(weight=70.0))
