import re
from pathlib import Path

import pytest

from neurocontrast.config import Config, as_config, differences, load_config, write_config
from neurocontrast.exceptions import ConfigError

KERNEL = "[{column: age, type: gaussian, sigma: 5}, {column: sex, type: categorical}]"


def refusal(*overrides, text="", tmp_path=None):
    path = None
    if text:
        path = tmp_path / "given.yaml"
        path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(path, overrides)
    return str(caught.value)


def test_defaults_are_the_house_s_own():
    config = load_config()
    assert config == Config()
    assert config.seed == 0
    assert config.data.shape == (121, 145, 121)
    assert config.encoder.projection == (512, 128)
    assert (config.training.epochs, config.training.batch_size) == (50, 64)
    assert (config.training.learning_rate, config.training.weight_decay) == (1e-4, 5e-5)
    assert [factor.column for factor in config.objective.kernel] == ["age", "sex"]


def test_file_then_overrides(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("seed: 3\ntraining: {epochs: 7, learning_rate: 1e-3}\naugment: {noise: null}\n")
    config = load_config(
        path, ["training.epochs=9", "data.shape=[32, 36,32]", "augment.flip.probability=0.25"]
    )
    assert config.seed == 3
    assert config.training.epochs == 9
    assert config.training.learning_rate == 1e-3
    assert config.data.shape == (32, 36, 32)
    assert config.augment.noise is None
    assert config.augment.flip.probability == 0.25


def test_words_stay_words_and_floats_are_floats():
    rates = ("1e-4", "0.0001", "+1E-4", ".1e-3", "1.e-4")
    assert {
        load_config(None, [f"training.learning_rate={each}"]).training.learning_rate
        for each in rates
    } == {1e-4}
    where = load_config(
        overrides=["data.where={site: [no, 01, 1_0, 12:30, 2020-01-01, on, 0x1]}"]
    ).data.where
    assert where == {"site": ("no", "01", "1_0", "12:30", "2020-01-01", "on", "0x1")}


def test_list_items_and_whole_sections_can_be_overridden(tmp_path):
    path = tmp_path / "c.yaml"
    text = f"objective: {{loss: yaware, kernel: {KERNEL}}}\n"
    path.write_text(text)
    assert (
        load_config(path, ["objective.kernel.0.sigma=scott"]).objective.kernel[0].sigma == "scott"
    )
    assert load_config(path, ["objective={loss: ntxent}"]).objective.loss == "ntxent"
    assert load_config(None, ["objective.kernel.0.sigma=3"]).objective.kernel[0].sigma == 3.0
    said = refusal("objective.kernel.2.sigma=3", text=text, tmp_path=tmp_path)
    assert "must be a position in a list of 2" in said


def test_changing_the_loss_alone_says_how():
    found = refusal("objective.loss=ntxent")
    assert "objective.kernel: unknown key. Allowed keys: 'loss', 'temperature'." in found
    assert found.endswith(
        "replace the whole section, for instance --set 'objective={loss: ntxent}'."
    )


def test_empty_file_and_empty_section_are_the_defaults(tmp_path):
    (tmp_path / "c.yaml").write_text("# nothing yet\ntraining:\n  # epochs: 3\n")
    assert load_config(tmp_path / "c.yaml") == Config()
    (tmp_path / "d.yaml").write_text("")
    assert load_config(tmp_path / "d.yaml") == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "seed: 1\ntraining: {epochs: 2\n",
            r"not valid YAML: line 3, column 1: .*expected ',' or '}'",
        ),
        ("seed: 1\nseed: 2\n", r"line 2, column 1: key 'seed' is given twice \(first in line 1\)"),
        ("hello\n", r"must hold sections .*, found 'hello'"),
        ("1: 2\n", r"line 1, column 1: a key must be text, found 1"),
        (
            "seed: !!python/object/apply:os.getcwd []\n",
            "line 1, column 7: could not determine a constr",
        ),
    ],
)
def test_broken_yaml_is_refused_with_its_line(tmp_path, text, message):
    found = refusal(text=text, tmp_path=tmp_path)
    assert "given.yaml: " in found
    assert re.search(message, found)


YAWARE = "objective={loss: yaware, kernel: [{column: age, type:"
SUM = "objective={loss: sum, objectives: {learn: {loss: ntxent"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["training.epoch=1"],
            "training.epoch: unknown key. Did you mean 'epochs'? Allowed keys: 'epochs', ",
        ),
        (
            ["trainig.epochs=1"],
            "trainig: unknown key. Did you mean 'training'? Allowed keys: 'seed', 'data'",
        ),
        (["training.epochs=-1"], "training.epochs: must be greater than or equal to 0, found -1."),
        (
            ["training.learning_rate=.inf"],
            "training.learning_rate: must be a finite number, found inf.",
        ),
        (
            ["training.optimizer=adma"],
            "must be 'adam', 'adamw', 'sgd' or 'lars', found 'adma'. Did you mean 'adam'",
        ),
        (
            ["data=5"],
            "data: must be a section of keys and values, found 5. Allowed keys: 'participants', 'where'",
        ),
        (
            ["data.kind=imags"],
            "must be one of 'volumes', 'images', 'measures', found 'imags'. Did you mean 'images'?",
        ),
        (["data.shape=[7,9,9]"], "data.shape.0: must be greater than or equal to 8, found 7."),
        (
            ["data.where={site: {nto: [a]}}"],
            "data.where.site: the only operator is not, as in {not: [...]}, got",
        ),
        (
            ["data.kind=images", "data.vectors={a: 3}"],
            "data.vectors.a: must be a list of columns, or the path of",
        ),
        (
            ["augment.kind=images"],
            "augment.kind: must be that of the images, 'volumes' (data.kind), found 'images'.",
        ),
        (
            ["augment.blur.sigma_voxels=[1,0.5]"],
            "augment.blur.sigma_voxels: a range is [lowest, highest].",
        ),
        (["data.kind=images", "augment.rician={}"], "augment.rician: unknown key."),
        (["encoder.name=resnt18"], "'lenet5' or 'mlp', found 'resnt18'. Did you mean 'resnet18'?"),
        (
            ["evaluation.where={site: null}"],
            "evaluation.where.site: must be a value, a list of values, or {not",
        ),
        (["=3"], "--set =3: must be dotted.key=value"),
        (["seed=["], "--set seed=[: not valid YAML"),
        (
            ["augment=[flip]"],
            "augment: must be a section of keys and values, found ['flip']. Allowed keys: 'transforms', ",
        ),
        (
            ["objective={temperature: 1}"],
            "must be a section with the key 'loss', which is one of 'infonce', 'ntxent'",
        ),
        (["objective={loss: ntxnt}"], "found 'ntxnt'. Did you mean 'ntxent'?"),
        ([YAWARE + " gausian}]}"], "found 'gausian'. Did you mean 'gaussian'?"),
        ([YAWARE + " gaussian}]}"], "objective.kernel.0.sigma: missing."),
        (
            [YAWARE + " gaussian, sigma: 0}]}"],
            "0.sigma: must be a number above 0 (a standard deviation), 'scott' or",
        ),
        ([SUM + ", label: a}}}"], "learn.label: unknown key. Allowed keys: "),
        (
            [SUM + "}}, weights: {lern: 1}}"],
            "by the objectives' names, 'learn', got 'lern'. Did you mean 'learn'?",
        ),
    ],
)
def test_each_mistake_is_named_in_one_line(overrides, message):
    found = refusal(*overrides)
    assert message in found
    assert "\n" not in found


def test_all_problems_are_told_together(tmp_path):
    text = "seed: -2\ndata: {normalise: z-score}\n"
    first, *lines = refusal(
        "training.epochs=-1", "encoder.nme=x", text=text, tmp_path=tmp_path
    ).splitlines()
    assert first.endswith("given.yaml with --set: 4 problems")
    keys = ["seed", "data.normalise", "encoder.nme", "training.epochs"]
    assert [line.strip().split(":")[0] for line in lines] == keys
    assert "Did you mean 'zscore'?" in lines[1]


def test_resolved_configuration_is_read_back_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = load_config(
        overrides=[
            "data.participants=a/b.tsv",
            "objective.loss=yaware",
            f"objective.kernel={KERNEL}",
        ]
    )
    write_config(tmp_path / "config.yaml", config)
    again = load_config(tmp_path / "config.yaml")
    assert again.data.participants == tmp_path / "a/b.tsv"
    assert differences(config, again) == []


def test_differences_are_named_by_dotted_key():
    old = load_config()
    new = load_config(overrides=["training.epochs=3", "augment.blur=null", "data.n_workers=7"])
    found = differences(old, new, ignore=["data"])
    assert "training.epochs: was 50, is 3" in found
    assert any(line.startswith("augment.blur") for line in found)
    assert not any(line.startswith("data") for line in found)


def test_mapping_and_path_are_configurations_too(tmp_path):
    config = as_config({"seed": 4, "data": {"participants": Path("x.tsv"), "shape": (32, 36, 32)}})
    assert config.data.participants == Path("x.tsv")
    assert as_config(config) is config
    (tmp_path / "c.yaml").write_text("seed: 5")
    assert as_config(tmp_path / "c.yaml").seed == 5
    with pytest.raises(
        ConfigError, match=r"configuration: training\.epochs: must be a valid integer, found 'x'"
    ):
        as_config({"training": {"epochs": "x"}})


def test_what_follows_from_images_need_not_be_said(tmp_path):
    config = load_config(None, ["data.kind=images"])
    assert (config.augment.kind, config.encoder.name, config.objective.loss) == (
        "images",
        "resnet18",
        "ntxent",
    )
    assert config.training.probe_columns == ("label",)
    said = [
        "data.kind=images",
        "encoder.name=lenet5",
        "augment.flip=null",
        "training.probe_columns=[cluster]",
    ]
    config = load_config(None, [*said, "objective={loss: supcon, label: cluster}"])
    assert (config.encoder.name, config.objective.label) == ("lenet5", "cluster")
    assert config.training.probe_columns == ("cluster",)
    assert config.augment.flip is None
    assert (
        load_config(None, ["objective.temperature=0.2", "data.kind=images"]).objective.loss
        == "ntxent"
    )
    vectors = "{rgb: [red, green], clip: vectors/clip.parquet}"
    table = f"data.participants={tmp_path / 'p.tsv'}"
    config = load_config(None, ["data.kind=images", f"data.vectors={vectors}", table])
    assert config.data.vectors == {"rgb": ("red", "green"), "clip": "vectors/clip.parquet"}
    write_config(tmp_path / "c.yaml", config)
    assert load_config(tmp_path / "c.yaml") == config


@pytest.mark.parametrize(
    "text",
    ["a: !!bool x", "a: !!timestamp x", "a: \x00", "a: " + "[" * 50_000, "a: !!int " + "9" * 5_000],
)
def test_yaml_that_cannot_be_read_is_one_sentence(tmp_path, text):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"x\.yaml: not valid YAML: [^\n]*\.$"):
        load_config(tmp_path / "x.yaml")
