# Figure 3 of Dufumier et al. 2021 (Conditional alignment and uniformity): pretrain on the healthy, embed and evaluate a clinical cohort, for
# every variant and seed, then one table, figures and a comparison. One command each:
#
#   snakemake --snakefile pipelines/brain.smk --profile pipelines/profiles/local --config figure=subjects size=small
#   … --config figure=subjects size=full pretraining=healthy/participants.tsv clinical=clinical/participants.tsv
#
# figure: uniformity (left), subjects (right); size: small (simulated brains), full. See pipelines/README.md.
import sys
from pathlib import Path
from shlex import quote

sys.path.insert(0, str(Path(workflow.basedir).parent))

from neurocontrast.config.bases import bases_of
from pipelines.brain.cohort import write_draws
from pipelines.brain.experiment import load_brain
from pipelines.brain.results import summarise_brain
from pipelines.workflow import set_options

asked, experiment = load_brain(config)
OUT = f"{asked.out}/{asked.path.stem}"
COHORTS = f"{asked.out}/cohorts/{asked.path.stem}"
THREADS = 1 if asked.size == "small" else 8
GPU = 0 if asked.size == "small" else 1
ENVIRONMENT = "OMP_NUM_THREADS={threads} MKL_NUM_THREADS={threads}"
RUN = f"{OUT}/{{variant}}/seed-{{seed}}"
CLINICAL = f"{OUT}/clinical.tsv"
SCRATCH = [name for name in experiment.variants if experiment.scratch(name)]
LARGEST, FIRST = experiment.sizes[-1], experiment.seeds[0]
ORDER = [experiment.reference, *(name for name in experiment.variants if name != experiment.reference)]
CACHE = {"data.cache_dir": f"{asked.out}/cache"}
HEALTHY_IMAGES, CLINICAL_IMAGES = (quote(asked.images_of(name)) for name in ("pretraining", "clinical"))


def settings_of(variant):
    return set_options(CACHE | experiment.settings_of(variant))


def evaluated(wildcards):
    """Target, folds and the subjects of a size: the same for every variant."""
    selection = {"evaluation.where": where} if (where := experiment.rows_of(wildcards.size, int(wildcards.seed))) else {}
    return f"--target {quote(experiment.target)} --seed {wildcards.seed} {set_options(selection)}"


wildcard_constraints:
    cohort="pretraining|clinical",
    variant="|".join(experiment.variants),
    seed=r"\d+",
    size=r"all|\d+",


localrules: draws


rule all:
    input:
        f"{OUT}/results.tsv",
        f"{OUT}/comparison/comparison.html" if len(experiment.variants) > 1 else [],


rule simulate:
    output:
        f"{COHORTS}/{{cohort}}/participants.tsv",
    params:
        folder=f"{COHORTS}/{{cohort}}",
        settings=lambda wildcards: set_options({"simulation": experiment.simulate[wildcards.cohort]}),
    log:
        f"{OUT}/logs/simulate-{{cohort}}.log",
    shell:
        "neurocontrast simulate {params.folder:q} --overwrite {params.settings} > {log:q} 2>&1"


# Which subjects are evaluated at each size and seed.
rule draws:
    input:
        asked.table("clinical"),
    output:
        CLINICAL,
    run:
        write_draws(input[0], target=experiment.target, sizes=experiment.subjects, seeds=experiment.seeds, out=output[0])


rule pretrain:
    input:
        participants=asked.table("pretraining"),
        recipe=lambda wildcards: experiment.recipe_of(wildcards.variant),
        bases=lambda wildcards: bases_of(experiment.recipe_of(wildcards.variant)),
    output:
        f"{RUN}/run/encoder.safetensors",
    params:
        folder=f"{RUN}/run",
        settings=lambda wildcards: settings_of(wildcards.variant),
    log:
        f"{OUT}/logs/pretrain-{{variant}}-{{seed}}.log",
    threads: THREADS
    resources:
        gpu=GPU,
    # --resume starts anew where nothing is yet, and goes on where a job was killed or requeued.
    shell:
        ENVIRONMENT + " neurocontrast pretrain --config {input.recipe:q} --participants {input.participants:q} --out {params.folder:q} "
        "--resume {params.settings} --set data.images_root={HEALTHY_IMAGES} --set seed={wildcards.seed} > {log:q} 2>&1"


rule embed:
    input:
        encoder=rules.pretrain.output,
        participants=CLINICAL,
        recipe=lambda wildcards: experiment.recipe_of(wildcards.variant),
        bases=lambda wildcards: bases_of(experiment.recipe_of(wildcards.variant)),
    output:
        f"{RUN}/encoder.parquet",
    params:
        folder=f"{RUN}/run",
        settings=lambda wildcards: settings_of(wildcards.variant),
    log:
        f"{OUT}/logs/embed-{{variant}}-{{seed}}.log",
    threads: THREADS
    resources:
        gpu=GPU,
    shell:
        ENVIRONMENT + " neurocontrast embed {params.folder:q} --config {input.recipe:q} --participants {input.participants:q} "
        "--images-root {CLINICAL_IMAGES} --out {output:q} --overwrite {params.settings} > {log:q} 2>&1"


rule evaluate:
    input:
        embeddings=rules.embed.output,
        recipe=lambda wildcards: experiment.recipe_of(wildcards.variant),
        bases=lambda wildcards: bases_of(experiment.recipe_of(wildcards.variant)),
    output:
        f"{RUN}/subjects-{{size}}/evaluation.json",
    params:
        folder=f"{RUN}/subjects-{{size}}",
        settings=lambda wildcards: settings_of(wildcards.variant),
        evaluated=evaluated,
    wildcard_constraints:
        variant="|".join(experiment.pretrained),
    log:
        f"{OUT}/logs/evaluate-{{variant}}-{{seed}}-{{size}}.log",
    threads: THREADS
    shell:
        ENVIRONMENT + " neurocontrast evaluate {input.embeddings:q} --config {input.recipe:q} --out {params.folder:q} --overwrite "
        "{params.settings} {params.evaluated} > {log:q} 2>&1"


# Supervised from scratch: the network and the preprocessing of a run, with new random weights in every training fold.
rule finetune:
    input:
        encoder=lambda wildcards: f"{OUT}/{experiment.scratch(wildcards.variant)}/seed-{wildcards.seed}/run/encoder.safetensors",
        participants=CLINICAL,
        recipe=lambda wildcards: experiment.recipe_of(wildcards.variant),
        bases=lambda wildcards: bases_of(experiment.recipe_of(wildcards.variant)),
    output:
        f"{RUN}/subjects-{{size}}/evaluation.json",
    params:
        run=lambda wildcards: f"{OUT}/{experiment.scratch(wildcards.variant)}/seed-{wildcards.seed}/run",
        folder=f"{RUN}/subjects-{{size}}",
        settings=lambda wildcards: settings_of(wildcards.variant),
        evaluated=evaluated,
    wildcard_constraints:
        variant="|".join(SCRATCH) or "none",
    log:
        f"{OUT}/logs/finetune-{{variant}}-{{seed}}-{{size}}.log",
    threads: THREADS
    resources:
        gpu=GPU,
    shell:
        ENVIRONMENT + " neurocontrast finetune {params.run:q} --from-scratch --config {input.recipe:q} "
        "--participants {input.participants:q} --images-root {CLINICAL_IMAGES} --out {params.folder:q} {params.settings} "
        "--set seed={wildcards.seed} {params.evaluated} > {log:q} 2>&1"


# Table, figures and the experiment as it was run.
rule results:
    input:
        expand(f"{RUN}/subjects-{{size}}/evaluation.json", variant=experiment.variants, seed=experiment.seeds, size=experiment.sizes),
        experiment=str(asked.path),
    output:
        f"{OUT}/results.tsv",
        f"{OUT}/results.md",
    run:
        summarise_brain(OUT, experiment=experiment)


# Every variant at the first seed, on the same folds of the most subjects.
rule compare:
    input:
        expand(f"{OUT}/{{variant}}/seed-{FIRST}/subjects-{LARGEST}/evaluation.json", variant=ORDER),
    output:
        f"{OUT}/comparison/comparison.html",
    params:
        folders=lambda wildcards, input: [str(Path(path).parent) for path in input],
        names=",".join(experiment.variants[name].label.replace(",", "") for name in ORDER),
        folder=f"{OUT}/comparison",
    log:
        f"{OUT}/logs/compare.log",
    shell:
        "neurocontrast compare {params.folders:q} --names {params.names:q} --out {params.folder:q} --overwrite > {log:q} 2>&1"
