//! Bytes: bundles, sinks, sources.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::time::{Duration, SystemTime};

use haul_core::ErrorKind;
use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Entry, Kind, MetaMask};
use haul_core::store::staging::{is_staging, staging_leaf};
use haul_core::store::{Flow, Proof, Spec, Store, System, Token, Unfinished};
use haul_local::{Local, Options};

use super::{BOTH, Place, chunk, failure, is_root, landed, names_in, receipt, run, write};

fn listed(place: &Place) -> Vec<Entry> {
    let mut entries = Vec::new();
    place
        .source
        .list(&place.root, &mut |entry| {
            entries.push(entry.unwrap());
            Flow::Go
        })
        .unwrap();
    entries
}

#[test]
fn a_bundle_of_bare_entries_keeps_bytes_mode_and_a_time_before_1970() {
    use std::os::unix::ffi::OsStrExt;
    let place = Place::new();
    let odd = std::ffi::OsStr::from_bytes(b"new\nline \xff");
    write(&place.from.join(odd), b"odd", 0o604);
    write(&place.from.join("empty"), b"", 0o444);
    write(&place.from.join("longer than the guess"), vec![7; 100_000], 0o751);
    let before = SystemTime::UNIX_EPOCH - Duration::new(86_400, 123_456_789);
    fs::File::open(place.from.join(odd)).unwrap().set_modified(before).unwrap();
    for direct in [true, false] {
        let entries = listed(&place);
        assert!(entries.iter().all(|entry| entry.is_bare() && entry.kind == Kind::File && entry.ino != 0));
        let bundle = place.bundle(entries, BOTH, direct);
        assert_eq!(landed(&bundle).len(), 3);
        for item in &bundle.items {
            let name = std::ffi::OsStr::from_bytes(&item.entry.name.leaf);
            let (old, new) = (fs::metadata(place.from.join(name)).unwrap(), fs::metadata(place.to.join(name)).unwrap());
            assert_eq!(fs::read(place.from.join(name)).unwrap(), fs::read(place.to.join(name)).unwrap());
            assert_eq!((old.mode(), old.mtime(), old.mtime_nsec()), (new.mode(), new.mtime(), new.mtime_nsec()));
            assert_eq!(item.entry.ino, old.ino());
        }
        assert_eq!(place.left().len(), 3, "no staging file is left: {:?}", place.left());
    }
}

#[test]
fn a_bare_file_too_large_for_a_bundle_comes_back_unread_and_looked_up() {
    let place = Place::new();
    let file = fs::File::create(place.from.join("large")).unwrap();
    file.set_len(3 << 20).unwrap();
    let mut bundle = Bundle { keep: BOTH, ..Bundle::default() };
    bundle.push(Entry::bare(place.name("large"), Kind::File));
    place.source.get_bundle(&mut bundle);
    assert!(matches!(bundle.items[0].outcome, Outcome::Listed));
    assert_eq!(bundle.items[0].entry.size, 3 << 20);
    assert!(bundle.data.is_empty());
}

#[test]
fn a_file_that_changed_since_it_was_listed_is_read_as_it_is_now() {
    let place = Place::new();
    write(&place.from.join("a"), "old", 0o644);
    let entry = place.entry("a", MetaMask::BASIC);
    write(&place.from.join("a"), "longer than before", 0o600);
    let bundle = place.bundle(vec![entry.clone()], BOTH, true);
    landed(&bundle);
    assert_eq!(fs::read(place.to.join("a")).unwrap(), b"longer than before");
    assert_eq!(fs::metadata(place.to.join("a")).unwrap().mode() & 0o777, 0o600);
    assert_eq!(place.source.open(&entry, false).unwrap_err_kind(), ErrorKind::Changed);
}

trait ErrKind {
    fn unwrap_err_kind(self) -> ErrorKind;
}
impl<T> ErrKind for haul_core::Result<T> {
    fn unwrap_err_kind(self) -> ErrorKind {
        self.err().expect("an error").kind()
    }
}

#[test]
fn what_is_no_file_any_more_is_said_so_and_never_blocks() {
    let place = Place::new();
    write(&place.base.path().join("secret"), "secret", 0o600);
    for (what, kind) in
        [("fifo", ErrorKind::Changed), ("link", ErrorKind::Changed), ("gone", ErrorKind::NotFound), ("dir", ErrorKind::Changed)]
    {
        let path = place.from.join(what);
        write(&path, "secret", 0o600);
        let entry = place.entry(what, MetaMask::BASIC);
        fs::remove_file(&path).unwrap();
        match what {
            "fifo" => drop(run("mkfifo", &[path.to_str().unwrap()])),
            "link" => std::os::unix::fs::symlink("../secret", &path).unwrap(),
            "dir" => fs::create_dir(&path).unwrap(),
            _ => {}
        }
        let bare = Entry::bare(entry.name.clone(), Kind::File);
        for entry in [entry, bare] {
            assert_eq!(place.source.open(&entry, false).unwrap_err_kind(), kind, "{what}");
            let bundle = place.bundle(vec![entry], BOTH, true);
            assert_eq!(failure(&bundle).kind(), kind, "{what}");
            assert_eq!(failure(&bundle).path(), Some(what.as_bytes()));
        }
    }
    assert!(place.left().is_empty());
    let mut bundle = Bundle { follow: true, ..Bundle::default() };
    bundle.push(Entry::bare(place.name("link"), Kind::Link));
    place.source.get_bundle(&mut bundle);
    assert_eq!(bundle.data, b"secret", "-L reads what the link points to");
}

#[test]
fn a_directory_is_never_replaced_and_nothing_is_left_beside_it() {
    let place = Place::new();
    write(&place.from.join("a"), "x", 0o644);
    fs::create_dir(place.to.join("a")).unwrap();
    for direct in [true, false] {
        let bundle = place.bundle(vec![place.entry("a", MetaMask::BASIC)], BOTH, direct);
        assert_eq!(failure(&bundle).kind(), ErrorKind::Exists);
        assert_eq!(failure(&bundle).to_string(), "a: rename: a directory has this name");
    }
    assert_eq!(place.left(), ["a"]);
}

#[test]
fn an_old_file_is_replaced_by_another_inode_and_keeps_its_mode_if_modes_are_not_kept() {
    let place = Place::new();
    write(&place.from.join("a"), "new", 0o777);
    for direct in [true, false] {
        write(&place.to.join("a"), "old", 0o640);
        let old = fs::metadata(place.to.join("a")).unwrap();
        landed(&place.bundle(vec![place.entry("a", MetaMask::BASIC)], MetaMask::MTIME, direct));
        let new = fs::metadata(place.to.join("a")).unwrap();
        assert_ne!(old.ino(), new.ino());
        assert_eq!(new.mode() & 0o7777, 0o640);
        assert_eq!(fs::read(place.to.join("a")).unwrap(), b"new");
    }
    fs::remove_file(place.to.join("a")).unwrap();
    landed(&place.bundle(vec![place.entry("a", MetaMask::BASIC)], MetaMask::MTIME, true));
    assert_eq!(fs::metadata(place.to.join("a")).unwrap().mode() & 0o7777, 0o755, "the user's mask");
}

#[test]
fn chunks_land_in_any_order_and_another_process_takes_them_up() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..2_500_000u32).map(|i| ((i * 31) >> 7) as u8).collect();
    write(&place.from.join("a"), &bytes, 0o640);
    write(&place.to.join("a"), "old", 0o644);
    let entry = place.entry("a", MetaMask::BASIC);
    let spec = Spec { entry: &entry, keep: BOTH, chunk: 1 << 20, in_place: false, sync: true };
    let source = place.source.open(&entry, false).unwrap();
    let token = {
        let sink = place.target.create(&entry.name, &spec).unwrap();
        sink.write(2 << 20..2_500_000, &mut *source.read(2 << 20..2_500_000).unwrap()).unwrap();
        sink.write(0..1 << 20, &mut *source.read(0..1 << 20).unwrap()).unwrap();
        assert!(sink.landed(&chunk(0, 0..1 << 20)).unwrap().is_empty());
        sink.token()
    };
    // The staging name, and which file of that name it is.
    let name = token.0.split(|b| *b == b'@').next().unwrap();
    assert!(is_staging(name) && *name == *staging_leaf(b"a", entry.stamp()));
    let other = Local::open(&place.to, Options::default()).unwrap();
    let mut seen = Vec::new();
    let each = &mut |entry: haul_core::Result<Entry>| {
        seen.push(entry.unwrap().name.leaf);
        Flow::Go
    };
    other.list(&place.root, each).unwrap();
    assert_eq!(seen, [haul_core::entry::Leaf::from(&b"a"[..])], "staging files are not listed");

    let sink = other.attach(&entry.name, &token, &spec).unwrap();
    sink.write(1 << 20..2 << 20, &mut *source.read(1 << 20..2 << 20).unwrap()).unwrap();
    let short = sink.commit(&entry, &[receipt(0), receipt(2), receipt(2)]).unwrap_err();
    assert!(short.reason().contains("1 of its 3 chunks"), "{short}");
    assert_eq!(fs::read(place.to.join("a")).unwrap(), b"old");
    let mut back = Vec::new();
    sink.reread().unwrap().read(0..2_500_000).unwrap().read_to_end(&mut back).unwrap();
    assert!(back == bytes);
    let receipts = [receipt(0), receipt(1), receipt(2)];
    let landed = sink.commit(&entry, &receipts).unwrap();
    let meta = fs::metadata(place.to.join("a")).unwrap();
    assert_eq!((landed.ino, meta.mode() & 0o777), (meta.ino(), 0o640));
    assert_eq!((meta.mtime(), meta.mtime_nsec()), (entry.mtime.secs, i64::from(entry.mtime.nanos)));
    assert!(fs::read(place.to.join("a")).unwrap() == bytes);
    sink.commit(&entry, &receipts).expect("a commit whose answer was lost");
    sink.abort().expect("nothing is left to remove");
    assert_eq!(place.left(), ["a"]);
    assert_eq!(other.attach(&entry.name, &token, &spec).unwrap_err_kind(), ErrorKind::NotFound);
}

#[test]
fn a_token_that_is_no_staging_file_of_ours_is_refused() {
    let place = Place::new();
    write(&place.from.join("a"), "x", 0o644);
    write(&place.base.path().join("passwd"), "root", 0o644);
    let entry = place.entry("a", MetaMask::BASIC);
    let spec = Spec { entry: &entry, keep: BOTH, chunk: 1, in_place: false, sync: false };
    for hostile in ["", "../passwd", "passwd", ".haul-", ".haul-../../../../../../../../../../passwd"] {
        let token = Token(hostile.as_bytes().into());
        assert_eq!(place.target.attach(&entry.name, &token, &spec).unwrap_err_kind(), ErrorKind::BadName, "{hostile}");
        assert_eq!(place.target.abandon(&entry.name, &token).unwrap_err_kind(), ErrorKind::BadName, "{hostile}");
    }
    let leaf = String::from_utf8(staging_leaf(b"a", entry.stamp())).unwrap();
    let token = Token(leaf.as_bytes().into());
    let passwd = place.base.path().join("passwd");
    std::os::unix::fs::symlink(&passwd, place.to.join(&leaf)).unwrap();
    assert_eq!(place.target.attach(&entry.name, &token, &spec).unwrap_err_kind(), ErrorKind::NotFound);
    fs::remove_file(place.to.join(&leaf)).unwrap();
    fs::hard_link(&passwd, place.to.join(&leaf)).unwrap();
    assert_eq!(place.target.attach(&entry.name, &token, &spec).unwrap_err_kind(), ErrorKind::NotFound);
    // A leftover, or a trap, under the staging name is not written into either.
    place.copy(&entry, BOTH);
    assert_eq!(fs::read(&passwd).unwrap(), b"root");
    place.target.abandon(&entry.name, &token).expect("nothing is there");
    assert_eq!(place.left(), ["a"]);
}

#[test]
fn holes_stay_holes_and_make_zeros_of_what_was_written() {
    let place = Place::new();
    let size = 8u64 << 20;
    let file = fs::File::create(place.from.join("a")).unwrap();
    file.set_len(size).unwrap();
    file.write_all_at(b"data", 4 << 20).unwrap();
    let entry = place.entry("a", MetaMask::BASIC);
    assert!(entry.is_sparse());
    let source = place.source.open(&entry, false).unwrap();
    let data = source.data(0..size).unwrap();
    assert!(data.len() == 1 && data[0].start <= 4 << 20 && data[0].end - data[0].start < 1 << 20, "{data:?}");
    let spec = Spec { entry: &entry, keep: BOTH, chunk: size, in_place: false, sync: false };
    let sink = place.target.create(&entry.name, &spec).unwrap();
    sink.write(0..1 << 20, &mut std::io::repeat(9)).unwrap();
    sink.hole(0..data[0].start).unwrap();
    sink.write(data[0].clone(), &mut *source.read(data[0].clone()).unwrap()).unwrap();
    sink.hole(data[0].end..size).unwrap();
    sink.commit(&entry, &[receipt(0)]).unwrap();
    assert!(fs::read(place.to.join("a")).unwrap() == fs::read(place.from.join("a")).unwrap());
    let stored = fs::metadata(place.to.join("a")).unwrap().blocks() * 512;
    assert!(stored < 1 << 20, "{stored}");
}

#[test]
fn in_place_keeps_the_inode_and_takes_no_link() {
    let place = Place::new();
    write(&place.from.join("a"), "shorter", 0o644);
    write(&place.to.join("a"), "it was longer", 0o600);
    let entry = place.entry("a", MetaMask::BASIC);
    let spec = Spec { entry: &entry, keep: BOTH, chunk: 100, in_place: true, sync: false };
    let ino = fs::metadata(place.to.join("a")).unwrap().ino();
    let sink = place.target.create(&entry.name, &spec).unwrap();
    let attached = place.target.attach(&entry.name, &sink.token(), &spec).unwrap();
    attached.write(0..7, &mut &b"shorter"[..]).unwrap();
    let landed = attached.commit(&entry, &[receipt(0)]).unwrap();
    assert_eq!((landed.ino, fs::metadata(place.to.join("a")).unwrap().ino()), (ino, ino));
    assert_eq!(fs::read(place.to.join("a")).unwrap(), b"shorter");
    assert_eq!(fs::metadata(place.to.join("a")).unwrap().mode() & 0o777, 0o644);
    fs::rename(place.to.join("a"), place.base.path().join("outside")).unwrap();
    std::os::unix::fs::symlink("../outside", place.to.join("a")).unwrap();
    assert_eq!(place.target.create(&entry.name, &spec).unwrap_err_kind(), ErrorKind::Exists);
    fs::remove_file(place.to.join("a")).unwrap();
    place.target.create(&entry.name, &spec).unwrap().abort().unwrap();
    assert!(place.left().is_empty(), "what was made in place is removed again");
}

#[test]
fn a_source_cut_short_is_an_error_and_not_zeros() {
    let place = Place::new();
    write(&place.from.join("a"), vec![1; 1000], 0o644);
    let entry = place.entry("a", MetaMask::BASIC);
    let source = place.source.open(&entry, false).unwrap();
    fs::OpenOptions::new().write(true).open(place.from.join("a")).unwrap().set_len(10).unwrap();
    assert_ne!(source.stamp().unwrap(), entry.stamp());
    let spec = Spec { entry: &entry, keep: BOTH, chunk: 1000, in_place: false, sync: false };
    let sink = place.target.create(&entry.name, &spec).unwrap();
    let error = sink.write(0..1000, &mut *source.read(0..1000).unwrap()).unwrap_err();
    assert_eq!((error.kind(), error.op(), error.path()), (ErrorKind::Changed, "read", Some(&b"a"[..])));
    sink.abort().unwrap();
    assert!(place.left().is_empty());
}

#[test]
fn a_full_disk_is_said_before_the_first_byte_where_it_can_be_and_leaves_no_small_file() {
    if !is_root() {
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let mount = base.path().join("small");
    fs::create_dir(&mount).unwrap();
    run("mount", &["-t", "tmpfs", "-o", "size=64k", "none", mount.to_str().unwrap()]);
    let place = Place::new();
    let outcome = std::panic::catch_unwind(|| {
        let target = Local::open(&mount, Options::default()).unwrap();
        assert_eq!((target.fs_name(), target.caps().proof), ("tmpfs", Proof::Cache));
        write(&place.from.join("a"), vec![1; 200_000], 0o644);
        let mut bundle = Bundle { keep: BOTH, direct: true, ..Bundle::default() };
        bundle.push(place.entry("a", MetaMask::BASIC));
        place.source.get_bundle(&mut bundle);
        target.put_bundle(&mut bundle);
        assert_eq!(failure(&bundle).kind(), ErrorKind::NoSpace);
        assert!(names_in(&mount).is_empty());
        assert!(target.space().unwrap().unwrap().bytes <= 64 << 10);
    });
    run("umount", &["-l", mount.to_str().unwrap()]);
    outcome.unwrap();
    // Where room is reserved at once, a file that cannot fit is refused at its creation.
    let entry = Entry { size: 1 << 50, stored: 1 << 50, have: MetaMask::BASIC, ..Entry::bare(place.name("huge"), Kind::File) };
    let spec = Spec { entry: &entry, keep: BOTH, chunk: 1 << 20, in_place: false, sync: false };
    if place.target.fs_name() == "ext4" {
        let kind = place.target.create(&entry.name, &spec).unwrap_err_kind();
        assert!(matches!(kind, ErrorKind::NoSpace | ErrorKind::Limit), "{kind}");
        assert!(place.left().is_empty());
    }
}

#[test]
fn a_synced_bundle_is_named_after_its_data_and_can_be_read_back() {
    let place = Place::new();
    let names: Vec<String> = (0..20).map(|i| format!("f{i}")).collect();
    for name in &names {
        write(&place.from.join(name), name, 0o644);
    }
    for direct in [true, false] {
        let mut bundle = Bundle { keep: BOTH, direct, sync: true, ..Bundle::default() };
        names.iter().for_each(|name| bundle.push(place.entry(name, MetaMask::BASIC)));
        place.source.get_bundle(&mut bundle);
        place.target.put_bundle(&mut bundle);
        landed(&bundle);
    }
    assert_eq!(place.left().len(), 20);
    let all: Vec<_> = names.iter().map(|name| place.name(name)).collect();
    place.target.sync(&all.iter().collect::<Vec<_>>()).unwrap();
    place.target.sync(&[&all[0]]).unwrap();
    let mut back = String::new();
    place.target.reopen(&all[7]).unwrap().read(0..2).unwrap().read_to_string(&mut back).unwrap();
    assert_eq!(back, "f7");
}

#[test]
fn a_synced_file_is_named_only_if_it_is_the_one_that_was_written() {
    let place = Place::new();
    let mut bundle = Bundle { keep: BOTH, sync: true, data: b"content".to_vec(), ..Bundle::default() };
    write(&place.from.join("f"), "content", 0o644);
    // The second takes the staging name away from the first, as a run would that knows nothing of this one and has come
    // as far as its third byte.
    for at in [0..7, 0..3] {
        bundle.push(place.entry("f", MetaMask::BASIC));
        let item = bundle.items.last_mut().unwrap();
        (item.at, item.outcome) = (at, Outcome::Read);
    }
    place.target.put_bundle(&mut bundle);
    let Outcome::Failed(e) = &bundle.items[0].outcome else { panic!("{:?}", bundle.items[0].outcome) };
    assert_eq!(e.kind(), ErrorKind::Busy, "{e}");
    assert!(matches!(bundle.items[1].outcome, Outcome::Written(_)), "{:?}", bundle.items[1].outcome);
    assert_eq!(place.left(), ["f"]);
}

#[test]
fn what_cannot_be_read_fails_alone() {
    let place = Place::new();
    write(&place.from.join("a"), "a", 0o000);
    write(&place.from.join("b"), "b", 0o644);
    fs::set_permissions(&place.to, fs::Permissions::from_mode(0o777)).unwrap();
    let entries = vec![place.entry("a", MetaMask::BASIC), place.entry("b", MetaMask::BASIC)];
    let bundle = super::as_nobody(|| place.bundle(entries, BOTH, true));
    assert_eq!(failure(&bundle).kind(), ErrorKind::Denied);
    assert!(matches!(bundle.items[1].outcome, Outcome::Written(_)));
    assert_eq!(place.left(), ["b"]);
}
