"""The Python of the pages of evaluation runs as it stands there, on a small invented cohort."""

import re

import pytest
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import neurocontrast
from tests.conftest import ROOT

N_BLOCKS = {"evaluation": 2, "evaluation_designs": 3, "evaluation_statistics": 1}


@pytest.mark.slow
@pytest.mark.parametrize(("page", "n_blocks"), N_BLOCKS.items())
def test_the_snippets_of_a_page_run(page, n_blocks, make_cohort, tmp_path, monkeypatch):
    cohort = make_cohort(60, n_features=30, n_sites=2)
    columns = [f"feature_{number:04d}" for number in range(30)]
    table = cohort.table.copy()
    table[columns] = cohort.features
    names = {
        "nc": neurocontrast,
        "PCA": PCA,
        "SVC": SVC,
        "LogisticRegression": LogisticRegression,
        "StandardScaler": StandardScaler,
        "StratifiedGroupKFold": StratifiedGroupKFold,
        "make_pipeline": make_pipeline,
        "table": table,
        "feature_columns": columns,
        "model": LogisticRegression(),
        "X": table[columns],
        "y": table["diagnosis"],
    }
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == n_blocks
    for number, block in enumerate(blocks):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in ("EMB", "yaware", "simclr"):
            table.to_parquet(folder / f"{name}.parquet")
        monkeypatch.chdir(folder)
        exec(compile(block, f"{page}.md", "exec"), names)
