from __future__ import annotations

import pytest

from neurocontrast.evaluation import EvaluationSettings, panels, plan_study, run_study
from neurocontrast.exceptions import ConfigError

PANEL = """
import pandas as pd

from neurocontrast.evaluation.schema import Notice
from neurocontrast.evaluation.panels import Findings, Panel
from neurocontrast.exceptions import ConfigError


def check(study):
    if study.target.kind == "continuous":
        raise ConfigError("headcount: counts classes")


def run(inputs):
    counts = pd.Series(inputs.study.target.labels()).value_counts()
    notice = Notice("headcount", f"{len(counts)} classes of {sorted(inputs.models)}", "Nothing follows from this.")
    table = counts.rename_axis("class").reset_index(name="n")
    return Findings({"headcount": len(inputs.found.tables)}, {"headcount": table}, [notice])


PANEL = Panel(order=99, run=run, check=check)
"""
FAST = {"n_bootstraps": 0, "confounds": False, "new_site": False, "outlyingness": False}


def test_a_new_panel_is_one_new_file(make_cohort, tmp_path, monkeypatch):
    (tmp_path / "headcount.py").write_text(PANEL)
    monkeypatch.setattr(panels, "__path__", [*panels.__path__, str(tmp_path)])
    cohort = make_cohort(60)
    result = run_study(plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**FAST)))
    assert result.tables["headcount"]["n"].sum() == 60
    assert result.evaluation.panels["headcount"] >= 2  # what earlier panels found is at hand
    (warning,) = [each for each in result.evaluation.warnings if each.code == "headcount"]
    assert warning.message == "2 classes of ['baseline', 'embedding']"
    with pytest.raises(ConfigError, match="headcount: counts classes"):
        plan_study(cohort.table, cohort.features, settings=EvaluationSettings(**FAST, target="age"))
