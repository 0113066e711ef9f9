//! Attributes: what `AttributeCaps::sets` has is kept, and what was refused is said.

use std::time::Duration;

use haul_core::entry::{Entry, Kind, MetaMask, Time};
use haul_core::error::ErrorKind;
use haul_core::store::{Spec, WriteOutcome, time_range};

use super::Fixture;
use super::tools::*;

/// Without extended ones: those have a check of their own. The time is asked for always, so that it comes last.
const PLAIN: MetaMask = MetaMask(MetaMask::MTIME.0 | MetaMask::MODE.0 | MetaMask::OWNER.0 | MetaMask::GROUP.0 | MetaMask::SETID.0);

/// What was not refused is there. An attribute that `AttributeCaps::sets` lacks must be refused; one that it has
/// may be, by the rights of who runs this, but for time and mode.
#[track_caller]
fn kept(f: &Fixture, landed: WriteOutcome, wanted: &Entry, keep: MetaMask, found: &Entry) {
    let sets = f.caps().attributes.sets;
    let refused = landed.refused;
    assert!(refused.has(keep.without(sets)), "{:?} were not kept and not refused", keep.without(sets).without(refused));
    assert!(keep.has(refused), "{refused:?} refused, {keep:?} asked for");
    let must = keep.and(sets).and(MetaMask::MTIME.with(MetaMask::MODE));
    assert!(!refused.any(must), "{:?} is granted and was refused", refused.and(must));
    let kept = keep.without(refused);
    if kept.has(MetaMask::MTIME) {
        assert!(
            found.mtime.same(wanted.mtime, f.caps().attributes.mtime_resolution, Duration::ZERO),
            "{:?} is not {:?}",
            found.mtime,
            wanted.mtime
        );
    }
    if kept.has(MetaMask::MODE) && wanted.kind != Kind::Link {
        assert_eq!(found.mode & 0o777, wanted.mode & 0o777);
    }
    if kept.has(MetaMask::SETID) && wanted.kind == Kind::File {
        assert_eq!(found.mode & 0o6000, wanted.mode & 0o6000);
    }
    if kept.has(MetaMask::OWNER) {
        assert_eq!(found.uid, wanted.uid);
    }
    if kept.has(MetaMask::GROUP) {
        assert_eq!(found.gid, wanted.gid);
    }
    assert!(landed.ino == 0 || landed.ino == found.ino);
}

pub fn attributes_survive_a_commit(f: &Fixture) {
    for (i, mode) in [0o640, 0o400, 0o777, 0o000, 0o4755].into_iter().enumerate() {
        let mut entry = file(name(format!("f{i}")), 5);
        entry.mode = mode;
        entry.mtime.secs += i as i64;
        let spec = Spec { keep: PLAIN, ..spec(&entry, f.chunk()) };
        let landed = ok(write(&*f.store, &entry, &spec, b"12345"));
        kept(f, landed, &entry, PLAIN, &f.stat(format!("f{i}")));
    }
    // Without SETID the bits that lend rights are not kept, whoever asks.
    let mut entry = file(name("no-setid"), 5);
    entry.mode = 0o6755;
    let spec = Spec { keep: MetaMask::MODE.with(MetaMask::MTIME), ..spec(&entry, f.chunk()) };
    ok(write(&*f.store, &entry, &spec, b"12345"));
    assert_eq!(f.stat("no-setid").mode & 0o6000, 0);
}

pub fn attributes_are_set_on_everything(f: &Fixture) {
    let mut wanted = vec![f.put("d/file", b"12345")];
    if f.caps().dirs {
        wanted.push(Entry::bare(name("d"), Kind::Dir));
    }
    if f.caps().links {
        f.plant_link("file", "d/link");
        wanted.insert(0, Entry::bare(name("d/link"), Kind::Link));
    }
    if f.caps().specials {
        let fifo = Entry::bare(name("d/fifo"), Kind::Fifo);
        ok(f.store.make_node(&fifo.name, &fifo, MetaMask::NONE));
        wanted.insert(0, fifo);
    }
    for entry in &mut wanted {
        let like = file(entry.name.clone(), 0);
        (entry.have, entry.uid, entry.gid) = (like.have, like.uid, like.gid);
        entry.mode = if entry.kind == Kind::Dir { 0o750 } else { 0o604 };
        entry.mtime = Time { secs: 1_500_000_000, nanos: 987_654_321 };
    }
    for (i, entry) in wanted.iter().enumerate() {
        let landed = ok(set(&*f.store, entry, PLAIN.without(MetaMask::SETID)));
        kept(f, landed, entry, PLAIN.without(MetaMask::SETID), &f.stat(entry.name.path()));
        if i == 0 && entry.kind == Kind::Link && f.caps().attributes.sets.has(MetaMask::MTIME) {
            assert_eq!(f.stat("d/file").mtime.secs, WHEN.secs, "what the link points to was changed");
        }
    }
    assert!(f.store.set_meta(&[]).is_empty());
}

/// Times before 1970, far ahead, and of every precision: kept as `AttributeCaps::mtime_resolution` says, neither finer nor
/// coarser. Two that the resolution tells apart must not be one.
pub fn times_are_kept_to_the_grain(f: &Fixture) {
    if !f.caps().attributes.sets.has(MetaMask::MTIME) {
        return;
    }
    let resolution = f.caps().attributes.mtime_resolution;
    let step = resolution.as_nanos().max(1) as i128;
    let at = |nanos: i128| Time { secs: nanos.div_euclid(1_000_000_000) as i64, nanos: nanos.rem_euclid(1_000_000_000) as u32 };
    let base = WHEN.as_nanos().div_euclid(step) * step;
    let beyond = [-126_230_400, 20_000_000_000].into_iter().filter(|_| f.caps().attributes.mtime_range != time_range::ANY);
    for secs in beyond.chain([0, 1, 1_000_000_000, 4_000_000_000, 2_100_000_000]) {
        let entry = f.put_at("time", b"x", Time { secs, nanos: 0 });
        assert!(f.stat("time").mtime.same(entry.mtime.within(f.caps().attributes.mtime_range), resolution, Duration::ZERO), "{secs}");
    }
    let mut seen = Vec::new();
    for i in 0..4 {
        let entry = f.put_at("time", b"x", at(base + i * step));
        let found = f.stat("time").mtime;
        assert!(found.same(entry.mtime, resolution, Duration::ZERO), "{found:?} is not {:?}", entry.mtime);
        seen.push(found);
    }
    seen.dedup();
    assert_eq!(seen.len(), 4, "the resolution is coarser than `AttributeCaps::mtime_resolution` says");
    if resolution <= Duration::from_nanos(1) {
        f.put_at("time", b"x", WHEN);
        assert_eq!(f.stat("time").mtime, WHEN);
    }
}

/// Granted, they are set at the commit and by `set_meta`, which takes away those that the entry lacks.
/// A file system may still refuse some: then it says so.
pub fn extended_attributes_survive(f: &Fixture) {
    let with = |path: &str, names: &[&[u8]]| {
        let mut entry = file(name(path), 5);
        let pair = |name: &&[u8]| (Box::from(*name), [b"value of ", *name].concat().into());
        entry.xattrs = Some(Box::new(names.iter().map(pair).collect()));
        entry.have = entry.have.with(MetaMask::XATTR);
        entry
    };
    let keep = MetaMask::XATTR.with(MetaMask::MTIME);
    let check = |landed: WriteOutcome, wanted: &Entry| {
        if !f.caps().attributes.sets.has(MetaMask::XATTR) {
            return assert!(landed.refused.has(MetaMask::XATTR), "not kept and not refused");
        }
        if landed.refused.has(MetaMask::XATTR) {
            return;
        }
        let mut found = [Entry::bare(wanted.name.clone(), Kind::File)];
        for outcome in f.another().read_xattrs(&mut found, MetaMask::XATTR) {
            ok(outcome);
        }
        let found = found[0].xattrs.as_ref().expect("they were read");
        let found: Vec<_> = found.iter().filter(|(name, _)| name.starts_with(b"user.")).collect();
        assert_eq!(found, wanted.xattrs.as_ref().expect("made so").iter().collect::<Vec<_>>());
        let stat = f.stat(wanted.name.path());
        assert!(stat.mtime.same(wanted.mtime, f.caps().attributes.mtime_resolution, Duration::ZERO), "the time is set last");
        let other = f.another();
        let source = ok(other.open(&stat, false));
        assert!(ok(source.xattrs(MetaMask::XATTR)).iter().any(|(name, _)| &**name == b"user.a"));
    };
    let entry = with("x", &[b"user.a", b"user.b"]);
    let spec = Spec { keep, ..spec(&entry, f.chunk()) };
    check(ok(write(&*f.store, &entry, &spec, b"12345")), &entry);
    let entry = with("x", &[b"user.a", b"user.c"]);
    check(ok(set(&*f.store, &entry, keep)), &entry);
    let entry = with("y", &[b"user.a"]);
    let mut one = bundle(vec![(entry.clone(), b"12345".to_vec())], true);
    one.keep = keep;
    f.store.put_bundle(&mut one);
    check(landed(&one.items[0]), &entry);
}

/// One that is absent fails alone.
pub fn attributes_of_what_is_absent_fail(f: &Fixture) {
    if f.caps().attributes.sets.is_empty() {
        return;
    }
    f.put("here", b"x");
    let (none, here) = (file(name("none"), 1), file(name("here"), 1));
    let spec = |entry: &'_ Entry| -> (haul_core::entry::Name, Entry) { (entry.name.clone(), entry.clone()) };
    let all = [spec(&none), spec(&here)];
    let specs: Vec<_> = all
        .iter()
        .map(|(name, entry)| haul_core::store::MetaSpec { name, entry, keep: f.caps().attributes.sets.and(MetaMask::MTIME) })
        .collect();
    let mut outcomes = f.store.set_meta(&specs);
    assert_eq!(outcomes.len(), 2);
    ok(outcomes.remove(1));
    fails(outcomes.remove(0), &[ErrorKind::NotFound], &none.name);
}
