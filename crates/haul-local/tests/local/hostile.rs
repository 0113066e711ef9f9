//! Names and links that mean harm.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use haul_core::ErrorKind;
use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::{Entry, Kind, MetaMask, Name};
use haul_core::store::{MetaSpec, Spec, Store, System};
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{BOTH, Place, names_in, receipt, write};

#[test]
fn a_name_of_more_than_one_component_reaches_no_system_call() {
    let place = Place::new();
    write(&place.base.path().join("outside"), "x", 0o644);
    for leaf in ["../outside", "..", ".", "a/b", "a\0b"] {
        for name in [Name::new(&place.root, leaf.as_bytes()), Name::new(&place.root.child(leaf.as_bytes()), b"x")] {
            let mut entry = Entry::bare(name.clone(), Kind::File);
            entry.have = BOTH.with(MetaMask::BASIC);
            let spec = Spec { entry: &entry, keep: BOTH, chunk: 1, in_place: true, sync: false };
            let good = place.name("good");
            let mut bundle = Bundle::default();
            bundle.push(entry.clone());
            place.source.get_bundle(&mut bundle);
            let read = bundle.items.remove(0).outcome;
            bundle.push(entry.clone());
            bundle.items[0].outcome = Outcome::Read;
            place.target.put_bundle(&mut bundle);
            let written = bundle.items.remove(0).outcome;
            let fifo = Entry { kind: Kind::Fifo, ..entry.clone() };
            let errors = [
                place.target.stat(&name, BOTH).map(drop).err(),
                place.target.open(&entry, true).map(drop).err(),
                place.target.create(&name, &spec).map(drop).err(),
                place.target.remove(&[entry.clone()]).remove(0).err(),
                place.target.rename(&name, &good, true).err(),
                place.target.rename(&good, &name, true).err(),
                place.target.make_hard_link(&name, &good).err(),
                place.target.make_hard_link(&good, &name).err(),
                place.target.make_node(&name, &fifo, BOTH).map(drop).err(),
                place.target.make_dirs(&[(&name.dir.child(&name.leaf), 0o755)]).remove(0).map(drop).err(),
                place.target.set_meta(&[MetaSpec { name: &name, entry: &entry, keep: BOTH }]).remove(0).map(drop).err(),
                place.target.read_xattrs(&mut [entry.clone()], MetaMask::XATTR).remove(0).err(),
                place.target.sync(&[&name]).err(),
                place.target.reopen(&name).map(drop).err(),
                if let Outcome::Failed(e) = read { Some(e) } else { None },
                if let Outcome::Failed(e) = written { Some(e) } else { None },
            ];
            for (call, error) in errors.iter().enumerate() {
                assert_eq!(error.as_ref().map(haul_core::Error::kind), Some(ErrorKind::BadName), "{leaf:?}, call {call}");
            }
        }
    }
    assert!(place.left().is_empty() && names_in(&place.from).is_empty());
}

/// While bundles and chunks are written and read, the directory is swapped for a symlink to another one and back.
/// Nothing is ever made there, changed there, or read from there.
#[test]
fn a_directory_swapped_for_a_link_leads_nowhere() {
    let place = Place::new();
    let trap = place.base.path().join("trap");
    fs::create_dir(&trap).unwrap();
    write(&trap.join("0"), "the trap's own", 0o600);
    for side in [&place.from, &place.to] {
        fs::create_dir(side.join("d")).unwrap();
        symlink(&trap, side.join("swap")).unwrap();
    }
    for i in 0..8 {
        write(&place.from.join(format!("d/{i}")), "from the tree!", 0o644);
    }
    let stop = AtomicBool::new(false);
    let swaps = AtomicU32::new(0);
    let (mut done, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for side in [&place.from, &place.to] {
                    renameat_with(CWD, side.join("d"), CWD, side.join("swap"), RenameFlags::EXCHANGE).unwrap();
                }
                swaps.fetch_add(1, Ordering::Relaxed);
            }
        });
        for round in 0..3000 {
            // A node of its own each time, so that the directory is opened anew.
            let dir = place.root.child(b"d");
            let mut bundle = Bundle { keep: BOTH, direct: round % 2 == 0, ..Bundle::default() };
            for i in 0..8 {
                bundle.push(Entry::bare(Name::new(&dir, i.to_string().as_bytes()), Kind::File));
            }
            place.source.get_bundle(&mut bundle);
            assert!(!String::from_utf8_lossy(&bundle.data).contains("trap"), "read through the link");
            place.target.forget(&dir);
            place.target.put_bundle(&mut bundle);
            for item in &bundle.items {
                match &item.outcome {
                    Outcome::Written(_) => done += 1,
                    Outcome::Failed(e) if matches!(e.kind(), ErrorKind::Changed | ErrorKind::Vanished | ErrorKind::NotFound) => {
                        refused += 1
                    }
                    outcome => panic!("{outcome:?}"),
                }
            }
            place.target.forget(&dir);
            let name = Name::new(&dir, b"chunked");
            let mut entry = Entry::bare(name.clone(), Kind::File);
            (entry.have, entry.size) = (BOTH.with(MetaMask::BASIC), 3);
            let spec = Spec { entry: &entry, keep: BOTH, chunk: 3, in_place: round % 3 == 0, sync: false };
            if let Ok(sink) = place.target.create(&name, &spec) {
                sink.write(0..3, &mut &b"abc"[..]).unwrap();
                sink.commit(&entry, &[receipt(0)]).unwrap();
            }
            place.target.forget(&dir);
            let _either_way =
                place.target.set_meta(&[MetaSpec { name: &Name::of(&dir), entry: &Entry { kind: Kind::Dir, ..entry }, keep: BOTH }]);
            let _either_way = place.target.make_dirs(&[(&dir.child(b"sub"), 0o755)]);
            let _either_way = place.target.remove(&[Entry::bare(Name::new(&dir, b"0"), Kind::Unknown)]);
            place.source.forget(&dir);
            place.target.forget(&dir);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(names_in(&trap), ["0"], "after {} swaps", swaps.load(Ordering::Relaxed));
    assert_eq!(fs::read(trap.join("0")).unwrap(), b"the trap's own");
    assert!(done > 0 && refused > 0, "the race was run: {done} landed, {refused} refused");
}
