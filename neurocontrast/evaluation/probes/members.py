"""Divide the features of a run's encoders (members): a function for each encoder, never joined.

The function, called a design, takes training and test rows, and returns two matrices: features of
the training rows, and of the test rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import NamedTuple

from neurocontrast.documents.info import EmbeddingsInfo
from neurocontrast.evaluation.probes.designs import Block, Design
from neurocontrast.exceptions import DataError


class Member(NamedTuple):
    """One of several encoders of a run, and the number of its columns in the features.

    A probe of its own is fitted to the columns of each encoder.
    """

    name: str
    n_features: int
    encoder: str
    n_components: int = 0
    """Number of principal components, which are the last features after the network's."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Two `Block` entries: columns of the network, and of principal components.

        Empty for an encoder without principal components.
        """
        if not self.n_components:
            return ()
        return (
            Block("network", self.n_features - self.n_components, self.encoder),
            Block("components", self.n_components, self.encoder),
        )


@dataclass(frozen=True, eq=False)
class MemberDesign:
    """A design for each encoder of a run: a probe is fitted to each, and predictions are averaged.

    A design is a function of training and test rows that returns the features of both kinds of rows
    as two matrices. This class is no `Design`: nothing is ever fitted to the columns of several
    encoders together.
    """

    designs: tuple[Design, ...]

    def map(self, change: Callable[[Design], Design]) -> MemberDesign:
        """Return a new `MemberDesign`, with `change` applied to the design of each encoder."""
        return MemberDesign(tuple(map(change, self.designs)))


Designs = Design | MemberDesign
"""Design of one encoder, or a design for each of several encoders of a run."""


def map_design(design: Designs, change: Callable[[Design], Design]) -> Designs:
    """Return `design` changed by the function `change`, for each encoder of a run.

    `design` gives the features of training and test rows. For a run of several encoders it is a
    `MemberDesign`, which holds a design for each, and `change` is applied to each of them; for one
    encoder, to `design` itself.
    """
    if isinstance(design, MemberDesign):
        return design.map(change)
    return change(design)


def designs_of(design: Designs) -> tuple[Design, ...]:
    """Return a tuple of designs, one for each encoder of a run, or the design of the one encoder.

    A design is a function of training and test rows that returns two matrices of features.
    """
    if isinstance(design, MemberDesign):
        return design.designs
    return (design,)


def first_design(design: Designs) -> Design:
    """Return the design of the first encoder of a run: a function that gives features of rows.

    If `design` is that of a single encoder, it is returned unchanged.
    """
    return designs_of(design)[0]


def members_of(info: EmbeddingsInfo, n_features: int) -> tuple[Member, ...]:
    """Return name, digest and number of columns of each encoder of a run, as `Member` entries.

    The entries are in the order of the encoders' columns in the embeddings table; empty if the run
    has one encoder. `info` describes the embedding, and `n_features` is the number of its columns.
    """
    if not info.run.members:
        return ()
    members = []
    for member in info.run.members:
        n_components = 0
        if info.of_network and member.beside is not None:
            n_components = member.beside.n_components
        members.append(Member(member.name, member.n_features, member.weights.sha256, n_components))
    total = sum(map(attrgetter("n_features"), members))
    are_whole = all(map(has_network, members))
    if total != n_features or not are_whole:
        raise DataError(
            f"embeddings: {len(members)} members have {total} features, and the table has "
            f"{n_features}. Embed the scans again."
        )
    if len(set(map(attrgetter("encoder"), members))) < len(members):
        raise DataError(
            "embeddings: two members are the same encoder, which would count twice. Embed the "
            "scans again."
        )
    return tuple(members)


def has_network(member: Member) -> bool:
    """Tell whether an encoder has features of a network, besides principal components."""
    return member.n_features > member.n_components


def check_same_members(
    expected: Sequence[Member], found: Sequence[Member], *, parameter: str
) -> None:
    """Refuse features of other encoders than the probe was fitted to, or in another order.

    `expected` lists the encoders of the run (members) to whose features the probe was fitted, and
    `found` the encoders of the features to predict from; either is empty for a run of one encoder.
    The lists must agree in digests and numbers of columns. `parameter` begins the message of the
    error.
    """
    if list(map(itemgetter(slice(1, None)), expected)) == list(
        map(itemgetter(slice(1, None)), found)
    ):
        return
    raise DataError(
        f"{parameter}: the probe was fitted on features of {_count_members(expected)}, and this "
        f"table has those of {_count_members(found)}. Embed the scans with the same run."
    )


def _count_members(members: Sequence[Member]) -> str:
    """Describe encoders of a run, for a message: how many, and the digest of each."""
    if not members:
        return "one encoder"
    digests = ", ".join(map("{0.encoder:.12}…".format, members))
    return f"{len(members)} members of a run ({digests})"
