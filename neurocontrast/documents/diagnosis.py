"""Findings of `doctor`: this machine, and a run that is configured."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document


class Processor(Document):
    """Name of the processor, its cores, and the cores that this process may use."""

    name: str
    n_cores: int
    n_usable: int


class Machine(Document):
    """Section ``machine``: software and devices."""

    neurocontrast: str
    python: str
    packages: dict[str, str | None]
    """Package → version; None of one that is not installed."""
    platform: str
    processor: Processor
    threads: int
    """Threads that PyTorch computes with."""
    gpus: list[str] = Field(default_factory=list)

    def lines(self) -> list[str]:
        """Describe the machine for people."""
        versions = []
        for package, version in self.packages.items():
            if version:
                versions.append(f"{package} {version}")
        processor = self.processor
        cores = f"{processor.n_usable} of {processor.n_cores} cores usable"
        return [
            f"neurocontrast  {self.neurocontrast}, Python {self.python}, {self.platform}",
            f"packages       {', '.join(versions)}",
            f"processor      {processor.name}, {cores}",
            f"threads        PyTorch computes with {self.threads}",
            f"GPU            {', '.join(self.gpus) or 'none that PyTorch sees'}",
        ]


class PlannedRun(Document):
    """Section ``run``: encoder, device and samples; numbers of scans only where a table is read."""

    kind: str
    encoder: str
    device: str
    shape: list[int]
    """Measures of a person, or channels and voxels of a sample."""
    n_training_scans: int | None = None
    n_validation_scans: int | None = None
    n_skipped: int | None = None
    """Scans left out, where any are."""
    n_members: int | None = None
    """Members of a run of several."""
    advice: str | None = None
    """Words after ``--config`` that suit the table."""
    because: str | None = None

    def lines(self) -> list[str]:
        """Describe the run for people."""
        sample = f"{'×'.join(map(str, self.shape))} a sample"
        if len(self.shape) == 1:
            sample = f"{self.shape[0]} measures a person"
        lines = ["", f"This run: {self.encoder} on {self.device}, {sample}"]
        if self.n_training_scans is None:
            return lines
        lines += [
            f"  {self.n_training_scans:,} to learn from, {self.n_validation_scans:,} to measure on",
            f"  Recipe for this table: {self.advice} ({self.because}).",
        ]
        if self.n_members is not None:
            lines.append(f"  {self.n_members} members (training.members), one after the other")
        if self.n_skipped is not None:
            lines.append(f"  {self.n_skipped:,} left out (data.skip_unreadable)")
        return lines


class Diagnosis(Document):
    """Findings of `doctor`, which the command line prints as JSON or as text."""

    machine: Machine
    run: PlannedRun | None = None
    """Encoder, device, shape and numbers of scans of the run; None where it is refused here."""
    problems: list[str] = Field(default_factory=list)
    """Why `pretrain` would refuse this configuration on this machine."""

    def to_text(self) -> str:
        """Return lines for people."""
        lines = self.machine.lines()
        if self.run is not None:
            lines += self.run.lines()
        lines += map("problem: {}".format, self.problems)
        return "\n".join(lines)
