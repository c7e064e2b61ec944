"""Whom an encoder learned from: people are found by any spelling of their identifier, and renamed, by what was read."""

import json
import shutil
import warnings

import nibabel as nib
import numpy as np
import pandas as pd
import pytest

import neurocontrast as nc
from neurocontrast.data import read_cohort
from neurocontrast.data.cache import VolumeCache
from neurocontrast.data.measures.contents import contents_of_measures
from neurocontrast.embedding import ScanEmbedder, read_embeddings, write_embeddings
from neurocontrast.evaluation import load_probe
from neurocontrast.exceptions import DataError, LeakageError, NeurocontrastWarning
from neurocontrast.files import digest_of, write_json
from neurocontrast.natural import ImageDataset
from neurocontrast.provenance import KnownPeople, subject_digest, subject_label
from neurocontrast.reporting.blocks import Citations
from neurocontrast.reporting.folder import read_folder
from neurocontrast.reporting.sections.methods import write_methods
from neurocontrast.transforms import Preprocessing
from neurocontrast.transforms.contents import digest_of_voxels
from neurocontrast.transforms.loading import content_of_scan
from tests.reports.people import draw_measures, write_measures, write_people

PEOPLE = [f"sub-{number:03d}" for number in range(24)]
NEW = [f"sub-{number:03d}" for number in range(100, 140)]
RENAMED = [f"Z{number}" for number in range(24)]
FAST = {
    "target": "sex",
    "n_folds": 2,
    "n_inner_folds": 2,
    "n_bootstraps": 0,
    "confounds": False,
    "new_site": False,
    "outlyingness": False,
    "C": (0.01, 1.0),
    "overwrite": True,
}
SHORT = {"training": {"epochs": 1, "batch_size": 8, "accelerator": "cpu"}}


def digest_as_written(subject):
    """Return the digest that versions up to November 2026 recorded."""
    return digest_of("neurocontrast-subject", subject)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Measures of 24 people, indexed with ages and sexes; of 40 others, a table of their own."""
    folder = tmp_path_factory.mktemp("tables")
    write_measures(folder / "m" / "measures.tsv", PEOPLE)
    phenotype = write_people(folder / "phenotype.tsv", PEOPLE)
    nc.index(folder / "m", folder / "indexed" / "participants.tsv", phenotypes=[phenotype])
    write_measures(folder / "new" / "measures.tsv", NEW, seed=1)
    write_people(folder / "new" / "people.tsv", NEW, seed=1)
    return folder


@pytest.fixture(scope="module")
def run(tables, tmp_path_factory):
    config = {"data": {"kind": "measures", "participants": tables / "indexed/participants.tsv"}}
    return nc.pretrain(config | SHORT, out=tmp_path_factory.mktemp("runs") / "run")


def embed(run, people, measures, out, **changes):
    config = {"data": {"kind": "measures", "measures": str(measures)}}
    return nc.embed(run, participants=people, out=out, config=config, overwrite=True, **changes)


@pytest.fixture(scope="module")
def of_new(run, tables, tmp_path_factory):
    """Embeddings of people who had no part in pretraining."""
    out = tmp_path_factory.mktemp("new") / "new.parquet"
    return embed(run, tables / "new/people.tsv", tables / "new/measures.tsv", out)


@pytest.fixture(scope="module")
def of_renamed(run, tables, tmp_path_factory):
    """Embeddings of the people of pretraining under other names, columns turned round, six digits."""
    folder = tmp_path_factory.mktemp("renamed")
    table = draw_measures(PEOPLE).assign(participant_id=RENAMED)
    table[table.columns[:0:-1].insert(0, "participant_id")].to_csv(
        folder / "measures.tsv", sep="\t", index=False, float_format="%.6g"
    )
    people = write_people(folder / "people.tsv", RENAMED)
    return embed(run, people, folder / "measures.tsv", folder / "renamed.parquet")


def methods_of(evaluation):
    return " ".join(text for _, text in write_methods(read_folder(evaluation), Citations()))


class TestNormalForm:
    @pytest.mark.parametrize(
        ("written", "label"),
        [
            ("sub-01", "01"),
            ("01", "01"),
            ("sub-sub-01", "01"),
            (" sub-1 ", "1"),
            ("sub-", "sub-"),
            ("submarine", "submarine"),
            ("Jose\u0301", "Jos\u00e9"),
            ("SUB-01", "01"),
            ("sub_01", "01"),
            ("Sub-sub_01", "01"),
            ("sub- 01", "01"),
            ("subject-01", "subject-01"),
        ],
    )
    def test_prefix_and_form_of_unicode_do_not_matter_and_zeros_do(self, written, label):
        assert subject_label(written) == label
        assert subject_label(label) == label
        assert subject_digest(written) == subject_digest(label)

    @pytest.mark.parametrize("written", ["sub-01", "01", "SUB-01", "sub_01"])
    @pytest.mark.parametrize("now", ["sub-01", "01", "Sub_01"])
    def test_digests_of_earlier_versions_are_recognised(self, written, now):
        people = KnownPeople(frozenset({digest_as_written(written)}))
        assert people.find([now, "1"], ["", ""]).named == {now}

    def test_all_rows_of_a_person_are_found_by_one_of_them(self):
        people = KnownPeople(frozenset(), frozenset({"c1"}), is_complete=True)
        found = people.find(["a", "a", "b"], ["c1 d", "x", "y"])
        assert found.renamed == {"a"}
        assert found.n_not_compared == 0


class TestContentOfMeasures:
    table = draw_measures(PEOPLE).set_index("participant_id")

    def is_found(self, changed):
        pairs = zip(contents_of_measures(self.table), contents_of_measures(changed), strict=True)
        return [not set(one.split()).isdisjoint(other.split()) for one, other in pairs]

    def test_order_of_columns_and_formatting_do_not_matter(self):
        exact = self.table * 1.000123456789
        rounded = exact.map(lambda value: float(f"{value:.6g}"))[exact.columns[::-1]]
        before = contents_of_measures(exact)
        after = contents_of_measures(rounded.astype(np.float32).astype(float))
        pairs = zip(before, after, strict=True)
        assert all(not set(one.split()).isdisjoint(other.split()) for one, other in pairs)

    def test_a_factor_between_units_does_not_matter(self):
        assert all(self.is_found(self.table / 1000 * 1000))

    @pytest.mark.parametrize("how", ["pandas", "format", "spreadsheet"])
    def test_two_decimals_do_not_hide_a_person(self, how):
        rules = {
            "pandas": lambda value: float(np.round(value, 2)),
            "format": lambda value: float(f"{value:.2f}"),
            "spreadsheet": lambda value: (round(value * 1000) + 5) // 10 / 100,
        }
        halves = self.table.map(lambda value: (round(value * 100) * 10 + 5) / 1000)
        exact = contents_of_measures(halves)
        for one, two in zip(exact, contents_of_measures(halves.map(rules[how])), strict=True):
            assert not set(one.split()).isdisjoint(two.split())

    def test_people_are_found_by_the_measures_of_one_hemisphere(self):
        left = self.table.filter(like="lh_")
        assert len(left.columns) == len(self.table.columns) / 2
        assert all(self.is_found(left.reindex(columns=self.table.columns)))

    def test_no_two_people_share_a_digest(self):
        digests = " ".join(contents_of_measures(self.table)).split()
        assert len(set(digests)) == len(digests)

    def test_a_missing_value_does_not_hide_a_person(self):
        changed = self.table.copy()
        changed.iloc[:, 3] = np.nan
        assert all(self.is_found(changed))

    def test_others_and_other_columns_are_not_found(self):
        assert not any(self.is_found(draw_measures(PEOPLE, seed=5).set_index("participant_id")))
        assert not any(self.is_found(self.table[self.table.columns[::-1]].set_axis(
            self.table.columns, axis=1)))  # fmt: skip

    def test_few_measures_tell_nobody_apart(self):
        assert set(contents_of_measures(self.table.iloc[:, :3])) == {""}
        assert set(contents_of_measures(self.table.iloc[:, :0])) == {""}
        assert set(contents_of_measures(self.table * 0)) == {""}


class TestMeasures:
    def test_the_users_own_table_is_recognised(self, run, tables, tmp_path):
        people = write_people(tmp_path / "own.tsv", PEOPLE)
        table = embed(run, people, tables / "indexed/measures.tsv", tmp_path / "own.parquet")
        with pytest.raises(LeakageError, match="24 of 24 subjects were in the pretraining"):
            nc.evaluate(table, out=tmp_path / "e", **FAST)

    def test_a_dataframe_of_participants_is_recognised(self, run, tables, tmp_path):
        people = pd.read_csv(write_people(tmp_path / "own.tsv", PEOPLE), sep="\t")
        people["participant_id"] = people["participant_id"].str.removeprefix("sub-")
        table = embed(run, people, tables / "indexed/measures.tsv", tmp_path / "own.parquet")
        with pytest.raises(LeakageError, match="24 of 24 subjects"):
            nc.evaluate(table, out=tmp_path / "e", **FAST)

    def test_renamed_people_are_refused_and_counted(self, of_renamed, tmp_path):
        with pytest.raises(LeakageError, match=r"24 of 24 .* 24 of them under another identifier"):
            nc.evaluate(of_renamed, out=tmp_path / "e", **FAST)
        allowed = nc.evaluate(of_renamed, out=tmp_path / "e", allow_overlap=True, **FAST)
        assert allowed.record.n_overlap == 24
        assert "24 of the subjects had also been in the pretraining cohort" in methods_of(allowed)

    def test_people_who_have_several_scans_are_counted_once(self, of_renamed, tmp_path):
        read = read_embeddings(of_renamed)
        half = read.table.assign(subject_id=np.repeat(RENAMED[:12], 2))
        half.loc[1::2, "content_digest"] = "another"
        features = read.features + np.random.default_rng(0).normal(size=read.features.shape)
        write_embeddings(tmp_path / "t.parquet", half, features.astype(np.float32), read.info)
        with pytest.raises(LeakageError, match="12 of 12 subjects"):
            nc.evaluate(tmp_path / "t.parquet", out=tmp_path / "e", **FAST)

    def test_others_are_evaluated_and_methods_say_how_they_were_compared(self, of_new, tmp_path):
        found = nc.evaluate(of_new, out=tmp_path / "e", **FAST)
        assert found.record.overlap_by == ["identifiers", "contents"]
        assert not {"contents_unknown", "overlap_unknown"} & {
            notice.code for notice in found.record.warnings
        }
        text = methods_of(found)
        assert "by identifiers and by the content of what the encoder read" in text
        assert "every subject, by the identifiers of the table, has one scan" in text

    def test_embeddings_of_an_earlier_version_say_that_contents_were_not_compared(
        self, of_new, tmp_path
    ):
        read = read_embeddings(of_new)
        info = {key: value for key, value in read.info.content().items() if "contents" not in key}
        table = read.table.drop(columns="content_digest")
        write_embeddings(tmp_path / "old.parquet", table, read.features, info)
        found = nc.evaluate(tmp_path / "old.parquet", out=tmp_path / "e", **FAST)
        assert found.record.overlap_by == ["identifiers"]
        assert "contents_unknown" in {notice.code for notice in found.record.warnings}
        assert "whether people had been in it under other identifiers was not checked" in (
            methods_of(found)
        )

    def test_a_renamed_test_set_is_refused(self, run, of_new, of_renamed, tables, tmp_path):
        with pytest.raises(LeakageError, match="test: 24 of 24 subjects were in the pretraining"):
            nc.evaluate(of_new, out=tmp_path / "e", test=str(of_renamed), **FAST)
        # People whom the probe was fitted on, under other names and with noise in the features.
        read = read_embeddings(of_new)
        table = read.table.assign(
            participant_id=[f"Y{row}" for row in range(len(read.table))],
            subject_id=[f"Y{row}" for row in range(len(read.table))],
        )
        noisy = (read.features * 1.001).astype(np.float32)
        write_embeddings(tmp_path / "copy.parquet", table, noisy, read.info)
        with pytest.raises(LeakageError, match="40 of 40 subjects are in the training table too"):
            nc.evaluate(of_new, out=tmp_path / "e", test=str(tmp_path / "copy.parquet"), **FAST)
        spelled = read.table.assign(
            subject_id=read.table["subject_id"].str.removeprefix("sub-"), content_digest=""
        )
        write_embeddings(tmp_path / "copy.parquet", spelled, noisy, read.info)
        with pytest.raises(LeakageError, match="40 of 40 subjects are in the training table too"):
            nc.evaluate(of_new, out=tmp_path / "e", test=str(tmp_path / "copy.parquet"), **FAST)

    def test_a_test_subject_of_pretraining_and_of_training_is_counted_once(
        self, run, tables, tmp_path
    ):
        people = write_people(tmp_path / "own.tsv", PEOPLE)
        table = embed(run, people, tables / "indexed/measures.tsv", tmp_path / "own.parquet")
        options = FAST | {"test": str(table), "allow_overlap": True}
        nc.evaluate(table, out=tmp_path / "e", **options)
        external = json.loads((tmp_path / "e" / "evaluation.json").read_text())["external"]
        assert (external["n_overlap"], external["n"]["subjects"]) == (24, 24)

    def test_predict_knows_renamed_people_of_its_probe(self, run, of_new, tables, tmp_path):
        evaluation = nc.evaluate(of_new, out=tmp_path / "e", **FAST)
        read = read_embeddings(of_new)
        names = [f"Y{row // 2}" for row in range(len(read.table))]
        table = read.table.assign(participant_id=[f"y{row}" for row in range(len(names))])
        table["subject_id"] = names
        table.loc[1::2, "content_digest"] = "other"
        write_embeddings(tmp_path / "y.parquet", table, read.features, read.info)
        said = []
        out = nc.predict(evaluation, tmp_path / "y.parquet", out=tmp_path / "p.tsv",
                         progress=Saying(said))  # fmt: skip
        assert pd.read_csv(out, sep="\t")["trained_on"].all()
        assert any(
            "20 of 20 subjects, 20 of them under another identifier" in text for text in said
        )
        # From measures themselves, which nobody names.
        moved = draw_measures(NEW, seed=1).assign(participant_id=[f"Q{row}" for row in range(40)])
        moved.to_csv(tmp_path / "moved.tsv", sep="\t", index=False)
        out = nc.predict(evaluation, tmp_path / "moved.tsv", out=tmp_path / "q.tsv", run=run)
        assert pd.read_csv(out, sep="\t")["trained_on"].all()

    def test_predict_recognises_any_spelling_and_says_what_it_cannot_compare(
        self, run, of_new, tables, tmp_path
    ):
        evaluation = nc.evaluate(of_new, out=tmp_path / "e", **FAST)
        path = evaluation / "probe" / "probe.json"
        about = json.loads(path.read_text())
        about["trained_on"] = [digest_as_written(name.removeprefix("sub-")) for name in NEW]
        del about["trained_contents"], about["contents_complete"]
        write_json(path, about)
        said = []
        out = nc.predict(evaluation, of_new, out=tmp_path / "p.tsv", progress=Saying(said))
        assert pd.read_csv(out, sep="\t")["trained_on"].all()
        assert any("subjects only the identifier could be compared" in text for text in said)

    def test_a_selection_by_pandas_keeps_the_people_of_pretraining(self, of_renamed, tmp_path):
        selected = pd.read_parquet(of_renamed).query("age < 75")
        n = len(selected)
        with pytest.raises(LeakageError, match=f"{n} of {n} subjects .* under another identifier"):
            nc.evaluate(selected, out=tmp_path / "e", **FAST)
        selected.to_parquet(tmp_path / "selected.parquet")
        with pytest.raises(LeakageError, match=f"{n} of {n} subjects .* under another identifier"):
            nc.evaluate(tmp_path / "selected.parquet", out=tmp_path / "e", **FAST)

    def test_a_selection_of_others_is_compared(self, of_new, tmp_path):
        selected = pd.read_parquet(of_new).query("age < 75")
        found = nc.evaluate(selected, out=tmp_path / "e", **FAST)
        assert found.record.overlap_by == ["identifiers", "contents"]

    def test_other_features_are_not_said_to_be_of_that_pretraining(self, of_new, tmp_path):
        fewer = pd.read_parquet(of_new).drop(columns="feature_0000")
        found = nc.evaluate(fewer, out=tmp_path / "e", **FAST)
        assert found.record.overlap_by == []
        assert "overlap_unknown" in {notice.code for notice in found.record.warnings}

    def test_a_joined_table_keeps_what_was_read(self, of_renamed, tmp_path):
        read = read_embeddings(of_renamed)
        info = read.info.with_keys(run={"weights": {"sha256": "b" * 64}})
        write_embeddings(tmp_path / "b.parquet", read.table, read.features, info)
        out = nc.join([of_renamed, tmp_path / "b.parquet"], out=tmp_path / "j.parquet")
        joined = read_embeddings(out)
        assert joined.table["content_digest"].tolist() == read.table["content_digest"].tolist()
        with pytest.raises(LeakageError, match="24 of them under another identifier"):
            nc.evaluate(out, out=tmp_path / "e", **FAST)

    def test_scan_embedder_warns_or_refuses_as_its_parameter_says(self, run):
        X = draw_measures(PEOPLE).assign(participant_id=RENAMED)
        with pytest.warns(NeurocontrastWarning, match="24 of 24 subjects are people") as caught:
            ScanEmbedder(run).fit_transform(X)
        assert caught[0].filename == __file__
        with pytest.raises(LeakageError, match="24 of 24"):
            ScanEmbedder(run, overlap="error").fit_transform(X.drop(columns="participant_id"))
        with warnings.catch_warnings():
            warnings.simplefilter("error", NeurocontrastWarning)
            ScanEmbedder(run, overlap="ignore").fit_transform(X)
            ScanEmbedder(run).fit_transform(draw_measures(NEW, seed=1))
        named = draw_measures(PEOPLE, seed=7)
        with pytest.warns(NeurocontrastWarning, match="24 of 24 subjects are people"):
            ScanEmbedder(run).fit_transform(named)
        with pytest.raises(nc.exceptions.ConfigError, match="overlap: must be"):
            ScanEmbedder(run, overlap="loud").fit(X)

    def test_scan_embedder_says_that_nobody_can_tell(self, run, tmp_path):
        for name in ("encoder.json", "encoder.safetensors"):
            shutil.copy(run / name, tmp_path)
        with pytest.warns(NeurocontrastWarning, match="could not be compared"):
            ScanEmbedder(tmp_path).fit_transform(draw_measures(PEOPLE))

    def test_a_run_of_earlier_version_recognises_people_by_their_names(self, run, tables, tmp_path):
        old = tmp_path / "old"
        shutil.copytree(run, old)
        provenance = json.loads((old / "provenance.json").read_text())
        provenance = {key: each for key, each in provenance.items() if "contents" not in key}
        provenance["pretraining_subjects"] = [
            digest_as_written(name.removeprefix("sub-")) for name in PEOPLE
        ]
        write_json(old / "provenance.json", provenance)
        people = write_people(tmp_path / "own.tsv", PEOPLE)
        table = embed(old, people, tables / "indexed/measures.tsv", tmp_path / "own.parquet")
        with pytest.raises(LeakageError, match="24 of 24 subjects"):
            nc.evaluate(table, out=tmp_path / "e", **FAST)

    def test_what_weights_had_seen_stays_known(self, run, tables, tmp_path):
        people, measures = (tables / "new" / name for name in ("people.tsv", "measures.tsv"))
        data = {"kind": "measures", "participants": people, "measures": str(measures)}
        training = SHORT["training"] | {"init": str(run)}
        nc.pretrain({"data": data, "training": training}, out=tmp_path / "next")
        before, after = (
            json.loads((folder / "provenance.json").read_text())
            for folder in (run, tmp_path / "next")
        )
        assert set(before["pretraining_contents"]) < set(after["pretraining_contents"])
        assert after["pretraining_contents_complete"]

    def test_fine_tuning_refuses_renamed_people(self, run, of_renamed, tmp_path):
        folder = of_renamed.parent
        with pytest.raises(LeakageError, match="24 of them under another identifier"):
            nc.finetune(
                run,
                participants=folder / "people.tsv",
                out=tmp_path / "f",
                config={"data": {"kind": "measures", "measures": str(folder / "measures.tsv")}},
                **{key: value for key, value in FAST.items() if key != "overwrite"},
            )

    def test_a_bundle_names_nobody(self, run, of_new, tmp_path):
        evaluation = nc.evaluate(of_new, out=tmp_path / "e", **FAST)
        made = nc.bundle(run, evaluation, out=tmp_path / "b")
        probe = load_probe(made / "models" / "probe")
        assert not probe.trained_on
        assert not probe.trained_contents


class Saying(nc.progress.Progress):
    """Progress that keeps warnings."""

    def __init__(self, said):
        self.said = said

    def warning(self, text):
        self.said.append(text)


class TestScans:
    @pytest.fixture
    def scan(self, brain, write_nifti):
        return write_nifti(brain, "one.nii.gz")

    def test_name_compression_format_and_orientation_do_not_matter(
        self, scan, brain, write_nifti, tmp_path
    ):
        known = content_of_scan(scan)
        assert known
        assert content_of_scan(write_nifti(brain, "other.nii")) == known
        assert content_of_scan(write_nifti(brain, "turned.nii.gz", axes="LIA")) == known
        nib.save(nib.MGHImage(brain, nib.load(scan).affine), tmp_path / "one.mgz")
        assert content_of_scan(tmp_path / "one.mgz") == known
        assert content_of_scan(write_nifti(brain + 1, "another.nii.gz")) != known
        assert content_of_scan(tmp_path / "absent.nii.gz") == ""

    def test_negative_zero_is_zero(self):
        zeros = np.zeros((2, 2, 2), dtype=np.float32)
        assert digest_of_voxels(zeros) == digest_of_voxels(-zeros)

    def test_a_cache_keeps_digests_and_reads_no_scan_for_them_again(
        self, scan, tmp_path, monkeypatch
    ):
        how = Preprocessing(spacing_mm=4.0, shape=(16, 16, 16))
        cache = VolumeCache(tmp_path / "cache", how)
        cache.prepare([scan], n_workers=0)
        with monkeypatch.context() as patched:
            patched.setattr("neurocontrast.data.entries.content_of_scan", refuse)
            assert cache.contents([scan, scan], n_workers=0) == [content_of_scan(scan)] * 2

    def test_an_entry_of_an_earlier_version_receives_its_digest_once(
        self, scan, tmp_path, monkeypatch
    ):
        how = Preprocessing(spacing_mm=4.0, shape=(16, 16, 16))
        cache = VolumeCache(tmp_path / "cache", how)
        with monkeypatch.context() as patched:
            patched.setattr("neurocontrast.data.cache._CONTENT", "unknown")
            cache.prepare([scan], n_workers=0)
        volume = cache.read(scan)
        assert cache.contents([scan], n_workers=0) == [content_of_scan(scan)]
        monkeypatch.setattr("neurocontrast.data.entries.content_of_scan", refuse)
        assert cache.contents([scan], n_workers=0) == [content_of_scan(scan)]
        assert np.array_equal(cache.read(scan), volume)

    def test_a_scan_that_changes_while_it_receives_its_digest_is_made_again(
        self, scan, brain, write_nifti, tmp_path, monkeypatch
    ):
        how = Preprocessing(spacing_mm=4.0, shape=(16, 16, 16))
        cache = VolumeCache(tmp_path / "cache", how)
        with monkeypatch.context() as patched:
            patched.setattr("neurocontrast.data.cache._CONTENT", "unknown")
            cache.prepare([scan], n_workers=0)
        read_entry = cache._entry

        def change_after(name, *, only_header=False):
            entry = read_entry(name, only_header=only_header)
            if not only_header:
                write_nifti(brain + 1, scan.name)
            return entry

        with monkeypatch.context() as patched:
            patched.setattr(cache, "_entry", change_after)
            cache.contents([scan], n_workers=0)
        assert cache.missing([scan]) == [str(scan)]

    @pytest.fixture(scope="class")
    def of_scans(self, tmp_path_factory):
        """Train on eight scans; return the run and a table of the same scans, renamed."""
        folder = tmp_path_factory.mktemp("scans")
        made = nc.simulate(folder / "made", n_subjects=8, n_sites=2, spacing_mm=8.0)
        data = {
            "participants": made,
            "cache_dir": str(folder / "cache"),
            "spacing_mm": 10,
            "shape": [16, 20, 16],
            "val_fraction": 0.0,
            "n_workers": 1,
        }
        encoder = {"name": "lenet", "projection": [4]}
        run = nc.pretrain(
            {"data": data, "encoder": encoder, "training": SHORT["training"] | {"batch_size": 4}},
            out=folder / "run",
        )
        cohort = read_cohort(made)
        rows = []
        for row, path in enumerate(cohort.table["path"]):
            image = nib.load(path)
            nib.save(image, folder / f"scan-{row}.nii")
            rows.append([f"Z{row}", f"scan-{row}.nii"])
        people = pd.DataFrame(rows, columns=["participant_id", "path"])
        people["diagnosis"] = cohort.table["diagnosis"]
        people.to_csv(folder / "renamed.tsv", sep="\t", index=False)
        return run, folder / "renamed.tsv"

    def test_renamed_scans_are_found(self, of_scans, tmp_path):
        run, renamed = of_scans
        cache = renamed.with_name("cache")
        table = nc.embed(
            run,
            participants=renamed,
            out=tmp_path / "e.parquet",
            config={"data": {"cache_dir": str(cache), "n_workers": 1}},
        )
        with pytest.raises(LeakageError, match=r"8 of 8 .* 8 of them under another identifier"):
            nc.evaluate(table, out=tmp_path / "e", **FAST | {"target": "diagnosis"})
        scans = [str(renamed.with_name(f"scan-{row}.nii")) for row in range(2)]
        with pytest.warns(NeurocontrastWarning, match="2 of 2 scans are of people"):
            ScanEmbedder(run, cache_dir=cache).fit_transform(scans)

    def test_fine_tuning_refuses_renamed_scans(self, of_scans, tmp_path):
        run, renamed = of_scans
        config = {
            "data": {"cache_dir": str(renamed.with_name("cache")), "n_workers": 1},
            "finetune": {"epochs": 1, "batch_size": 4, "accelerator": "cpu"},
        }
        options = {"target": "diagnosis", "n_folds": 2, "n_bootstraps": 0, "voxels": "off"}
        given = options | {"participants": renamed, "config": config}
        with pytest.raises(LeakageError, match=r"8 of 8 .* 8 of them under another identifier"):
            nc.finetune(run, out=tmp_path / "f", **given)
        found = nc.finetune(run, out=tmp_path / "f", **given, allow_overlap=True)
        record = json.loads((found / "evaluation.json").read_text())
        assert record["overlap_by"] == ["identifiers", "contents"]
        assert record["n_overlap"] == 8
        scratch = nc.finetune(run, out=tmp_path / "s", **given, from_scratch=True)
        record = json.loads((scratch / "evaluation.json").read_text())
        assert record["n_overlap"] == 0


class TestImages:
    """Natural images: pixels are compared, whatever the store, the file or the name."""

    @pytest.fixture(scope="class")
    def digits(self, tmp_path_factory):
        folder = tmp_path_factory.mktemp("digits")
        sizes = {"n_train": 40, "n_validation": 10, "n_test": 10}
        return nc.prepare_images(folder / "d", background="random", **sizes)

    @pytest.fixture(scope="class")
    def run_of_images(self, digits, tmp_path_factory):
        config = {
            "data": {
                "kind": "images",
                "participants": str(digits),
                "where": {"split": ["train", "validation"]},
                "val_fraction": 0.2,
            },
            "augment": {"crop": {"scale": [0.5, 1]}},
            "encoder": {"name": "lenet5", "projection": [8, 4]},
        }
        return nc.pretrain(config | SHORT, out=tmp_path_factory.mktemp("runs") / "images")

    @pytest.fixture
    def renamed(self, digits, tmp_path):
        """Write the images of training in another store, order and names, and one that is new."""
        table = pd.read_csv(digits, sep="\t", dtype=str)
        pixels = np.load(digits.parent / "images.npy")
        order = [int(path.rpartition("#")[2]) for path in table["path"]][::-1]
        changed = pixels[order]
        changed[-1, 0, 0, 0] ^= 1
        np.save(tmp_path / "others.npy", changed)
        names = [f"picture-{row}" for row in range(len(order))]
        table = table.iloc[::-1].assign(
            participant_id=names, path=[f"others.npy#{row}" for row in range(len(order))]
        )
        table.drop(columns="subject_id", errors="ignore").to_csv(
            tmp_path / "renamed.tsv", sep="\t", index=False
        )
        return tmp_path / "renamed.tsv"

    def test_equal_pixels_have_equal_digests(self, digits, renamed):
        contents = ImageDataset(read_cohort(digits)).contents()
        again = ImageDataset(read_cohort(renamed)).contents()[::-1]
        assert all(contents)
        assert [one == two for one, two in zip(contents, again, strict=True)] == [
            False,
            *[True] * (len(contents) - 1),
        ]
        assert len(set(contents)) == len(contents)

    def test_a_run_and_its_embeddings_have_them(self, run_of_images, digits, tmp_path):
        contents = ImageDataset(read_cohort(digits)).contents()
        provenance = json.loads((run_of_images / "provenance.json").read_text())
        assert set(provenance["pretraining_contents"]) < set(contents)
        assert len(provenance["pretraining_contents"]) == 50
        table = nc.embed(run_of_images, participants=digits, out=tmp_path / "e.parquet")
        assert read_embeddings(table).table["content_digest"].tolist() == contents

    def test_renamed_images_of_pretraining_are_refused(self, run_of_images, renamed, tmp_path):
        people = pd.read_csv(renamed, sep="\t", dtype=str)
        of_label = people.groupby("label").cumcount()
        is_known = people["split"].isin(["train", "validation"])
        people["split"] = np.where(of_label % 2, "test", "train")
        people.to_csv(renamed, sep="\t", index=False)
        is_known.iloc[-1] = False  # its pixels are changed
        n_test = (people["split"] == "test").sum()
        n_known = (is_known & (people["split"] == "test")).sum()
        table = nc.embed(run_of_images, participants=renamed, out=tmp_path / "e.parquet")
        options = {"target": "label", "split_column": "split", "n_bootstraps": 0}
        message = f"{n_known} of {n_test} .* {n_known} of them under another identifier"
        with pytest.raises(LeakageError, match=message):
            nc.evaluate(table, out=tmp_path / "e", **options)
        found = nc.evaluate(table, out=tmp_path / "e", **options, allow_overlap=True)
        assert found.record.overlap_by == ["identifiers", "contents"]
        assert found.record.n_overlap == n_known


def refuse(path):
    raise DataError(f"{path}: is read again")


class TestCopies:
    """One person under two names in one table, whose values were rounded otherwise."""

    @pytest.fixture
    def of_copies(self, run, tmp_path):
        twice = draw_measures([*PEOPLE, *PEOPLE[:2]], seed=9)
        copied = draw_measures(PEOPLE, seed=9).iloc[:2, 1:].to_numpy()
        twice.iloc[-2:, 1:] = copied.round(2)
        twice["participant_id"] = [*RENAMED, "copy-1", "copy-2"]
        measures = tmp_path / "measures.tsv"
        twice.to_csv(measures, sep="\t", index=False)
        people = write_people(tmp_path / "people.tsv", twice["participant_id"], seed=9)
        return embed(run, people, measures, tmp_path / "copies.parquet")

    def test_rounded_copies_are_refused(self, of_copies, tmp_path):
        features = read_embeddings(of_copies).features
        assert len(np.unique(features, axis=0)) == len(features)
        with pytest.raises(LeakageError, match="2 images have the names of several subjects") as e:
            nc.evaluate(of_copies, out=tmp_path / "e", **FAST)
        assert "Z0 = copy-1, Z1 = copy-2" in str(e.value)
        found = nc.evaluate(of_copies, out=tmp_path / "e", **FAST, allow_overlap=True)
        assert "duplicate_overlap" in {notice.code for notice in found.record.warnings}

    def test_rounded_copies_of_the_study_in_the_test_table_are_refused(
        self, of_new, of_copies, tmp_path
    ):
        with pytest.raises(LeakageError, match="several subjects"):
            nc.evaluate(of_new, test=of_copies, out=tmp_path / "e", **FAST)
