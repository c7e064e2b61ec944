# The papers' experiments with natural images: images -> pretrain -> embed -> evaluate, for every variant and seed, then one
# table, figures and a comparison. One command each:
#
#   snakemake --snakefile pipelines/natural.smk --profile pipelines/profiles/local \
#             --config experiment=linear size=small source=cifar10.tar.xz
#
# experiment: linear, sincere, cclk, fair, hard; size: small, full. Their files are in pipelines/natural/. See pipelines/README.md.
import json
import sys
from pathlib import Path
from shlex import quote

sys.path.insert(0, str(Path(workflow.basedir).parent))

from neurocontrast.files import digest_of
from pipelines.natural.annotation import annotate
from pipelines.natural.experiment import load_natural
from pipelines.natural.results import summarise_experiment

asked, experiment = load_natural(config)
OUT = f"{asked.out}/{asked.path.stem}"
THREADS = 1 if asked.size == "small" else 4    # jobs of one thread beside one another use two cores best
GPU = 0 if asked.size == "small" else 1
ENVIRONMENT = "OMP_NUM_THREADS={threads} MKL_NUM_THREADS={threads}"


def overrides(settings):
    """Dotted keys as --set options; JSON is YAML, so every type survives the shell."""
    return " ".join(f"--set {quote(f'{key}={json.dumps(value)}')}" for key, value in settings.items())


def folder_of(images):
    """Images made in the same way are made once, for all experiments of one `out`."""
    return f"{asked.out}/images/{images.get('name') or images['dataset']}-{digest_of(json.dumps(images, sort_keys=True))[:8]}"


PREPARED = experiment.prepared_images
# What simulated attributes are made for: all images, whichever are kept.
OMITTED = ("attributes", "attributes_key", "clusters", "n_train", "n_validation", "n_test")
BARE = {key: value for key, value in PREPARED.items() if key not in OMITTED}
ATTRIBUTES = f"{OUT}/attributes.tsv"
if experiment.annotation is not None:
    PREPARED = PREPARED | {"attributes": ATTRIBUTES, "attributes_key": "participant_id"}
IMAGES = folder_of(PREPARED)
BARE_IMAGES = folder_of(BARE)
SECTIONS = {Path(IMAGES).name: PREPARED, Path(BARE_IMAGES).name: BARE}
ALL = expand("{variant}/seed-{seed}", variant=experiment.variants, seed=experiment.seeds)
FIRST = experiment.seeds[0]


wildcard_constraints:
    variant="|".join(experiment.variants),
    seed=r"\d+",
    layer="encoder|head",


rule all:
    input:
        f"{OUT}/results.tsv",
        f"{OUT}/comparison/comparison.html" if len(experiment.variants) > 1 else [],


rule images:
    input:
        lambda wildcards: ATTRIBUTES if SECTIONS[wildcards.images].get("attributes") == ATTRIBUTES else [],
    output:
        f"{asked.out}/images/{{images}}/participants.tsv",
    params:
        folder=f"{asked.out}/images/{{images}}",
        settings=lambda wildcards: overrides({"images": SECTIONS[wildcards.images]}),
    log:
        f"{OUT}/logs/{{images}}.log",
    shell:
        "neurocontrast images {params.folder:q} --overwrite {params.settings} > {log:q} 2>&1"


# Simulated weak annotation, from the classes of the images alone.
rule annotate:
    input:
        f"{BARE_IMAGES}/participants.tsv",
    output:
        ATTRIBUTES,
    run:
        annotate(input[0], settings=experiment.annotation, out=output[0])


rule pretrain:
    input:
        participants=f"{IMAGES}/participants.tsv",
        recipe=lambda wildcards: experiment.recipe_of(wildcards.variant),
    output:
        f"{OUT}/{{variant}}/seed-{{seed}}/run/encoder.safetensors",
    params:
        folder=f"{OUT}/{{variant}}/seed-{{seed}}/run",
        settings=lambda wildcards: overrides(experiment.settings_of(wildcards.variant)),
    log:
        f"{OUT}/logs/pretrain-{{variant}}-{{seed}}.log",
    threads: THREADS
    resources:
        gpu=GPU,
    # --resume starts anew where nothing is yet, and goes on where a job was killed or requeued.
    shell:
        ENVIRONMENT + " neurocontrast pretrain --config {input.recipe:q} --participants {input.participants:q} "
        "--out {params.folder:q} --resume {params.settings} --set seed={wildcards.seed} > {log:q} 2>&1"


rule embed:
    input:
        encoder=rules.pretrain.output,
        participants=f"{IMAGES}/participants.tsv",
        recipe=lambda wildcards: experiment.recipe_of(wildcards.variant),
    output:
        f"{OUT}/{{variant}}/seed-{{seed}}/{{layer}}.parquet",
    params:
        folder=f"{OUT}/{{variant}}/seed-{{seed}}/run",
        settings=lambda wildcards: overrides(experiment.settings_of(wildcards.variant)),
    log:
        f"{OUT}/logs/embed-{{variant}}-{{seed}}-{{layer}}.log",
    threads: THREADS
    resources:
        gpu=GPU,
    shell:
        ENVIRONMENT + " neurocontrast embed {params.folder:q} --config {input.recipe:q} --participants {input.participants:q} "
        "--out {output:q} --overwrite {params.settings} --set embedding.layer={wildcards.layer} > {log:q} 2>&1"


rule evaluate:
    input:
        embeddings=rules.embed.output,
        recipe=lambda wildcards: experiment.recipe_of(wildcards.variant),
    output:
        f"{OUT}/{{variant}}/seed-{{seed}}/{{layer}}/evaluation.json",
    params:
        folder=f"{OUT}/{{variant}}/seed-{{seed}}/{{layer}}",
        settings=lambda wildcards: overrides(experiment.settings_of(wildcards.variant)),
    log:
        f"{OUT}/logs/evaluate-{{variant}}-{{seed}}-{{layer}}.log",
    threads: THREADS
    shell:
        ENVIRONMENT + " neurocontrast evaluate {input.embeddings:q} --config {input.recipe:q} --out {params.folder:q} "
        "--overwrite {params.settings} > {log:q} 2>&1"


# Table, figures and the experiment as it was run.
rule results:
    input:
        expand(f"{OUT}/{{run}}/{{layer}}/evaluation.json", run=ALL, layer=experiment.layers),
        experiment=str(asked.path),
    output:
        f"{OUT}/results.tsv",
        f"{OUT}/results.md",
    run:
        summarise_experiment(OUT, experiment=experiment)


# Every variant at the first seed, on the same test images.
rule compare:
    input:
        expand(f"{OUT}/{{variant}}/seed-{FIRST}/{experiment.layers[0]}/evaluation.json",
               variant=[experiment.reference, *(name for name in experiment.variants if name != experiment.reference)]),
    output:
        f"{OUT}/comparison/comparison.html",
    params:
        folders=lambda wildcards, input: [str(Path(path).parent) for path in input],
        names=",".join(
            experiment.variants[name].label.replace(",", "")
            for name in [experiment.reference, *(name for name in experiment.variants if name != experiment.reference)]
        ),
        folder=f"{OUT}/comparison",
    log:
        f"{OUT}/logs/compare.log",
    shell:
        "neurocontrast compare {params.folders:q} --names {params.names:q} --out {params.folder:q} --overwrite > {log:q} 2>&1"
