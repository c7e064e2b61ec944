"""One cohort in many spellings: tables of people and of measures whose meaning stays the same."""

import json
import random
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

N_PEOPLE = 16
N_DIGITS = 3
"""Characters at the end of a person's name that no change of spelling touches."""
SITES = ("Köln", "2")
"""A name with an accent, and one that a spreadsheet turns into a number."""
VOLUMES_MM3 = {
    "Left-Hippocampus": 4000.0,
    "Right-Hippocampus": 4100.0,
    "Left-Putamen": 5000.0,
    "Right-Putamen": 5000.0,
    "Left-Amygdala": 1600.0,
    "Right-Amygdala": 1600.0,
    "Left-Thalamus": 7500.0,
    "Right-Thalamus": 7400.0,
    "Brain-Stem": 21000.0,
}
THICKNESSES = ("lh_cuneus_thickness", "rh_cuneus_thickness", "lh_insula_thickness")


@dataclass
class Spelling:
    """Tables of one cohort, as text, and how their files are written."""

    people: pd.DataFrame
    measures: pd.DataFrame
    sidecar: dict[str, dict[str, object]] = field(default_factory=dict)
    ending: str = ".tsv"
    separator: str = "\t"
    encoding: str = "utf-8"
    line_end: str = "\n"
    changes: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Write the table of people, its JSON file and the table of measures."""
        folder.mkdir(parents=True, exist_ok=True)
        table = folder / f"people{self.ending}"
        text = self.people.to_csv(
            index=False, sep=self.separator, lineterminator=self.line_end, na_rep="n/a"
        )
        table.write_bytes(text.encode(self.encoding))
        if self.sidecar:
            (folder / "people.json").write_text(json.dumps(self.sidecar))
        measures = folder / "measures" / "measures.tsv"
        measures.parent.mkdir()
        self.measures.to_csv(measures, sep="\t", index=False, float_format="%.6f")
        return table, measures


def plain_cohort() -> Spelling:
    """Return people of two sites with their measures, written as the documentation asks."""
    generator = np.random.default_rng(0)
    names = [f"{number:03d}" for number in range(N_PEOPLE)]
    people = pd.DataFrame(
        {
            "participant_id": names,
            "age": [f"{age:.0f}" for age in generator.uniform(20, 80, N_PEOPLE)],
            "sex": ["FM"[number // 2 % 2] for number in range(N_PEOPLE)],
            "site": [SITES[number % 2] for number in range(N_PEOPLE)],
            "diagnosis": [("control", "patient")[number // 4 % 2] for number in range(N_PEOPLE)],
            "tiv": [f"{volume:.0f}" for volume in generator.uniform(1250, 1700, N_PEOPLE)],
        }
    )
    measures = pd.DataFrame({"participant_id": names})
    for name, typical in VOLUMES_MM3.items():
        measures[name] = typical * generator.normal(1, 0.08, N_PEOPLE)
    for name in THICKNESSES:
        measures[name] = 2.5 * generator.normal(1, 0.05, N_PEOPLE)
    return Spelling(people, measures)


def rows_changed(people: pd.DataFrame, chance: random.Random) -> np.ndarray:
    """Draw whose cells are spelled otherwise: everybody's, one site's or one person's."""
    scope = chance.choice(("all", "site", "person"))
    if scope == "all":
        return np.ones(len(people), dtype=bool)
    person = chance.randrange(len(people))
    if scope == "person":
        return np.arange(len(people)) == person
    return (people["site"] == people["site"].iloc[person]).to_numpy()


WORDS_OF_SEX = (
    ("female", "male"),
    ("Female", "Male"),
    ("f", "m"),
    (" F ", "M"),
    ("FEMALE", "MALE"),
    ("weiblich", "männlich"),
    ("w", "m"),
    ("Femme", "Homme"),
    ("F", "H"),
    ("2", "1"),
    ("2.0", "1.0"),
    ("0", "1"),
    ("a", "b"),
    ("woman", "man"),
)


def spell_sex(cohort: Spelling, chance: random.Random) -> str:
    """Write sex in other words."""
    female, male = chance.choice(WORDS_OF_SEX)
    rows = rows_changed(cohort.people, chance)
    words = cohort.people["sex"].map({"F": female, "M": male})
    cohort.people["sex"] = cohort.people["sex"].mask(rows, words)
    return f"sex as {female}/{male} of {rows.sum()}"


def code_sex(cohort: Spelling, chance: random.Random) -> str:
    """Write sex as codes that the JSON file explains."""
    female, male = chance.choice((("1", "2"), ("2", "1"), ("0", "1"), ("1", "0")))
    cohort.people["sex"] = cohort.people["sex"].map({"F": female, "M": male})
    cohort.sidecar["sex"] = {"Levels": {female: "female", male: "male"}}
    return f"sex coded {female}/{male} with Levels"


def explain_sex_in_header(cohort: Spelling, chance: random.Random) -> str:
    """Write sex as codes that the column's own name explains."""
    if "sex" not in cohort.people:
        return "no sex to change"
    female, male = chance.choice((("1", "2"), ("2", "1")))
    header = chance.choice(("Gender_ {f}=female_{m}=male", "SEX_ID ({m}=m, {f}=f)"))
    cohort.people["sex"] = cohort.people["sex"].map({"F": female, "M": male})
    name = header.format(f=female, m=male)
    cohort.people = cohort.people.rename(columns={"sex": name})
    return f"column {name}"


HEADERS = (
    ("sex", ("Sex", "SEX", "gender", "Gender", "M/F")),
    ("age", ("Age", "AGE")),
    ("site", ("Site", "center", "centre")),
    ("participant_id", ("Participant_ID",)),
)


def rename_column(cohort: Spelling, chance: random.Random) -> str:
    """Give a column another usual name."""
    column, names = chance.choice(HEADERS)
    name = chance.choice(names)
    cohort.people = cohort.people.rename(columns={column: name})
    return f"{column} named {name}"


def count_months(cohort: Spelling, chance: random.Random) -> str:
    """Write ages in months, as the JSON file says."""
    if "age" not in cohort.people or "age" in cohort.sidecar:
        return "no age to change"
    months = cohort.people["age"].astype(float) * 12
    cohort.people["age"] = months.map("{:.0f}".format)
    cohort.sidecar["age"] = {"Units": chance.choice(("months", "month", "Months"))}
    return "ages in months"


def prefix_names(cohort: Spelling, chance: random.Random) -> str:
    """Write sub- before the names of people, in one of the two tables."""
    table = chance.choice((cohort.people, cohort.measures))
    if "participant_id" not in table:
        return "no participant_id to change"
    table["participant_id"] = "sub-" + table["participant_id"].str.removeprefix("sub-")
    return "sub- before names"


def number_site(cohort: Spelling, chance: random.Random) -> str:
    """Write the site 2 as 2.0, for everybody or for one of its people."""
    if "site" not in cohort.people:
        return "no site to change"
    rows = np.flatnonzero(cohort.people["site"] == "2")
    if not len(rows):
        return "no site 2"
    if chance.random() < 0.5:
        rows = rows[:1]
    cohort.people.loc[cohort.people.index[rows], "site"] = "2.0"
    return f"site 2.0 of {len(rows)}"


def decompose_site(cohort: Spelling, chance: random.Random) -> str:
    """Write accents as Unicode's decomposed form, for everybody or for one person."""
    if "site" not in cohort.people:
        return "no site to change"
    rows = rows_changed(cohort.people, chance)
    decomposed = cohort.people["site"].map(lambda name: unicodedata.normalize("NFD", name))
    cohort.people["site"] = cohort.people["site"].mask(rows, decomposed)
    return f"site decomposed of {rows.sum()}"


def change_file(cohort: Spelling, chance: random.Random) -> str:
    """Write the file of people otherwise."""
    kind = chance.choice(("comma", "semicolon", "bom", "crlf", "utf-16"))
    if kind in ("comma", "semicolon"):
        cohort.ending = ".csv"
        cohort.separator = "," if kind == "comma" else ";"
    elif kind == "crlf":
        cohort.line_end = "\r\n"
    else:
        cohort.encoding = "utf-8-sig" if kind == "bom" else "utf-16"
    return kind


def note_with_comma(cohort: Spelling, chance: random.Random) -> str:
    """Add a column of notes whose name has a comma."""
    del chance
    cohort.people["notes, free"] = "x"
    return "notes, free"


def shuffle(cohort: Spelling, chance: random.Random) -> str:
    """Change the order of rows and of columns of both tables."""
    seed = chance.randrange(2**32)
    cohort.people = cohort.people.sample(frac=1, random_state=seed)
    cohort.measures = cohort.measures.sample(frac=1, random_state=seed + 1)
    columns = [name for name in cohort.measures if name != "participant_id"]
    chance.shuffle(columns)
    cohort.measures = cohort.measures[["participant_id", *columns]]
    return "shuffled"


def change_units(cohort: Spelling, chance: random.Random) -> str:
    """Write volumes in mL or thicknesses in cm, of everybody, of one site or of one person."""
    rows = rows_changed(plain_cohort().people, chance)
    people = plain_cohort().people["participant_id"][rows]
    names = cohort.measures["participant_id"].str[-N_DIGITS:]
    chosen = names.isin(set(people)).to_numpy()
    if chance.random() < 0.5:
        cohort.measures.loc[chosen, list(THICKNESSES)] /= 10
        return f"cm of {chosen.sum()}"
    cohort.measures.loc[chosen, list(VOLUMES_MM3)] /= 1000
    return f"mL of {chosen.sum()}"


def change_head_size(cohort: Spelling, chance: random.Random) -> str:
    """Write head sizes in mm³, which their size tells, or in a unit of the JSON file."""
    rows = rows_changed(plain_cohort().people, chance)
    unit = chance.choice(("mm3", "cm3", "L", "none", "none"))
    if unit != "none":
        rows = np.ones(N_PEOPLE, dtype=bool)
        cohort.sidecar["tiv"] = {"Units": unit}
    factor = {"mm3": 1000.0, "cm3": 1.0, "L": 0.001, "none": 1000.0}[unit]
    volumes = cohort.people["tiv"].astype(float) * factor
    cohort.people["tiv"] = cohort.people["tiv"].mask(rows, volumes.map("{:.3f}".format))
    return f"tiv times {factor} of {rows.sum()}, Units {unit}"


def rename_people(cohort: Spelling, chance: random.Random) -> str:
    """Give everybody another name in both tables, with an accent in one or the other form."""
    for table in (cohort.people, cohort.measures):
        form = chance.choice(("NFC", "NFD"))
        names = table["participant_id"].str[-N_DIGITS:]
        table["participant_id"] = unicodedata.normalize(form, "Zoë") + names
    return "everybody renamed"


def code_levels(cohort: Spelling, chance: random.Random) -> str:
    """Write site or diagnosis as codes that the JSON file explains."""
    column = chance.choice(("site", "diagnosis"))
    words = list(cohort.people[column].unique())
    codes = {word: str(number + 1) for number, word in enumerate(words)}
    cohort.people[column] = cohort.people[column].map(codes)
    levels: dict[str, object] = {code: word for word, code in codes.items()}
    if chance.random() < 0.5:
        levels = {code: {"Description": word} for code, word in levels.items()}
    key = chance.choice(("Levels", "levels"))
    cohort.sidecar[column] = {key: levels}
    return f"{column} coded with {key}"


def add_sessions(cohort: Spelling, chance: random.Random) -> str:
    """Add the one session of everybody to both tables."""
    del chance
    for table in (cohort.people, cohort.measures):
        table["session_id"] = "ses-1"
    return "sessions"


DTYPES = {
    "sex": ("category", "string[pyarrow]", "string"),
    "site": ("category", "string[pyarrow]"),
    "diagnosis": ("category", "string[pyarrow]"),
    "age": ("Int64", "Float64", "int64[pyarrow]"),
}


def change_dtype(cohort: Spelling, chance: random.Random) -> str:
    """Hold a column of people in another dtype of pandas."""
    column = chance.choice(sorted(DTYPES))
    if column not in cohort.people or column in cohort.sidecar:
        return f"no {column} to change"
    dtype = chance.choice(DTYPES[column])
    values = cohort.people[column]
    if column == "age":
        values = values.astype(float).round()
    cohort.people[column] = values.astype(dtype)
    return f"{column} as {dtype}"


def empty_column(cohort: Spelling, chance: random.Random) -> str:
    """Add a measure that nobody has."""
    del chance
    cohort.measures["Left-Pallidum"] = np.nan
    return "a measure of nobody"


CHANGES: tuple[Callable[[Spelling, random.Random], str], ...] = (
    spell_sex,
    code_sex,
    explain_sex_in_header,
    rename_column,
    count_months,
    prefix_names,
    number_site,
    decompose_site,
    change_file,
    note_with_comma,
    shuffle,
    change_units,
    empty_column,
    change_head_size,
    rename_people,
    code_levels,
    add_sessions,
    change_dtype,
)
LAST = (rename_column, explain_sex_in_header, change_dtype)
"""Changes after which others do not find their column by the usual name, or as text."""
OF_SITE = {code_levels, number_site, decompose_site}
OF_NAMES = {rename_people, prefix_names}
OF_SEX = {spell_sex, code_sex, explain_sex_in_header}


def spelled(seed: int) -> Spelling:
    """Draw one to three changes of spelling of the plain cohort."""
    chance = random.Random(seed)
    cohort = plain_cohort()
    chosen = chance.sample(CHANGES, k=chance.choice((1, 1, 2, 3)))
    if any(len(group & set(chosen)) > 1 for group in (OF_SEX, OF_SITE, OF_NAMES)):
        chosen = chosen[:1]
    for change in sorted(chosen, key=lambda change: change in LAST):
        cohort.changes.append(change(cohort, chance))
    return cohort
