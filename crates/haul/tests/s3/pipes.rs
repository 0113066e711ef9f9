//! Standard input and output: content whose size nobody knows before its end.

use std::io::Write;

use crate::support::World;

#[test]
fn what_comes_in_becomes_an_object() {
    let w = World::new();
    w.tree("empty=0 small=100 middle=17M large=70M");
    for name in ["empty", "small", "middle", "large"] {
        w.haul(&format!("cp - @/{name}")).stdin(w.path(name)).ends(0);
        assert!(w.get(name) == w.read(name), "{name}");
        assert_eq!(w.uploads(name), Vec::<String>::new());
    }
}

#[test]
fn an_object_goes_out() {
    let w = World::new();
    w.tree("empty=0 small=100 large=20M");
    for name in ["empty", "small", "large"] {
        w.haul(&format!("cp {name} @/{name}")).ends(0);
        for words in [format!("cp @/{name} -"), format!("cat @/{name}")] {
            let ended = w.haul(&words).ends(0);
            assert!(ended.bytes == w.read(name), "{words}");
        }
    }
    w.haul("cat @/none").run().says("no such");
    w.haul("cp @/ -").run().says("directory");
}

#[test]
fn what_is_broken_off_leaves_nothing() {
    let w = World::new();
    let mut run = w.haul("cp - @/k").piped();
    let mut input = run.input();
    input.write_all(&vec![7; 40 << 20]).expect("it reads");
    crate::support::until("an upload", || !w.uploads("k").is_empty());
    run.signal(rustix::process::Signal::TERM);
    run.wait().code(20);
    drop(input);
    assert_eq!(w.keys(), Vec::<String>::new());
    assert_eq!(w.uploads("k"), Vec::<String>::new());
}

/// Only the journal knows of it then.
#[test]
fn an_upload_of_a_killed_pipe_is_known_and_removed() {
    let w = World::new();
    let mut run = w.haul("cp - @/k").piped();
    let mut input = run.input();
    // More than the first part and what a pipe holds: the upload was begun when this has been read.
    input.write_all(&vec![7; 40 << 20]).expect("it reads");
    run.signal(rustix::process::Signal::KILL);
    assert!(run.wait().was_killed());
    drop(input);
    assert_eq!(w.uploads("k").len(), 1);
    w.haul("jobs").ends(0).says("unfinished").says("1 large file").says(&format!("s3://{}/k", w.bucket));
    let listed = w.haul("jobs --json").ends(0).out;
    let job = listed.split("\"job\":\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a job").to_string();
    w.haul(&format!("jobs clean {job}")).ends(0).says("1 unfinished file");
    assert_eq!(w.uploads("k"), Vec::<String>::new());
}

#[test]
fn a_directory_takes_no_input() {
    let w = World::new();
    w.haul("cp - @/d/").run().says("no name");
    assert_eq!(w.keys(), Vec::<String>::new());
}
