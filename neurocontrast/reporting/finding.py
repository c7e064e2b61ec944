"""Finding: one analysis of an evaluation, with its measurement, record and report section."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neurocontrast.documents.section import Part
from neurocontrast.evaluation.measure.finding import Inputs, Measurement
from neurocontrast.evaluation.plan.plan import Plan
from neurocontrast.exceptions import one_of
from neurocontrast.reporting.blocks import Section
from neurocontrast.reporting.folder import KINDS, EvaluationFolder
from neurocontrast.reporting.voices import VOICES
from neurocontrast.reporting.wording import SCANS


@dataclass(frozen=True)
class Finding:
    """One analysis of an evaluation, such as of errors by site.

    The analysis has a measurement, a key with the results in ``evaluation.json``, and a section in
    the report, or only some of the three.

    Parameters
    ----------
    name : str
        Anchor of the section in the page.
    show : callable, optional
        Takes an `EvaluationFolder` and returns a `Section`, or None if there is nothing to show.
    measure : callable, optional
        Takes `Inputs` and returns `Measurement`.
    check : callable, optional
        Takes a plan; raises if the finding cannot be measured with the plan's settings.
    record : type of Part, optional
        Model of the finding's key in ``evaluation.json``.
    methods : str
        Jinja text for Methods: a line ``## Heading.`` and prose; ``cite("A reference in full.")``
        gives its number.
    of : tuple of str
        Kinds of samples, as ``files.words.kind`` names them (``scans``), whose reports have the
        section; empty for all.
    kinds : tuple of str
        Kinds of target whose reports have the section.
    last : bool
        Whether the finding is measured after all others, because it needs their results.

    Notes
    -----
    `measure` and `check` of ``neurocontrast.evaluation.measure`` take further findings as
    ``(*FINDINGS, MINE)``, `open_folder` as ``findings=(*FINDINGS, MINE)``. A section knows no HTML,
    and takes nouns (scans, images) from ``files.words``.

    Examples
    --------
    >>> from neurocontrast.reporting.blocks import Paragraph
    >>> class Headcount(Part):
    ...     key = "headcount"
    ...     n_classes: int
    >>> def count(inputs):
    ...     counts = pd.Series(inputs.plan.target.labels()).value_counts()
    ...     record = Headcount(n_classes=len(counts))
    ...     return Measurement({"headcount": record}, {"headcount": counts.reset_index()})
    >>> def show(files):
    ...     text = f"{files.summary.part(Headcount).n_classes} classes."
    ...     return Section("headcount", "Headcount", [Paragraph(text)])
    >>> MINE = Finding("headcount", show, count, record=Headcount)
    """

    name: str
    show: Callable[[EvaluationFolder], Section | None] | None = None
    measure: Callable[[Inputs], Measurement] | None = None
    check: Callable[[Plan], None] | None = None
    record: type[Part] | None = None
    methods: str = ""
    of: tuple[str, ...] = ()
    kinds: tuple[str, ...] = KINDS
    last: bool = False

    def __post_init__(self) -> None:
        self._refuse_unknown("kinds", self.kinds, KINDS)
        self._refuse_unknown("of", self.of, (SCANS.kind, *VOICES.names()))

    def _refuse_unknown(self, field: str, names: Sequence[str], allowed: Sequence[str]) -> None:
        """Raise `ValueError` unless all `names`, the value of attribute `field`, are allowed."""
        unknown = sorted(set(names).difference(allowed))
        if unknown:
            raise ValueError(
                f"finding '{self.name}': {field} are among {one_of(allowed)}, "
                f"found {one_of(unknown)}."
            )

    def fits(self, files: EvaluationFolder) -> bool:
        """Tell whether the report on an evaluation has this finding's section.

        A finding is one analysis of an evaluation, and `files` is the evaluation's folder. The
        section is shown if the evaluation's kind of samples is in `of`, or `of` is empty, and its
        kind of target is in `kinds`.
        """
        is_of_samples = not self.of or files.words.kind in self.of
        return is_of_samples and files.kind in self.kinds
