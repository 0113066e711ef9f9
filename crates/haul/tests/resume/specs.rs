//! The spec that a job keeps: another process, elsewhere, can run it.

use haul_test::compare::What;
use serde_json::Value;

use crate::support::World;

/// The one job, whose spec is written to the file `spec`.
fn job_of(w: &World) -> Value {
    let job = w.haul("jobs --json").ends(0).events().remove(0);
    w.write("spec", job["spec"].to_string());
    job
}

#[test]
fn a_killed_job_goes_on_from_its_spec_in_another_directory() {
    let w = World::new("src: a=1K big=700K:0640 d/e=5K skip.o=1K elsewhere/");
    w.write("rules", "- *.o\n");
    let command = "cp -a --filter-from rules --chunk-size 64K -j 1 src/ dst";
    assert!(w.haul(command).killed_at(5).run().was_killed());
    let job = job_of(&w);
    assert_eq!((&job["state"], &job["spec"]["operation"]), (&"unfinished".into(), &"copy".into()));
    assert_eq!(job["spec"]["performance"]["chunk"], 64 << 10);
    let again = w.haul("--json run -").directory(w.path("src/elsewhere")).stdin(w.path("spec")).ends(0);
    assert!(again.number("resumed_bytes") > 0, "{again}");
    assert!(!w.has("dst/skip.o"));
    w.remove("src/skip.o");
    w.assert_done("dst", What::CONTENT, "after the spec");
}

#[test]
fn a_finished_job_is_repeated_by_its_spec() {
    let w = World::new("src: a=1K b=2K");
    w.haul("sync -a --delete --max-delete 1 src/ dst").ends(0);
    job_of(&w);
    w.tree("src: c=3K");
    w.tree("dst: gone=1K");
    w.haul("run -").stdin(w.path("spec")).ends(0).says("Deleted");
    w.assert_same("src", "dst", What::ALL);
}

#[test]
fn what_is_no_spec_is_refused_by_name() {
    let w = World::new("src: a=1K");
    w.haul("cp src/ dst").ends(0);
    let job = job_of(&w);
    let mut check = job["spec"].clone();
    check["operation"] = serde_json::json!({"check": {"one_way": false}});
    let mut later = job["spec"].clone();
    later["version"] = 2.into();
    for (spec, words) in [(check.to_string(), "haul check"), (later.to_string(), "version 2"), ("{\"version\":1}".into(), "operation")] {
        w.haul("run -").fed(spec).ends(1).says(words);
    }
}
