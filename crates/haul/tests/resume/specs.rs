//! The spec that a job keeps: another process, elsewhere, can run it.

use std::fs;

use haul_test::compare::What;
use serde_json::Value;

use crate::support::{CHUNK_WORDS, Place, number};

/// The spec of the one job, in a file.
fn spec_of_the_job(place: &Place) -> (Value, std::path::PathBuf) {
    let job: Value = serde_json::from_str(&place.haul("jobs --json").run().code(0).out).expect("one job");
    let file = place.join("spec");
    fs::write(&file, job["spec"].to_string()).expect("a file");
    (job, file)
}

#[test]
fn a_killed_job_goes_on_from_its_spec_in_another_directory() {
    let place = Place::new();
    place.tree("src: a=1K big=700K:0640 d/e=5K skip.o=1K elsewhere/");
    fs::write(place.join("rules"), "- *.o\n").expect("a file");
    let command = format!("cp -a --filter-from rules --chunk-size {CHUNK_WORDS} -j 1 src/ dst");
    assert!(place.haul(&command).kill_at(5).run().was_killed());
    let (job, file) = spec_of_the_job(&place);
    assert_eq!((&job["state"], &job["spec"]["operation"]), (&"unfinished".into(), &"copy".into()));
    assert_eq!(job["spec"]["performance"]["chunk"], 64 << 10);
    let again = place.haul("--json run -").directory(&place.join("src/elsewhere")).stdin_from(&file).run().code(0);
    assert!(number(&again.finished(), "resumed_bytes") > 0, "{again}");
    assert!(!place.join("dst/skip.o").exists());
    fs::remove_file(place.join("src/skip.o")).expect("it exists");
    place.assert_done("src", "dst", What::CONTENT, "after the spec");
}

#[test]
fn a_finished_job_is_repeated_by_its_spec() {
    let place = Place::new();
    place.tree("src: a=1K b=2K");
    place.haul("sync -a --delete --max-delete 1 src/ dst").run().code(0);
    let (_, file) = spec_of_the_job(&place);
    place.tree("src: c=3K");
    place.tree("dst: gone=1K");
    place.haul("run -").stdin_from(&file).run().code(0).says("Deleted");
    place.assert_same("src", "dst", What::ALL, "after the spec");
}

#[test]
fn what_is_no_spec_is_refused_by_name() {
    let place = Place::new();
    place.tree("src: a=1K");
    place.haul("cp src/ dst").run().code(0);
    let (job, file) = spec_of_the_job(&place);
    let mut check = job["spec"].clone();
    check["operation"] = serde_json::json!({"check": {"one_way": false}});
    let mut later = job["spec"].clone();
    later["version"] = 2.into();
    for (spec, words) in [(check.to_string(), "haul check"), (later.to_string(), "version 2"), ("{\"version\":1}".into(), "operation")] {
        fs::write(&file, spec).expect("a file");
        place.haul("run -").stdin_from(&file).run().code(1).says(words);
    }
}
