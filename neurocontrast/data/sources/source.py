"""What the kinds of samples have in common: how they are read, seen twice, and recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pandas as pd
from monai.transforms import Compose, Transform

from neurocontrast.data.cohort import Cohort, read_cohort
from neurocontrast.data.listing import AnyTable
from neurocontrast.data.natural.store import is_image_path
from neurocontrast.data.problems import shown
from neurocontrast.data.settings import AnyDataSettings
from neurocontrast.documents.provenance import Provenance
from neurocontrast.exceptions import CheckpointError, ConfigError, DataError
from neurocontrast.files import digest_of_file
from neurocontrast.progress import Progress, warn_caller
from neurocontrast.transforms import TwoViews
from neurocontrast.transforms.comparing import is_same
from neurocontrast.transforms.describing import describe

if TYPE_CHECKING:
    from neurocontrast.encoders import Encoder

_WHAT = {
    "volumes": "scans of brains",
    "images": "images of a store, as `neurocontrast images` writes them,",
}


@dataclass(frozen=True)
class Source:
    """Samples as the section ``data`` of a configuration describes them; there is one class for each kind.

    A source gives a cohort (`read_cohort`), makes its samples ready (`make_ready`), reads them
    (`images`), and says how they were prepared (`contract`), from which another source prepares
    others alike (`as_in_run`). A kind defines these three, the size of its samples (`n_channels`,
    `shape`), and which settings a run has decided (`in_run`). `augment` is a transform from Python
    that makes views, for ``augment.transforms: python``.
    """

    views_revision: ClassVar[int] = 1
    """Raised where keys draw other views than before; a run that goes on then is warned."""

    data: AnyDataSettings
    augment: Transform | None = None
    frame: pd.DataFrame | None = None  # in place of data.participants

    @property
    def table(self) -> AnyTable | None:
        """The table of samples: a DataFrame from Python, or the file that `data` names."""
        return self.data.participants if self.frame is None else self.frame

    @property
    def channels(self) -> tuple[str, ...] | None:
        """Columns that hold the files of a scan, one a channel; None for the column ``path``."""
        return None

    @property
    def halves(self) -> tuple[Any, ...]:
        """The sources of the samples of each encoder: this one, or both of `PairedBrains`."""
        return (self,)

    @property
    def skips(self) -> bool:
        """Whether samples that cannot be read are left out."""
        return bool(getattr(self.data, "skip_unreadable", False))

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures that a network is given; none of images."""
        return ()

    def read_cohort(
        self, participants: AnyTable, *, images_root: Any = None, check_images: bool = True
    ) -> Cohort:
        """Read a table of such samples."""
        cohort = read_cohort(
            participants,
            images_root=self.data.images_root if images_root is None else Path(images_root),
            channels=self.channels,
            check_images=check_images and not self.skips,
        )
        return check_kind(cohort, self.data.kind)

    def unlisted(self, scans: AnyTable, *, images_root: Any = None) -> Cohort | None:
        """Return samples that need no table of people, or None if they need one."""
        del scans, images_root
        return None

    def kept_in(self, folder: Path) -> Self:
        """Return the source with another place for what is prepared."""
        del folder
        return self

    def prepared(self, cohort: Cohort | None, rows: Sequence[int] = ()) -> Self:
        """Return the source with what must be known before a network can be built, learned from the rows of training.

        Without a cohort, what it would have to be learned from is refused.
        """
        del cohort, rows
        return self

    def fitted(self, cohort: Cohort, rows: Sequence[int], progress: Progress) -> Self:
        """Return the source with what is learned by reading the samples of the rows of training."""
        del cohort, rows, progress
        return self

    def make_ready(self, cohort: Cohort, progress: Progress) -> None:
        """Prepare samples that are not ready to be read."""
        del cohort, progress

    def doubts(self, cohort: Cohort) -> list[str]:
        """Return warnings about samples that can be read and look as if they were not prepared."""
        del cohort
        return []

    def failures(self, cohort: Cohort, progress: Progress) -> dict[int, str]:
        """Prepare samples as `make_ready` does, and return why rows of the cohort cannot be used, in their order."""
        self.make_ready(cohort, progress)
        return {}

    def unlearnable(self, cohort: Cohort, seed: int) -> dict[int, str]:
        """Return why rows of a cohort cannot be used by a new run, as far as its table tells."""
        del cohort, seed
        return {}

    def table_of(self, cohort: Cohort) -> pd.DataFrame:
        """Return what is known of the rows of a cohort, which embeddings carry."""
        return cohort.table

    def signatures(self, cohort: Cohort) -> list[tuple[int, ...]]:
        """Return the signatures by which a change of the files is seen that samples are read from one by one."""
        del cohort
        return []

    def contents(self, cohort: Cohort, progress: Progress) -> list[str]:
        """Return the digests of the content of each sample; "" where there is none.

        They are separated by spaces, and the same under another name, in another file, and in
        another order of columns.
        """
        del progress
        return [""] * len(cohort)

    def set_up(self, encoder: Encoder) -> None:
        """Give a new network the part of the preprocessing that the network does."""
        del encoder

    def built_in_views(self, augment: Any) -> Any:
        """Return the transform that the operations of the section ``augment`` describe."""
        raise NotImplementedError

    def views(self, augment: Any, *, seed: int) -> Callable[..., tuple[Any, Any]]:
        """Return what makes two views by the section ``augment``; see `two_views`."""
        return self.two_views(augment, seed=seed)

    def two_views(self, augment: Any, *, seed: int) -> TwoViews:
        """Return two views by the section ``augment``: by its operations, or by the transforms given from Python."""
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
        """Return names and paths of files that a run depends on, by kind of content; scans are left to the cache."""
        vectors = [
            (name, Path(what).expanduser())
            for name, what in self.data.vectors.items()
            if isinstance(what, str)
        ]
        return {"vectors": [(name, cohort.source.parent / path) for name, path in vectors]}

    def record(self, cohort: Cohort) -> dict[str, Any]:
        """Return the part of ``provenance.json`` by which `check_unchanged` recognises the files and views of a run."""
        record: dict[str, Any] = {
            key: {digest_of_file(path): name for name, path in files}
            for key, files in self.files(cohort).items()
        }
        record["n_bytes"] = sum(
            size for size, *_ in self.signatures(cohort)
        )  # times differ on another machine
        if self.augment is not None:
            try:
                record["augment"] = describe(self.augment)
            except (
                DataError
            ):  # a lambda, for instance, has no description: the classes of the transforms do
                record["augment"] = [
                    type(each).__name__ for each in Compose(self.augment).flatten().transforms
                ]
        return record

    def check_unchanged(self, cohort: Cohort, provenance: Provenance, folder: Path) -> None:
        """Refuse to continue a run with other files, or other views from Python, than the run began with."""
        now = self.record(cohort)
        changed = [
            f"{name} holds other {'images' if key == 'stores' else key} than when it began"
            for key in self.files(cohort)
            for digest, name in now[key].items()
            if digest not in (provenance.files_of(key) or now[key])
        ]
        n_bytes = provenance.n_bytes
        if n_bytes is not None and now["n_bytes"] != n_bytes:
            changed.append(
                f"the files of the samples hold {now['n_bytes']:,} bytes, and held {n_bytes:,} when it began"
            )
        if "augment" in now and not _is_augment_of(
            provenance.content().get("augment"), now["augment"]
        ):
            changed.append("augment has other transforms, or other settings of them")
        if changed:
            raise CheckpointError(
                f"{folder}: the run cannot continue, because it would not be the same run: {'; '.join(changed)}. Give "
                "what it began with, or start another run."
            )


def _is_augment_of(stored: Any, current: Any) -> bool:
    """Tell whether the views of a run are the ones given; warn where nothing can be compared."""
    same = is_same(stored, current)
    if same is None or (same and current and set(map(type, current)) == {str}):
        warn_caller(
            "augment: the run records no settings of some of its transforms, so whether they are "
            "the run's cannot be checked. See to it yourself."
        )
    return same is not False


def check_kind(cohort: Cohort, wanted: str) -> Cohort:
    """Return a cohort if its rows are of the kind ``volumes`` or ``images`` that is wanted."""
    for participant, path in zip(cohort.table["participant_id"], cohort.table["path"], strict=True):
        found = "images" if is_image_path(str(path)) else "volumes"
        if found != wanted:
            raise DataError(
                f"{cohort.source.name}: {_WHAT[wanted]} are wanted, because data.kind is '{wanted}' or the run was "
                f"trained on them, and '{participant}' is {shown(path, 200)}. To train on it, set data.kind to {found}."
            )
    return cohort
