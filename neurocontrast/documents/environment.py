"""Section ``environment`` of many files: versions, code and machine of a result."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document


class GitRevision(Document):
    """Commit of the code's repository, and whether files differ from the commit."""

    commit: str
    modified: bool = False


class Environment(Document):
    """Software and machine that wrote a file; any key may be absent."""

    neurocontrast: str | None = None
    git: GitRevision | None = None
    """Commit of the code; None of an installed package."""
    python: str | None = None
    packages: dict[str, str | None] = Field(default_factory=dict)
    """Package → version; None of one that was not installed."""
    platform: str | None = None
    n_cpus: int | None = None
    command: list[str] = Field(default_factory=list)
    created: str | None = None
    """Time in UTC, to the second."""
