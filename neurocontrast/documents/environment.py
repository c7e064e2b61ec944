"""Section ``environment`` of many files: versions, code and machine that made a result."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document


class GitRevision(Document):
    """Commit of the git checkout of neurocontrast, and whether files differed from the commit."""

    commit: str
    modified: bool = False


class Environment(Document):
    """Software and machine that wrote a file; any key may be absent."""

    neurocontrast: str | None = None
    git: GitRevision | None = None
    """Commit of the checkout of neurocontrast; None for an installed package."""
    python: str | None = None
    packages: dict[str, str | None] = Field(default_factory=dict)
    """Package → version; None for a package that was not installed."""
    platform: str | None = None
    n_cpus: int | None = None
    command: list[str] = Field(default_factory=list)
    created: str | None = None
    """Time at which the file was written, in UTC to the second."""
