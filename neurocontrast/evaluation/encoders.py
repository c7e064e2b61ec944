"""Features can be compared only where one encoder has made them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from neurocontrast.exceptions import DataError

__all__ = ["check_same_encoder", "encoder_digest"]

_FULL = "32-true"
_HEADLESS = "encoder"
"""The layer that is embedded by default; tables of earlier versions have no other, and do not name it."""


def encoder_digest(info: Mapping[str, Any]) -> str | None:
    """Return the digest of the weights that made an embeddings table; None where the table does not say.

    What gives other features is added to it: the projection head, and a precision other than float32.
    """
    run = info.get("run")
    weights = run.get("weights") if isinstance(run, Mapping) else None
    digest = weights.get("sha256") if isinstance(weights, Mapping) else None
    if not isinstance(digest, str):
        return None
    layer, precision = info.get("layer", _HEADLESS), info.get("precision", _FULL)
    beside = [*([] if layer == _HEADLESS else [layer]), *([] if precision == _FULL else [precision])]
    return ", ".join([digest, *map(str, beside)])


def check_same_encoder(
    expected: str | None, found: str | None, *, n_expected: int, n_found: int, parameter: str, what: str
) -> str | None:
    """Refuse features of another encoder; return a warning where nobody says which encoder it was.

    Parameters
    ----------
    expected, found : str or None
        Digests, as `encoder_digest` returns them, of what was trained on and of what it shall be applied to.
    n_expected, n_found : int
        Numbers of features.
    parameter : str
        What gave the features, for the message.
    what : str
        What was fitted, for the message: "the probe".

    Raises
    ------
    DataError
        If numbers or digests differ, or one digest alone is known.
    """
    if n_expected != n_found:
        raise DataError(
            f"{parameter}: {what} was fitted on {n_expected} features, and this table has {n_found}. "
            "Embed the scans with the same run."
        )
    if expected is None and found is None:
        return f"{parameter}: neither table says which encoder made it, so it could not be checked that it is the same."
    if expected == found:
        return None
    shown = [f"'{digest[:12]}…{digest[64:]}'" if digest else "one that is not recorded" for digest in (expected, found)]
    raise DataError(
        f"{parameter}: {what} was fitted on features of the encoder {shown[0]}, and these are of {shown[1]}. Features "
        "of two encoders have nothing in common, even where there are as many. Embed the scans with the same run."
    )
