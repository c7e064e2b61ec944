#!/bin/sh
# Real brains, end to end: what `make demo-real` runs, on the sample cohort of this repository.
# Usage: sh pipelines/demo_real.sh [FOLDER [EPOCHS [TABLE [OPTION ...]]]]      (with neurocontrast on the PATH)
# TABLE is another table of people with the columns of the sample's; options are those of `neurocontrast evaluate`.
set -eu

out=${1:-demo-real}
epochs=${2:-10}
root=$(dirname "$0")/..
sample=${3:-$root/sample/participants.tsv}
shift "$(($# < 3 ? $# : 3))"
rm -rf "$out"
mkdir -p "$out"

run() { echo; echo "\$ $*"; "$@"; }

run neurocontrast check "$sample"

# Three acquisitions of each brain as other scanners would have shown it; the brains lie in MNI152 already.
run neurocontrast prepare "$sample" --out "$out/prepared" --spacing-mm 4 --no-registration --no-bias --imitations 3

# Learned from: healthy people of one scanner. All others of that scanner, and those of two more, are evaluated.
pretrain() {
    name=$1
    recipe=$2
    table=$3
    shift 3
    run neurocontrast pretrain --config "$recipe" --participants "$out/prepared/$table.tsv" \
        --out "$out/$name" --set "data.where={split: [train]}" --set "data.cache_dir=$out/cache" "$@"
}
small="--set data.val_fraction=0 --set training.probe_every=0"
few="--set encoder.n_components=30"
pretrain components tissue_linear participants $few
pretrain discriminants tissue_discriminants imitations $few
pretrain network tissue imitations $small --set "training.epochs=$epochs"
pretrain untrained tissue imitations $small --set training.epochs=0

for encoder in components discriminants network untrained; do
    run neurocontrast embed "$out/$encoder" --participants "$out/prepared/participants.tsv" --out "$out/$encoder.parquet" \
        --set "embedding.where={split: [test]}" --set "data.cache_dir=$out/cache"
    for target in age sex; do
        run neurocontrast evaluate "$out/$encoder.parquet" --target "$target" --out "$out/$encoder-$target" \
            --set evaluation.n_jobs=2 --report "$@"
    done
done
for target in age sex; do
    run neurocontrast compare "$out/components-$target" "$out/discriminants-$target" "$out/network-$target" \
        "$out/untrained-$target" --out "$out/$target"
done

python "$root/pipelines/demo_real_summary.py" "$out"
