"""Maps of an evaluation: a difference planted in one place is found there."""

import json
import shutil
from html import unescape

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
import torch
from small_run import FASTEST, Listening, people_of, read_json

import neurocontrast as nc
from neurocontrast.documents.encoder import EncoderDescription
from neurocontrast.encoders import EncoderSettings, build_encoder, save_encoder
from neurocontrast.encoders.encoder import LinearComponents
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.progress import SILENT
from neurocontrast.provenance import subject_digest
from neurocontrast.reporting.sections.brain import inside_brain
from neurocontrast.transforms import Preprocessing
from tests.cli.conftest import refused

SHAPE = (18, 20, 18)
AFFINE = np.array([[8.0, 0, 0, -68], [0, 8, 0, -92], [0, 0, 8, -60], [0, 0, 0, 1]])
PLACE = (12, 6, 11)
PLACE_MM = nib.affines.apply_affine(AFFINE, PLACE)
FAST = FASTEST | {"n_folds": 3, "C": (1.0,)}
CODE = {"control": 0.0, "patient": 3.0, "relative": -2.0}


def _write_scans(folder, *, classes, n=24, code=4, shift=None):
    grid = np.stack(np.meshgrid(*map(np.arange, SHAPE), indexing="ij"), axis=-1)
    head = ((grid - np.array(SHAPE) / 2) ** 2).sum(axis=-1) < 70
    blob = np.exp(-((grid - PLACE) ** 2).sum(axis=-1) / 3)
    rows = []
    for number in range(n):
        name = classes[number % len(classes)]
        generator = np.random.default_rng(number)
        voxels = head * (4 + generator.normal(0, 0.3, SHAPE)) + CODE[name] * blob
        affine = AFFINE.copy()
        affine[0, 3] += shift * number if shift else 0
        image = nib.Nifti1Image(voxels.astype(np.float32), affine)
        image.set_sform(affine, code=code)
        image.set_qform(affine, code=code)
        image.header["descrip"] = b"Erika Mustermann"
        nib.save(image, folder / f"{number}.nii.gz")
        person = {
            "participant_id": f"sub-{number:02d}",
            "path": f"{number}.nii.gz",
            "age": 30.0 + number,
        }
        site = "paris" if number % 4 < 2 else "rome"
        rows.append({**person, "sex": "FM"[number // 2 % 2], "site": site, "diagnosis": name})
    pd.DataFrame(rows).to_csv(folder / "participants.tsv", sep="\t", index=False)
    return folder / "participants.tsv"


def _write_run(folder, *, seed=0, spacing_mm=8.0, beside=False):
    folder.mkdir()
    settings = EncoderSettings(name="lenet", beside={"n_components": 3} if beside else None)
    encoder = build_encoder(settings, seed=seed)
    preprocessing = Preprocessing(spacing_mm=spacing_mm, shape=SHAPE, normalise="none")
    contract = {"preprocessing": preprocessing.contract(), "cache_dtype": "float32"}
    if beside:
        encoder.beside = _components()
        contract["beside"] = {"name": "pca", "n_components": 3, "n_voxels": np.prod(SHAPE).item()}
    save_encoder(folder, encoder, EncoderDescription.model_validate(contract))
    return folder


def _components():
    """Return three components, of which the first looks at the planted place alone."""
    n_voxels = np.prod(SHAPE).item()
    components = torch.zeros(3, n_voxels)
    components[0, np.ravel_multi_index(PLACE, SHAPE)] = 1.0
    components[1, ::2] = 0.01
    components[2, ::3] = 0.01
    fitted = LinearComponents(3, n_voxels)
    fitted.set_components(torch.arange(n_voxels), torch.zeros(n_voxels), components)
    return fitted


class Study:
    """Scans, an untrained encoder, embeddings and an evaluation of them."""

    def __init__(
        self,
        folder,
        *,
        target="diagnosis",
        classes=("control", "patient"),
        beside=False,
        **scans,
    ):
        folder.mkdir(parents=True, exist_ok=True)
        self.config = {"data": {"cache_dir": str(folder / "cache"), "n_workers": 1}}
        self.table = _write_scans(folder, classes=classes, **scans)
        self.run = _write_run(folder / "run", beside=beside)
        made = nc.embed(
            self.run, participants=self.table, out=folder / "emb.parquet", config=self.config
        )
        self.evaluation = nc.evaluate(made, target=target, out=folder / "evaluation", **FAST)

    def explain(self, out, *, run=None, participants=None, progress=None, **explanation):
        settings = {"accelerator": "cpu", "patch_mm": 24, "n_subjects": 12, **explanation}
        given = {
            "run": run or self.run,
            "participants": participants or self.table,
            "progress": progress or SILENT,
        }
        return nc.explain(
            self.evaluation, out=out, config={**self.config, "explanation": settings}, **given
        )


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    return Study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def explained(study):
    return study.explain(None)


def _about(folder):
    return read_json(folder / "explain.json")


def _distance(about):
    peak = about["top_regions"][0]
    return np.linalg.norm(np.array([peak[axis] for axis in "xyz"]) - PLACE_MM)


def test_a_planted_difference_is_found_where_it_is(explained):
    about = _about(explained)
    assert _distance(about) <= 16  # two voxels
    assert about["top_regions"][0]["value"] > 0.1  # of the differences between their scores
    assert about["top_regions"][0]["region"].startswith("right ")
    classes = {"control": 6, "patient": 6}
    assert (about["template"], about["n_of_class"], about["warnings"]) == ("MNI152", classes, [])
    image = nib.load(explained / "saliency.nii.gz")
    places = [[each[axis] for axis in "xyz"] for each in about["top_regions"]]
    voxels = nib.affines.apply_affine(np.linalg.inv(image.affine), places).round().astype(int)
    assert inside_brain(image)[tuple(voxels.T)].all()
    peak = np.unravel_index(image.get_fdata().argmax(), image.shape)
    assert np.linalg.norm(nib.affines.apply_affine(image.affine, peak) - PLACE_MM) <= 16
    np.testing.assert_allclose(image.affine, AFFINE)
    assert (image.shape, int(image.header["sform_code"])) == (SHAPE, 4)
    assert b"Mustermann" not in image.header.binaryblock


@pytest.mark.usefixtures("blank_figures")
@pytest.mark.slow
def test_each_block_of_an_encoder_has_a_map_and_the_report_shows_them(tmp_path):
    study = Study(tmp_path / "study", beside=True)
    folder = study.explain(None)
    blocks = _about(folder)["blocks"]
    assert [block["name"] for block in blocks] == ["network", "components"]
    assert sum(block["share"] for block in blocks) == pytest.approx(1)
    maps = [nib.load(folder / block["map"]) for block in blocks]
    whole = nib.load(folder / "saliency.nii.gz")
    np.testing.assert_allclose(
        maps[0].get_fdata() + maps[1].get_fdata(), whole.get_fdata(), atol=1e-5
    )
    peak = np.unravel_index(maps[1].get_fdata().argmax(), SHAPE)
    assert np.linalg.norm(nib.affines.apply_affine(AFFINE, peak) - PLACE_MM) <= 16
    for image in maps:
        assert b"Mustermann" not in image.header.binaryblock
    page = unescape(nc.report(study.evaluation).read_text())
    assert "Share of the differences by the network" in page
    assert "The map of the components, which carry" in page
    (folder / blocks[0]["map"]).write_bytes(b"nothing")
    damaged = unescape(nc.report(study.evaluation).read_text())
    assert "Not shown: the map saliency_network.nii.gz" in damaged
    (folder / blocks[0]["map"]).unlink()
    with pytest.raises(DataError, match="the map of the block 'network' is missing"):
        nc.report(study.evaluation)


def test_subjects_are_summarised_without_their_names(explained, study):
    table = pd.read_csv(explained / "saliency.tsv", sep="\t")
    assert list(table.columns) == ["subject", "y_true", "score"]
    names = {subject_digest(f"sub-{number:02d}")[:12] for number in range(24)}
    assert set(table["subject"]) <= names
    assert table["subject"].is_unique
    for path in explained.iterdir():
        assert b"sub-" not in path.read_bytes()
    by_class = table.groupby("y_true")["score"].mean()
    assert by_class["patient"] > by_class["control"]


def test_a_number_is_explained_over_its_whole_range(tmp_path):
    study = Study(tmp_path / "age", target="age")
    folder = study.explain(tmp_path / "map", n_subjects=5)
    about = _about(folder)
    table = pd.read_csv(folder / "saliency.tsv", sep="\t")
    assert about["positive"] is None
    assert about["n_of_class"] is None
    assert about["score"] == "predicted value"
    assert (table["y_true"].min(), table["y_true"].max()) == (30, 53)


def test_of_several_classes_one_is_named(tmp_path):
    study = Study(tmp_path / "three", classes=("control", "patient", "relative"), n=30)
    with pytest.raises(
        ConfigError, match=r"explanation\.positive: missing; of several classes one must be named"
    ):
        study.explain(tmp_path / "map")
    with pytest.raises(ConfigError, match="Did you mean 'relative'"):
        study.explain(tmp_path / "map", positive="relatve")
    about = _about(study.explain(tmp_path / "map", positive="relative"))
    assert about["n_of_class"] == {"control": 4, "patient": 4, "relative": 4}
    assert _distance(about) <= 16


def test_scans_in_a_space_of_their_own_are_told(tmp_path):
    study = Study(tmp_path / "native", code=1, shift=5.0)
    told = Listening()
    about = _about(study.explain(tmp_path / "map", progress=told))
    assert about["template"] is None
    assert about["top_regions"][0]["region"] is None
    assert [warning.split(":")[0] for warning in told.warned] == [
        "the scans do not lie in one space",
        "the headers do not say that the scans are in the space of MNI152 (sform code 4), so the coordinates of the "
        "map may not be those of the template.",
    ]
    assert about["warnings"] == told.warned


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("head", r"after the projection head \(embedding\.layer: head\)"),
        ("read out at blocks [2, 3] grid [1, 1, 2]", r"embeddings read out at blocks \[2, 3\]"),
    ],
)
def test_a_probe_of_other_features_of_the_encoder_is_refused(study, tmp_path, how, said):
    # Another test of this study may have left a map beside the evaluation.
    evaluation = shutil.copytree(
        study.evaluation, tmp_path / "evaluation", ignore=lambda *_: ["explanation"]
    )
    described = read_json(evaluation / "probe" / "probe.json")
    described["encoder"] += f", {how}"
    (evaluation / "probe" / "probe.json").write_text(json.dumps(described))
    with pytest.raises(DataError, match=said):
        nc.explain(
            evaluation, run=study.run, participants=study.table, out=None, config=study.config
        )


def test_run_and_table_are_found_near_the_evaluation(study, tmp_path):
    settings = {
        **study.config,
        "explanation": {"accelerator": "cpu", "patch_mm": 60, "n_subjects": 2},
    }
    about = _about(nc.explain(study.evaluation, out=tmp_path / "map", config=settings))
    assert about["encoder"] == read_json(study.run / "encoder.json")["weights"]["sha256"]
    moved = shutil.copytree(
        study.evaluation, tmp_path / "far" / "away", ignore=lambda *_: ["explanation"]
    )
    with pytest.raises(ConfigError, match=r"no run near .* has it\. Give the run: run=RUN"):
        nc.explain(moved, config=settings)
    # Images of the same people that were not embedded, as raw heads are.
    table = people_of(study.table)
    table.assign(path=[*table["path"][::-1]]).to_csv(
        moved.parent / "participants.tsv", sep="\t", index=False
    )
    with pytest.raises(ConfigError, match=r"no 'participants\.tsv' near .* as they were embedded"):
        nc.explain(moved, run=study.run, config=settings)


def test_another_encoder_and_lacking_scans_are_refused(study, tmp_path):
    people_of(study.table).iloc[2:].to_csv(tmp_path / "fewer.tsv", sep="\t", index=False)
    with pytest.raises(
        DataError, match=r"fewer\.tsv: 2 of 24 evaluated scans are not in it: sub-00, sub-01"
    ):
        study.explain(tmp_path / "map", participants=tmp_path / "fewer.tsv")
    other = _write_run(tmp_path / "other", seed=1)
    with pytest.raises(DataError, match="Give the run whose embeddings were evaluated"):
        study.explain(tmp_path / "map", run=other)
    assert not (tmp_path / "map").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "explanation.method=gradient"], "explanation.method"),
        (["--n-subjects", "1"], "explanation.n_subjects"),
        (["--patch-mm", "3"], "smaller than a voxel"),
        (["--positive", "case"], "explanation.positive: must be 'patient'"),
    ],
)
def test_wrong_arguments_end_with_2_and_leave_nothing(study, tmp_path, capsys, arguments, said):
    given = [
        "explain",
        study.evaluation,
        "--run",
        study.run,
        "--participants",
        study.table,
        "--out",
        tmp_path / "map",
    ]
    cache = ["--set", f"data.cache_dir={study.config['data']['cache_dir']}"]
    refused([*given, *cache, *arguments], capsys, said)
    assert not (tmp_path / "map").exists()


def test_an_evaluation_of_some_of_the_embedded_scans_finds_its_table(study, tmp_path):
    config = {**study.config, "embedding": {"where": {"site": ["paris"]}}}
    embeddings = nc.embed(
        study.run, participants=study.table, out=tmp_path / "e.parquet", config=config
    )
    options = {**FAST, "where": {"sex": ["F"]}}
    evaluation = nc.evaluate(embeddings, target="diagnosis", out=tmp_path / "evaluation", **options)
    settings = {"accelerator": "cpu", "patch_mm": 24, "n_subjects": 4}
    config = {**study.config, "explanation": settings}
    folder = nc.explain(evaluation, run=study.run, config=config, images_root=study.table.parent)
    explained = set(pd.read_csv(folder / "saliency.tsv", sep="\t")["subject"])
    table = pd.read_csv(study.table, sep="\t")
    women = table[(table["sex"] == "F") & (table["site"] == "paris")]["participant_id"]
    assert explained <= {subject_digest(name)[:12] for name in women}
