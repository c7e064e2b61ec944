"""Members of a run in an evaluation: the columns of each, and designs that are never joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from neurocontrast.evaluation.designs import Block, Design, Info
from neurocontrast.exceptions import DataError


class Member(NamedTuple):
    """The features of one member of a run, to which a probe of its own is fitted."""

    name: str
    n_features: int
    encoder: str
    n_components: int = 0
    """Number of the last features that are linear components beside the network."""

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Network and components of the member; none for features of one block."""
        if not self.n_components:
            return ()
        return (
            Block("network", self.n_features - self.n_components, self.encoder),
            Block("components", self.n_components, self.encoder),
        )


@dataclass(frozen=True, eq=False)
class MemberDesign:
    """A design for each member of a run: a probe is fitted to each, and the predictions averaged.

    This is no `Design`: nothing is ever fitted to the columns of several members together.
    """

    designs: tuple[Design, ...]

    def map(self, change: Callable[[Design], Design]) -> MemberDesign:
        """Return the designs that `change` makes of those of each member."""
        return MemberDesign(tuple(map(change, self.designs)))


Designs = Design | MemberDesign
"""Matrices of one encoder, or of each member of a run."""


def map_design(design: Designs, change: Callable[[Design], Design]) -> Designs:
    """Return a changed design, of members that of each."""
    if isinstance(design, MemberDesign):
        return design.map(change)
    return change(design)


def first_design(design: Designs) -> Design:
    """Return a design, of members that of the first, by which estimators are described."""
    if isinstance(design, MemberDesign):
        return design.designs[0]
    return design


def members_of(info: Info, n_features: int) -> tuple[Member, ...]:
    """Return the members of a run in the order of their columns; none for one encoder."""
    run = info.get("run")
    described = run.get("members") if isinstance(run, Mapping) else None
    if not described:
        return ()
    of_network = info.get("layer", "encoder") == "encoder"
    members = []
    try:
        for member in described:
            beside = member.get("beside") or {"n_components": 0}
            members.append(
                Member(
                    str(member["name"]),
                    int(member["n_features"]),
                    str(member["weights"]["sha256"]),
                    int(beside["n_components"]) if of_network else 0,
                )
            )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DataError(
            "embeddings: their description of members is damaged. Embed the scans again."
        ) from None
    total = sum(map(attrgetter("n_features"), members))
    is_right = min(member.n_features - member.n_components for member in members) > 0
    if total != n_features or not is_right:
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


def check_same_members(
    expected: Sequence[Member], found: Sequence[Member], *, parameter: str
) -> None:
    """Refuse features of other members than those that probes were fitted on."""
    if [member[1:] for member in expected] == [member[1:] for member in found]:
        return
    raise DataError(
        f"{parameter}: the probe was fitted on features of {_count_members(expected)}, and this "
        f"table has those of {_count_members(found)}. Embed the scans with the same run."
    )


def _count_members(members: Sequence[Member]) -> str:
    if not members:
        return "one encoder"
    digests = ", ".join(f"{member.encoder[:12]}…" for member in members)
    return f"{len(members)} members of a run ({digests})"
