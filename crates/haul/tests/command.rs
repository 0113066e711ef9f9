//! What a person sees of commands that find or refuse something: the program itself is run.

use std::path::Path;
use std::process::{Command, Output};

fn haul(dir: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
    command.args(arguments).current_dir(dir).env_clear().env("HAUL_STATE_DIR", dir.join("state")).env("TZ", "UTC");
    command.output().expect("the program runs")
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect()
}

/// A tree in which `gone` is missing at destination, `same` and `other` are there, and `more` only there.
fn two_trees(dir: &Path) {
    for (name, text) in [("a/gone", "1"), ("a/same", "22"), ("a/other", "333"), ("b/same", "22"), ("b/other", "4444"), ("b/more", "5")] {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        std::fs::write(&path, text).expect("written");
        std::fs::File::options().write(true).open(&path).expect("open").set_modified(std::time::UNIX_EPOCH).expect("time");
    }
}

#[test]
fn check_names_what_is_not_the_same_without_being_asked() {
    let dir = tempfile::tempdir().expect("a directory");
    two_trees(dir.path());
    let found = haul(dir.path(), &["check", "a/", "b"]);
    assert_eq!(found.status.code(), Some(1));
    let mut named: Vec<String> =
        lines(&found).into_iter().filter(|l| ["missing ", "extra ", "differs "].iter().any(|word| l.starts_with(word))).collect();
    named.sort();
    assert_eq!(named, ["differs     other", "extra       more", "missing     gone"], "{found:?}");

    let quiet = haul(dir.path(), &["check", "-q", "a/", "b"]);
    let mut named = lines(&quiet);
    named.sort();
    assert_eq!(named, ["gone", "other"], "names alone, those that --files-from could copy: {quiet:?}");
}

#[test]
fn a_refused_copy_leaves_no_directory_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    two_trees(dir.path());
    let refused = haul(dir.path(), &["cp", "a", "a/inner"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(!dir.path().join("a/inner").exists());
}

#[test]
fn a_file_that_is_moved_to_another_name_is_gone_under_the_old_one() {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, size) in [("small", 10), ("large", 1 << 20)] {
        std::fs::write(dir.path().join(name), vec![7; size]).expect("written");
        let moved = haul(dir.path(), &["mv", name, "new"]);
        assert_eq!(moved.status.code(), Some(0), "{moved:?}");
        assert!(!dir.path().join(name).exists(), "{name} is still there: {moved:?}");
        assert_eq!(std::fs::read(dir.path().join("new")).expect("the copy").len(), size);
    }
}
