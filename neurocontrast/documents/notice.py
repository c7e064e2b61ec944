"""Warnings of an evaluation, whose texts are in ``documents/warnings.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import yaml

_TEXTS: dict[str, dict[str, str]] = yaml.safe_load(
    resources.files("neurocontrast.documents").joinpath("warnings.yaml").read_text("utf-8")
)


@dataclass(frozen=True)
class Notice:
    """Warning of an evaluation: a code for machines, a message, and an explanation for readers.

    Parameters
    ----------
    code : str
        Short name of the problem, the same in every evaluation.
    message : str
        The problem in this evaluation, with its numbers.
    explanation : str
        Meaning of the problem for reading the results, and the remedy; empty in evaluations of
        earlier versions.
    """

    code: str
    message: str = ""
    explanation: str = ""

    @classmethod
    def of(cls, key: str, **values: object) -> Notice:
        """Return the warning of a key in ``warnings.yaml``, with `values` filled into its text."""
        texts = {}
        for field, template in _TEXTS[key].items():
            texts[field] = template.format(**values)
        return cls(**{"code": key, **texts})

    def of_external_test(self) -> Notice:
        """Return the warning with the external test set named in its code and message."""
        return Notice(f"external_{self.code}", f"test: {self.message}", self.explanation)
