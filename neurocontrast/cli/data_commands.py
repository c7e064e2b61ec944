"""The commands that make and check scans, images and tables; and `config …`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import neurocontrast
from neurocontrast.cli.command import (
    CommonOptions,
    ConfigOptions,
    ImagesRoot,
    Overwrite,
    Result,
    Table,
    argument,
    option,
)
from neurocontrast.data.layouts import LAYOUTS
from neurocontrast.exceptions import ConfigError, suggestion
from neurocontrast.files import check_writable, write_text
from neurocontrast.reading import read_json

_SCHEMA = "neurocontrast.schema.json"
Name = Annotated[str, argument("NAME", "Name of a recipe, such as yaware or natural/simclr.")]


def simulate(
    common: ConfigOptions,
    out: Annotated[
        Path, argument("OUT", "Folder to write: participants.tsv, images/, simulation.json.")
    ],
    n_subjects: Annotated[int | None, option("Number of subjects.")] = None,
    n_sites: Annotated[int | None, option("Number of sites.")] = None,
    spacing_mm: Annotated[float | None, option("Voxel size in mm.")] = None,
    patients: Annotated[float | None, option("Fraction of subjects who are patients.")] = None,
    seed: Annotated[int | None, option("Seed of every subject and site.")] = None,
    site_seed: Annotated[
        int | None, option("Seed of the sites; cohorts with the same one share scanners.")
    ] = None,
    overwrite: Overwrite = False,
) -> Result:
    """Simulate a multi-site cohort of brains with age, sex, disease and scanner effects
    (labelled as simulated).
    """
    options = {
        "n_subjects": n_subjects,
        "n_sites": n_sites,
        "spacing_mm": spacing_mm,
        "patients": patients,
    }
    settings = common.resolve(
        simulation={**options, "seed": seed, "site_seed": site_seed}
    ).simulation
    return _cohort_result(
        neurocontrast.simulate(out, settings, overwrite=overwrite, progress=common.progress)
    )


def images(
    common: ConfigOptions,
    out: Annotated[
        Path, argument("OUT", "Folder to write: images.npy, participants.tsv, images.json.")
    ],
    dataset: Annotated[
        str | None, option("digits, cifar10, cifar100, mnist, fashion-mnist or folder.")
    ] = None,
    source: Annotated[
        Path | None, option("Folder or archive (.tar, .tar.gz, .tar.xz, .zip) of the data set.")
    ] = None,
    size: Annotated[
        int | None, option("Side of every image in pixels, after scaling and cropping.")
    ] = None,
    background: Annotated[
        str | None, option("random: colours behind grey pictures, as ColorMNIST has.")
    ] = None,
    n_train: Annotated[int | None, option("Number of training images to keep.")] = None,
    n_validation: Annotated[int | None, option("Number of validation images to keep.")] = None,
    n_test: Annotated[int | None, option("Number of test images to keep.")] = None,
    seed: Annotated[int | None, option("Seed of split, subset and background.")] = None,
    overwrite: Overwrite = False,
) -> Result:
    """Prepare a data set of natural images: one file of bytes and a table with one row per image.

    Splits are chosen in the section 'images' of the configuration, or by --set.
    """
    images: dict[str, object] = {
        "dataset": dataset,
        "source": source,
        "size": size,
        "background": background,
        "seed": seed,
        "n_train": n_train,
        "n_validation": n_validation,
        "n_test": n_test,
    }
    settings = common.resolve(images=images).images
    return _cohort_result(
        neurocontrast.prepare_images(out, settings, overwrite=overwrite, progress=common.progress)
    )


def _cohort_result(participants: Path) -> Result:
    """Return counts of the scans of each site as a `Result` to print; for images, of each split.

    `participants` is the table of scans that was written.
    """
    from neurocontrast.commands.check_counts import summarise
    from neurocontrast.data.cohort import read_cohort

    counts = summarise(read_cohort(participants, check_images=False))
    table = counts.rename_axis("").reset_index()
    following = ("check", participants)
    return Result(
        {"counts": counts.to_dict("index")},
        participants.name,
        table,
        next=following,
        path=participants,
    )


def index(
    common: CommonOptions,
    root: Annotated[
        list[Path],
        argument("ROOT...", "Folder of the scans, or tables of measures of the same people."),
    ],
    out: Annotated[
        Path, option("Table to write; index.json (a_index.json of a.tsv) is written next to it.")
    ] = Path("participants.tsv"),
    layout: Annotated[
        str, option(f"{', '.join(LAYOUTS)}, measures; auto is the only one whose images are there.")
    ] = "auto",
    phenotypes: Annotated[
        list[Path] | None,
        option("Table of people (.tsv, .csv, .xlsx); may be repeated.", "--phenotype"),
    ] = None,
    id_column: Annotated[
        str | None, option("Column of identifiers in the tables of --phenotype.")
    ] = None,
    site_from: Annotated[
        str, option("Where the site is read from: column, folder or scanner.")
    ] = "column",
    choose: Annotated[
        list[str] | None,
        option(
            "Of several images: run=first, run=all, acq=…, stage=tissue; of measures: "
            "atlas=aparc, measure=all; of FreeSurfer's longitudinal stream: stream=long; of "
            "folders: dataset=all."
        ),
    ] = None,
    keep: Annotated[
        list[str] | None, option("Another column of the tables to copy; may be repeated.")
    ] = None,
    skip: Annotated[
        bool, option("Leave out scans with a problem, and list them in index.json.", "--skip")
    ] = False,
    overwrite: Overwrite = False,
) -> Result:
    """Find the scans of a BIDS tree, of fMRIPrep, CAT12, FreeSurfer and others; write one table.

    Ages, sex, site and diagnosis are joined from scans.tsv, sessions.tsv, phenotype/ and
    participants.tsv, decoded by the JSON files next to them. Tables of regional measures become
    measures.tsv, next to the table. All problems are listed at once (exit code 2), and then nothing
    is written.
    """
    from neurocontrast.data.advice import recipe_for

    options = {name: value for name, value in common.arguments.items() if value is not None}
    indexed = neurocontrast.index(**options, progress=common.progress)
    table = indexed.table
    left_out = indexed.left_out
    n_with = {name: int((table[name] != "").sum()) for name in ("age", "sex", "site", "diagnosis")}
    facts = {
        "scans": len(table),
        "people": int(table["subject_id"].nunique()),
        "left_out": len(left_out),
    }
    title = (
        f"{len(table)} scans of {facts['people']} people ({indexed.layout}); "
        f"{len(left_out)} left out"
    )
    notes = ["Scans with: " + ", ".join(f"{name} {n}" for name, n in n_with.items()) + "."]
    notes += indexed.notes
    if indexed.measures_path is not None and indexed.measures is not None:
        origin = ", ".join(filter(None, (indexed.measures.atlas, indexed.measures.software)))
        n_measures = indexed.measures.values.shape[1]
        notes += [
            f"{indexed.measures_path.name}: {n_measures} measures ({origin}).",
            *indexed.measures.notes,
        ]
    else:
        notes += [f"{name}: {reason}" for name, reason in left_out if name == "measures"]
    facts |= {f"with_{name}": n for name, n in n_with.items()}
    following: list[object] = ["check", indexed.path]
    if indexed.measures_path is not None:
        following = [
            "pretrain",
            "--config",
            *recipe_for(table, kind="measures").words,
            "--participants",
            indexed.path,
            "--out",
            "run",
        ]
    elif set(table["stage"]) == {"raw"}:
        following = ["prepare", indexed.path, "--out", "brains"]
    return Result(facts, title, notes=notes, next=following, path=indexed.path)


def prepare(
    common: CommonOptions,
    participants: Table,
    out: Annotated[Path, option("Folder of brains, tissue maps and the new participants.tsv.")],
    images_root: ImagesRoot = None,
    spacing_mm: Annotated[float, option("Voxel size of the results in mm.")] = 1.5,
    bias: Annotated[bool, option("Correct the bias field by N4.")] = True,
    registration: Annotated[
        bool, option("Register to MNI152; --no-registration: scans are in MNI152 already.")
    ] = True,
    tissue: Annotated[bool, option("Make maps of grey matter, white matter and fluid.")] = True,
    imitations: Annotated[
        int,
        option(
            "Acquisitions by other scanners to imitate, per brain; "
            "the encoder lda learns from them."
        ),
    ] = 0,
    skip: Annotated[bool, option("Leave out scans that cannot be prepared.")] = False,
    n_workers: Annotated[int, option("Processes.")] = 2,
) -> Result:
    """Prepare raw heads: brain extraction, N4, affine registration to MNI152, tissue maps.
    A stopped call is continued.

    Raw inputs hold faces; only images of brains are written. Needs the extra `prepare`.
    """
    from neurocontrast.commands.prepare import prepare as prepare_scans

    table = prepare_scans(**common.arguments, progress=common.progress)
    notes = ["Raw inputs hold faces; the images that were written do not."]
    following = ("qc", table, "--out", out / "qc")
    return Result(
        {"participants": str(table)},
        "Brains in MNI space.",
        notes=notes,
        next=following,
        path=table,
    )


def qc(
    common: CommonOptions,
    participants: Table,
    out: Annotated[Path, option("Folder of qc.tsv and qc.html.")],
    images_root: ImagesRoot = None,
    ratings: Annotated[
        Path | None,
        option(
            "Ratings downloaded from qc.html; OUT/participants.tsv then has the column qc_rating."
        ),
    ] = None,
    run: Annotated[
        Path | None,
        option(
            "Run of regional measures, or weights by name: whom to compare with.", metavar="RUN"
        ),
    ] = None,
    n_workers: Annotated[int, option("Processes.")] = 2,
) -> Result:
    """Measure brains in MNI space, and flag scans unlike the template or their site.

    No scan is dropped. qc.html shows every scan with its measures and flags, the worst first; rate
    the scans there, and download your ratings. After an interruption, type the same command to
    continue. Of people with regional measures (measures.tsv beside the table, or a table or folder
    of measures), qc.html shows whose measures are out of bounds, which are missing or zero, and
    every site next to the others.
    """
    quality = neurocontrast.qc(**common.arguments, progress=common.progress)
    flagged = quality.flagged
    facts = {
        "n_scans": len(quality.table),
        "n_flagged": len(flagged),
        "flagged": list(flagged),
    }
    notes = [f"{name}: {flags}" for name, flags in flagged.items()]
    more = [f"… and {len(notes) - 20} more"] if len(notes) > 20 else []
    title = f"Flagged: {len(flagged)} of {len(quality.table)} scans."
    code = 1 if quality.n_unreadable else 0
    if quality.kind == "measures":
        following: list[object] = ["check", participants]
    elif quality.rated is None:
        following = ["qc", participants, "--out", out, "--ratings", "ratings.tsv"]
        more += ["Rate the scans in qc.html and download ratings.tsv."]
    else:
        # The configuration refuses a value that no scan has.
        failed = (quality.table["qc_rating"] == "fail").any()
        chosen = ["--set", "data.where.qc_rating.not=[fail]"] if failed else []
        following = [
            "pretrain",
            "--config",
            *quality.recipe,
            "--participants",
            quality.rated,
            *chosen,
            "--out",
            "run",
        ]
    notes = [*notes[:20], *more]
    return Result(facts, title, notes=notes, next=following, path=quality.page, exit_code=code)


def check(
    common: ConfigOptions,
    participants: Table,
    images_root: ImagesRoot = None,
    table_only: Annotated[
        bool, option("Check the table and that its files exist; open no image.", "--table-only")
    ] = False,
    phi: Annotated[
        bool, option("Also look for what could identify a patient, such as names.", "--phi")
    ] = False,
    write_good: Annotated[
        Path | None,
        option(
            "Table to write, of the rows without a problem; the exit code is then 0.",
            metavar="FILE",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> Result:
    """Check a table of scans or images and the files named there; list all problems (exit code 2).

    For people with regional measures, these are checked: in measures.tsv beside the table, in --set
    data.measures=[FILE], or in a table or folder of measures given as PARTICIPANTS. With --config,
    or --set of a key of the preprocessing (data.shape, data.normalise …), each scan is also
    preprocessed, and a scan that cannot be is a problem; preprocessed scans are not kept.
    """
    from neurocontrast.data.settings import DataSettings, MeasureDataSettings

    settings = common.resolve(data={"images_root": images_root}).data
    stated = set()
    for override in common.overrides or ():
        stated.add(override.partition("=")[0].strip().removeprefix("data."))
    preprocessing = settings.preprocessing if isinstance(settings, DataSettings) else None
    if (
        preprocessing is not None
        and common.config is None
        and stated.isdisjoint(preprocessing.model_dump())
    ):
        preprocessing = None
    checked = neurocontrast.check(
        participants,
        images_root=settings.images_root,
        channels=getattr(settings, "channels", None),
        preprocessing=preprocessing,
        measures=settings if isinstance(settings, MeasureDataSettings) else None,
        kind=settings.kind if common.config is not None or "kind" in stated else None,
        n_workers=settings.n_workers,
        deep=not table_only,
        phi=phi,
        write_good=write_good,
        overwrite=overwrite,
        progress=common.progress,
    )
    notes = [checked.to_text()]
    if not (checked.passed or checked.good):
        following: tuple[object, ...] = ("check", participants, "--write-good", "good.tsv")
        return Result(checked.facts(), notes=notes, next=following, exit_code=2)
    if checked.n_unprepared:
        table = checked.good or participants
        following = ("prepare", table, "--out", "prepared")
        return Result(checked.facts(), notes=notes, next=following, path=checked.good)
    if checked.measures is not None and not (checked.good or _holds_people(participants)):
        following = ("index", participants, "--phenotype", "PEOPLE.tsv")
        return Result(checked.facts(), notes=notes, next=following)
    recipe = checked.recipe if common.config is None else (common.config,)
    following = (
        "pretrain",
        "--config",
        *recipe,
        "--participants",
        checked.good or participants,
        *_named_measures(checked.unfound),
        "--out",
        "run",
    )
    return Result(checked.facts(), notes=notes, next=following, path=checked.good)


def _named_measures(tables: Sequence[Path]) -> tuple[str, ...]:
    """Return the words of the option ``--set data.measures=[…]``; empty without tables.

    `tables` are tables of measures that `pretrain` would not find alone.
    """
    if not tables:
        return ()
    return ("--set", f"data.measures=[{', '.join(map(str, tables))}]")


def _holds_people(participants: Path) -> bool:
    """Tell whether a table has people with their age, sex or site, and not measures alone."""
    from neurocontrast.data.measures import holds_measures

    return not holds_measures(participants)


def list_recipes(common: CommonOptions) -> Result:
    """List the recipes that come with the package: configurations for `pretrain`, used by name."""
    from neurocontrast.config.recipes import describe_recipe, list_recipes

    recipes = {name: describe_recipe(file) for name, file in list_recipes().items()}
    width = max(map(len, recipes))
    title = f"{len(recipes)} recipes: neurocontrast pretrain --config NAME"
    notes = [f"{name:<{width}}  {description}" for name, description in recipes.items()]
    return Result({"recipes": recipes}, title, notes=notes)


def show_recipe(common: CommonOptions, name: Name) -> Result:
    """Print a recipe with every key, including the keys of a recipe that is extended.

    A recipe that extends another names only the keys that differ; the output has the keys of both,
    and can be used alone.
    """
    from neurocontrast.config.bases import write_out

    recipe = write_out(_recipe(name))
    return Result({"recipe": recipe}, notes=[recipe.rstrip()])


def copy_recipe(
    common: CommonOptions,
    name: Name,
    file: Annotated[Path | None, argument("FILE", "NAME.yaml by default.")] = None,
) -> Result:
    """Copy a recipe with every key to a new file, which you then change.

    The schema, by which editors complete and check the keys, is written to the same folder as
    neurocontrast.schema.json.
    """
    from neurocontrast.config.bases import write_out

    source = _recipe(name)
    target = file or Path(source.name)
    check_writable(target, parameter="FILE")
    schema_file = target.parent / _SCHEMA
    schema = _schema()
    if target.exists() or target.name == _SCHEMA:
        raise ConfigError(
            f"'{target}' exists, or is the schema's. Name another file: config copy {name} FILE."
        )
    if schema_file.exists():
        title = read_json(schema_file).get("title")
        if title != json.loads(schema)["title"]:
            raise ConfigError(
                f"'{schema_file}' exists and is no schema of configurations. "
                "Copy into another folder."
            )
    write_text(schema_file, schema)
    write_text(target, f"# yaml-language-server: $schema={_SCHEMA}\n{write_out(source)}")
    following = (
        "pretrain",
        "--config",
        target,
        "--participants",
        "PARTICIPANTS.tsv",
        "--out",
        "run",
    )
    return Result({"schema": str(schema_file)}, next=following, path=target)


def _recipe(name: str) -> Path:
    """Return the path of the recipe called `name`, a YAML file of the package.

    A name that no recipe has is refused.
    """
    from neurocontrast.config.recipes import list_recipes

    recipes = list_recipes()
    if name not in recipes:
        raise ConfigError(
            f"'{name}' is no recipe.{suggestion(name, recipes)} Recipes: neurocontrast config list."
        )
    return recipes[name]


def show_schema(common: CommonOptions) -> Result:
    """Print the JSON schema of configurations, by which editors complete and check them."""
    schema = _schema()
    return Result({"schema": json.loads(schema)}, notes=[schema])


def _schema() -> str:
    """Return the JSON schema of configurations as text."""
    from neurocontrast.config import Config

    return json.dumps(Config.model_json_schema(), indent=2)
