"""Warnings of an evaluation, whose texts are in ``warnings.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import yaml

_TEXTS: dict[str, dict[str, str]] = yaml.safe_load(
    resources.files("neurocontrast.documents").joinpath("warnings.yaml").read_text("utf-8")
)


@dataclass(frozen=True)
class Notice:
    """A warning of an evaluation: a code for machines, a message, and what the message means for a reader.

    Parameters
    ----------
    code : str
        A short name, the same in every evaluation.
    message : str
        What was found, with its numbers.
    explanation : str
        What this means for reading the results, and what to do; empty in evaluations of earlier
        versions.
    """

    code: str
    message: str = ""
    explanation: str = ""

    @classmethod
    def of(cls, key: str, **values: object) -> Notice:
        """Return a warning of ``warnings.yaml``, its text filled with values."""
        texts = {}
        for name, text in _TEXTS[key].items():
            texts[name] = text.format(**values)
        return cls(**{"code": key, **texts})

    def of_external_test(self) -> Notice:
        """Return the warning with a code and a message that name the external test set."""
        return Notice(f"external_{self.code}", f"test: {self.message}", self.explanation)
