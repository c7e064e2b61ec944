"""Result of the command `doctor`: software and devices of this machine, and the configured run."""

from __future__ import annotations

from pydantic import Field

from neurocontrast.documents.document import Document


class Processor(Document):
    """Name of the processor, number of cores, and number of cores that this process may use."""

    name: str
    n_cores: int
    n_usable: int


class Machine(Document):
    """Section ``machine`` of `doctor`'s result: versions of software, processor and GPUs."""

    neurocontrast: str
    python: str
    packages: dict[str, str | None]
    """Package → installed version; None for a package that is not installed."""
    platform: str
    processor: Processor
    threads: int
    """Number of threads that PyTorch computes with."""
    gpus: list[str] = Field(default_factory=list)

    def lines(self) -> list[str]:
        """Return lines of text on the machine's software, processor and GPUs, for the terminal."""
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
    """Section ``run`` of `doctor`'s result: encoder, device, and number and shape of the samples.

    The run is the one that `pretrain` would start with the configuration.
    """

    kind: str
    encoder: str
    device: str
    shape: list[int]
    """Shape of a sample: number of regional measures, or channels and voxels along each axis."""
    n_training_scans: int | None = None
    n_validation_scans: int | None = None
    n_skipped: int | None = None
    """Number of scans left out as unreadable; None if no scan was."""
    n_members: int | None = None
    """Number of encoders (members) that the run trains; None for a run of one encoder."""
    advice: str | None = None
    """Recipe, and any settings, for the table of scans: words to type after ``--config``."""
    because: str | None = None
    """Reason for the recipe in `advice`; None if no table of scans is configured."""

    def lines(self) -> list[str]:
        """Return lines of text on the configured run, for the terminal."""
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
    """Result of the command `doctor`, which the command line prints as JSON or as text."""

    machine: Machine
    run: PlannedRun | None = None
    """The configured run; None if this machine cannot run the configuration."""
    problems: list[str] = Field(default_factory=list)
    """Reasons why `pretrain` would refuse the configuration on this machine."""

    def to_text(self) -> str:
        """Return the diagnosis of machine and configuration as lines of text, for the terminal."""
        lines = self.machine.lines()
        if self.run is not None:
            lines += self.run.lines()
        lines += map("problem: {}".format, self.problems)
        return "\n".join(lines)
