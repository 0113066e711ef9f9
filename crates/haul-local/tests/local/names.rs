//! Directories, nodes, links, removal, renaming, and trees deeper than a path can be.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use haul_core::ErrorKind;
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::store::{Flow, Found, MetaSpec, Spec, Store, System};
use haul_local::{Local, Options};

use super::{BOTH, Place, is_root, landed, run, write};

#[test]
fn every_kind_of_node_is_made_and_replaces_any_file_but_no_directory() {
    let place = Place::new();
    let mut kinds = vec![(Kind::Fifo, 0), (Kind::Socket, 0), (Kind::Link, 0)];
    if is_root() {
        kinds.extend([(Kind::Char, rustix::fs::makedev(1, 3)), (Kind::Block, rustix::fs::makedev(7, 300))]);
    }
    for (kind, rdev) in kinds {
        let mut entry = Entry::bare(place.name("n"), kind);
        entry.have = BOTH.with(MetaMask::BASIC);
        (entry.rdev, entry.mode) = (rdev, 0o654);
        entry.target = (kind == Kind::Link).then(|| b"nowhere"[..].into());
        for _ in 0..2 {
            place.target.make_node(&entry.name, &entry, BOTH).unwrap();
            let there = place.target.stat(&entry.name, MetaMask::BASIC).unwrap();
            assert_eq!((there.kind, there.rdev, there.target.as_deref()), (kind, rdev, entry.target.as_deref()));
            assert!(kind == Kind::Link || there.mode == 0o654);
        }
        fs::create_dir(place.to.join("d")).unwrap();
        entry.name = place.name("d");
        assert_eq!(place.target.make_node(&entry.name, &entry, BOTH).unwrap_err().kind(), ErrorKind::Exists);
        fs::remove_dir(place.to.join("d")).unwrap();
    }
    assert_eq!(place.left(), ["n"]);
}

#[test]
fn a_directory_is_not_made_over_what_is_none() {
    let place = Place::new();
    write(&place.to.join("f"), "x", 0o644);
    fs::create_dir(place.to.join("real")).unwrap();
    std::os::unix::fs::symlink("real", place.to.join("link")).unwrap();
    std::os::unix::fs::symlink("../from", place.to.join("out")).unwrap();
    let made = |store: &Local, leaf: &str| store.make_dirs(&[(&place.root.child(leaf.as_bytes()), 0o755)]).remove(0).map_err(|e| e.kind());
    for leaf in ["f", "link", "out"] {
        assert_eq!(made(&place.target, leaf), Err(ErrorKind::Exists));
    }
    // -K takes a link for the directory that it leads to, within the root.
    let keep = Local::open(&place.to, Options { keep_dirlinks: true, ..Options::default() }).unwrap();
    assert_eq!(made(&keep, "link"), Ok(false));
    assert_eq!(made(&keep, "out"), Err(ErrorKind::Exists));
    write(&place.from.join("f"), "new", 0o644);
    let mut entry = place.entry("f", MetaMask::BASIC);
    for (leaf, lands) in [("link", true), ("out", false)] {
        let name = Name::new(&place.root.child(leaf.as_bytes()), b"f");
        entry.name = name.clone();
        let spec = Spec { entry: &entry, keep: BOTH, chunk: 9, in_place: false, sync: false };
        assert_eq!(keep.create(&name, &spec).map(|sink| sink.abort().unwrap()).is_ok(), lands, "{leaf}");
        assert_eq!(place.target.create(&name, &spec).map(|_| ()).unwrap_err().kind(), ErrorKind::Changed);
    }
    let dir = place.root.child(b"link");
    let mut of_dir = Entry::bare(Name::of(&dir), Kind::Dir);
    (of_dir.have, of_dir.mode) = (MetaMask::BASIC.with(MetaMask::MODE), 0o711);
    keep.set_meta(&[MetaSpec { name: &Name::of(&dir), entry: &of_dir, keep: MetaMask::MODE }]).remove(0).unwrap();
    assert_eq!(fs::metadata(place.to.join("real")).unwrap().mode() & 0o777, 0o711);
}

#[test]
fn a_hard_link_replaces_a_file_and_leaves_nothing_beside_it() {
    let place = Place::new();
    write(&place.to.join("a"), "a", 0o644);
    write(&place.to.join("b"), "b", 0o644);
    fs::create_dir(place.to.join("d")).unwrap();
    let link = |to: &str| place.target.make_hard_link(&place.name(to), &place.name("a"));
    for to in ["b", "c", "b", "a"] {
        link(to).unwrap();
    }
    assert_eq!(link("d").unwrap_err().kind(), ErrorKind::Exists);
    assert_eq!(fs::metadata(place.to.join("a")).unwrap().nlink(), 3);
    assert_eq!(place.left(), ["a", "b", "c", "d"]);
}

#[test]
fn only_what_was_meant_is_removed() {
    let place = Place::new();
    write(&place.to.join("a"), "a", 0o644);
    fs::create_dir(place.to.join("d")).unwrap();
    write(&place.to.join("d/x"), "a", 0o644);
    let entry = |path: &str| place.target.stat(&place.name(path), MetaMask::BASIC).unwrap();
    let remove = |entry: Entry| place.target.remove(&[entry]).remove(0).map_err(|e| e.kind());
    let (a, d, x) = (entry("a"), entry("d"), entry("d/x"));
    write(&place.to.join("b"), "b", 0o644);
    fs::rename(place.to.join("b"), place.to.join("a")).unwrap();
    assert_eq!(remove(a), Err(ErrorKind::Changed));
    assert_eq!(remove(d.clone()), Err(ErrorKind::Exists));
    assert_eq!(remove(x.clone()), Ok(()));
    assert_eq!(remove(x), Err(ErrorKind::NotFound));
    assert_eq!(remove(Entry::bare(d.name.clone(), Kind::File)), Err(ErrorKind::Changed));
    assert_eq!(remove(d), Ok(()));
    assert_eq!(remove(Entry::bare(place.name("a"), Kind::Unknown)), Ok(()));
    assert!(place.left().is_empty());
}

#[test]
fn renaming_replaces_files_only_if_told_and_directories_never() {
    let place = Place::new();
    write(&place.to.join("a"), "a", 0o644);
    write(&place.to.join("b"), "b", 0o644);
    fs::create_dir(place.to.join("d")).unwrap();
    fs::create_dir(place.to.join("e")).unwrap();
    let rename = |from: &str, to: &str, replace| place.target.rename(&place.name(from), &place.name(to), replace).map_err(|e| e.kind());
    assert_eq!(rename("a", "b", false), Err(ErrorKind::Exists));
    assert_eq!(rename("a", "d", true), Err(ErrorKind::Exists));
    assert_eq!(rename("d", "e", true), Err(ErrorKind::Exists), "an empty directory is no file");
    assert_eq!(rename("a", "b", true), Ok(()));
    assert_eq!(rename("b", "c", false), Ok(()));
    assert_eq!(place.left(), ["c", "d", "e"]);
}

#[test]
fn names_are_looked_up_many_at_a_time() {
    let place = Place::new();
    write(&place.from.join("f"), "12345", 0o640);
    std::os::unix::fs::symlink("f", place.from.join("good")).unwrap();
    std::os::unix::fs::symlink("gone", place.from.join("bad")).unwrap();
    let kind = |found: &Found| match found {
        Found::Entry(entry) => format!("{} {}", entry.kind.word(), entry.size),
        Found::Absent => "absent".into(),
        Found::Failed(e) => e.kind().to_string(),
    };
    let leaves: [&[u8]; 5] = [b"f", b"good", b"bad", b"none", b"../from"];
    let look = |follow| place.source.stat_many(&place.root, &leaves, MetaMask::BASIC, follow).iter().map(kind).collect::<Vec<_>>();
    assert_eq!(look(false), ["file 5", "symlink 0", "symlink 0", "absent", "name not possible here"]);
    assert_eq!(look(true), ["file 5", "file 5", "not found", "absent", "name not possible here"]);
    let nowhere = place.root.child(b"nowhere");
    assert_eq!(kind(&place.source.stat_many(&nowhere, &[b"f"], MetaMask::BASIC, false)[0]), "absent");
    let root = place.source.stat(&Name::of(&place.root), MetaMask::ACL.with(MetaMask::XATTR)).unwrap();
    assert_eq!((root.kind, root.ino), (Kind::Dir, fs::metadata(&place.from).unwrap().ino()));
}

#[test]
fn a_listing_may_stop_and_be_begun_again_within_another() {
    let place = Place::new();
    for i in 0..3000 {
        fs::write(place.from.join(format!("file with a long name {i:040}")), "").unwrap();
    }
    assert!(fs::File::open(place.from.join(format!("file with a long name {:040}", 0))).unwrap().metadata().unwrap().file_type().is_file());
    let count = |stop: usize| {
        let mut seen = std::collections::HashSet::new();
        let mut inner = 0;
        place
            .source
            .list(&place.root, &mut |entry| {
                if seen.len() == 1 {
                    let each = &mut |_| {
                        inner += 1;
                        Flow::Go
                    };
                    place.source.list(&place.root, each).unwrap();
                }
                seen.insert(entry.unwrap().name.leaf);
                if seen.len() == stop { Flow::Stop } else { Flow::Go }
            })
            .unwrap();
        (seen.len(), inner)
    };
    assert_eq!((count(10), count(usize::MAX), count(2000)), ((10, 3000), (3000, 3000), (2000, 3000)));
}

/// A chain of directories twenty-five times deeper than a path can name, with a file in the deepest.
#[test]
fn a_tree_deeper_than_any_path_is_made_read_and_removed() {
    const DEPTH: usize = 50_000;
    let place = Place::new();
    write(&place.from.join("f"), "deep", 0o644);
    let mut dirs: Vec<Dir> = Vec::with_capacity(DEPTH);
    for i in 0..DEPTH {
        let parent = dirs.last().unwrap_or(&place.root);
        let dir = parent.child(if i % 2 == 0 { b"d" } else { b"e" });
        assert!(place.target.make_dirs(&[(&dir, 0o755)]).remove(0).unwrap());
        dirs.push(dir);
    }
    let bottom = Name::new(dirs.last().unwrap(), b"f");
    let mut entry = place.entry("f", MetaMask::BASIC);
    let source = place.source.open(&entry, false).unwrap();
    entry.name = bottom.clone();
    let spec = Spec { entry: &entry, keep: BOTH, chunk: 9, in_place: false, sync: false };
    let sink = place.target.create(&bottom, &spec).unwrap();
    sink.write(0..4, &mut *source.read(0..4).unwrap()).unwrap();
    sink.commit(&entry, &[super::receipt(0)]).unwrap();
    // The kernel walks all that is still open below a directory when it is removed.
    drop(sink);
    dirs.iter().for_each(|dir| place.target.forget(dir));
    // A store that has nothing open yet, climbing up from the bottom.
    let other = Local::open(&place.to, Options::default()).unwrap();
    assert_eq!(other.stat(&bottom, MetaMask::BASIC).unwrap().size, 4);
    other.remove(&[Entry::bare(bottom, Kind::File)]).remove(0).unwrap();
    for dir in dirs.iter().rev() {
        other.forget(dir);
        other.remove(&[Entry::bare(Name::of(dir), Kind::Dir)]).remove(0).unwrap();
    }
    assert!(place.left().is_empty());
}

#[test]
fn one_root_within_another_is_seen_through_links_and_bind_mounts() {
    let place = Place::new();
    let open = |path: &std::path::Path| Local::open(path, Options::default()).unwrap();
    fs::create_dir_all(place.from.join("a/b")).unwrap();
    std::os::unix::fs::symlink(place.from.join("a"), place.to.join("link")).unwrap();
    let linked = open(&place.to.join("link"));
    assert_eq!(linked.place().root, open(&place.from.join("a")).place().root);
    assert_eq!(linked.extensions().identity, open(&place.from.join("a")).extensions().identity);
    assert!(place.source.contains(&linked).unwrap() && place.source.contains(&place.source).unwrap());
    assert!(!linked.contains(&place.source).unwrap() && !place.target.contains(&linked).unwrap());
    if is_root() {
        let mount = place.base.path().join("mount");
        fs::create_dir(&mount).unwrap();
        run("mount", &["--bind", place.from.join("a").to_str().unwrap(), mount.to_str().unwrap()]);
        let bound = open(&mount.join("b"));
        let answer = (linked.contains(&bound), open(&mount).contains(&open(&place.from.join("a/b"))));
        drop(bound);
        run("umount", &["-l", mount.to_str().unwrap()]);
        assert!(answer.0.unwrap() && answer.1.unwrap());
    }
}

#[test]
fn what_cannot_be_opened_says_why() {
    let place = Place::new();
    write(&place.from.join("f"), "x", 0o644);
    let kind = |path: &str| Local::open(&place.from.join(path), Options::default()).unwrap_err();
    assert_eq!((kind("none").kind(), kind("f").kind()), (ErrorKind::NotFound, ErrorKind::Usage));
    assert!(kind("f").to_string().ends_with("f: open: it is not a directory"));
    let caps = place.source.caps();
    assert!(caps.names.max >= 255 && !caps.remote && caps.tuning.writers_per_file >= 1 && !caps.names.folds_case);
    // Long names end in an error of that name, not in one of the run.
    let long = Name::new(&place.root, &vec![b'x'; caps.names.max + 1]);
    assert_eq!(place.source.stat(&long, MetaMask::BASIC).unwrap_err().kind(), ErrorKind::BadName);
    let longest = "x".repeat(caps.names.max);
    write(&place.from.join(&longest), "x", 0o644);
    for direct in [true, false] {
        landed(&place.bundle(vec![place.entry(&longest, MetaMask::BASIC)], BOTH, direct));
    }
    run("mkfifo", &[place.from.join("p").to_str().unwrap()]);
    assert!(fs::symlink_metadata(place.from.join("p")).unwrap().file_type().is_fifo());
}
