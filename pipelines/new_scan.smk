# New scans in a folder, predicted one by one: features, prediction and warnings of each as one file of JSON.
#
#   snakemake --snakefile pipelines/new_scan.smk --profile pipelines/profiles/local \
#             --config inbox=inbox run=RUN evaluation=EVAL out=predicted
#
# Nothing watches the folder: call it again when scans have arrived, from cron for instance. What is there is not made
# again, and a scan that fails keeps no other from being predicted (the profile has keep-going).
from pathlib import Path

INBOX, OUT = Path(config["inbox"]), config["out"]
ENDINGS = (".nii.gz", ".nii")
SCANS = {
    path.name.removesuffix(ending): str(path)
    for ending in ENDINGS
    for path in sorted(INBOX.glob(f"*{ending}"))
    if not path.name.startswith(".")
}
if not SCANS:
    raise WorkflowError(f"inbox: no file that ends in {' or '.join(ENDINGS)} is in '{INBOX}'.")


rule all:
    input:
        expand("{out}/{scan}.jsonl", out=OUT, scan=SCANS),


rule table:
    input:
        lambda wildcards: SCANS[wildcards.scan],
    output:
        temp(f"{OUT}/tables/{{scan}}.tsv"),
    run:
        text = f"participant_id\tpath\n{wildcards.scan}\t{Path(input[0]).absolute()}\n"
        Path(output[0]).write_text(text)


rule predict:
    input:
        scan=lambda wildcards: SCANS[wildcards.scan],
        table=rules.table.output,
        run=f"{config['run']}/encoder.json",
        probe=f"{config['evaluation']}/probe/probe.json",
    output:
        f"{OUT}/{{scan}}.jsonl",
        f"{OUT}/{{scan}}.json",
        f"{OUT}/{{scan}}.tsv",
    params:
        run=config["run"],
        evaluation=config["evaluation"],
    log:
        f"{OUT}/logs/{{scan}}.log",
    shell:
        "neurocontrast predict {params.evaluation:q} {input.table:q} --run {params.run:q} "
        "--out {output[2]:q} --overwrite > {log:q} 2>&1"
