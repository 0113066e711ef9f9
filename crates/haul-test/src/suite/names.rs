//! Names: what can be made under one, what stands in its way, and what must never be reached by one.

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::error::ErrorKind;
use haul_core::store::ServerSideOp;

use super::Fixture;
use super::tools::*;

pub fn any_name_can_be_made(f: &Fixture) {
    let long = vec![b'n'; f.caps().names.max.min(255)];
    let nasty: [&[u8]; 14] = [
        b"with space",
        b" leading and trailing ",
        b"new\nline",
        b"%2F",
        b"..x",
        b"...",
        b"-rf",
        b"~",
        b"*?[a]{b}",
        b"back\\slash",
        b"\x1b[2J\x07",
        b"caf\xc3\xa9",
        b"not-utf8-\xff\xfe",
        &long,
    ];
    let home = dir("nasty");
    f.make(&home);
    let mut nasty = nasty.to_vec();
    nasty.retain(|leaf| {
        let name = Name::new(&home, leaf);
        let is_text = !f.caps().names.text || std::str::from_utf8(leaf).is_ok();
        let is_line = !f.caps().names.one_line || !leaf.contains(&b'\n');
        let is_plain = !f.caps().names.plain || leaf.iter().all(|byte| matches!(byte, b' '..=b'~'));
        if !is_text || !is_line || !is_plain {
            let entry = file(name.clone(), 3);
            fails(write(&*f.store, &entry, &spec(&entry, f.chunk()), b"new"), &[ErrorKind::BadName], &name);
        }
        is_text && is_line && is_plain
    });
    for (i, leaf) in nasty.iter().enumerate() {
        let content = bytes(i as u64, 10 + i as u64);
        let entry = file(Name::new(&home, leaf), content.len() as u64);
        ok(write(&*f.store, &entry, &spec(&entry, f.chunk()), &content));
        assert!(ok(fetch(&*f.another(), &entry.name)) == content, "{:?}", entry.name);
    }
    let mut expected: Vec<Vec<u8>> = nasty.iter().map(|leaf| leaf.to_vec()).collect();
    expected.sort();
    assert_eq!(leaves(&*f.another(), &home), expected);
    let mut all = bundle(nasty.iter().map(|leaf| (file(Name::new(&home, leaf), 3), b"new".to_vec())).collect(), false);
    f.store.put_bundle(&mut all);
    all_landed(&all);
    assert_eq!(leaves(&*f.another(), &home), expected);
}

pub fn case_is_folded_as_it_says(f: &Fixture) {
    f.put("Name", b"first");
    f.put("nAME", b"second");
    let expected: &[&[u8]] = if f.caps().names.folds_case { &[b"second"] } else { &[b"first", b"second"] };
    let mut found: Vec<_> = leaves(&*f.another(), &Dir::root()).iter().map(|leaf| f.get(leaf)).collect();
    found.sort();
    assert_eq!(found, expected);
    assert_eq!(f.get("nAME"), b"second");
}

/// Every call that takes a name refuses one that would leave its directory; `BadName` where it would make something.
pub fn hostile_names_are_refused(f: &Fixture) {
    if !f.caps().names.files {
        return;
    }
    f.put("d/kept", b"kept");
    f.put("outside", b"outside");
    let before = f.names();
    let home = dir("d");
    for leaf in [&b".."[..], b".", b"a/b", b"../outside", b"/etc/passwd", b"a\0b"] {
        let name = Name::new(&home, leaf);
        let entry = file(name.clone(), 3);
        let bad = &[ErrorKind::BadName];
        fails(f.store.create(&name, &spec(&entry, f.chunk())), bad, &name);
        let mut one = bundle(vec![(entry.clone(), b"new".to_vec())], true);
        f.store.put_bundle(&mut one);
        fails::<()>(into_error(one.items.remove(0).outcome), bad, &name);
        if f.caps().dirs {
            let child = home.child(leaf);
            fails(f.store.make_dirs(&[(&child, 0o755)]).remove(0), bad, &name);
            fails_somehow(f.store.create(&Name::new(&child, b"x"), &spec(&entry, f.chunk())), &[&Name::new(&child, b"x")]);
        }
        if f.caps().links {
            let mut link = Entry::bare(name.clone(), Kind::Link);
            link.target = Some(b"x"[..].into());
            fails(f.store.make_node(&name, &link, MetaMask::NONE), bad, &name);
        }
        if f.caps().hard_links {
            fails(f.store.make_hard_link(&name, &super::tools::name("d/kept")), bad, &name);
        }
        let kept = super::tools::name("d/kept");
        fails_on(f.store.rename(&kept, &name, true), bad, &[&kept, &name]);
        fails_somehow(f.store.open(&entry, false), &[&name]);
        fails_somehow(f.store.stat(&name, STATED), &[&name]);
        fails_somehow(remove(&*f.store, &entry), &[&name]);
        let taken = super::tools::name("d/taken");
        fails_somehow(f.store.rename(&name, &taken, true), &[&name, &taken]);
        assert_eq!(f.names(), before, "{name:?}");
    }
    assert_eq!((f.get("d/kept"), f.get("outside")), (b"kept".to_vec(), b"outside".to_vec()));
}

/// At the latest by the commit: the engine asks `check_destination` before it begins. Nothing is left of it.
pub fn a_name_that_is_too_long_is_refused(f: &Fixture) {
    if !f.caps().names.files {
        return;
    }
    f.put("d/kept", b"kept");
    let before = f.names();
    let home = dir("d");
    let name = Name::new(&home, &vec![b'n'; f.caps().names.max + 1]);
    let (entry, bad) = (file(name.clone(), 3), &[ErrorKind::BadName]);
    match f.store.create(&name, &spec(&entry, f.chunk())) {
        Err(e) => fails::<()>(Err(e), bad, &name),
        Ok(sink) => {
            let whole = haul_core::store::Chunk { index: 0, at: 0..3 };
            let outcome = land(&*sink, &whole, b"new").and_then(|receipt| sink.commit(&entry, &[receipt]));
            fails(outcome, bad, &name);
            ok(sink.abort());
        }
    }
    for direct in [true, false] {
        let mut one = bundle(vec![(entry.clone(), b"new".to_vec())], direct);
        f.store.put_bundle(&mut one);
        fails::<()>(into_error(one.items.remove(0).outcome), bad, &name);
    }
    if f.caps().dirs {
        fails(f.store.make_dirs(&[(&home.child(&name.leaf), 0o755)]).remove(0), bad, &name);
    }
    fails_on(f.store.rename(&super::tools::name("d/kept"), &name, false), bad, &[&super::tools::name("d/kept"), &name]);
    assert_eq!(f.names(), before);
}

fn into_error<T>(outcome: haul_core::bundle::Outcome) -> haul_core::Result<T> {
    match outcome {
        haul_core::bundle::Outcome::Failed(e) => Err(e),
        other => panic!("this item must fail: {other:?}"),
    }
}

/// Denied, `make_dirs` is `Unsupported` and files can be written below a directory that no one made.
pub fn directories_are_made(f: &Fixture) {
    let (a, b) = (dir("a"), dir("b"));
    if !f.caps().dirs {
        return fails(f.store.make_dirs(&[(&a, 0o755)]).remove(0), &[ErrorKind::Unsupported], &name("a"));
    }
    let below = a.child(b"below");
    let made: Vec<bool> = f.store.make_dirs(&[(&a, 0o755), (&below, 0o500), (&b, 0o700), (&a, 0o700)]).into_iter().map(ok).collect();
    assert_eq!(made, [true, true, true, false], "a parent may be made by the same call; one that is there is no error");
    assert_eq!(f.stat("a").kind, Kind::Dir);
    assert_eq!(f.stat("a/below").mode & 0o700, 0o700, "usable by us whatever the mode says");
    f.put("a/below/file", b"x");
    f.put("file", b"x");
    let results = f.store.make_dirs(&[(&dir("file"), 0o755), (&dir("c"), 0o755)]);
    assert_eq!(results.len(), 2);
    for (result, path) in results.into_iter().zip(["file", "c"]) {
        if path == "file" {
            fails(result, &[ErrorKind::Exists], &name(path));
        } else {
            assert!(ok(result), "one failure must not stop the others");
        }
    }
    assert!(!ok(f.store.make_dirs(&[(&Dir::root(), 0o755)]).remove(0)), "the root is there");
}

/// Device nodes are not made here: that needs rights that a test may lack.
pub fn links_and_special_files_are_made(f: &Fixture) {
    f.put("file", b"to be replaced");
    for (kind, granted) in [(Kind::Link, f.caps().links), (Kind::Fifo, f.caps().specials), (Kind::Socket, f.caps().specials)] {
        let mut entry = Entry::bare(name("node"), kind);
        entry.have = STATED;
        entry.mode = 0o640;
        entry.mtime = WHEN;
        entry.target = (kind == Kind::Link).then(|| b"../nowhere/\xff at all"[..].into());
        for path in ["node", "node", "file"] {
            let at = name(path);
            let outcome = f.store.make_node(&at, &entry, MetaMask::NONE);
            if !granted {
                fails(outcome, &[ErrorKind::Unsupported], &at);
                continue;
            }
            ok(outcome);
            let found = f.stat(path);
            assert_eq!((found.kind, &found.target), (kind, &entry.target), "{path}");
        }
        if granted && f.caps().dirs {
            f.put("d/inside", b"x");
            fails(f.store.make_node(&name("d"), &entry, MetaMask::NONE), &[ErrorKind::Exists], &name("d"));
            assert_eq!(f.get("d/inside"), b"x");
        }
    }
}

pub fn hard_links_are_one_file(f: &Fixture) {
    f.put("one", b"content");
    f.put("d/there", b"other");
    for path in ["two", "d/there"] {
        let outcome = f.store.make_hard_link(&name(path), &name("one"));
        if !f.caps().hard_links {
            fails(outcome, &[ErrorKind::Unsupported], &name(path));
            continue;
        }
        ok(outcome);
        assert_eq!(f.stat(path).ino, f.stat("one").ino);
        assert_eq!(f.get(path), b"content");
    }
    if f.caps().hard_links {
        // A store without inodes does not count names either.
        let names = if f.stat("one").ino == 0 { f.stat("one").nlink } else { 3 };
        assert_eq!(f.stat("one").nlink, names);
        ok(f.store.make_hard_link(&name("two"), &name("one")));
        assert_eq!(f.stat("one").nlink, names, "a name that is that file already stays");
        fails_somehow(f.store.make_hard_link(&name("d"), &name("one")), &[&name("d"), &name("one")]);
        assert_eq!(f.get("d/there"), b"content");
        fails_on(f.store.make_hard_link(&name("three"), &name("none")), &[ErrorKind::NotFound], &[&name("three"), &name("none")]);
        let before = f.names();
        // A staged write gives the name a file of its own; the other names keep theirs.
        f.put("two", b"new");
        assert_eq!((f.get("one"), f.get("two")), (b"content".to_vec(), b"new".to_vec()));
        assert_eq!(f.names(), before);
    }
}

/// A link is removed, not what it points to. Directories go when they are empty.
pub fn what_is_removed_is_gone(f: &Fixture) {
    for path in ["a", "b", "d/file"] {
        f.put(path, b"x");
    }
    let mut to_remove = vec![f.stat("a"), f.stat("d/file")];
    if f.caps().links {
        f.plant_link("b", "link");
        to_remove.push(f.stat("link"));
    }
    if f.caps().dirs {
        let d = f.stat("d");
        fails(remove(&*f.store, &d), &[ErrorKind::Exists], &d.name);
        assert_eq!(f.get("d/file"), b"x");
        to_remove.push(d);
    }
    for outcome in f.store.remove(&to_remove) {
        ok(outcome);
    }
    for entry in &to_remove {
        f.is_absent(entry.name.path());
    }
    assert_eq!(f.names(), [b"b".to_vec()]);
    assert!(f.store.remove(&[]).is_empty());
}

/// A file that was replaced has another inode; stores without inodes cannot tell and are not asked.
pub fn what_changed_is_not_removed(f: &Fixture) {
    f.put("swapped", b"old");
    f.put("stays", b"x");
    let listed = f.stat("swapped");
    let other = f.stat("stays");
    if listed.ino == 0 {
        return;
    }
    f.put("swapped", b"new");
    let outcomes = f.store.remove(&[listed.clone(), other]);
    assert_eq!(outcomes.len(), 2);
    for (outcome, path) in outcomes.into_iter().zip(["swapped", "stays"]) {
        if path == "swapped" {
            fails(outcome, &[ErrorKind::Changed], &listed.name);
        } else {
            ok(outcome);
        }
    }
    assert_eq!(f.get("swapped"), b"new");
    f.is_absent("stays");
}

pub fn renaming_replaces_only_when_told(f: &Fixture) {
    f.put("from", b"content");
    f.put("d/to", b"other");
    fails_on(f.store.rename(&name("from"), &name("d/to"), false), &[ErrorKind::Exists], &[&name("from"), &name("d/to")]);
    assert_eq!((f.get("from"), f.get("d/to")), (b"content".to_vec(), b"other".to_vec()));
    ok(f.store.rename(&name("from"), &name("d/to"), true));
    assert_eq!(f.get("d/to"), b"content");
    f.is_absent("from");
    ok(f.store.rename(&name("d/to"), &name("new"), false));
    assert_eq!(f.get("new"), b"content");
    if f.caps().dirs {
        f.put("e/inside", b"x");
        fails_somehow(f.store.rename(&name("new"), &name("e"), true), &[&name("new"), &name("e")]);
        assert_eq!((f.get("new"), f.get("e/inside")), (b"content".to_vec(), b"x".to_vec()));
    }
}

pub fn directories_are_renamed(f: &Fixture) {
    if !f.caps().dirs {
        return;
    }
    f.put("d/sub/file", b"x");
    // The store has the directory under its old name in whatever it keeps.
    assert_eq!(leaves(&*f.store, &dir("d/sub")), [b"file".to_vec()]);
    ok(f.store.rename(&name("d"), &name("e"), false));
    assert_eq!(f.get("e/sub/file"), b"x");
    f.is_absent("d");
    fails_somehow(f.store.rename(&name("e"), &name("e/sub/e"), false), &[&name("e"), &name("e/sub/e")]);
    assert_eq!(f.get("e/sub/file"), b"x");
}

/// Whatever the call, a component that is a link ends it.
pub fn a_link_to_a_directory_is_not_entered(f: &Fixture) {
    if !f.caps().links || !f.caps().dirs {
        return;
    }
    f.put("real/file", b"kept");
    f.put("real/sub/file", b"kept");
    f.put("spare", b"x");
    f.plant_link("real", "link");
    let before = f.names();
    for store in [f.store.clone(), f.another()] {
        for home in [dir("link"), dir("link/sub")] {
            let own = Name::of(&home);
            fails_somehow(store.list(&home, &mut |entry| panic!("{entry:?}")), &[&own]);
            let below = Name::new(&home, b"file");
            fails_somehow(store.stat(&below, STATED), &[&below]);
            let found = store.stat_many(&home, &[b"file"], STATED, false);
            assert!(!matches!(found[..], [haul_core::store::Found::Entry(_)]), "{found:?}");
            fails_somehow(store.open(&Entry::bare(below.clone(), Kind::File), false), &[&below]);
            fails_somehow(store.reopen(&below), &[&below]);
            fails_somehow(remove(&*store, &Entry::bare(below.clone(), Kind::File)), &[&below]);
            fails_somehow(store.rename(&below, &name("taken"), true), &[&below, &name("taken")]);
            fails_somehow(store.rename(&name("spare"), &below, true), &[&name("spare"), &below]);
            fails_somehow(set(&*store, &file(below.clone(), 4), MetaMask::MODE), &[&below]);
            let new = Name::new(&home, b"new");
            let entry = file(new.clone(), 3);
            fails_somehow(write(&*store, &entry, &spec(&entry, f.chunk()), b"new"), &[&new]);
            for direct in [true, false] {
                let mut one = bundle(vec![(entry.clone(), b"new".to_vec())], direct);
                store.put_bundle(&mut one);
                fails_somehow::<()>(into_error(one.items.remove(0).outcome), &[&new]);
            }
            let child = home.child(b"made");
            fails_somehow(store.make_dirs(&[(&child, 0o755)]).remove(0), &[&Name::of(&child)]);
            fails_somehow(store.make_node(&new, &Entry::bare(new.clone(), Kind::Fifo), MetaMask::NONE), &[&new]);
        }
        // The link itself is where a directory was wanted.
        fails(store.make_dirs(&[(&dir("link"), 0o755)]).remove(0), &[ErrorKind::Exists], &name("link"));
    }
    assert_eq!(f.names(), before);
    assert_eq!((f.get("real/file"), f.get("real/sub/file")), (b"kept".to_vec(), b"kept".to_vec()));
}

pub fn room_is_told(f: &Fixture) {
    if let Some(space) = ok(f.store.extensions().system.space()) {
        assert!(space.bytes > 0 && space.files > 0, "{space:?}");
    }
}

/// `Ok(None)` is a right answer for any pair: the engine copies through itself then.
pub fn a_copy_within_equals_a_plain_copy(f: &Fixture) {
    let content = bytes(1, 100_000);
    f.put("source", &content);
    let entry = f.stat("source");
    let spec = spec(&entry, f.chunk());
    if let Some(landed) =
        ok(f.store.extensions().server_side.perform(&*f.another(), &entry, &name("copy"), ServerSideOp::Copy(&spec, &|_| Ok(()))))
    {
        assert!(f.get("copy") == content);
        assert!(landed.refused.has(MetaMask::MTIME) || f.stat("copy").mtime == entry.mtime);
    } else {
        f.is_absent("copy");
    }
    assert_eq!(
        ok(f.store.extensions().server_side.perform(
            &crate::memory::Memory::new(),
            &entry,
            &name("copy-2"),
            ServerSideOp::Copy(&spec, &|_| Ok(()))
        )),
        None
    );
}
