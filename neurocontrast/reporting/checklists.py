"""Reporting guidelines, item by item: what the report covers, and what only an author can add.

Items are summarised in words of our own; their numbers are those of the guidelines.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CLAIM", "TRIPOD", "Item"]


@dataclass(frozen=True)
class Item:
    """One item of a guideline.

    Attributes
    ----------
    number : str
        As in the guideline.
    asks : str
        What it asks for.
    sections : tuple of str
        Sections of the report that answer it, wholly or in part.
    author : str
        What is left to the author; empty where the report says it all.
    """

    number: str
    asks: str
    sections: tuple[str, ...] = ()
    author: str = ""


_WRITE = "To be written."

TRIPOD: tuple[Item, ...] = (
    Item("1", "Title: development or evaluation of a prediction model, people, outcome", ("result",), "Wording."),
    Item("2", "Abstract, structured (TRIPOD+AI for Abstracts)", ("result",), _WRITE),
    Item("3a", "Healthcare context, rationale, existing models", (), _WRITE),
    Item("3b", "Intended people, place in the care pathway, users", (), _WRITE),
    Item("3c", "Known health inequalities between groups", (), _WRITE),
    Item("4", "Objectives; development, evaluation or both", (), _WRITE),
    Item("5a", "Sources of the data and why they represent the people meant", ("cohort",), "Origin and fitness."),
    Item("5b", "Dates of recruitment and follow-up", (), _WRITE),
    Item("6a", "Setting: number and place of the centres", ("cohort", "sites"), "Kind of care, countries."),
    Item("6b", "Eligibility", ("cohort",), "Criteria of the underlying studies."),
    Item("6c", "Treatments received, and how they were handled", (), _WRITE),
    Item("7", "Preparation and quality checks of the data, alike across groups", ("methods",), "What came before."),
    Item("8a", "Outcome: definition, horizon, assessment, alike across groups", ("cohort",), "How it was assessed."),
    Item("8b", "Who judged a subjective outcome", (), _WRITE),
    Item("8c", "Blinding of the assessment of the outcome", (), _WRITE),
    Item("9a", "Choice of the initial predictors", ("methods",), "Why images of this kind."),
    Item("9b", "Definition and measurement of all predictors; blinding", ("methods", "provenance"), "Acquisition."),
    Item("9c", "Who judged subjective predictors", (), "Not applicable to image features; say so."),
    Item("10", "How the study size came about, and whether it suffices", ("cohort", "learning"), "Reasoning."),
    Item("11", "Missing data: handling, reasons for leaving out", ("cohort",), "Why values are missing."),
    Item("12a", "Use and partition of data for development and evaluation", ("methods", "folds")),
    Item("12b", "Handling of predictors: scaling, transformation", ("methods",)),
    Item("12c", "Type of model, building steps, tuning, internal validation", ("methods", "folds"), "Rationale."),
    Item("12d", "Heterogeneity between clusters: sites, countries", ("new_site", "sites", "confounds")),
    Item("12e", "Measures and plots of performance", ("methods", "curves", "calibration", "errors")),
    Item("12f", "Updating of the model after evaluation", (), "Say that there was none, or how."),
    Item("12g", "How predictions are computed (code, object, interface)", ("methods", "provenance")),
    Item("13", "Class imbalance: methods and recalibration", ("cohort", "calibration"), "If any was used."),
    Item("14", "Approaches to fairness and their rationale", ("groups", "confounds"), "Rationale."),
    Item("15", "Output of the model; thresholds and how they were chosen", ("errors", "methods")),
    Item("16", "Differences between development and evaluation data", ("external", "outlyingness", "cohort"),
         "Setting, eligibility."),
    Item("17", "Ethics approval and consent", (), _WRITE),
    Item("18a", "Funding and the role of funders", (), _WRITE),
    Item("18b", "Conflicts of interest", (), _WRITE),
    Item("18c", "Protocol, and where it can be read", (), _WRITE),
    Item("18d", "Registration", (), _WRITE),
    Item("18e", "Sharing of data", ("provenance",), "Where, and on what terms."),
    Item("18f", "Sharing of code", ("provenance",), "Where your own scripts are."),
    Item("19", "Involvement of patients and the public", (), _WRITE),
    Item("20a", "Flow of participants, with and without the outcome", ("cohort",), "Before the table of scans."),
    Item("20b", "Characteristics overall and by centre; missing data", ("cohort", "sites", "groups"), "Clinical ones."),
    Item("20c", "Predictors in evaluation beside development data", ("outlyingness", "map", "external"),
         "Comparison of cohorts."),
    Item("21", "Participants and events in each analysis", ("cohort", "folds")),
    Item("22", "The full model, so that it can be applied; restrictions of access", ("methods", "provenance"),
         "Where weights and probe are."),
    Item("23a", "Performance with intervals, in key groups too", ("result", "groups", "curves", "calibration")),
    Item("23b", "Heterogeneity of performance between clusters", ("new_site", "sites")),
    Item("24", "Results of updating", (), "If there was any."),
    Item("25", "Interpretation, with fairness, beside earlier work", (), _WRITE),
    Item("26", "Limitations: sample, size, overfitting, missing data", ("warnings", "silences"), "Your own too."),
    Item("27a", "Poor or missing input at the time of use", ("outlyingness",), "What is done with such a scan."),
    Item("27b", "Interaction and expertise that users need", (), _WRITE),
    Item("27c", "Next steps, applicability, generalisability", ("new_site", "outlyingness", "silences"), _WRITE),
)  # fmt: skip
"""TRIPOD+AI (2024): 27 items, some with parts."""

CLAIM: tuple[Item, ...] = (
    Item("1", "Title: a study of AI, and of which kind", (), _WRITE),
    Item("2", "Abstract, structured", ("result",), _WRITE),
    Item("3", "Background: purpose and clinical role", (), _WRITE),
    Item("4", "Aims, objectives, hypotheses", (), _WRITE),
    Item("5", "Prospective or retrospective", (), _WRITE),
    Item("6", "Goal of the study", (), _WRITE),
    Item("7", "Sources of data", ("cohort",), "Origin, dates, licences."),
    Item("8", "Inclusion and exclusion", ("cohort",), "Criteria of the underlying studies."),
    Item("9", "Preprocessing", ("methods", "provenance"), "What came before."),
    Item("10", "Choice of subsets of the data", ("cohort", "provenance")),
    Item("11", "De-identification", (), _WRITE),
    Item("12", "Missing data", ("cohort",), "Why values are missing."),
    Item("13", "Acquisition protocol of the images", (), "Scanners, sequences."),
    Item("14", "Reference standard: how it was obtained", ("cohort",), "Instrument, assessor."),
    Item("15", "Why this reference standard", (), _WRITE),
    Item("16", "Source of the annotations", (), _WRITE),
    Item("17", "Annotation of the test set", (), _WRITE),
    Item("18", "Variability between and within raters", (), _WRITE),
    Item("19", "Assignment of data to partitions", ("methods", "folds")),
    Item("20", "Level at which partitions are disjoint", ("methods",)),
    Item("21", "Intended sample size", ("learning",), "Reasoning."),
    Item("22", "The model in detail: input, output, layers", ("methods", "provenance")),
    Item("23", "Software, libraries, versions", ("methods", "provenance")),
    Item("24", "Initialisation of the parameters", ("provenance",), "Weights that were started from."),
    Item("25", "Training: augmentation, hyperparameters, number of models", ("methods", "training", "provenance")),
    Item("26", "How the final model was chosen", ("methods",), "How the encoder was chosen."),
    Item("27", "Ensembling", (), "Say that there was none, or how."),
    Item("28", "Metrics of performance", ("methods", "result")),
    Item("29", "Significance and uncertainty", ("methods", "result")),
    Item("30", "Robustness and sensitivity analyses", ("new_site", "outlyingness", "sites", "groups", "confounds"),
         "Further ones."),
    Item("31", "Explainability, and how it was validated", ("brain",), "Validation."),
    Item("32", "Evaluation on internal data", ("result", "curves")),
    Item("33", "Test on external data", ("external", "new_site"),
         "Say so where there was none: sites left out in turn are of the same collection."),
    Item("34", "Registration of a clinical trial", (), "If it is one."),
    Item("35", "Numbers of people included and excluded", ("cohort",), "Before the table of scans."),
    Item("36", "Characteristics of the cases in each partition", ("cohort", "groups", "folds"), "Clinical ones."),
    Item("37", "Performance and its uncertainty on all partitions", ("result", "new_site", "external")),
    Item("38", "Diagnostic performance with its precision", ("result", "errors")),
    Item("39", "Analysis of failures", ("worst", "outlyingness"), "Causes, after looking at the scans."),
    Item("40", "Limitations", ("warnings", "silences"), "Your own too."),
    Item("41", "Implications for practice", (), _WRITE),
    Item("42", "Full protocol or further technical details", ("provenance",), "Where the protocol is."),
    Item("43", "Availability of software, model and data", ("provenance",), "Where, and on what terms."),
    Item("44", "Funding; role of funders; independence of authors", (), _WRITE),
)  # fmt: skip
"""CLAIM, 2024 update: 44 items."""
