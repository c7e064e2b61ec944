#!/bin/sh
# Real brains, end to end: what `make demo-real` runs, on the sample cohort of this repository.
# Usage: sh pipelines/demo_real.sh [FOLDER [EPOCHS]]      (with neurocontrast on the PATH)
set -eu

out=${1:-demo-real}
epochs=${2:-20}
root=$(dirname "$0")/..
sample=$root/sample/participants.tsv
rm -rf "$out"
mkdir -p "$out"

run() { echo; echo "\$ $*"; "$@"; }

run neurocontrast check "$sample"

# Learned from: healthy people of one scanner. All others of that scanner, and those of two more, are evaluated.
pretrain() {
    name=$1 recipe=$2
    shift 2
    run neurocontrast pretrain --config "$root/configs/brain/$recipe.yaml" --participants "$sample" --out "$out/$name" \
        --set "data.where={split: [train]}" --set "data.cache_dir=$out/cache" "$@"
}
small="--set data.val_fraction=0 --set training.batch_size=16 --set training.probe_every=0"
pretrain linear tissue_linear --set "encoder={name: pca, n_components: 30}" --set "data.channels=[gm,wm]"
pretrain network tissue $small --set "training.epochs=$epochs"
pretrain untrained tissue $small --set training.epochs=0

for encoder in linear network untrained; do
    run neurocontrast embed "$out/$encoder" --participants "$sample" --out "$out/$encoder.parquet" \
        --set "embedding.where={split: [test]}" --set "data.cache_dir=$out/cache"
    for target in age sex; do
        run neurocontrast evaluate "$out/$encoder.parquet" --target "$target" --out "$out/$encoder-$target" \
            --set evaluation.n_jobs=2
        run neurocontrast report "$out/$encoder-$target"
    done
done
for target in age sex; do
    run neurocontrast compare "$out/linear-$target" "$out/network-$target" "$out/untrained-$target" --out "$out/$target"
done

python "$root/pipelines/demo_real_summary.py" "$out"
