#!/bin/sh
# The main job, end to end, on simulated brains: what `make demo` runs.
# Usage: sh examples/demo.sh [FOLDER]      (with neurocontrast on the PATH)
set -eu

out=${1:-demo}
recipe="$(dirname "$0")/../configs/brain/yaware.yaml"
rm -rf "$out"
mkdir -p "$out"

run() { echo; echo "\$ $*"; "$@"; }

# Two cohorts from the same eight scanners: healthy people to learn from, and a clinical study of other people.
run neurocontrast simulate "$out/healthy" --n-subjects 1000 --n-sites 8 --spacing-mm 6 --seed 0
run neurocontrast simulate "$out/clinical" --n-subjects 400 --n-sites 8 --spacing-mm 6 --seed 1 --site-seed 0 --patients 0.5
run neurocontrast check "$out/clinical/participants.tsv"

# The frozen encoder, and the same network untrained to compare with.
demo_settings="--set data.spacing_mm=6 --set data.shape=[32,36,32] --set data.cache_dir=$out/cache"
# shellcheck disable=SC2086
run neurocontrast pretrain --config "$recipe" --participants "$out/healthy/participants.tsv" --out "$out/run" $demo_settings
# shellcheck disable=SC2086
run neurocontrast pretrain --config "$recipe" --participants "$out/healthy/participants.tsv" --out "$out/untrained" \
    $demo_settings --set training.epochs=0

for network in run untrained; do
    run neurocontrast embed "$out/$network" --participants "$out/clinical/participants.tsv" --out "$out/$network-embeddings.parquet"
    run neurocontrast evaluate "$out/$network-embeddings.parquet" --target diagnosis --out "$out/$network-diagnosis"
    run neurocontrast evaluate "$out/$network-embeddings.parquet" --target age --out "$out/$network-age"
done
run neurocontrast report "$out/run-age"
run neurocontrast report "$out/run-diagnosis"

python "$(dirname "$0")/demo_summary.py" "$out"
