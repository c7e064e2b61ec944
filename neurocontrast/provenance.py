"""Describe the software behind a result, and recognise pretraining's people by digests."""

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
"""Column, in a table of embeddings, with a digest of each scan's content, to recognise a person
under a new identifier."""


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
    """Return package → installed version, None for a package that is absent."""
    versions = {}
    for package in packages:
        versions[package] = _installed_version(package)
    return versions


def describe_environment() -> Description:
    """Return versions, code revision, operating system, processors and time as a section for JSON.

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
    """Return a person's identifier in one spelling: Unicode NFC, no ``sub-``, leading zeros kept.

    The prefix counts in any case, and with an underscore: ``SUB-01`` and ``sub_01`` are ``01``.
    A number that a table of floats made ``12.0`` is ``12``.
    """
    label = _PREFIXES.sub("", trimmed(composed(identifier)))
    return _AS_FLOAT.sub(r"\1", label)


def unify_subjects(subjects: Iterable[str], known: Iterable[str] = ()) -> list[str]:
    """Return the identifiers `subjects`, in order, with one spelling for each person.

    The spelling is the person's first one in `known`, or else in `subjects`.
    """
    first: dict[str, str] = {}
    for subject in known:
        first.setdefault(subject_label(subject), subject)
    unified = []
    for subject in subjects:
        unified.append(first.setdefault(subject_label(subject), subject))
    return unified


def subject_digest(subject_id: str) -> str:
    """Return the digest of a person's identifier; who has the identifier can compute the same."""
    return _digest_as_written(subject_label(subject_id))


def _digest_as_written(text: str) -> str:
    return digest_of("neurocontrast-subject", text)


def _possible_digests(subject_id: str) -> set[str]:
    """Return the digests by which this or an earlier version may have recorded an identifier.

    Earlier versions digested identifiers as spelled in a table, such as ``sub-01`` or ``01``.
    """
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
    """Subjects of a table who were in a training, recognised by identifier or by content.

    The training is the pretraining of an encoder, or the fit of a probe; `KnownPeople.find` returns
    the subjects.
    """

    named: frozenset[str]
    """Subjects whose identifier was in the training."""
    renamed: frozenset[str]
    """Subjects with another identifier whose scan or row of measures was in the training."""
    n_not_compared: int
    """Number of subjects with a row whose content could not be compared with the training's."""

    @property
    def subjects(self) -> frozenset[str]:
        """Set of all recognised subjects: `named` (by identifier) and `renamed` (by content).

        A subject is recognised if the identifier, or the content of one of the subject's rows in
        the table (a scan or measures), was in the training of an encoder or a probe.
        """
        return self.named | self.renamed

    @property
    def renamed_text(self) -> str:
        """Words on the number of `renamed` subjects, with a leading comma; "" if none is renamed.

        In a message the words follow the number of all recognised subjects. A renamed subject has
        another identifier than in the training, but the same scan or row of measures.
        """
        if not self.renamed:
            return ""
        return f", {len(self.renamed)} of them under another identifier (the same content)"


@dataclass(frozen=True)
class KnownPeople:
    """Digests of the people of a training: of identifiers, and of scans or measures.

    The training is the pretraining of an encoder, or the fit of a probe.
    """

    subjects: frozenset[str] | None = None
    """Digests of identifiers; None if the people of the training are unknown."""
    contents: frozenset[str] = frozenset()
    """Digests of scans, or of rows of regional measures, of the training."""
    is_complete: bool = False
    """Whether `contents` has a digest of every scan or row of the training."""

    @classmethod
    def of_rows(cls, subjects: Iterable[str], contents: Collection[str]) -> Self:
        """Return digests of the people of a training, one entry of `subjects` and `contents` a row.

        `subjects` are identifiers; `contents` are digests of the rows' scans or measures, "" if
        unknown.
        """
        digests = frozenset(map(subject_digest, set(subjects)))
        return cls(digests, frozenset(" ".join(contents).split()), all(contents))

    def find(self, subjects: Collection[str], contents: Collection[str]) -> Recognised:
        """Return which subjects of a table were in the training, by identifier or by content.

        The training is the one whose digests this object holds. Returned is a `Recognised`. A
        subject is recognised by content if the scan or the measures of any of the subject's rows
        were in the training.

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
    """Return a text for each scan, in order: the scan's digests, separated by spaces.

    `contents` are lists with one entry for every scan, for instance the digest of the files that
    one of several encoders reads. Equal digests are written once. The text is "" if a list lacks
    the scan's digest.
    """
    joined = []
    for scan in zip(*contents, strict=True):
        digests = dict.fromkeys(scan)
        content = " ".join(digests)
        if "" in digests:
            content = ""
        joined.append(content)
    return joined


def join_people(several: Sequence[KnownPeople]) -> KnownPeople:
    """Join the digests of people of several pretraining runs to one `KnownPeople`.

    A run whose people are unknown (`subjects` is None) adds no identifiers. In the result,
    `is_complete` is True only if every run recorded a digest of every scan or row.
    """
    subjects = frozenset[str]()
    contents = frozenset[str]()
    is_complete = True
    for people in several:
        subjects |= people.subjects or frozenset()
        contents |= people.contents
        is_complete = is_complete and people.is_complete
    return KnownPeople(subjects, contents, is_complete)


def _git_revision() -> Description | None:
    """Return commit and state (modified or not) of this package's git checkout; None if none."""
    revision = _described_revision()
    if revision is None:
        return None
    return {"commit": revision.removesuffix("-dirty"), "modified": revision.endswith("-dirty")}


@cache
def _described_revision() -> str | None:
    """Return the commit of this package's git checkout, with "-dirty" if modified; None if none.

    Git is asked only once: a process runs the code loaded at its start.
    """
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
