"""A new augmentation is one new file and one line of the registry."""

from __future__ import annotations

import doctest
import subprocess
import sys

import pytest

from neurocontrast import transforms
from neurocontrast.transforms import as_transform
from neurocontrast.transforms.operation import OPERATIONS, operation_called

OPERATION = '''
from pydantic import Field

from neurocontrast.transforms.operation import Operation


class Dim(Operation):
    """Take a part of the brain's signal away."""

    stage = "scanner"
    share: float = Field(0.1, ge=0.0, lt=1.0)

    def draw(self, random):
        return {"kept": 1.0 - self.share * random.random_sample()}

    def change(self, s_CDHW, *, kept):
        return s_CDHW * kept
'''
PROGRAM = """
import sys
from neurocontrast.transforms.operation import OPERATIONS

OPERATIONS["dim"] = "dim_the_lights:Dim"

from neurocontrast.transforms import AugmentSettings

AugmentSettings.model_validate({"dim": {"share": 0.5}})
print("torch" in sys.modules)

from neurocontrast.config import load_config
from neurocontrast.exceptions import ConfigError

config = load_config(overrides=["augment.dim.probability=1.0", "augment.dim.share=0.5"])
for wrong in ("augment.dim.share=1.5", "augment.dim.shar=0.5"):
    try:
        load_config(overrides=[wrong])
    except ConfigError as error:
        print(str(error).splitlines()[-1].strip())

import torch
from neurocontrast.transforms import brain_views

views = brain_views(config.augment)
print([type(each).__name__ for each in views.transforms])
volume = torch.rand(1, 12, 12, 12)
view = views.set_random_state(seed=0)({"image": volume})["image"]
print(view.shape == volume.shape, torch.equal(view, volume))
"""


def test_an_operation_from_outside_the_package_is_a_key_of_the_configuration_and_part_of_a_view(tmp_path):
    (tmp_path / "dim_the_lights.py").write_text(OPERATION)
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loads_torch, share, unknown, names, changed = done.stdout.splitlines()
    assert "augment.dim.share" in share
    assert "less than 1" in share
    assert "1.5" in share
    assert "augment.dim.shar" in unknown
    assert "'share'" in unknown
    assert loads_torch == "False"
    assert names == "['ToSignald', 'RandDimd', 'FromSignald', 'RandBlurd', 'RandNoised', 'RandCutoutd']"
    assert changed == "True False"


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_documentation_of_an_operations_transform_has_its_ranges_and_an_example_that_runs(name):
    operation = operation_called(name)
    made = as_transform(operation)
    assert all(f"\n{setting} : " in made.__doc__ for setting in operation.model_fields if setting != "probability")
    if hasattr(transforms, made.__name__):
        (example,) = doctest.DocTestFinder(recurse=False).find(made, globs={})
        assert doctest.DocTestRunner().run(example).failed == 0
