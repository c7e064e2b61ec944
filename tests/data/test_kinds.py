"""A kind of samples beside brains is registered from outside, and read, refused and checked."""

from pathlib import Path

import pandas as pd
import pytest

import neurocontrast
from neurocontrast.data import read_cohort
from neurocontrast.data.addresses import ADDRESSES, Address, address_of
from neurocontrast.data.kinds import KINDS, SampleKind
from neurocontrast.data.settings import DataSettings, TableSettings
from neurocontrast.data.sources import brains_of_run, source_of, source_of_run
from neurocontrast.data.sources.source import Source, check_kind
from neurocontrast.documents.encoder import EncoderContract, PreprocessingRecord
from neurocontrast.exceptions import ConfigError, DataError
from neurocontrast.registry import Registry


class TileSettings(TableSettings):
    kind: str = "tiles"
    images_root: Path | None = None
    n_workers: int = 1


class Tiles(SampleKind):
    name = "tiles"
    title = "tiles of slides"
    items = "tiles"
    files = "slides"
    content = "pixels"
    data = TileSettings

    def source(self, data, augment, frame):
        return TileSource(data, augment, frame)

    def inspect(self, cohort, problems, *, deep, progress):
        return (f"{len(cohort)} tiles, deep: {deep}",)

    def summarise(self, table):
        return pd.DataFrame({"tiles": [len(table)]}, index=["all"])


class TileSource(Source):
    def as_in_run(self, samples):
        return self

    def in_run(self, preprocessing):
        return {}


def new_finder():
    opened = []

    def find(path: str) -> str:
        slide, _, number = path.partition("@")
        if slide not in opened:
            opened.append(slide)
        assert len(opened) == 1
        return f"there is no tile {number}" if int(number) > 2 else ""

    return find


@pytest.fixture(autouse=True)
def tiles(monkeypatch):
    """Register tiles of slides, named like ``a.slide@2``, beside what the package registers."""
    for registry in (ADDRESSES, KINDS):
        monkeypatch.setattr(registry, "_makers", dict(registry._makers))
        monkeypatch.setattr(registry, "_entries", {})
    address = Address("tiles", "a tile", "tiles of a slide", lambda path: "@" in path, new_finder)
    ADDRESSES.register("tiles", lambda: address)
    KINDS.register("tiles", Tiles)


def test_samples_are_read_by_their_addresses(write_table):
    table = write_table(
        "participant_id\tpath", "p1\ta.slide@0", "p2\ta.slide@7", "p3\timages.npy#1"
    )
    with pytest.raises(DataError) as refused:
        read_cohort(table)
    assert "there is no tile 7" in str(refused.value)
    assert "images.npy" in str(refused.value)
    assert address_of("a.nii.gz") is None


def test_another_kind_than_the_one_wanted_is_refused(write_table):
    cohort = read_cohort(write_table("participant_id\tpath", "p1\ta.slide@0"))
    assert check_kind(cohort, "tiles") is cohort
    with pytest.raises(DataError, match=r"scans of brains are wanted.*set data\.kind to tiles"):
        check_kind(cohort, "volumes")
    with pytest.raises(DataError, match=r"images of a store.*are wanted"):
        check_kind(cohort, "images")


def test_the_source_of_a_run_is_that_of_its_kind(tmp_path):
    contract = EncoderContract.model_construct(preprocessing=PreprocessingRecord(kind="tiles"))
    assert isinstance(source_of(TileSettings()), TileSource)
    source = source_of_run(tmp_path, contract, DataSettings(n_workers=3))
    assert isinstance(source, TileSource)
    assert source.data == TileSettings(n_workers=3)
    with pytest.raises(ConfigError, match="trained on tiles of slides"):
        brains_of_run(tmp_path, contract, DataSettings(), what="bundle: is of brains")


def test_check_counts_and_inspects_samples_as_their_kind_does(write_table):
    table = write_table("participant_id\tpath", "p1\ta.slide@0", "p2\ta.slide@1")
    report = neurocontrast.check(table, progress=False)
    assert (report.kind, report.warnings) == ("tiles", ("2 tiles, deep: True",))
    assert "2 tiles; checked table, slides and pixels." in str(report)


def test_an_entry_is_made_once_when_it_is_asked_for():
    made = []
    registry = Registry[str]()
    registry.register("a", lambda: made.append("a") or "entry")
    assert (registry.names(), made, registry.find(None)) == (("a",), [], None)
    assert [registry.find("a"), *registry.entries()] == ["entry", "entry"]
    assert made == ["a"]
