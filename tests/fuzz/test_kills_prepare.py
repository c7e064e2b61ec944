"""`prepare`, killed at any file that it writes: the next call ends with the bytes of an unkilled one."""

import shutil

import nibabel as nib
import pandas as pd
import pytest

pytest.importorskip("SimpleITK")

from neurocontrast.commands.prepare import prepare
from tests.fuzz import kills
from tests.prepare.test_records import contents, write_study

pytestmark = pytest.mark.slow

N_KILLS = 4
FAST = {"spacing_mm": 8.0, "bias": False, "registration": False, "n_workers": 0}
OTHER = FAST | {"spacing_mm": 7.0, "imitations": 1}


def call(name, paths, options, kill_at=0):
    """Call a stage; files count that are written beside its output."""
    return kills.call(
        f"neurocontrast.commands.{name}", name, paths, options, paths[1].parent, kill_at
    )


def assert_table_is_true(out):
    """Assert that a table, where there is one, names whole images of one recipe."""
    if (out / "participants.tsv").exists():
        table = pd.read_csv(out / "participants.tsv", sep="\t")
        shapes = {
            nib.load(out / path).get_fdata().shape
            for name in ("path", "gm", "wm", "csf")
            for path in table[name]
        }
        assert len(table) == 2
        assert len(shapes) == 1


def test_prepare_killed_while_another_recipe_takes_the_place_of_the_first(tmp_path):
    brains = write_study(tmp_path / "study")
    first, second = (tmp_path / name / "out" for name in ("first", "second"))
    prepare(brains, first, **FAST)
    shutil.copytree(first, second)
    n_written = call("prepare", (brains, second), OTHER)
    for at in kills.spread(n_written, N_KILLS):
        out = tmp_path / f"killed-{at}" / "out"
        shutil.copytree(first, out)
        call("prepare", (brains, out), OTHER, kill_at=at)
        assert_table_is_true(out)
        back = shutil.copytree(out, out.parent / "back")
        prepare(brains, out, **OTHER)
        assert contents(out) == contents(second)
        prepare(brains, back, **FAST)
        assert contents(back) == contents(first)
