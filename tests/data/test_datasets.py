"""A cohort among MONAI's datasets and loaders: items, caching, and what may not be kept."""

import numpy as np
import pytest
import torch
from monai.data import DataLoader, Dataset, MetaTensor
from monai.transforms import Compose, Lambdad, MapTransform, RandFlipd, Transform

from neurocontrast.data import CohortDataset, read_cohort
from neurocontrast.data.batches import read_batches
from neurocontrast.exceptions import DataError
from neurocontrast.kernels import Categorical, Gaussian
from neurocontrast.losses import YAwareInfoNCE
from neurocontrast.transforms import LoadScand, Preprocessing, brain_transforms, load_volume

SETTINGS = {"spacing_mm": 2.5, "shape": (20, 22, 16)}
CALLS = []


class Count(MapTransform):
    """A transform of a user's own that notes its calls."""

    def __init__(self, keys, factor=1.0):
        super().__init__(keys)
        self.factor = factor

    def __call__(self, data):
        CALLS.append(self.factor)
        return {**data, "image": data["image"] * self.factor}


@pytest.fixture
def cohort(brain, write_nifti, write_table):
    CALLS.clear()
    for i in range(4):
        write_nifti(np.roll(brain, i, axis=0), f"s{i}.nii.gz", axes="LPS")
    rows = (
        "s0\t34.2\tF\tlondon\ts0.nii.gz",
        "s1\tn/a\tM\tn/a\ts1.nii.gz",
        "s2\t50\tn/a\tparis\ts2.nii.gz",
    )
    header = "participant_id\tage\tsex\tsite\tpath"
    return read_cohort(write_table(header, *rows, "s3\t61\tF\tparis\ts3.nii.gz", images=False))


def test_an_item_is_an_image_and_every_column(cohort, tmp_path):
    dataset = CohortDataset(cohort, brain_transforms(**SETTINGS))
    assert isinstance(dataset, Dataset)
    assert len(dataset) == 4
    item = dataset[0]
    assert isinstance(item["image"], MetaTensor)
    assert {key: value for key, value in item.items() if key != "image"} == {
        "participant_id": "s0", "subject_id": "s0", "session": "", "age": 34.2, "sex": "F", "site": "london"
    }  # fmt: skip
    np.testing.assert_array_equal(
        item["image"], load_volume(tmp_path / "s0.nii.gz", Preprocessing(**SETTINGS))
    )
    assert np.isnan(dataset[1]["age"])
    assert (dataset[1]["site"], dataset[2]["sex"]) == ("", "")


def test_a_path_of_participants_is_read(cohort, tmp_path):
    dataset = CohortDataset(str(cohort.source), brain_transforms(**SETTINGS))
    assert [item["participant_id"] for item in dataset] == ["s0", "s1", "s2", "s3"]
    with pytest.raises(DataError, match=r"absent\.tsv"):
        CohortDataset(tmp_path / "absent.tsv")


def test_a_batch_of_a_loader_is_the_metadata_of_a_loss(cohort):
    batch = next(
        iter(
            DataLoader(
                CohortDataset(cohort, brain_transforms(**SETTINGS)), batch_size=4, num_workers=0
            )
        )
    )
    z = torch.randn(2, 4, 8)
    kernel = Gaussian("age", sigma=5.0, missing="marginal") * Categorical("sex", missing="marginal")
    known = {"age": torch.tensor([34.2, np.nan, 50, 61]), "sex": torch.tensor([0, 1, -1, 0])}
    assert torch.equal(YAwareInfoNCE(kernel)(*z, batch), YAwareInfoNCE(kernel)(*z, known))


def test_without_a_transform_it_is_the_default_preprocessing(cohort):
    dataset = CohortDataset(cohort)
    assert dataset.transform.transforms[0].keys == ("image",)
    with pytest.raises(
        DataError, match="less than 50% of the box would be filled"
    ):  # of 121 × 145 × 121
        dataset[0]


@pytest.mark.parametrize(
    ("loader", "is_kept"), [(DataLoader, False), (torch.utils.data.DataLoader, True)]
)
def test_loaders_with_two_workers_collate_it(cohort, tmp_path, loader, is_kept):
    cache_dir = tmp_path / "cache" if is_kept else None
    dataset = CohortDataset(cohort, brain_transforms(**SETTINGS), cache_dir)
    batches = list(loader(dataset, batch_size=2, num_workers=2))
    assert [batch["image"].shape for batch in batches] == [(2, 1, 20, 22, 16)] * 2
    assert batches[0]["image"].dtype == torch.float32
    assert batches[0]["sex"] == ["F", "M"]
    np.testing.assert_array_equal(batches[0]["age"], [34.2, np.nan])
    np.testing.assert_allclose(batches[1]["image"][0], dataset[2]["image"], atol=1e-6)


@pytest.mark.parametrize("transform", [Preprocessing(**SETTINGS), brain_transforms(**SETTINGS)])
def test_what_is_kept_has_the_voxels_and_the_affine_of_the_transforms(cohort, tmp_path, transform):
    dataset = CohortDataset(cohort, transform, tmp_path / "cache", cache_dtype="float32")
    plain = CohortDataset(cohort, transform)
    for row in (0, 3, 0):
        kept = dataset[row]
        made = plain[row]
        np.testing.assert_array_equal(kept["image"], made["image"])
        np.testing.assert_array_equal(kept["image"].affine, made["image"].affine)
        assert kept["image"].meta["filename_or_obj"] == made["image"].meta["filename_or_obj"]
        assert {**kept, "image": 0} == {**made, "image": 0}
    rows, images = next(read_batches(dataset, [[2, 1]]))
    assert rows.tolist() == [2, 1]
    np.testing.assert_array_equal(images[0], plain[2]["image"])


def test_only_what_comes_before_the_first_random_transform_is_kept(cohort, tmp_path):
    chain = Compose(
        [
            brain_transforms(**SETTINGS),
            Count("image"),
            RandFlipd("image", prob=0.5),
            Count("image", 2.0),
        ]
    )
    dataset = CohortDataset(cohort, chain.set_random_state(seed=0), tmp_path / "cache")
    CALLS.clear()
    seen = [dataset[0]["image"] for _ in range(12)]
    assert [1.0, *[2.0] * 12] == CALLS
    assert {bool(torch.equal(seen[0], each)) for each in seen} == {True, False}
    assert not hasattr(
        dataset, "image_shape"
    )  # what is kept is not the item: it is not read straight into a batch
    same = CohortDataset(
        cohort, Compose([brain_transforms(**SETTINGS), Count("image")]), tmp_path / "cache"
    )
    other = CohortDataset(
        cohort, Compose([brain_transforms(**SETTINGS), Count("image", 3.0)]), tmp_path / "cache"
    )
    CALLS.clear()
    torch.testing.assert_close(3 * same[0]["image"], other[0]["image"], rtol=1e-3, atol=1e-3)
    assert CALLS == [3.0]


class AddLabel(Transform):
    """Add an item that no cache of images keeps."""

    def __call__(self, data):
        return {**data, "label": 1}


@pytest.mark.parametrize(
    ("transforms", "words"),
    [
        (
            [LoadScand("image"), Lambdad("image", lambda image: image)],
            "has no name of its own, .* Make it a function",
        ),
        ([LoadScand("image"), AddLabel()], "only the item 'image' is kept .* also make 'label'"),
        ([RandFlipd("image")], "no transform before the first random one loads 'image'"),
    ],
)
def test_what_cannot_be_kept_is_refused(cohort, tmp_path, transforms, words):
    with pytest.raises(DataError, match=words):
        CohortDataset(cohort, transforms, tmp_path / "cache")[0]
    assert len(CohortDataset(cohort, transforms)) == 4


def test_scans_that_differ_in_shape_and_transforms_that_fail_are_named(
    cohort, tmp_path, write_nifti, brain
):
    write_nifti(brain[:20], "s3.nii.gz")
    dataset = CohortDataset(cohort, [LoadScand("image")], tmp_path / "cache")
    with pytest.raises(
        DataError, match=r"s3\.nii\.gz: the transforms made an image \(1, 20, 28, 20\), and"
    ):
        dataset[3]
    write_nifti(brain, "s2.nii.gz")
    (tmp_path / "s1.nii.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"s1\.nii\.gz: the file is empty"):
        dataset[1]
