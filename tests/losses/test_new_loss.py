"""A loss from outside the package: one class, whose keys a configuration checks, and that trains like any other."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import torch

import neurocontrast
from neurocontrast.config import as_config, build_objective, load_config
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels.factors import KernelLike
from neurocontrast.losses import Objective
from neurocontrast.losses.core import Pool
from neurocontrast.settings import Positive, checked

NAME = f"{__name__}:Attraction"
KERNEL = [{"column": "age", "type": "gaussian", "sigma": 5.0}]


class Attraction(Objective):
    """The weighted similarity alone, to some power."""

    title = "attraction"
    citation = "Doe J. Attraction is all there is. 2026."

    @checked
    def __init__(self, kernel: KernelLike, *, power: Positive = 1.0) -> None:
        super().__init__(kernel=kernel)
        self.power = power

    def parts(self, pool: Pool) -> dict[str, torch.Tensor]:
        """The one part."""
        (similarity,) = pool.each_anchor(lambda pairs: (pairs.mean(pairs.weights(self.kernel)),))
        return {"attraction": -self.power * pool.mean(similarity)}


def test_a_configuration_builds_it():
    config = as_config({"objective": {"loss": NAME, "kernel": KERNEL, "power": 2.0}})
    loss = build_objective(config.objective)
    assert isinstance(loss, Attraction)
    assert (loss.power, loss.columns) == (2.0, {"age": "continuous"})
    z = torch.eye(2)
    assert loss(z, z, {"age": torch.tensor([20.0, 60.0])}).item() == pytest.approx(-2.0)


def test_it_trains_and_travels_with_the_encoder(tmp_path):
    table = neurocontrast.simulate(tmp_path / "scans", n_subjects=8, n_sites=1, spacing_mm=8.0)
    config = {
        "data": {
            "participants": str(table),
            "spacing_mm": 12.0,
            "shape": [14, 17, 14],
            "val_fraction": 0.0,
        },
        "encoder": {"name": "lenet"},
        "objective": {"loss": NAME, "kernel": KERNEL, "power": 2.0},
        "training": {"epochs": 1, "batch_size": 4, "probe_every": 0},
    }
    run = neurocontrast.pretrain(config, out=tmp_path / "run")
    recorded = json.loads((run / "encoder.json").read_text())["objective"]
    assert (recorded["title"], recorded["citation"]) == (Attraction.title, Attraction.citation)
    assert isinstance(build_objective(load_config(run / "config.yaml").objective), Attraction)
    (row,) = pd.read_csv(run / "metrics.csv").to_dict("records")
    assert row["train_loss"] == pytest.approx(row["train_term_attraction"])
    assert -2.0 <= row["train_loss"] < 0


def test_the_losses_of_the_page_are_what_they_say():
    page = (Path(neurocontrast.__file__).parents[1] / "docs" / "losses.md").read_text()
    names = {"__name__": __name__}
    for snippet in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(snippet, "losses.md", "exec"), names)
    loss = names["AgeGap"]("age")
    z = torch.eye(3)
    years = torch.tensor([20.0, 30.0, 60.0])
    z[2] = z[0]
    assert loss(z, None, {"age": years}).item() == pytest.approx(2 * 40 / 0.1 / 3 / 2)
    assert loss(z, None, {"age": years}, reduction="none").tolist() == [
        pytest.approx([200.0, 0.0, 200.0])
    ]
    assert loss.columns == {"age": "continuous"}
    with pytest.raises(DataError, match="'age' is missing or infinite for 1 row: 1"):
        loss.check({"age": [20.0, None, 60.0]})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"kernel": KERNEL, "power": 0}, r"objective\.power: must be greater than 0, found 0\."),
        ({}, r"objective\.kernel: missing\."),
        ({"kernel": KERNEL, "powr": 1}, r"objective\.powr: unknown key\. Did you mean 'power'\?"),
        (
            {"kernel": [{"column": "age"}]},
            r"objective\.kernel\.0: must be a section with the key 'type'",
        ),
    ],
)
def test_bad_values_are_refused_with_their_dotted_key(keys, message):
    with pytest.raises(ConfigError, match=message):
        as_config({"objective": {"loss": NAME, **keys}})


def test_a_file_makes_no_module_be_imported(tmp_path):
    (tmp_path / "untouched.py").write_text("raise SystemExit('imported')")
    (tmp_path / "c.yaml").write_text("objective: {loss: 'untouched:Loss'}")
    with pytest.raises(
        ConfigError, match=r"objective\.loss: must be one of 'infonce', .*, found 'untouched:Loss'"
    ):
        load_config(tmp_path / "c.yaml")
