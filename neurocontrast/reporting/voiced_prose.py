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
        """Return the evaluation's result as one sentence, for the top of the report's page."""
        return self._write("sentence")

    def plain(self) -> str:
        """Return the evaluation's result as a text of plain sentences, without technical terms."""
        return self._write("plain")

    def reviewer(self) -> str:
        """Return the result as a text with details for a reviewer of methods."""
        return self._write("reviewer")

    def data(self) -> str:
        """Return a text on the evaluated samples, such as data set and number of classes."""
        return self._write("data")
