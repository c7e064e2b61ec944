"""A kernel from outside the package: one class, named in a configuration, checked, and trained with like any other."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import torch

import neurocontrast
from neurocontrast.config import as_config, build_objective, load_config
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.kernels import Categorical, ColumnKernel, ConditionalEmbedding, Missing
from neurocontrast.losses import FairCCLK, YAwareInfoNCE
from neurocontrast.settings import Positive, checked
from tests.commands.small_run import OF_MEASURES

AGES = torch.tensor([20.0, 25.0, 60.0])


class Window(ColumnKernel):
    """1 for equal values, falling on a line to 0 at a difference of `width`."""

    @checked
    def __init__(self, column: str, *, width: Positive = 10.0, missing: Missing = "error") -> None:
        super().__init__(column, missing=missing)
        self.width = width

    def weights(self, rows, cols, dtype):
        """The formula."""
        return (1 - (rows - cols.T).abs() / self.width).clamp(min=0).to(dtype)


class TooLarge(Window):
    """Weights of up to 2, with a supremum of 1."""

    def weights(self, rows, cols, dtype):
        return 2 * super().weights(rows, cols, dtype)


class Signed(Window):
    """Weights below 0, which the class denies."""

    def weights(self, rows, cols, dtype):
        return (1 - (rows - cols.T).abs() / self.width).clamp(min=-1).to(dtype)


class OneSided(Window):
    """Later scans are alike to earlier ones, and not the other way round."""

    def weights(self, rows, cols, dtype):
        return (rows >= cols.T).to(dtype)


class Undefined(Window):
    """NaN between unlike scans."""

    def weights(self, rows, cols, dtype):
        return super().weights(rows, cols, dtype).log().masked_fill(rows == cols.T, 1.0)


class Flat(Window):
    """A wrong shape."""

    def weights(self, rows, cols, dtype):
        return super().weights(rows, cols, dtype).flatten()


class NotDefinite(Window):
    """Says of itself that CCL-K cannot take it."""

    positive_semidefinite = False


class Ordinal(Categorical):
    """A class derived from Categorical, which is no partition: neighbouring codes are half alike."""

    def weights(self, rows, cols, dtype):
        return (1 - (rows - cols.T).abs() / 2).clamp(min=0).to(dtype)


def factor(kernel=Window, **keys):
    return [{"type": f"{__name__}:{kernel.__name__}", "column": "age", **keys}]


def configured(kernel, loss="yaware"):
    return as_config({"objective": {"loss": loss, "kernel": kernel}})


def test_a_configuration_builds_it_beside_other_factors():
    kernel = [*factor(width=10.0), {"type": "categorical", "column": "sex"}]
    config = configured(kernel)
    loss = build_objective(config.objective)
    assert isinstance(loss, YAwareInfoNCE)
    sex = torch.tensor([0, 0, 0])
    expected = torch.tensor([[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]])
    torch.testing.assert_close(loss.kernel({"age": AGES, "sex": sex}), expected)
    again = as_config(json.loads(json.dumps(config.model_dump(mode="json"))))
    assert again.objective == config.objective


def test_it_trains_and_travels_with_the_encoder(tmp_path):
    objective = {**OF_MEASURES["objective"], "kernel": factor(width=8.0, missing="marginal")}
    config = OF_MEASURES | {"objective": objective, "training": {"epochs": 1, "batch_size": 64}}
    run = neurocontrast.pretrain(config, out=tmp_path / "run")
    (recorded,) = json.loads((run / "encoder.json").read_text())["objective"]["kernel"]
    assert (recorded["type"], recorded["width"]) == (f"{__name__}:Window", 8.0)
    built = build_objective(load_config(run / "config.yaml").objective)
    assert isinstance(built.kernel, Window)
    assert pd.read_csv(run / "metrics.csv")["train_loss"].notna().all()


def test_a_formula_of_single_numbers_is_refused_on_vectors():
    message = r"Window on 'volumes': its formula fails on features of shape \(3, 2\)"
    with pytest.raises(DataError, match=message):
        Window("volumes").check({"volumes": torch.rand(3, 2)})


@pytest.mark.parametrize("missing", ["error", "marginal"])
def test_missing_values_are_as_for_every_kernel(missing):
    kernel = Window("age", missing=missing)
    column = {"age": torch.tensor([20.0, float("nan"), 25.0])}
    if missing == "error":
        with pytest.raises(DataError, match="Column 'age' is missing for 1 row: 1"):
            kernel.check(column)
    else:
        kernel.check(column)
        assert kernel(column)[1].tolist() == [0.5, 1.0, 0.5]


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            TooLarge,
            r"TooLarge on 'age': the weight 2 is above its supremum, 1 \(between 1 row: a\)",
        ),
        (Signed, r"Signed on 'age': the weight -1 is below 0, which nonnegative denies"),
        (OneSided, r"OneSided on 'age': the weight 0 is not symmetric \(between 2 rows: a, b"),
        (Undefined, r"Undefined on 'age': the weight -inf is not finite"),
        (Flat, r"Flat: its weights must be of shape \(3, 3\), found \(9,\)"),
    ],
)
def test_a_class_that_does_not_keep_its_word_is_refused_on_the_cohort(kernel, message):
    with pytest.raises(DataError, match=message):
        kernel("age").check({"age": AGES}, names=["a", "b", "c"], nonnegative=True)
    loss = YAwareInfoNCE(kernel("age") * Categorical("sex"))
    with pytest.raises(DataError, match=kernel.__name__):
        loss.check({"age": AGES, "sex": torch.tensor([0, 0, 1])})


def test_a_class_that_keeps_its_word_passes():
    Window("age").check({"age": AGES}, nonnegative=True)
    Ordinal("sex").check({"sex": torch.tensor([0, 1, 2])}, nonnegative=True)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"width": 0}, r"objective\.kernel\.0\.width: must be greater than 0, found 0\."),
        ({"widht": 1}, r"objective\.kernel\.0\.widht: unknown key\. Did you mean 'width'\?"),
        ({"missing": "no"}, r"objective\.kernel\.0\.missing: "),
    ],
)
def test_bad_values_are_refused_with_their_dotted_key(keys, message):
    with pytest.raises(ConfigError, match=message):
        configured(factor(**keys))


@pytest.mark.parametrize(
    "name",
    [
        "untouched:Window",
        f"{__name__}:Absent",
        f"{__name__}:AGES",
        f"{__name__}:Path",
        "neurocontrast.kernels:ColumnKernel",  # abstract
        "neurocontrast.kernels:Product",
        ":Window",
    ],
)
def test_a_name_that_is_no_kernel_is_refused_and_makes_nothing_be_imported(
    name, tmp_path, monkeypatch
):
    (tmp_path / "untouched.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        ConfigError, match=r"objective\.kernel\.0\.type: must be one of 'gaussian', .*, found"
    ) as refused:
        configured([{"type": name, "column": "age"}])
    if name == "untouched:Window":
        assert "found once the program has imported 'untouched'" in str(refused.value)


def test_ccl_k_refuses_what_is_not_definite_by_its_name():
    with pytest.raises(ConfigError, match=r"NotDefinite\('age'\) is none"):
        FairCCLK(NotDefinite("age"))


def test_a_class_derived_from_categorical_is_solved_and_not_taken_for_a_partition():
    column = {"sex": torch.tensor([0, 1, 2], dtype=torch.float64)}
    matrix = Ordinal("sex")(column)
    expected = torch.linalg.solve(matrix + 0.1 * torch.eye(3, dtype=matrix.dtype), matrix)
    found = ConditionalEmbedding(Ordinal("sex"), ridge=0.1)(column)
    torch.testing.assert_close(found, expected)


def test_the_kernel_of_the_page_is_what_it_says():
    page = (Path(neurocontrast.__file__).parents[1] / "docs" / "own_kernel.md").read_text()
    names = {"__name__": __name__}
    for snippet in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(snippet, "own_kernel.md", "exec"), names)
    assert names["weights"].tolist() == [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    (recipe,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    assert "my_kernels:Window" in recipe
