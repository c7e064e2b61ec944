"""Run a seeded sample of Cosmic Ray's mutants, each against the tests of its module alone.

    python tests/faults/mutants.py [--number 300] [--seed 0] [--minutes 120] [WORD ...]

With words, only mutants of files whose name contains one. Needs ``pip install cosmic-ray``. Mutants of
``equivalent.tsv`` change nothing that can be observed, each for the reason given there, and are left out. Exits with 1
where fewer than 90 % are found.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import plant

ENOUGH = 0.9
EQUIVALENT = Path(__file__).with_name("equivalent.tsv")
PACKAGE = plant.ROOT / "neurocontrast"
# Annotations are full of |, and nothing reads them.
SKIPPED = ("_BitOr_",)
LOSSES = (
    "losses/test_oracles.py",
    "losses/test_infonce.py",
    "losses/test_rank_n_contrast.py",
    "losses/test_negatives.py",
    "losses/test_supervised.py",
    "losses/test_triplet.py",
    "losses/test_cclk.py",
    "losses/test_sum.py",
    "losses/test_prediction.py",
    "losses/test_conditional.py",
    "losses/test_views.py",
    "losses/test_against_naive.py::test_value_and_gradient_equal_the_double_loop",
    "losses/test_core.py::test_at_once_and_in_tiles_agree",
    "losses/test_core.py::TestRefused",
    "losses/test_core.py::test_negative_weights_are_refused",
    "losses/test_core.py::test_no_more_is_held_than_asked",
    "losses/test_core.py::test_collapsed_embeddings_at_a_small_temperature",
    "losses/test_distributed.py",
)
TESTS = {
    "kernels": ("kernels", "losses/test_oracles.py", "losses/test_core.py::test_missing_metadata_costs_no_scan"),
    "losses": LOSSES,
    "evaluation/splits": ("evaluation/splits", "evaluation/test_fixed.py", "evaluation/test_leakage.py"),
    "evaluation/metrics.py": (
        "evaluation/test_metrics.py",
        "evaluation/test_recalibration.py",
        "evaluation/test_published_examples.py",
    ),
    "evaluation/uncertainty.py": (
        "evaluation/test_uncertainty.py",
        "evaluation/test_units.py",
        "evaluation/test_published_examples.py",
    ),
    "evaluation/permutation.py": ("evaluation/test_permutation.py",),
}


def mutants_of(file: str) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """Return what Cosmic Ray can change in a file, by the place in it: operators, each with its occurrence."""
    ast, plugins = (importlib.import_module(f"cosmic_ray.{name}") for name in ("ast", "plugins"))
    nodes = list(ast.ast_nodes(ast.get_ast((PACKAGE / file).read_text())))
    found: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for name in sorted(plugins.operator_names()):
        kind = plugins.get_operator(name)
        if any(part in name for part in SKIPPED) or inspect.signature(kind).parameters:
            continue
        places = [place for node in nodes for place in kind().mutation_positions(node)]
        for number, place in enumerate(places):
            found.setdefault(place[0], []).append((name, number))
    return found


def mutate(file: str, name: str, number: int) -> str | None:
    """Return the changed file; None where it is the same, or no longer Python."""
    mutating, plugins = (importlib.import_module(f"cosmic_ray.{part}") for part in ("mutating", "plugins"))
    source = (PACKAGE / file).read_text()
    changed: str = mutating.mutate_code(source, plugins.get_operator(name)(), number)
    try:
        compile(changed, file, "exec")
    except SyntaxError:
        return None
    return None if changed == source else changed


def sample(words: list[str], number: int, seed: int) -> Iterator[tuple[str, str]]:
    """Draw files with one of their mutants, places first, so that one with many operators counts once."""
    files = sorted(
        str(path.relative_to(PACKAGE))
        for part in TESTS
        for path in ((PACKAGE / part).glob("*.py") if (PACKAGE / part).is_dir() else [PACKAGE / part])
        if path.name != "__init__.py" and any(word in str(path) for word in words or [""])
    )
    places = [(file, variants) for file in files for _, variants in sorted(mutants_of(file).items())]
    generator = random.Random(seed)
    generator.shuffle(places)
    print(f"{number} mutants, of {len(places)} places in {len(files)} files", flush=True)
    made = ((file, mutate(file, *generator.choice(variants))) for file, variants in places)
    yield from islice(((file, changed) for file, changed in made if changed is not None), number)


def difference(file: str, changed: str) -> tuple[str, str, str]:
    """Return the file, the first line that differs, and what it became."""
    pairs = zip((PACKAGE / file).read_text().splitlines(), [*changed.splitlines(), ""], strict=False)
    return file, *next((old.strip(), new.strip()) for old, new in pairs if old != new)


def tests_of(file: str) -> tuple[str, ...]:
    """Return the tests of a module, first those that are named after it."""
    own = f"test_{Path(file).stem}.py"
    tests = next(tests for part, tests in TESTS.items() if file.startswith(part))
    return tuple(sorted(tests, key=lambda test: not test.endswith(own)))


def main() -> int:
    """Run the sample, and list those that no test finds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only files whose name contains one of these")
    parser.add_argument("--number", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=120, help="begin no mutant after this time")
    given = parser.parse_args()
    known = {tuple(line.split("\t")[:3]) for line in EQUIVALENT.read_text().splitlines()[1:]}
    for name in plant.LIBRARIES:
        importlib.import_module(name)
    plant.MAX_SECONDS = 120
    started, killed, survivors = time.monotonic(), 0, []
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy, log = Path(folder) / "copy", Path(folder) / "log"
        plant.copy_tree(copy)
        clean = sorted({test for tests in TESTS.values() for test in tests})
        if plant.verdict(os.waitpid(plant.begin(copy, clean, log), 0)[1]) != "SURVIVED":
            raise SystemExit(f"The tests fail without a mutant:\n{log.read_text()[-3000:]}")
        for file, changed in sample(given.words, given.number, given.seed):
            if time.monotonic() - started > 60 * given.minutes:
                break
            what = difference(file, changed)
            if what in known:
                continue
            path, since = copy / "neurocontrast" / file, time.monotonic()
            before = path.read_text()
            path.write_text(changed)
            said = plant.verdict(os.waitpid(plant.begin(copy, tests_of(file), log), 0)[1])
            path.write_text(before)
            shutil.rmtree(f"{log}.files", ignore_errors=True)
            if said == "found":
                said = next(line for line in log.read_text().splitlines() if line.startswith(("FAILED", "ERROR")))[:90]
            killed += said != "SURVIVED"
            survivors += [what] if said == "SURVIVED" else []
            print(
                f"{killed + len(survivors):3} {said:8} {time.monotonic() - since:4.0f} s", *what, sep="\t", flush=True
            )
    total = killed + len(survivors)
    print(f"{killed} of {total} mutants found, in {(time.monotonic() - started) / 60:.0f} min")
    for what in survivors:
        print("not found", *what, sep="\t")
    return int(killed < ENOUGH * total)


if __name__ == "__main__":
    sys.exit(main())
