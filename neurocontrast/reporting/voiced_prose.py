"""Result in sentences for samples other than scans, such as images, from Jinja text templates."""

from dataclasses import dataclass

from neurocontrast.documents.figures import Metric
from neurocontrast.reporting.folder import EvaluationFolder
from neurocontrast.reporting.texts import write
from neurocontrast.reporting.wording import describe_metric, point_estimate


@dataclass(frozen=True)
class VoicedResult:
    """Sentences about metric `key` of samples other than scans, such as images.

    The sentences come from Jinja text templates for the kind of samples.
    """

    files: EvaluationFolder
    key: str | None

    def _write(self, name: str) -> str:
        metric = self.files.metrics.get(self.key or "") or Metric()
        return write(
            f"result_{name}.j2",
            self.files,
            key=self.key,
            values=metric,
            value=point_estimate(metric),
            named=describe_metric(self.key or "", self.files.words),
        )

    def sentence(self) -> str:
        """Say the evaluation's result in one sentence, for the head of the report's page."""
        return self._write("sentence")

    def plain(self) -> str:
        """Say the evaluation's result in sentences without a technical term."""
        return self._write("plain")

    def reviewer(self) -> str:
        """Say the evaluation's result with the details that a reviewer of methods needs first."""
        return self._write("reviewer")

    def data(self) -> str:
        """Say which samples were evaluated, and how many."""
        return self._write("data")
