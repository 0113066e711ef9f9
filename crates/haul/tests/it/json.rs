//! Output for programs: JSON, lists, logs, silence.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_test::documented::{documented, keys};
use haul_test::program::Ended;
use serde_json::Value;

use crate::support::{Printed, World};

/// A name that is no text.
fn odd(directory: &str, name: &[u8]) -> PathBuf {
    Path::new(directory).join(OsStr::from_bytes(name))
}

#[test]
fn every_line_is_json_with_the_documented_keys() {
    let w = World::of_user("src: a=5 d/b=300K l->a p| zero=1:0000 same=1 dst: same=1 gone=3");
    w.write("src/bad\u{1b}name", "x");
    w.write(odd("src", b"\xff"), "x");
    w.give_all();
    let documented = documented();
    let mut seen = BTreeSet::new();
    for command in [
        "cp --json src/ dst",
        "sync --json -vv --delete src/ dst",
        "sync -n --json --delete src/ dst",
        "check --json src/ dst",
        "cp --json -a --bwlimit 200K src/ dst2",
    ] {
        let ran = w.haul(command).run();
        let events = ran.events();
        assert_eq!(
            (&events[0]["event"], &events[events.len() - 1]["event"]),
            (&Value::from("started"), &Value::from("finished")),
            "{command}"
        );
        for event in events {
            let kind = event["event"].as_str().unwrap().to_owned();
            let known = documented.get(&kind).unwrap_or_else(|| panic!("{command}: {event}"));
            let has = keys(&event);
            let unknown: Vec<_> = has.difference(known).collect();
            assert!(unknown.is_empty(), "{command}: {kind} has undocumented {unknown:?}: {event}");
            let absent: Vec<_> = known.difference(&has).filter(|key| !key.contains('.')).collect();
            assert!(absent.is_empty(), "{command}: {kind} lacks {absent:?}: {event}");
            seen.insert(kind);
        }
        assert!(!ran.err.is_empty(), "{command}: text for people");
    }
    for kind in ["started", "item", "failed", "progress", "finished"] {
        assert!(seen.contains(kind), "{kind}");
    }
}

/// The values of a key in all lines.
fn of(events: &[Value], key: &str) -> Vec<Value> {
    events.iter().map(|event| event[key].clone()).collect()
}

/// Runs a command whose standard output is JSON with the documented keys and nothing that a terminal would act on.
#[track_caller]
fn documented_events(w: &World, command: &str, code: i32) -> (Vec<Value>, Ended) {
    let documented = documented();
    let ran = w.haul(command).ends(code);
    assert!(!ran.out.contains('\u{1b}'), "{command}: {}", ran.out);
    let events = ran.events();
    for event in &events {
        assert_eq!(Some(&keys(event)), documented.get(event["event"].as_str().unwrap()), "{command}: {event}");
    }
    (events, ran)
}

#[test]
fn lists_are_json_with_the_documented_keys() {
    let w = World::of_user("src: a=5:0640 d/b=300K d/e/c=7 l->nowhere p| .hidden=1 locked/:0000");
    w.write("src/esc\u{1b}[2Jape", "xx");
    w.write(odd("src", b"caf\xe9"), "xxx");
    w.symlink(OsStr::from_bytes(b"\xff"), "src/m");
    w.give_all();
    w.age("src/a");
    let printed = |command: &str, code: i32| {
        let (events, _) = documented_events(&w, command, code);
        for event in &events {
            assert!(["src", "src/a"].contains(&event["place"].as_str().unwrap()), "{command}: {event}");
        }
        events
    };

    let listed = printed("ls --json src", 0);
    assert_eq!(of(&listed, "path"), ["a", "caf\u{fffd}", "d", "esc\u{1b}[2Jape", "l", "locked", "m", "p"]);
    let kinds = ["file", "file", "directory", "file", "symlink", "directory", "symlink", "fifo"];
    assert_eq!(of(&listed, "kind"), kinds);
    let a = &listed[0];
    assert_eq!((&a["size"], &a["mode"], &a["mtime"]), (&5.into(), &"0640".into(), &1_600_000_000.0.into()));
    assert_eq!(a["mtime_ns"], 1_600_000_000_000_000_000_i64);
    assert_eq!((&a["uid"], &a["gid"], &a["path_hex"], &a["etag"]), (&65534.into(), &65534.into(), &Value::Null, &Value::Null));
    assert_eq!((&listed[1]["path_hex"], &listed[2]["size"], &listed[5]["mode"]), (&"636166e9".into(), &Value::Null, &"0000".into()));
    assert_eq!((&listed[4]["target"], &listed[4]["target_hex"]), (&"nowhere".into(), &Value::Null));
    assert_eq!((&listed[6]["target"], &listed[6]["target_hex"]), (&"\u{fffd}".into(), &"ff".into()));
    assert_eq!(printed("ls --json -lh src", 0), listed, "flags for people change nothing");
    assert_eq!(of(&printed("ls --json -aR src", 23), "path").iter().filter(|path| *path == ".hidden" || *path == "d/e/c").count(), 2);
    assert_eq!(of(&printed("ls --json src/a", 0), "path"), [""]);
    assert_eq!(of(&printed("ls --json src/a src", 0), "place")[..2], ["src/a", "src"]);

    let used = printed("du --json -h -d 2 src", 23);
    assert_eq!(of(&used, "path"), ["locked", "d/e", "d", ""]);
    assert_eq!(of(&used, "bytes"), [0, 7, 307_207, 307_218]);
    assert_eq!(of(&used, "files"), [0, 1, 2, 9]);
    assert_eq!(of(&used, "directories"), [1, 1, 2, 4]);
    assert_eq!(of(&used, "level"), [1, 2, 1, 0]);
    assert_eq!(of(&used, "errors"), [Value::Null, Value::Null, Value::Null, 1.into()]);
    let tree = printed("tree --json src", 23);
    let all = ["", "a", "caf\u{fffd}", "d", "d/b", "d/e", "d/e/c", "esc\u{1b}[2Jape", "l", "locked", "m", "p"];
    assert_eq!(of(&tree, "path"), all);
    assert_eq!((&tree[0]["event"], &tree[0]["files"], &tree[0]["errors"]), (&"usage".into(), &8.into(), &1.into()), "without .hidden");
    assert_eq!((&tree[1]["event"], &tree[1]["size"], &tree[3]["bytes"]), (&"entry".into(), &5.into(), &307_207.into()));
    assert_eq!(of(&printed("tree --json -a src", 23), "path")[1], ".hidden");
    assert_eq!(of(&printed("tree --json -d src", 23), "path"), ["", "d", "d/e", "locked"]);
    let top = printed("tree --json -d -L 1 src", 23);
    assert_eq!(of(&top, "path"), ["", "d", "locked"]);
    assert_eq!((&top[1]["bytes"], &top[1]["directories"]), (&307_207.into(), &2.into()), "hidden entries count");
    let missing = w.haul("ls --json nowhere").ends(23);
    let printed = missing.events();
    assert_eq!((of(&printed, "event"), of(&printed, "path")), (vec![Value::from("error")], vec![Value::from("nowhere")]));
    assert!(missing.err.contains("nowhere"), "{}", missing.err);
}

#[test]
fn changes_links_and_file_systems_are_json_with_the_documented_keys() {
    let w = World::new("d: a=1:0600 e/b=1:0644 l->a");
    let printed = |command: &str| documented_events(&w, command, 0).0;
    let mut changed = printed("chmod --json -R 0644 d/a d/e");
    changed.sort_by_key(|event| format!("{}{}", event["place"], event["path"]));
    assert_eq!(
        (of(&changed, "place"), of(&changed, "path")),
        (vec!["d/a".into(), "d/e".into()], vec!["".into(), "".into()]),
        "b was right"
    );
    assert_eq!((of(&changed, "mode"), of(&changed, "kind")), (vec!["0644".into(); 2], vec!["file".into(), "directory".into()]));
    let owned = printed("chown --json -h 7 d/l");
    assert_eq!((&owned[0]["uid"], &owned[0]["kind"]), (&7.into(), &"symlink".into()));
    let linked = printed("ln --json -s a d/m");
    assert_eq!((&linked[0]["place"], &linked[0]["target"], &linked[0]["symbolic"]), (&"d/m".into(), &"a".into(), &true.into()));
    let room = printed("df --json d");
    let figure = |key: &str| room[0][key].as_u64().unwrap();
    assert!(figure("size") >= figure("used") && figure("size") >= figure("available"), "{room:?}");
}

#[test]
fn sums_are_json_beside_the_manifest() {
    let w = World::of_user("src: a=5 d/b=300K empty=0 l->a locked=1:0000 other: c=3");
    w.write("src/esc\u{1b}[2Jape\nline", "xx");
    w.write(odd("src", b"caf\xe9"), "xxx");
    w.give_all();
    w.age("src/a");
    let printed = |command: &str, code: i32| {
        let (events, ran) = documented_events(&w, command, code);
        assert!(code == 0 || ran.err.contains("locked: open"), "{command}: {}", ran.err);
        assert!(events.iter().all(|event| event["event"] == "sum"), "{command}: {events:?}");
        events
    };
    let paths = ["a", "caf\u{fffd}", "d/b", "empty", "esc\u{1b}[2Jape\nline"];
    for format in ["blake3", "sha256sum", "md5sum"] {
        let sums = printed(&format!("sum --json --format {format} src"), 23);
        assert_eq!(of(&sums, "path"), paths, "{format}");
        assert_eq!(
            (of(&sums, "size"), &sums[1]["path_hex"]),
            (vec![5.into(), 3.into(), 307_200.into(), 0.into(), 2.into()], &"636166e9".into())
        );
        assert_eq!(
            (&sums[0]["mtime"], &sums[0]["place"], &sums[0]["algorithm"]),
            (&1_600_000_000.0.into(), &"src".into(), &format.trim_end_matches("sum").into())
        );
        // The manifest is that without --json, and has the same digests.
        let plain = w.haul(&format!("sum --format {format} src")).ends(23).out;
        assert_eq!(printed(&format!("sum --json --format {format} -o both src"), 23), sums, "{format}");
        assert_eq!(String::from_utf8_lossy(&w.read("both")), plain, "{format}");
        let digests =
            plain.lines().filter(|line| !line.starts_with('#')).map(|line| line.trim_start_matches('\\').split(' ').next().unwrap().into());
        assert_eq!(of(&sums, "digest"), digests.collect::<Vec<Value>>(), "{format}");
    }
    // One file; and several arguments, of which the default manifest could not be.
    assert_eq!(of(&printed("sum --json src/a", 0), "path"), [""]);
    let two = printed("sum --json src/a other", 0);
    assert_eq!((of(&two, "place"), of(&two, "path")), (vec!["src/a".into(), "other".into()], vec!["".into(), "c".into()]));
    assert_eq!(of(&w.haul("sum --json -o none src/a other").ends(1).events(), "error"), ["usage"]);
    assert!(!w.path("none").exists());
}

#[test]
fn what_is_removed_is_json() {
    let w = World::of_user("d: a=1 e/b=2 l->a kept/c=1 one=3");
    w.write("d/esc\u{1b}[2J", "x");
    w.write(odd("d", b"caf\xe9"), "x");
    w.give_all();
    w.chmod("d/kept", 0o500);
    let printed = |command: &str, code: i32| {
        let (mut events, ran) = documented_events(&w, command, code);
        assert!(!ran.err.contains("removed a"), "{command}: {}", ran.err);
        for event in &events {
            assert_eq!(event["event"], "removed", "{command}: {event}");
            assert_eq!((&event["version_id"], &event["upload_id"]), (&Value::Null, &Value::Null), "{command}: {event}");
        }
        events.sort_by_key(|event| event["path"].as_str().unwrap().to_owned());
        (events, ran.err)
    };
    let (one, _) = printed("rm --json d/one", 0);
    assert_eq!((of(&one, "path"), &one[0]["place"], &one[0]["dry"]), (vec!["".into()], &"d/one".into(), &false.into()));
    let all = ["", "a", "caf\u{fffd}", "e", "e/b", "esc\u{1b}[2J", "kept", "kept/c", "l"];
    let (dry, said) = printed("rm -rn --json d", 0);
    assert_eq!((of(&dry, "path"), said.as_str()), (all.map(Value::from).to_vec(), "DRY RUN: nothing was removed\n"));
    let kinds = ["directory", "file", "file", "directory", "file", "file", "directory", "file", "symlink"];
    assert_eq!((of(&dry, "kind"), &dry[2]["path_hex"]), (kinds.map(Value::from).to_vec(), &"636166e9".into()));
    assert!(of(&dry, "dry").iter().all(|dry| *dry == true) && w.has("d/e/b"));
    // What stays is not among what went.
    let (gone, said) = printed("rm -r -v --json ./d/", 23);
    assert_eq!(of(&gone, "path"), ["a", "caf\u{fffd}", "e", "e/b", "esc\u{1b}[2J", "l"]);
    assert!(gone[0]["place"] == "d/" || gone[0]["place"] == "./d/", "{gone:?}");
    assert!(said.contains("kept/c: ") && w.has("d/kept/c") && !w.has("d/e"), "{said}");
    assert_eq!(printed("rm --json -f nothing", 0).0.len(), 0);
    assert_eq!(of(&documented_events(&w, "rm --json nothing", 23).0, "event"), ["error"]);
}

#[test]
fn errors_before_the_start_are_json() {
    let w = World::new("src: a=5 dir/b=1");
    for (command, code, class) in [
        ("cp --json src", 1, "usage"),
        ("cp --json --nonsense src dst", 1, "usage"),
        ("check --json src", 2, "usage"),
        ("--json frobnicate", 1, "usage"),
        ("--json cp -j abc src dst", 1, "usage"),
        ("cp --json src src/dir/inner", 1, "usage"),
        ("ls --json nowhere", 23, "not-found"),
        ("cp --json src none/such/dst", 23, "not-found"),
    ] {
        let (printed, ran) = documented_events(&w, command, code);
        assert_eq!(
            (of(&printed, "event"), of(&printed, "error")),
            (vec![Value::from("error")], vec![Value::from(class)]),
            "{command}: {}",
            ran.err
        );
        assert!(printed[0]["reason"].as_str().is_some_and(|reason| !reason.is_empty() && !reason.contains('\n')), "{command}: {printed:?}");
        assert!(!ran.err.is_empty(), "{command}");
    }
    assert_eq!(w.haul("cp src").ends(1).out, "", "without --json as ever");
}

#[test]
fn the_first_line_says_which_job_it_is() {
    let w = World::new("src: a=5");
    let printed = w.haul("cp --json src/ dst").succeeds().events();
    let id = printed[0]["job"].as_str().expect("an id");
    assert_eq!(printed[0]["sources"][0], format!("{}/", w.path("src").display()));
    assert_eq!(printed[0]["destination"], w.path("dst").display().to_string());
    let listed = w.haul("jobs --json").succeeds().events();
    assert_eq!(listed[0]["job"], *id);
    let dry = w.haul("cp -n --json src/ dst2").succeeds().events();
    assert_eq!(dry[0]["job"], Value::Null, "a dry run has no journal");
}

#[test]
fn quiet_checks_print_json_and_no_bare_names() {
    let w = World::new("src: a=5 b=6 dst: b=7 c=8");
    let ran = w.haul("check -q --json src/ dst").ends(1);
    assert_eq!((ran.events().iter().filter(|event| event["event"] == "item").count(), ran.err.as_str()), (3, ""));
}

#[test]
fn a_tree_is_held_against_its_manifest() {
    let w = World::of_user("src: a=5 d/b=300K d/c=7 e=9 f=1 same=3 locked=4");
    w.give_all();
    for format in ["blake3", "sha256sum"] {
        w.haul(&format!("sum --format {format} -o {format} src")).succeeds();
    }
    let printed = |command: &str, code: i32| {
        let (mut events, ran) = documented_events(&w, command, code);
        let (first, last) = (events.remove(0), events.pop().expect("a last line"));
        assert_eq!((&first["event"], &last["event"]), (&"started".into(), &"checked".into()), "{command}");
        assert_eq!(last["place"], "src", "{command}");
        events.sort_by_key(|event| event["path"].as_str().unwrap().to_owned());
        (events, last, ran.err)
    };
    let sums = |last: &Value| ["same", "missing", "differing", "extra", "failed"].map(|key| last[key].as_u64().unwrap());

    let (none, last, said) = printed("check --json --manifest blake3 src", 0);
    assert_eq!((none.len(), sums(&last), &last["manifest"]), (0, [7, 0, 0, 0, 0], &"blake3".into()));
    assert_eq!(said, "7 identical, 0 missing, 0 differing, 0 extra, 0 unreadable\n");

    w.write("src/a", "12345");
    w.write("src/d/b", "shorter");
    w.remove("src/d/c");
    w.remove("src/e");
    w.tree("src: e/");
    w.chmod("src/locked", 0o000);
    let odd = <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"x\x1b[2J\xff");
    w.write(w.path("src").join(odd), "xx");
    w.give_all();
    let paths = ["a", "d/b", "d/c", "e", "locked", "x\u{1b}[2J\u{fffd}"];
    for (manifest, sizes, shorter) in [
        ("blake3", [5.into(), 307_200.into(), 7.into(), 9.into(), Value::Null, 2.into()], "size"),
        ("sha256sum", [Value::Null, Value::Null, Value::Null, Value::Null, Value::Null, 2.into()], "content"),
    ] {
        let (events, last, said) = printed(&format!("check --json --manifest {manifest} src"), 23);
        assert_eq!(of(&events, "path"), paths, "{manifest}");
        let actions = ["differs".into(), "differs".into(), "missing".into(), "differs".into(), Value::Null, "extra".into()];
        assert_eq!(of(&events, "action"), actions, "{manifest}");
        assert_eq!(of(&events, "why"), ["content".into(), shorter.into(), "new".into(), "type".into(), Value::Null, "extra".into()]);
        assert_eq!(of(&events, "size"), sizes, "{manifest}");
        assert_eq!((&events[4]["event"], &events[4]["error"], &events[4]["kind"]), (&"failed".into(), &"denied".into(), &"file".into()));
        assert_eq!(events[5]["path_hex"], "781b5b324aff");
        assert_eq!(sums(&last), [2, 1, 3, 1, 1], "{manifest}");
        assert!(said.contains("locked: open") && said.ends_with("1 unreadable\n"), "{said}");
    }
    w.remove("src/locked");
    let (found, last, said) = printed("check -q --json --one-way --manifest blake3 --missing-to missing src", 1);
    assert_eq!((found.len(), sums(&last), said.as_str()), (5, [2, 2, 3, 0, 0], ""));
    assert_eq!(w.text("missing").lines().count(), 2);
    w.write("bad", "no manifest\n");
    let bad = w.haul("check --json --manifest bad src").ends(2);
    assert!(!bad.out.contains("checked"), "{}", bad.out);
    assert_eq!(of(&w.haul("check --json --manifest nowhere src").ends(23).events(), "event"), ["error"]);
}

#[test]
fn quiet_is_silent_unless_something_fails() {
    let w = World::of_user("src: a=5 d/b=6 p|");
    let ran = w.haul("cp -q src/ dst").succeeds();
    assert_eq!((ran.out.as_str(), ran.err.as_str()), ("", ""));
    w.tree("src: zero=1:0000");
    w.refuses(23, "cp -q src/ dst", "haul: zero: open: Permission denied");
}

#[test]
fn the_log_has_everything_and_grows() {
    let w = World::new("src: a=5 d/b=6");
    w.haul("cp -q --log log src/ dst").succeeds();
    let first = w.text("log");
    assert!(first.contains("d/b") && first.contains("copies the contents of"), "{first}");
    w.haul("cp -q --log log src/ dst").succeeds();
    let second = w.text("log");
    assert!(second.starts_with(&first) && second.len() > first.len());
}

#[test]
fn what_failed_can_be_done_again_by_a_list() {
    let w = World::of_user("src: ok=1 zero=2:0000 d/zero=3:0000");
    w.write("src/with\nline", "x");
    w.give_all();
    w.chmod("src/with\nline", 0o000);
    w.haul("cp -0 --failed-to failed src/ dst").ends(23);
    let mut names: Vec<Vec<u8>> = w.read("failed").split(|b| *b == 0).map(<[u8]>::to_vec).filter(|n| !n.is_empty()).collect();
    names.sort();
    assert_eq!(names, [b"d/zero".to_vec(), b"with\nline".to_vec(), b"zero".to_vec()]);
    for name in ["zero", "d/zero", "with\nline"] {
        w.chmod(format!("src/{name}"), 0o600);
    }
    let ran = w.haul("cp -v --from0 --files-from failed src dst").succeeds();
    assert_eq!(ran.items().iter().filter(|l| l.starts_with("create")).count(), 3, "{}", ran.out);
    w.assert_same("src", "dst", haul_test::compare::What::USUAL);
}

/// Words in code quotes in the section of `haul bench`.
fn documented_of_bench() -> BTreeSet<&'static str> {
    let text = include_str!("../../../../docs/json.md").split_once("## `haul bench`").expect("a section").1;
    let section = text.split_once("\n## ").map_or(text, |(section, _)| section);
    section.split('`').skip(1).step_by(2).collect()
}

/// Keys at any depth, but those that stand for values: of factors, tools, notes.
fn deep_keys(value: &Value, all: &mut BTreeSet<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        all.insert(key.clone());
        if !["factors", "more", "settings"].contains(&key.as_str()) {
            deep_keys(value, all);
        }
    }
    value.as_array().into_iter().flatten().for_each(|value| deep_keys(value, all));
}

#[test]
fn what_benchmarks_print_is_documented() {
    let w = World::new("src: a=5 d/b=300K dst: none/ files: none/");
    let documented = documented_of_bench();
    for (event, command) in [
        ("bench-data", "bench data --json 3x4KiB made"),
        ("bench-data", "bench data --json --dry-run 3x4KiB other"),
        ("bench-data", "bench data --json --verify 3x4KiB made"),
        ("bench-files-summary", "bench files --json -q --total 10 --threads 1 --operation create files"),
        ("bench-compare", "bench compare --json -q --tools haul,cp --repeat 2 --extrapolate 1TB --caches warm --out one src dst/none"),
        ("bench-compare", "bench compare --json -q --tools haul,scp --repeat 1 --caches warm --out two src dst/none"),
        ("bench-compare", "bench compare --json -q --tools haul -j 1,2 --repeat 1 --caches warm --out three src dst/none"),
        ("bench-report", "bench report --json one two"),
    ] {
        let ran = w.haul(command).run();
        for said in ran.events() {
            let kind = said["event"].as_str().filter(|kind| documented.contains(kind)).unwrap_or_else(|| panic!("{command}: {said}"));
            let mut has = BTreeSet::new();
            deep_keys(&said, &mut has);
            let unknown: Vec<_> = has.iter().filter(|key| !documented.contains(key.as_str())).collect();
            assert!(unknown.is_empty(), "{command}: {kind} has undocumented {unknown:?}: {said}");
        }
        assert!(ran.out.contains(&format!("\"event\":\"{event}\"")), "{command}: {}\n{}", ran.out, ran.err);
    }
}
