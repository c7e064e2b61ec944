"""Base class of sources, which read samples, make augmented views, and record a run's files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pandas as pd
from monai.transforms import Compose, Transform

from neurocontrast.data.addresses import ADDRESSES, address_of
from neurocontrast.data.batches import Images
from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.problems import shown
from neurocontrast.data.settings import AnyDataSettings
from neurocontrast.documents.document import Json
from neurocontrast.documents.encoder import PreprocessingRecord, Samples
from neurocontrast.documents.provenance import Provenance
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.files import digest_of_file
from neurocontrast.progress import Progress, warn_caller
from neurocontrast.transforms import TwoViews
from neurocontrast.transforms.comparing import is_same
from neurocontrast.transforms.describing import describe

if TYPE_CHECKING:
    from neurocontrast.encoders import Encoder


@dataclass(frozen=True)
class Source:
    """Source of one kind of samples, described by the configuration's section ``data``.

    A source reads a cohort (`read_cohort`), preprocesses the samples (`make_ready`), reads the
    samples (`images`), and describes the preprocessing (`contract`), by which a source of new
    samples repeats the preprocessing (`as_in_run`).

    Each kind of samples has a subclass. A subclass defines at least the methods that raise
    `NotImplementedError` here: `images`, `contract`, `as_in_run`, `in_run` (settings that a trained
    run has fixed), `n_channels` and `shape` (size of a sample), and `built_in_views`. All other
    methods have a default here; `make_ready`, for instance, does nothing.

    `augment` is a transform that makes augmented views, passed by the user in Python, for
    ``augment.transforms: python``; `frame` is a table passed in Python, in place of
    ``data.participants``.
    """

    views_revision: ClassVar[int] = 1
    """Revision of the random numbers for augmented views; resuming a run that was begun with
    another revision gives a warning.
    """
    content_words: ClassVar[Mapping[str, str]] = {}
    """Kind of files, a key of `files` → word that messages use for the files' contents.
    A kind that is absent here is itself the word.
    """

    data: AnyDataSettings
    augment: Transform | None = None
    frame: pd.DataFrame | None = None

    @property
    def table(self) -> AnyTable | None:
        """Table of samples: the DataFrame `frame`, or, if None, the path ``data.participants``."""
        if self.frame is not None:
            return self.frame
        return self.data.participants

    @property
    def channels(self) -> tuple[str, ...] | None:
        """Names of the table columns with a scan's files, one column for each channel.

        None if the table has one file for each scan, in the column ``path``.
        """
        return None

    @property
    def n_channels(self) -> int:
        """Number of channels of a sample."""
        raise NotImplementedError

    @property
    def halves(self) -> tuple[Any, ...]:
        """Sources of samples, one for each encoder: this source, or two for `PairedBrains`."""
        return (self,)

    @property
    def skips(self) -> bool:
        """Whether samples that cannot be read are left out, by ``data.skip_unreadable``."""
        return bool(getattr(self.data, "skip_unreadable", False))

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the regional measures that are the network's input; empty for images."""
        return ()

    def read_cohort(
        self, participants: AnyTable, *, images_root: Any = None, check_images: bool = True
    ) -> Cohort:
        """Read a table of samples; `images_root`, unless None, replaces ``data.images_root``."""
        root = self.data.images_root
        if images_root is not None:
            root = Path(images_root)
        cohort = read_cohort(
            participants,
            images_root=root,
            channels=self.channels,
            check_images=check_images and not self.skips,
        )
        return check_kind(cohort, self.data.kind)

    def unlisted(self, scans: AnyTable, *, images_root: Any = None) -> Cohort | None:
        """Return a cohort of all samples in `scans`, if such samples need no table of people.

        None, the default, if a table of people must list the samples.
        """
        del scans, images_root
        return None

    def kept_in(self, folder: Path) -> Self:
        """Return a copy of the source that keeps preprocessed samples in `folder`.

        By default this source itself is returned, for kinds that keep no preprocessed samples.
        """
        del folder
        return self

    def prepared(self, cohort: Cohort | None, rows: Sequence[int] = ()) -> Self:
        """Return a copy of the source with the preprocessing that sets a network's input size.

        By default this source itself is returned. Preprocessing that must be learned, such as a
        standardisation, is learned from the training `rows` of `cohort`, positions of samples. If
        `cohort` is then None, this method, or a later use of `n_channels`, raises an error.
        """
        del cohort, rows
        return self

    def fitted(self, cohort: Cohort, rows: Sequence[int], progress: Progress) -> Self:
        """Return a copy of the source with preprocessing learned by reading the training samples.

        Training samples are the `rows` of `cohort`. This source itself is returned if nothing is
        learned.
        """
        del cohort, rows, progress
        return self

    def make_ready(self, cohort: Cohort, progress: Progress) -> None:
        """Preprocess the samples of `cohort` that are not yet ready to be read."""
        del cohort, progress

    def doubts(self, cohort: Cohort) -> list[str]:
        """Return warnings about readable samples that seem unprepared, such as whole heads."""
        del cohort
        return []

    def failures(self, cohort: Cohort, progress: Progress) -> dict[int, str]:
        """Preprocess samples as `make_ready` does; return row → reason for unusable samples.

        Rows are positions in `cohort`.
        """
        self.make_ready(cohort, progress)
        return {}

    def unlearnable(self, cohort: Cohort, seed: int) -> dict[int, str]:
        """Return row → reason for samples that training cannot use, judged by the table alone.

        `seed` is of the split of `cohort` into training and validation.
        """
        del cohort, seed
        return {}

    def table_of(self, cohort: Cohort) -> pd.DataFrame:
        """Return a table with a row for each sample of `cohort`, for an embeddings table.

        The columns are the ones to write there; by default all columns of the cohort's table.
        """
        return cohort.table

    def signatures(self, cohort: Cohort) -> list[tuple[int, ...]]:
        """Return a tuple of numbers for each sample: total size and times of the sample's files.

        By these numbers changed files are noticed. The default, an empty list, notices none.
        """
        del cohort
        return []

    def contents(self, cohort: Cohort, progress: Progress) -> list[str]:
        """Return one text for each sample: digests of the content, with spaces; "" if unknown.

        A digest does not depend on the sample's name or file, so that copies are recognised, nor,
        for regional measures, on the order of the columns.
        """
        del progress
        return [""] * len(cohort)

    def images(self, cohort: Cohort) -> Images:
        """Return a dataset of a cohort's samples, in the order of the rows."""
        raise NotImplementedError

    def shape(self, cohort: Cohort | None) -> tuple[int, ...]:
        """Return the size of a sample along each axis, without the channels."""
        raise NotImplementedError

    def contract(self) -> Samples:
        """Return a `Samples`: the keys of a run's ``encoder.json`` on samples and preprocessing."""
        raise NotImplementedError

    def as_in_run(self, samples: Samples) -> Self:
        """Return a copy of the source with a trained run's preprocessing, read from `samples`.

        `samples` is the part of the run's ``encoder.json`` on the samples and their preprocessing,
        which the method `contract` returned when the run was trained.
        """
        raise NotImplementedError

    def in_run(self, preprocessing: PreprocessingRecord) -> Json:
        """Return name → value of the settings of section ``data`` that a trained run has fixed.

        The values are attributes of this source, which `as_in_run` has set as the run had them; a
        user's setting may not contradict them. `preprocessing` is the run's record in
        ``encoder.json``.
        """
        raise NotImplementedError

    def set_up(self, encoder: Encoder) -> None:
        """Set up the preprocessing that happens inside a new network; here none.

        Natural images, for instance, are standardised by the network.
        """
        del encoder

    def built_in_views(self, augment: Any) -> Any:
        """Return the random transform that the configuration's section ``augment`` describes."""
        raise NotImplementedError

    def views(self, augment: Any, *, seed: int) -> Callable[..., tuple[Any, Any]]:
        """Return a function that makes two augmented views of a batch of samples.

        The function is the object that `two_views` returns; a subclass may return another one.
        """
        return self.two_views(augment, seed=seed)

    def two_views(self, augment: Any, *, seed: int) -> TwoViews:
        """Return an object that makes two augmented views of a batch of samples.

        Section ``augment`` of the configuration, `augment`, describes the views: the object applies
        `built_in_views`, or, if ``augment.transforms`` is ``python``, the transform that the user
        passed in Python as the source's attribute `augment`.
        """
        if augment.transforms is None:
            transform = self.built_in_views(augment)
        elif self.augment is not None:
            transform = self.augment
        else:
            raise ConfigError(
                "augment.transforms: came from Python. Give them again: pretrain(..., augment=...)."
            )
        return TwoViews(transform, seed=seed)

    def files(self, cohort: Cohort) -> dict[str, list[tuple[str, Path]]]:
        """Return kind, such as ``vectors`` → list of (name, path) of files that a run depends on.

        Scans are left out: the cache notices changed scans.
        """
        folder = cohort.source.parent
        vectors = []
        for name, vector in self.data.vectors.items():
            if isinstance(vector, str):
                vectors.append((name, folder / Path(vector).expanduser()))
        return {"vectors": vectors}

    def record(self, cohort: Cohort) -> dict[str, Any]:
        """Return entries for ``provenance.json`` by which resuming notices changed files and views.

        The entry of each kind that `files` lists is a mapping: digest of a file → name. ``n_bytes``
        is the total size of the samples' files; times of files are not recorded, since times differ
        on another machine. ``augment`` describes the transform of views, if passed in Python.
        """
        record: dict[str, Any] = {}
        for kind, files in self.files(cohort).items():
            record[kind] = {digest_of_file(path): name for name, path in files}
        record["n_bytes"] = sum(size for size, *_ in self.signatures(cohort))
        if self.augment is not None:
            record["augment"] = _record_of(self.augment)
        return record

    def check_unchanged(self, cohort: Cohort, provenance: Provenance, folder: Path) -> None:
        """Refuse to resume a run if its files, or its views from Python, have changed.

        Compared with the start of the run are the files that `files` lists, such as vectors and
        tables of measures, by digest, the files of samples by total size, and the transform for
        augmented views, if the user passes one from Python. `provenance` is the run's record at
        the start, and `folder` is the run's folder. A difference raises a `CheckpointError`.
        """
        now = self.record(cohort)
        changed = []
        for kind in self.files(cohort):
            at_start = provenance.files_of(kind) or now[kind]
            contents = self.content_words.get(kind, kind)
            for digest, name in now[kind].items():
                if digest not in at_start:
                    changed.append(f"{name} holds other {contents} than when it began")
        n_bytes = provenance.n_bytes
        if n_bytes is not None and now["n_bytes"] != n_bytes:
            changed.append(
                f"the files of the samples hold {now['n_bytes']:,} bytes, and held {n_bytes:,} "
                "when it began"
            )
        if "augment" in now:
            stored = provenance.content().get("augment")
            if not _is_augment_of(stored, now["augment"]):
                changed.append("augment has other transforms, or other settings of them")
        if changed:
            raise CheckpointError(
                f"{folder}: the run cannot continue, because it would not be the same run: "
                f"{'; '.join(changed)}. Give what it began with, or start another run."
            )


def _record_of(augment: Transform) -> Any:
    """Return a description of the view transforms `augment`, for the run's ``provenance.json``.

    If one of the transforms cannot be described, such as a lambda, a list with the class name of
    each transform in `augment` is returned.
    """
    try:
        return describe(augment)
    except DataError:  # of a lambda, for instance
        transforms = Compose(augment).flatten().transforms
        return [type(transform).__name__ for transform in transforms]


def _is_augment_of(stored: Any, current: Any) -> bool:
    """Tell whether view transforms from Python are the ones that a run was trained with.

    `stored` is the run's record of its transforms, and `current` the description of the transforms
    that the user now passes. If the record has too little to tell, True is returned, with a
    warning.
    """
    same = is_same(stored, current)
    if same is None or (same and current and set(map(type, current)) == {str}):
        warn_caller(
            "augment: the run records no settings of some of its transforms, so whether they are "
            "the run's cannot be checked. See to it yourself."
        )
    return same is not False


def check_kind(cohort: Cohort, wanted: str) -> Cohort:
    """Return `cohort` if all rows are samples of the kind `wanted`; refuse any other cohort.

    `wanted` is a value of the setting ``data.kind``.
    """
    samples = "scans of brains"
    wanted_address = ADDRESSES.find(wanted)
    if wanted_address is not None:
        samples = wanted_address.samples
    for participant, path in zip(cohort.table["participant_id"], cohort.table["path"], strict=True):
        kind = "volumes"
        address = address_of(str(path))
        if address is not None:
            kind = address.kind
        if kind != wanted:
            raise DataError(
                f"{cohort.source.name}: {samples} are wanted, because data.kind is '{wanted}' or "
                f"the run was trained on them, and '{participant}' is {shown(path, 200)}. To train "
                f"on it, set data.kind to {kind}."
            )
    return cohort
