//! Reading: ranges, listings, look-ups, and what happens when things are no longer what they were.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name, Time};
use haul_core::error::ErrorKind;
use haul_core::hash::Algorithm;
use haul_core::store::{Flow, Found};

use super::Fixture;
use super::tools::*;

pub fn any_range_can_be_read(f: &Fixture) {
    let size = 300_000;
    let content = bytes(1, size);
    f.put("ranges", &content);
    let mut dice = Dice::new("ranges");
    let other = f.another();
    let source = ok(other.open(&f.stat("ranges"), false));
    if !f.caps().read_ranges {
        fails(read(&*source, 1..2), &[ErrorKind::Unsupported], &name("ranges"));
        assert!(ok(read(&*source, 0..size)) == content);
        return;
    }
    assert!(ok(read(&*source, 0..0)).is_empty());
    assert!(ok(read(&*source, size..size)).is_empty());
    for _ in 0..200 {
        let start = dice.below(size);
        let end = (start + 1 + dice.below(20_000)).min(size);
        assert!(ok(read(&*source, start..end)) == content[start as usize..end as usize], "{start}..{end}");
    }
    // One open file serves any number of readers.
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let (source, content) = (&source, &content);
            scope.spawn(move || {
                let start = reader * 30_000;
                assert!(ok(read(&**source, start..start + 30_000)) == content[start as usize..start as usize + 30_000]);
            });
        }
    });
}

/// At the call or while reading, as the store likes: never fewer bytes without an error.
pub fn reading_past_the_end_is_changed(f: &Fixture) {
    f.put("past", &bytes(1, 100));
    let other = f.another();
    let source = ok(other.open(&f.stat("past"), false));
    fails(read(&*source, 0..101), &[ErrorKind::Changed], &name("past"));
}

pub fn a_file_that_changed_since_it_was_listed_is_changed(f: &Fixture) {
    let later = Time { secs: WHEN.secs + 100, ..WHEN };
    let changes: [(&[u8], Time); 2] = [(b"longer than before", WHEN), (b"other", later)];
    for (content, mtime) in changes {
        f.put("changing", b"first");
        let listed = f.stat("changing");
        f.put_at("changing", content, mtime);
        fails(f.store.open(&listed, false), &[ErrorKind::Changed], &listed.name);
        fails(f.another().open(&listed, false), &[ErrorKind::Changed], &listed.name);
    }
    f.put("gone", b"first");
    let listed = f.stat("gone");
    ok(remove(&*f.another(), &listed));
    fails(f.store.open(&listed, false), &[ErrorKind::NotFound, ErrorKind::Vanished], &listed.name);
}

pub fn a_stamp_is_that_of_the_entry(f: &Fixture) {
    f.put("stamp", b"content");
    let other = f.another();
    let entry = f.stat("stamp");
    assert_eq!(ok(ok(other.open(&entry, false)).stamp()), entry.stamp());
    let listed = entries(&*other, &Dir::root()).remove(0);
    if listed.have.has(MetaMask::BASIC.with(MetaMask::MTIME)) {
        assert_eq!(listed.stamp(), entry.stamp(), "a listing and a look-up must agree");
    }
    // Nothing is known of a bare entry, so nothing can have changed.
    assert_eq!(ok(ok(other.open(&Entry::bare(name("stamp"), Kind::File), false)).stamp()), entry.stamp());
}

/// More than any page of a listing; made by bundles, since one by one would take a while.
pub fn a_listing_is_whole_whatever_its_size(f: &Fixture) {
    let count = 10_000;
    f.make(&dir("big"));
    let big = dir("big");
    let per_bundle = f.caps().tuning.bundle_files.min(1000);
    for start in (0..count).step_by(per_bundle) {
        let files = (start..count.min(start + per_bundle)).map(|i| (file(Name::new(&big, format!("f{i}").as_bytes()), 0), Vec::new()));
        let mut bundle = bundle(files.collect(), true);
        f.store.put_bundle(&mut bundle);
        all_landed(&bundle);
    }
    let found = entries(&*f.another(), &big);
    assert_eq!(found.len(), count);
    let names: BTreeSet<Vec<u8>> = found.iter().map(|entry| entry.name.leaf.to_vec()).collect();
    assert!((0..count).all(|i| names.contains(format!("f{i}").as_bytes())));
    assert!(found.iter().all(|entry| entry.name.dir == big), "an entry belongs to the directory that was asked for");
}

pub fn a_listing_stops_when_told(f: &Fixture) {
    for i in 0..20 {
        f.put(format!("d/{i}"), b"");
    }
    for most in [1, 7] {
        let mut seen = 0;
        let mut take = |_| {
            seen += 1;
            if seen == most { Flow::Stop } else { Flow::Go }
        };
        ok(f.store.list(&dir("d"), &mut take));
        assert_eq!(seen, most);
    }
}

/// What `AttributeCaps::lists` has is there and true; what `have` does not claim is not looked at. A kind may be `Unknown`.
pub fn a_listing_tells_what_it_says(f: &Fixture) {
    f.put("d/file", b"12345");
    f.put("d/sub/inside", b"");
    if f.caps().links {
        f.plant_link("file", "d/link");
    }
    let lists = f.caps().attributes.lists;
    let mut kinds = Vec::new();
    for entry in entries(&*f.another(), &dir("d")) {
        let path = entry.name.path();
        let expected = f.stat(&path);
        assert!(entry.have.has(lists) || entry.kind == Kind::Dir, "{:?} lacks {:?}", entry.name, lists.without(entry.have));
        assert!(entry.kind == expected.kind || entry.kind == Kind::Unknown, "{entry:?}");
        if entry.have.has(MetaMask::BASIC) {
            assert_eq!((entry.kind, entry.size, entry.ino), (expected.kind, expected.size, expected.ino), "{entry:?}");
        }
        if entry.have.has(MetaMask::MTIME) && entry.kind != Kind::Dir {
            assert_eq!(entry.mtime, expected.mtime, "{entry:?}");
        }
        if entry.have.has(MetaMask::MODE) && expected.have.has(MetaMask::MODE) {
            assert_eq!(entry.mode, expected.mode, "{entry:?}");
        }
        kinds.push((entry.name.leaf.to_vec(), expected.kind));
    }
    kinds.sort_by(|a, b| a.0.cmp(&b.0));
    let mut expected = vec![(b"file".to_vec(), Kind::File), (b"link".to_vec(), Kind::Link), (b"sub".to_vec(), Kind::Dir)];
    expected.retain(|(_, kind)| *kind != Kind::Link || f.caps().links);
    assert_eq!(kinds, expected);
}

/// Where directories are only parts of names, one that is absent is one that is empty.
pub fn a_directory_that_is_absent_cannot_be_listed(f: &Fixture) {
    f.put("file", b"x");
    let list = |path: &str| f.store.list(&dir(path), &mut |_| panic!("there is nothing in it"));
    if f.caps().dirs {
        fails(list("none"), &[ErrorKind::NotFound], &name("none"));
        fails_somehow(list("file"), &[&name("file")]);
        fails_somehow(list("file/below"), &[&name("file/below")]);
    } else {
        ok(list("none"));
    }
    assert_eq!(leaves(&*f.store, &Dir::root()), [b"file".to_vec()]);
}

pub fn many_names_are_looked_up_in_order(f: &Fixture) {
    for i in [1, 3, 4] {
        f.put(format!("d/{i}"), &bytes(i, i));
    }
    let wanted: Vec<String> = (0..6).rev().map(|i| i.to_string()).collect();
    let leaves: Vec<&[u8]> = wanted.iter().map(|leaf| leaf.as_bytes()).collect();
    let found = f.another().stat_many(&dir("d"), &leaves, STATED, false);
    assert_eq!(found.len(), leaves.len());
    for (leaf, found) in wanted.iter().zip(found) {
        let number: u64 = leaf.parse().expect("made above");
        match found {
            Found::Entry(entry) => {
                assert_eq!((entry.size, &*entry.name.leaf, entry.kind), (number, leaf.as_bytes(), Kind::File));
                assert!([1, 3, 4].contains(&number));
            }
            Found::Absent => assert!(![1, 3, 4].contains(&number)),
            Found::Failed(e) => panic!("{e}"),
        }
    }
    assert!(f.store.stat_many(&dir("d"), &[], STATED, false).is_empty());
    let below_nothing = f.store.stat_many(&dir("none"), &[b"x"], STATED, false);
    assert!(matches!(below_nothing[..], [Found::Absent]), "{below_nothing:?}");
}

/// Listed as a file and a fifo by now, or listed as what it is: an error either way, and at once.
pub fn a_fifo_is_not_waited_for(f: &Fixture) {
    if !f.caps().specials {
        return;
    }
    let fifo = Entry::bare(name("fifo"), Kind::Fifo);
    ok(f.store.make_node(&fifo.name, &fifo, MetaMask::NONE));
    let (send, wait) = mpsc::channel();
    let store = f.another();
    let listed = [f.stat("fifo"), Entry::bare(name("fifo"), Kind::File)];
    std::thread::spawn(move || {
        for entry in listed {
            send.send(store.open(&entry, false).map(drop)).expect("the check waits for it");
        }
    });
    for _ in 0..2 {
        let outcome = wait.recv_timeout(Duration::from_secs(20)).expect("`open` waits for a writer");
        fails_somehow(outcome, &[&fifo.name]);
    }
}

/// A link that points to nothing is there, so it is not `Absent`: it has failed to be followed.
pub fn links_are_followed_only_when_asked(f: &Fixture) {
    if !f.caps().links {
        return;
    }
    f.put("target", b"content");
    f.plant_link("target", "link");
    f.plant_link("none", "dangling");
    let link = f.stat("link");
    assert_eq!((link.kind, link.target.as_deref()), (Kind::Link, Some(&b"target"[..])));
    fails_somehow(f.store.open(&link, false), &[&link.name]);
    fails_somehow(f.store.open(&Entry::bare(name("link"), Kind::File), false), &[&link.name]);
    let found = f.store.stat_many(&Dir::root(), &[b"link", b"dangling"], STATED, true);
    let [Found::Entry(through), Found::Failed(nowhere)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(nowhere.kind(), ErrorKind::NotFound, "{nowhere}");
    assert_eq!((through.kind, through.size, &*through.name.leaf), (Kind::File, 7, &b"link"[..]));
    let source = ok(f.store.open(through, true));
    assert_eq!(ok(read(&*source, 0..7)), b"content");
}

pub fn what_was_written_can_be_reopened(f: &Fixture) {
    let content = bytes(1, 100_000);
    f.put("d/settled", &content);
    let (one, gone) = (name("d/settled"), name("d/none"));
    ok(f.store.extensions().system.sync(&[&one]));
    let source = ok(f.store.reopen(&one));
    assert!(ok(read(&*source, 0..100_000)) == content);
    fails(f.store.reopen(&gone), &[ErrorKind::NotFound, ErrorKind::Vanished], &gone);
    ok(f.store.extensions().system.sync(&[]));
}

pub fn a_digest_is_that_of_the_content(f: &Fixture) {
    let content = bytes(1, 10_000);
    f.put("digest", &content);
    let offered = f.store.extensions().digests.algorithms();
    for algorithm in Algorithm::ALL {
        let mut hasher = algorithm.begin();
        hasher.update(&content);
        if let Some(digest) = ok(f.store.extensions().digests.digest(&f.stat("digest"), algorithm)) {
            assert_eq!(digest, hasher.finish(), "{algorithm:?}");
        } else {
            assert!(!offered.contains(&algorithm), "{algorithm:?} is offered");
        }
    }
}

pub fn errors_carry_operation_name_and_kind(f: &Fixture) {
    let none = name("none");
    let absent = &[ErrorKind::NotFound];
    let entry = file(none.clone(), 1);
    fails(f.store.stat(&none, STATED), absent, &none);
    fails(f.store.open(&entry, false), &[ErrorKind::NotFound, ErrorKind::Vanished], &none);
    fails_on(f.store.rename(&none, &name("other"), true), absent, &[&none, &name("other")]);
    fails(f.store.reopen(&none), &[ErrorKind::NotFound, ErrorKind::Vanished], &none);
    if !f.caps().attributes.sets.is_empty() {
        fails(set(&*f.store, &entry, f.caps().attributes.sets), absent, &none);
    }
    if f.caps().dirs {
        fails(remove(&*f.store, &entry), absent, &none);
        let below = dir("none/below");
        fails(f.store.make_dirs(&[(&below, 0o755)]).remove(0), absent, &Name::of(&below));
    }
}
