"""Versions, code revision and host of a result; digests by which people are recognised."""

import datetime
import os
import platform
import re
import subprocess
import sys
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Self

from neurocontrast.files import composed, digest_of, trimmed

_PACKAGES = (
    "torch",
    "monai",
    "lightning-fabric",
    "numpy",
    "scipy",
    "scikit-learn",
    "pandas",
    "nibabel",
    "nilearn",
    "pyarrow",
)

Record = Mapping[str, Any]
Description = dict[str, Any]
"""Content of a JSON file about a run or an encoder."""
_PREFIXES = re.compile(r"^(?:sub[-_]\s*)+(?=.)", re.IGNORECASE)
_AS_FLOAT = re.compile(r"^([0-9]+)\.0+$")
CONTENT = "content_digest"
"""Column with digests of each scan's content, by which a renamed person is found."""


def version() -> str:
    """Return the installed version of neurocontrast."""
    return metadata.version("neurocontrast")


@cache
def _installed_version(package: str) -> str | None:
    """Return the installed version of a package, looked up once; None if the package is absent."""
    for distribution in metadata.distributions(name=package):
        return distribution.version
    return None


def versions_of(*packages: str) -> dict[str, str | None]:
    """Return the installed version of each package, None for one that is absent."""
    versions = {}
    for package in packages:
        versions[package] = _installed_version(package)
    return versions


def describe_environment() -> Description:
    """Return versions, code revision, kind of host and time, JSON-ready.

    The names of user and host are left out: results are passed on.
    """
    command = []
    if sys.argv and sys.argv[0]:
        command = [Path(sys.argv[0]).name, *sys.argv[1:]]
    return {
        "neurocontrast": version(),
        "git": _git_revision(),
        "python": platform.python_version(),
        "packages": versions_of(*_PACKAGES),
        "platform": platform.platform(),
        "n_cpus": os.cpu_count(),
        "command": command,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def subject_label(identifier: str) -> str:
    """Return an identifier in its normal form: Unicode NFC, without ``sub-``, zeros as written.

    The prefix counts in any case, and with an underscore: ``SUB-01`` and ``sub_01`` are ``01``.
    A number that a table of floats made ``12.0`` is ``12``.
    """
    label = _PREFIXES.sub("", trimmed(composed(identifier)))
    return _AS_FLOAT.sub(r"\1", label)


def unify_subjects(subjects: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Return each subject in its first spelling; spellings in `known` come first."""
    first: dict[str, str] = {}
    for subject in known:
        first.setdefault(subject_label(subject), subject)
    unified = []
    for subject in subjects:
        unified.append(first.setdefault(subject_label(subject), subject))
    return unified


def subject_digest(subject_id: str) -> str:
    """Return the digest of a subject's normal form; who has identifiers can compute the same."""
    return _digest_as_written(subject_label(subject_id))


def _digest_as_written(text: str) -> str:
    return digest_of("neurocontrast-subject", text)


def _possible_digests(subject_id: str) -> set[str]:
    """Return digests of a subject's spellings: earlier versions digested identifiers as written."""
    label = subject_label(subject_id)
    labels = {label, unicodedata.normalize("NFD", label)}
    spellings = {subject_id, *labels}
    if label.isdecimal():
        spellings.add(f"{label}.0")
    for prefix in ("sub-", "SUB-", "Sub-", "sub_", "SUB_", "Sub_"):
        spellings.update(map(f"{prefix}{{}}".format, labels))
    return set(map(_digest_as_written, spellings))


@dataclass(frozen=True)
class Recognised:
    """Subjects of a table who were in pretraining, by identifier or by content."""

    named: frozenset[str]
    """Subjects whose identifier was in pretraining."""
    renamed: frozenset[str]
    """Subjects with another identifier whose scan or row of measures was in pretraining."""
    n_not_compared: int
    """Number of subjects with a row whose content could not be compared."""

    @property
    def subjects(self) -> frozenset[str]:
        """All recognised subjects."""
        return self.named | self.renamed

    @property
    def renamed_text(self) -> str:
        """Words on subjects under another identifier, to follow the number of all."""
        if not self.renamed:
            return ""
        return f", {len(self.renamed)} of them under another identifier (the same content)"


@dataclass(frozen=True)
class KnownPeople:
    """Digests of the people of a pretraining: of identifiers, and of scans or measures."""

    subjects: frozenset[str] | None = None
    """Digests of identifiers; None if the people are unknown."""
    contents: frozenset[str] = frozenset()
    """Digests of scans or of rows of measures."""
    is_complete: bool = False
    """Whether `contents` are of all people."""

    @classmethod
    def of_rows(cls, subjects: Iterable[str], contents: Collection[str]) -> Self:
        """Return the people of rows, by identifiers and digests of contents."""
        digests = frozenset(map(subject_digest, set(subjects)))
        return cls(digests, frozenset(" ".join(contents).split()), all(contents))

    def find(self, subjects: Collection[str], contents: Collection[str]) -> Recognised:
        """Recognise subjects by their identifier, or by the content of any of their rows.

        Parameters
        ----------
        subjects : collection of str
            Identifier of the subject of each row.
        contents : collection of str
            Digests of the content of each row, separated by spaces; "" if unknown.
        """
        named = set[str]()
        alike = set[str]()
        for subject in set(subjects):
            if not _possible_digests(subject).isdisjoint(self.subjects or ()):
                named.add(subject)
        for subject, content in zip(subjects, contents, strict=True):
            if not self.contents.isdisjoint(content.split()):
                alike.add(subject)
        not_compared = set(subjects)
        if self.is_complete:
            not_compared = set()
            for subject, content in zip(subjects, contents, strict=True):
                if not content:
                    not_compared.add(subject)
        return Recognised(frozenset(named), frozenset(alike - named), len(not_compared))


def join_contents(contents: Sequence[Sequence[str]]) -> list[str]:
    """Join several lists of digests scan by scan; "" for a scan that one list does not know."""
    joined = []
    for scan in zip(*contents, strict=True):
        digests = dict.fromkeys(scan)
        content = " ".join(digests)
        if "" in digests:
            content = ""
        joined.append(content)
    return joined


def join_people(several: Sequence[KnownPeople]) -> KnownPeople:
    """Return the people of several runs together; a run of unknown people adds none."""
    subjects = frozenset[str]()
    contents = frozenset[str]()
    is_complete = True
    for people in several:
        subjects |= people.subjects or frozenset()
        contents |= people.contents
        is_complete = is_complete and people.is_complete
    return KnownPeople(subjects, contents, is_complete)


def _git_revision() -> Description | None:
    """Return commit and state of the checkout; None for an installed package."""
    revision = _described_revision()
    if revision is None:
        return None
    return {"commit": revision.removesuffix("-dirty"), "modified": revision.endswith("-dirty")}


@cache
def _described_revision() -> str | None:
    """Ask git for the checkout's commit, once: a process runs the code that was loaded first."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always"]
    command += ["--abbrev=40", "--dirty", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
