"""Blocks of joined features: which columns are of which encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from neurocontrast.exceptions import ConfigError, DataError

__all__ = ["Block", "blocks_of", "check_same_blocks"]


class Block(NamedTuple):
    """The features of one encoder in a joined table."""

    name: str
    n_features: int
    encoder: str | None = None


def blocks_of(info: Mapping[str, Any], n_features: int, *, averaged: bool = False) -> tuple[Block, ...]:
    """Return the blocks of joined embeddings in the order of their columns; none of a single encoder.

    With `averaged`, features of a single encoder are refused.
    """
    run = info.get("run")
    found = run.get("blocks") if isinstance(run, Mapping) else None
    if not found:
        if averaged:
            raise ConfigError(
                "blocks: 'averaged' fits a probe to each encoder's features, and these are of one. Join several tables "
                "with `neurocontrast join`, or leave blocks out."
            )
        return ()
    try:
        blocks = tuple(Block(name, int(each["n_features"]), each.get("encoder")) for name, each in found.items())
    except (AttributeError, KeyError, TypeError, ValueError):
        raise DataError("embeddings: their description of blocks is damaged. Join the tables again.") from None
    total = sum(block.n_features for block in blocks)
    if total != n_features or min(block.n_features for block in blocks) < 1:
        raise DataError(
            f"embeddings: blocks {_listed(blocks)} are {total} features, and the table has {n_features}. Join the "
            "tables again."
        )
    return blocks


def check_same_blocks(expected: Sequence[Block], found: Sequence[Block], *, parameter: str) -> None:
    """Refuse features of other blocks than those that a probe was fitted on; their names may differ."""
    if [block[1:] for block in expected] == [block[1:] for block in found]:
        return
    remedy = "Embed the scans with the same run."
    if expected:
        names = ",".join(block.name for block in expected)
        remedy = f"Embed the scans with each of these runs, and join the tables in this order (--names {names})."
    raise DataError(
        f"{parameter}: the probe was fitted on {_listed(expected)}, and this table has {_listed(found)}. {remedy}"
    )


def _listed(blocks: Sequence[Block]) -> str:
    texts = [
        f"{block.name} ({block.n_features} features{'' if block.encoder is None else f', {block.encoder[:12]}…'})"
        for block in blocks
    ]
    return " + ".join(texts) or "features of one encoder"
