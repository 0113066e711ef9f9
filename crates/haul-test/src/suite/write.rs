//! Writing one file: create, chunks, commit, and everything that may come between.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use haul_core::entry::{Dir, Entry, Kind, MetaMask};
use haul_core::error::{Error, ErrorKind};
use haul_core::store::{Chunk, Receipt, Spec, WriteStyle, chunks, remove_emptied};

use super::Fixture;
use super::tools::*;

pub fn files_of_every_size_come_back(f: &Fixture) {
    let chunk = f.chunk();
    for size in [0, 1, 4095, 4096, 4097, 65_536, chunk - 1, chunk, chunk + 1, 2 * chunk, 3 * chunk + 7] {
        let content = bytes(size, size);
        f.put(format!("d/size-{size}"), &content);
        assert!(f.get(format!("d/size-{size}")) == content, "{size} bytes came back as others");
        assert_eq!(f.stat(format!("d/size-{size}")).size, size);
    }
}

/// In order: what comes too early is `Unsupported`, since `Caps::write` says so beforehand.
pub fn chunks_come_in_the_order_it_grants(f: &Fixture) {
    let chunk = f.chunk();
    let content = bytes(1, 4 * chunk + 5);
    let entry = file(name("out-of-order"), content.len() as u64);
    let sink = ok(f.store.create(&entry.name, &spec(&entry, chunk)));
    let mut order: Vec<Chunk> = chunks(entry.size, chunk).collect();
    if f.in_order() {
        fails(land(&*sink, &order[2], &content), &[ErrorKind::Unsupported], &entry.name);
    } else {
        order.reverse();
        order.swap(1, 3);
    }
    let receipts: Vec<Receipt> = order.iter().map(|chunk| ok(land(&*sink, chunk, &content))).collect();
    ok(sink.commit(&entry, &receipts));
    assert!(f.get("out-of-order") == content, "chunks are in the wrong places");
}

/// The last writing counts: a retry after a lost answer must not leave what the first try left.
pub fn a_chunk_may_come_twice(f: &Fixture) {
    let chunk = f.chunk();
    let content = bytes(1, 2 * chunk);
    let wrong = vec![0xee; content.len()];
    let entry = file(name("twice"), content.len() as u64);
    let sink = ok(f.store.create(&entry.name, &spec(&entry, chunk)));
    let all: Vec<Chunk> = chunks(entry.size, chunk).collect();
    ok(land(&*sink, &all[0], &wrong));
    let mut receipts = vec![ok(land(&*sink, &all[0], &content))];
    receipts.push(ok(land(&*sink, &all[1], &content)));
    // Bytes in memory go another way.
    let at = all[1].at.clone();
    ok(sink.write_bytes(at.start, &content[at.start as usize..at.end as usize]));
    ok(sink.landed(&all[1]));
    ok(sink.commit(&entry, &receipts));
    assert!(f.get("twice") == content, "the first try shows");
}

pub fn a_short_source_is_changed(f: &Fixture) {
    f.put("short", b"old");
    let before = f.names();
    let entry = file(name("short"), 1000);
    let sink = ok(f.store.create(&entry.name, &spec(&entry, f.chunk())));
    fails(sink.write(0..1000, &mut &bytes(1, 990)[..]), &[ErrorKind::Changed], &entry.name);
    ok(sink.abort());
    assert_eq!(f.get("short"), b"old");
    assert_eq!(f.names(), before);
}

/// A source that has more than was said: the rest stays in the reader.
pub fn a_long_source_is_cut(f: &Fixture) {
    let content = bytes(1, 1000);
    let entry = file(name("long"), 990);
    let sink = ok(f.store.create(&entry.name, &spec(&entry, f.chunk())));
    let mut source = &content[..];
    ok(sink.write(0..990, &mut source));
    assert_eq!(source.len(), 10, "`write` took more than the bytes of `at`");
    let tag = ok(sink.landed(&Chunk { index: 0, at: 0..990 }));
    ok(sink.commit(&entry, &[Receipt { index: 0, tag, hash: None }]));
    assert!(f.get("long") == content[..990]);
}

/// An `Error` that comes through `Read` keeps its kind: the engine cancels in this way.
pub fn an_error_of_the_source_comes_through(f: &Fixture) {
    struct Breaks(u64);
    impl Read for Breaks {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(Error::new(ErrorKind::Cancelled, "read").at(b"source").into());
            }
            let count = into.len().min(self.0 as usize);
            into[..count].fill(1);
            self.0 -= count as u64;
            Ok(count)
        }
    }
    let before = f.names();
    let entry = file(name("broken"), 1000);
    let sink = ok(f.store.create(&entry.name, &spec(&entry, f.chunk())));
    let error = sink.write(0..1000, &mut Breaks(500)).expect_err("the source failed");
    assert_eq!((error.kind(), error.op()), (ErrorKind::Cancelled, "read"), "{error}");
    ok(sink.abort());
    assert_eq!(f.names(), before);
}

pub fn abort_leaves_the_old_file_and_nothing_else(f: &Fixture) {
    f.put("d/old", b"the old content");
    let before = f.names();
    for path in ["d/old", "d/new"] {
        let content = bytes(1, 2 * f.chunk());
        let entry = file(name(path), content.len() as u64);
        let sink = ok(f.store.create(&entry.name, &spec(&entry, f.chunk())));
        let first = chunks(entry.size, f.chunk()).next().expect("every file has a chunk");
        ok(land(&*sink, &first, &content));
        assert_eq!(leaves(&*f.another(), &dir("d")), [b"old".to_vec()], "an unfinished write shows");
        ok(sink.abort());
    }
    assert_eq!(f.get("d/old"), b"the old content");
    f.is_absent("d/new");
    assert_eq!(f.names(), before, "an aborted write left something");
}

pub fn a_session_goes_on_in_another_store(f: &Fixture) {
    let chunk = f.chunk();
    let content = bytes(9, 3 * chunk + 1);
    let entry = file(name("resumed"), content.len() as u64);
    let all: Vec<Chunk> = chunks(entry.size, chunk).collect();
    let spec = spec(&entry, chunk);
    let sink = ok(f.store.create(&entry.name, &spec));
    let mut receipts: Vec<Receipt> = all[..2].iter().map(|chunk| ok(land(&*sink, chunk, &content))).collect();
    let token = sink.token();
    drop(sink);
    if !f.caps().attach {
        fails(f.another().extensions().unfinished.attach(&entry.name, &token, &spec), &[ErrorKind::Unsupported], &entry.name);
        return ok(f.store.extensions().unfinished.abandon(&entry.name, &token));
    }
    f.is_absent("resumed");
    let sink = ok(f.another().extensions().unfinished.attach(&entry.name, &token, &spec));
    assert_eq!(sink.token(), token, "the token of a session that goes on is the same");
    receipts.extend(all[2..].iter().map(|chunk| ok(land(&*sink, chunk, &content))));
    ok(sink.commit(&entry, &receipts));
    assert!(f.get("resumed") == content);
    fails(f.another().extensions().unfinished.attach(&entry.name, &token, &spec), &[ErrorKind::NotFound], &entry.name);
}

/// Abandoning is said to be no error when nothing is left, so it may be done twice.
pub fn a_session_that_was_given_up_is_not_found(f: &Fixture) {
    let before = f.names();
    let entry = file(name("given-up"), 100);
    let spec = spec(&entry, f.chunk());
    let kind = if f.caps().attach { ErrorKind::NotFound } else { ErrorKind::Unsupported };
    for by_abort in [true, false] {
        let sink = ok(f.store.create(&entry.name, &spec));
        ok(sink.write(0..50.min(entry.size), &mut &bytes(1, 50)[..]));
        let token = sink.token();
        if by_abort {
            ok(sink.abort());
        } else {
            drop(sink);
            ok(f.another().extensions().unfinished.abandon(&entry.name, &token));
        }
        fails(f.another().extensions().unfinished.attach(&entry.name, &token, &spec), &[kind], &entry.name);
        ok(f.another().extensions().unfinished.abandon(&entry.name, &token));
    }
    assert_eq!(f.names(), before);
}

pub fn creating_again_begins_from_nothing(f: &Fixture) {
    let chunk = f.chunk();
    let content = bytes(2, 2 * chunk);
    let entry = file(name("again"), content.len() as u64);
    let first = ok(f.store.create(&entry.name, &spec(&entry, chunk)));
    for chunk in chunks(entry.size, chunk) {
        ok(land(&*first, &chunk, &vec![0xee; content.len()]));
    }
    let token = first.token();
    drop(first);
    let other = f.another();
    ok(write(&*other, &entry, &spec(&entry, chunk), &content));
    assert!(f.get("again") == content);
    // Where each opening has staging names of its own, only the token leads to what another has left.
    if f.store.extensions().unfinished.staging(&entry) != other.extensions().unfinished.staging(&entry) {
        ok(other.extensions().unfinished.abandon(&entry.name, &token));
    }
    assert_eq!(f.names(), [b"again".to_vec()], "the write that was left over is still there");
}

/// Every version is one byte repeated, each of another length; a mixture or a part shows.
pub fn a_reader_sees_old_or_new_never_a_part(f: &Fixture) {
    let version = |i: u64| vec![i as u8 + 1; 5000 + 700 * i as usize];
    f.put("watched", &version(0));
    let (done, atomic, readers) = (AtomicBool::new(false), f.caps().atomic_commit, f.another());
    let looks_right = |content: &[u8]| content.first().is_some_and(|first| content == version(u64::from(*first) - 1));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                match fetch(&*readers, &name("watched")) {
                    Ok(content) => assert!(looks_right(&content), "a part or a mixture of {} bytes", content.len()),
                    Err(e) if e.kind() == ErrorKind::Changed => {}
                    Err(e) if e.kind() == ErrorKind::NotFound && !atomic => {}
                    Err(e) => panic!("{e}"),
                }
            }
        });
        for i in 1..40 {
            f.put("watched", &version(i));
        }
        done.store(true, Ordering::Relaxed);
        reader.join().expect("the reader saw nothing but whole files");
    });
    assert!(looks_right(&f.get("watched")));
}

pub fn a_commit_wants_every_receipt(f: &Fixture) {
    let chunk = f.chunk();
    f.put("receipts", b"old");
    let content = bytes(3, 3 * chunk);
    let entry = file(name("receipts"), content.len() as u64);
    let sink = ok(f.store.create(&entry.name, &spec(&entry, chunk)));
    let receipts: Vec<Receipt> = chunks(entry.size, chunk).map(|chunk| ok(land(&*sink, &chunk, &content))).collect();
    for missing in 0..receipts.len() {
        let mut short = receipts.clone();
        short.remove(missing);
        fails_somehow(sink.commit(&entry, &short), &[&entry.name]);
        assert_eq!(f.get("receipts"), b"old", "receipt {missing} was missing");
    }
    fails_somehow(sink.commit(&entry, &[]), &[&entry.name]);
    ok(sink.commit(&entry, &receipts));
    assert!(f.get("receipts") == content);
}

/// Where directories are things. The store may say so when the write begins or when it is to be committed.
pub fn a_file_never_replaces_a_directory(f: &Fixture) {
    if !f.caps().dirs {
        return;
    }
    f.put("d/inside", b"x");
    let entry = file(name("d"), 3);
    fails(write(&*f.store, &entry, &spec(&entry, f.chunk()), b"new"), &[ErrorKind::Exists], &entry.name);
    assert_eq!(f.get("d/inside"), b"x");
}

pub fn a_parent_that_is_missing_is_said(f: &Fixture) {
    let entry = file(name("none/new"), 3);
    let outcome = write(&*f.store, &entry, &spec(&entry, f.chunk()), b"new");
    if f.caps().dirs {
        fails(outcome, &[ErrorKind::NotFound], &entry.name);
        f.is_absent("none");
    } else {
        ok(outcome);
        assert_eq!(f.get("none/new"), b"new");
    }
}

pub fn sixteen_write_at_once(f: &Fixture) {
    f.make(&dir("many"));
    std::thread::scope(|scope| {
        for writer in 0..16u64 {
            let store = f.store.clone();
            let chunk = f.chunk();
            scope.spawn(move || {
                for i in 0..8 {
                    let entry = file(name(format!("many/{writer}-{i}")), chunk + writer);
                    ok(write(&*store, &entry, &spec(&entry, chunk), &bytes(writer * 8 + i, chunk + writer)));
                }
            });
        }
    });
    assert_eq!(leaves(&*f.another(), &dir("many")).len(), 128);
    for writer in 0..16u64 {
        for i in 0..8 {
            assert!(f.get(format!("many/{writer}-{i}")) == bytes(writer * 8 + i, f.chunk() + writer));
        }
    }
}

pub fn sixteen_write_one_file(f: &Fixture) {
    if f.in_order() {
        return;
    }
    let chunk = f.chunk();
    let content = bytes(4, 16 * chunk + 3);
    let entry = file(name("one"), content.len() as u64);
    let sink = ok(f.store.create(&entry.name, &spec(&entry, chunk)));
    let receipts: Vec<Receipt> = std::thread::scope(|scope| {
        let (sink, content) = (&sink, &content);
        let writers: Vec<_> = chunks(entry.size, chunk).map(|chunk| scope.spawn(move || ok(land(&**sink, &chunk, content)))).collect();
        writers.into_iter().map(|writer| writer.join().expect("it wrote its chunk")).collect()
    });
    ok(sink.commit(&entry, &receipts));
    assert!(f.get("one") == content);
}

/// Only where any bytes may be written: elsewhere `in_place` is a wish that a store passes over.
pub fn in_place_keeps_the_inode(f: &Fixture) {
    if f.caps().write != WriteStyle::Anywhere || !f.caps().dirs {
        return;
    }
    f.put("in-place", &bytes(5, 3 * f.chunk()));
    let before = f.stat("in-place");
    let content = bytes(6, f.chunk() + 1);
    let entry = file(name("in-place"), content.len() as u64);
    let spec = Spec { in_place: true, ..spec(&entry, f.chunk()) };
    let done = ok(write(&*f.store, &entry, &spec, &content));
    assert!(f.get("in-place") == content, "the file is not cut to its new size, or not written");
    assert_eq!(f.stat("in-place").ino, before.ino);
    assert_eq!(done.ino, before.ino);
    let entry = file(name("in-place-new"), content.len() as u64);
    ok(write(&*f.store, &entry, &Spec { entry: &entry, ..spec }, &content));
    assert!(f.get("in-place-new") == content);
}

/// Also with the old version changed in between, which nobody may mix with the new one.
pub fn what_the_old_version_has_is_reused(f: &Fixture) {
    let old = bytes(11, 300_000);
    f.put("changing", &old);
    let stamp = ok(ok(f.store.open(&f.stat("changing"), false)).stamp());
    let mut content = b"in front".to_vec();
    content.extend_from_slice(&old[..200_000]);
    content.extend_from_slice(b"behind");
    let mut entry = file(name("changing"), content.len() as u64);
    entry.version = 78;
    let sink = ok(f.store.create(&entry.name, &spec(&entry, entry.size)));
    if !f.store.caps().signatures {
        let refused = sink.extensions().fill.reuse(&stamp, 0, 0..8).expect_err("it is denied");
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        return ok(sink.abort());
    }
    let average = 16 << 10;
    let mut read = 0;
    let signature = ok(ok(f.store.open(&f.stat("changing"), false)).extensions().near_data.signature(average, &mut |bytes, _| {
        read += bytes;
        Ok(())
    }))
    .expect("it is granted");
    assert_eq!((signature.size(), read), (300_000, 300_000));
    let mut expected = haul_core::signature::SignatureBuilder::new(average).expect("a power of two");
    expected.push(&old);
    assert!(signature.chunks() == expected.finish().chunks(), "the signature is that of another content");
    ok(sink.write(0..8, &mut &b"in front"[..]));
    ok(sink.extensions().fill.reuse(&stamp, 0, 8..200_008));
    ok(sink.write(200_008..200_014, &mut &b"behind"[..]));
    let chunk = Chunk { index: 0, at: 0..entry.size };
    let receipt = Receipt { index: 0, tag: ok(sink.landed(&chunk)), hash: None };
    ok(sink.commit(&entry, std::slice::from_ref(&receipt)));
    assert!(f.get("changing") == content);

    let again = ok(f.store.create(&entry.name, &spec(&entry, entry.size)));
    let other = again.extensions().fill.reuse(&stamp, 0, 0..entry.size).and_then(|()| again.landed(&chunk).map(|_| ()));
    assert_eq!(other.expect_err("it is another version now").kind(), ErrorKind::Changed);
    ok(again.abort());
    let now = ok(ok(f.store.open(&f.stat("changing"), false)).stamp());
    let again = ok(f.store.create(&entry.name, &spec(&entry, entry.size)));
    ok(again.extensions().fill.reuse(&now, 0, 0..entry.size));
    ok(again.landed(&chunk));
    let mut in_place = file(name("changing"), 9);
    in_place.mtime.secs = 5;
    ok(write(&*f.store, &in_place, &Spec { in_place: true, ..spec(&in_place, 9) }, b"meanwhile"));
    assert_eq!(again.commit(&entry, &[receipt]).expect_err("the old one changed under it").kind(), ErrorKind::Changed);
    ok(again.abort());
    assert!(f.get("changing") == b"meanwhile");
}

/// `Unsupported` is right only where parts are written: they are no file before the commit.
pub fn a_staged_file_can_be_read_back(f: &Fixture) {
    for (leaf, size) in [("reread", f.chunk() + 100), ("reread-empty", 0)] {
        let content = bytes(7, size);
        let entry = file(name(leaf), content.len() as u64);
        let sink = ok(f.store.create(&entry.name, &spec(&entry, f.chunk())));
        let receipts: Vec<Receipt> = chunks(entry.size, f.chunk()).map(|chunk| ok(land(&*sink, &chunk, &content))).collect();
        match sink.reread() {
            Ok(source) => assert!(ok(read(&*source, 0..entry.size)) == content),
            Err(e) => assert!(e.kind() == ErrorKind::Unsupported && f.caps().write != WriteStyle::Anywhere, "{leaf}: {e}"),
        }
        for algorithm in f.store.extensions().digests.algorithms() {
            let mut hasher = algorithm.begin();
            hasher.update(&content);
            assert_eq!(ok(sink.extensions().state.digest(algorithm)), Some(hasher.finish()), "{algorithm:?}");
        }
        f.is_absent(leaf);
        ok(sink.commit(&entry, &receipts));
        assert!(f.get(leaf) == content);
    }
}

/// A hole counts as written bytes. Over bytes that were written before it makes zeros of them.
pub fn holes_read_as_zeros(f: &Fixture) {
    let chunk = f.chunk().max(64 << 10);
    let mut content = bytes(8, 4 * chunk);
    let entry = file(name("sparse"), content.len() as u64);
    let sink = ok(f.store.create(&entry.name, &spec(&entry, chunk)));
    let mut receipts = Vec::new();
    for part in chunks(entry.size, chunk) {
        if part.index % 2 == 0 {
            receipts.push(ok(land(&*sink, &part, &content)));
            continue;
        }
        if part.index == 1 {
            ok(sink.write(part.at.clone(), &mut &vec![0xee; chunk as usize][..]));
        }
        match sink.hole(part.at.clone()) {
            Ok(()) => content[part.at.start as usize..part.at.end as usize].fill(0),
            // "Where the store can": the engine writes the zeros then.
            Err(e) if e.kind() == ErrorKind::Unsupported => ok(sink.write(part.at.clone(), &mut &content[part.at.start as usize..])),
            Err(e) => panic!("{e}"),
        }
        receipts.push(Receipt { index: part.index, tag: ok(sink.landed(&part)), hash: None });
    }
    ok(sink.commit(&entry, &receipts));
    assert!(f.get("sparse") == content);
    let other = f.another();
    let source = ok(other.open(&f.stat("sparse"), false));
    let mut end = 0;
    for range in ok(source.data(0..entry.size)) {
        assert!(range.start >= end && range.start < range.end && range.end <= entry.size, "{range:?} after {end}");
        assert!(content[end as usize..range.start as usize].iter().all(|b| *b == 0), "data in the hole before {range:?}");
        end = range.end;
    }
    assert!(content[end as usize..].iter().all(|b| *b == 0), "data in the hole at the end");
}

/// Nor can the unfinished write be mistaken for a file of the user's.
pub fn an_unfinished_write_is_in_no_listing(f: &Fixture) {
    f.put("d/done", b"x");
    let entry = file(name("d/begun"), 10);
    let sink = ok(f.store.create(&entry.name, &Spec { keep: MetaMask::NONE, ..spec(&entry, f.chunk()) }));
    ok(sink.write(0..10, &mut &[1; 10][..]));
    for store in [f.store.clone(), f.another()] {
        assert_eq!(leaves(&*store, &dir("d")), [b"done".to_vec()]);
        assert_eq!(leaves(&*store, &Dir::root()), [b"d".to_vec()]);
    }
    ok(sink.abort());
}

/// A directory in which nothing else is can be removed, whoever began the write.
pub fn an_unfinished_write_does_not_keep_its_directory(f: &Fixture) {
    if !f.caps().dirs {
        return;
    }
    f.put("d/e/done", b"x");
    let entry = file(name("d/e/begun"), 10);
    let sink = ok(f.store.create(&entry.name, &Spec { keep: MetaMask::NONE, ..spec(&entry, f.chunk()) }));
    ok(sink.write(0..10, &mut &[1; 10][..]));
    drop(sink);
    let other = f.another();
    let empty = Entry::bare(name("d/e"), Kind::Dir);
    let remove = || other.remove(std::slice::from_ref(&empty)).pop().expect("an answer");
    assert!(remove().or_else(|e| remove_emptied(&*other, &empty, e)).is_err(), "a file was in it");
    assert!(f.get("d/e/done") == b"x");
    ok(other.remove(&[Entry::bare(name("d/e/done"), Kind::File)]).pop().expect("an answer"));
    ok(remove().or_else(|e| remove_emptied(&*other, &empty, e)));
    assert_eq!(leaves(&*other, &dir("d")), Vec::<Vec<u8>>::new());
}
