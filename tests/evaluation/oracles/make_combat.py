"""Write combat.json: what neuroHarmonize makes of a small cohort. README.md in this folder says how to run it."""

import json
from importlib.metadata import version
from pathlib import Path

import neuroHarmonize
import numpy as np
import pandas as pd
from neuroCombat.neuroCombat import it_sol

generator = np.random.default_rng(20)
N = 48
P = 7
sites = np.array(["london", "paris", "rome"])[np.repeat([0, 1, 2], [20, 16, 12])]
age = np.round(generator.uniform(20, 80, N), 2)
sex = generator.integers(0, 2, N).astype(float)
shifts = {"london": 0.0, "paris": 1.5, "rome": -2.0}
spreads = {"london": 1.0, "paris": 2.0, "rome": 0.6}
x = generator.normal(size=(N, P)) * [[spreads[site]] for site in sites] + [
    [shifts[site]] for site in sites
]
x = np.round(
    x + np.outer(age / 10, generator.normal(size=P)) + np.outer(sex, generator.normal(size=P)) + 5,
    4,
)
train = np.arange(N) % 4 != 3  # the others are only applied to


def harmonise(columns: dict[str, np.ndarray]) -> dict[str, list]:
    table = pd.DataFrame({"SITE": sites, **columns})
    fitted, adjusted = neuroHarmonize.harmonizationLearn(x[train], table[train])
    rest = neuroHarmonize.harmonizationApply(x[~train], table[~train], fitted)
    return {"train": adjusted.tolist(), "test": rest.tolist()}


found = {}
for rule, tolerance in (("as_released", 1e-4), ("tightened", 1e-13)):
    it_sol.__defaults__ = (tolerance,)
    found[rule] = {"alone": harmonise({}), "age_sex": harmonise({"AGE": age, "SEX": sex})}
made = {
    "made_by": {name: version(name) for name in ("neuroHarmonize", "neuroCombat", "numpy")},
    "x": x.tolist(), "sites": sites.tolist(), "age": age.tolist(), "sex": sex.tolist(), "train": train.tolist(),
    "harmonised": found,
}  # fmt: skip
(Path(__file__).parent / "combat.json").write_text(json.dumps(made) + "\n", encoding="utf-8")
