//! Modes, owners, ACLs, extended attributes, times.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use haul_core::entry::{Entry, Kind, MetaMask, Name};
use haul_core::store::{MetaSpec, Store};
use haul_local::{Local, Options};
use rustix::fs::{XattrFlags, getxattr, setxattr};

use super::{BOTH, Place, as_nobody, is_root, landed, run, write};

const ACL: MetaMask = MetaMask(BOTH.0 | MetaMask::ACL.0);
const XATTR: MetaMask = MetaMask(BOTH.0 | MetaMask::XATTR.0);
const OWNERS: MetaMask = MetaMask(BOTH.0 | MetaMask::OWNER.0 | MetaMask::GROUP.0);

fn acl(path: &std::path::Path) -> String {
    run("getfacl", &["-cp", path.to_str().unwrap()])
}

fn attribute(path: &std::path::Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 100];
    let length = getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

fn set_attribute(path: &std::path::Path, name: &str, value: &str) {
    setxattr(path, name, value.as_bytes(), XattrFlags::empty()).unwrap();
}

#[test]
fn an_inherited_default_acl_widens_nothing() {
    let place = Place::new();
    run("setfacl", &["-d", "-m", "u:12345:rwx,g:12345:rwx,o::rwx", place.to.to_str().unwrap()]);
    write(&place.from.join("a"), "secret", 0o640);
    fs::create_dir(place.from.join("d")).unwrap();
    fs::set_permissions(place.from.join("d"), fs::Permissions::from_mode(0o750)).unwrap();
    run("mkfifo", &["-m", "640", place.from.join("p").to_str().unwrap()]);
    let plain = "user::rw-\ngroup::r--\nother::---\n\n";
    // It acts where ACLs are not kept, as far as the file's own mode goes.
    let acting =
        "user::rw-\nuser:12345:rwx\t#effective:r--\ngroup::rwx\t#effective:r--\ngroup:12345:rwx\t#effective:r--\nmask::r--\nother::---\n\n";
    for (keep, plain) in [(MetaMask::MTIME, acting), (BOTH, acting), (ACL, plain)] {
        let entry = place.entry("a", keep.with(MetaMask::BASIC));
        for direct in [true, false] {
            let _absent = fs::remove_file(place.to.join("a"));
            landed(&place.bundle(vec![entry.clone()], keep, direct));
            assert_eq!(acl(&place.to.join("a")), plain, "{keep:?} {direct}");
        }
        fs::remove_file(place.to.join("a")).unwrap();
        place.copy(&entry, keep);
        assert_eq!(acl(&place.to.join("a")), plain, "{keep:?} by chunks");
        let pipe = place.entry("p", keep);
        place.target.make_node(&pipe.name, &pipe, keep).unwrap();
        assert_eq!(acl(&place.to.join("p")), plain, "{keep:?} fifo");
    }
    let dir = place.root.child(b"d");
    let entry = place.entry("d", ACL);
    assert!(place.target.make_dirs(&[(&dir, 0o750)]).remove(0).unwrap());
    let mode = fs::metadata(place.to.join("d")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else gets in before it is known whether the ACL stays");
    let spec = MetaSpec { name: &Name::of(&dir), entry: &entry, keep: ACL };
    place.target.set_meta(&[spec]).remove(0).unwrap();
    assert_eq!(acl(&place.to.join("d")), "user::rwx\ngroup::r-x\nother::---\n\n");
}

#[test]
fn acls_are_set_and_those_that_the_source_lacks_are_cleared() {
    let place = Place::new();
    write(&place.from.join("a"), "x", 0o640);
    run("setfacl", &["-m", "u:12345:r", place.from.join("a").to_str().unwrap()]);
    let with = place.entry("a", ACL);
    landed(&place.bundle(vec![with.clone()], ACL, true));
    assert_eq!(acl(&place.to.join("a")), acl(&place.from.join("a")));
    run("setfacl", &["-b", place.from.join("a").to_str().unwrap()]);
    let without = place.entry("a", ACL);
    let spec = |entry| MetaSpec { name: &with.name, entry, keep: ACL };
    place.target.set_meta(&[spec(&without)]).remove(0).unwrap();
    assert_eq!(acl(&place.to.join("a")), "user::rw-\ngroup::r--\nother::---\n\n");
    place.target.set_meta(&[spec(&with)]).remove(0).unwrap();
    assert!(acl(&place.to.join("a")).contains("user:12345:r--"));

    // A default ACL that arrives with a directory does not spread to what is made there afterwards.
    fs::create_dir(place.from.join("d")).unwrap();
    run("setfacl", &["-d", "-m", "u:12345:rwx", place.from.join("d").to_str().unwrap()]);
    let dir = place.root.child(b"d");
    place.target.make_dirs(&[(&dir, 0o755)]).remove(0).unwrap();
    write(&place.from.join("d/b"), "x", 0o600);
    run("setfacl", &["-b", place.from.join("d/b").to_str().unwrap()]);
    fs::set_permissions(place.from.join("d/b"), fs::Permissions::from_mode(0o660)).unwrap();
    let inner = place.entry("d/b", BOTH);
    landed(&place.bundle(vec![Entry { name: Name::new(&dir, b"b"), ..inner.clone() }], BOTH, true));
    let entry = place.entry("d", ACL);
    let set = place.target.set_meta(&[MetaSpec { name: &Name::of(&dir), entry: &entry, keep: ACL }]);
    assert!(set.iter().all(Result::is_ok), "{set:?}");
    assert!(acl(&place.to.join("d")).contains("default:user:12345:rwx"));
    let mut late = place.source.stat(&inner.name, BOTH).unwrap();
    fs::copy(place.from.join("d/b"), place.from.join("d/c")).unwrap();
    run("setfacl", &["-b", place.from.join("d/c").to_str().unwrap()]);
    late.name = Name::new(&dir, b"c");
    late = place.source.stat(&late.name, ACL).unwrap();
    landed(&place.bundle(vec![late], ACL, true));
    assert_eq!(acl(&place.to.join("d/c")), "user::rw-\ngroup::r--\nother::---\n\n");
}

#[test]
fn setuid_is_kept_only_with_its_owner() {
    let place = Place::new();
    let path = place.from.join("a");
    write(&path, "x", 0o755);
    if is_root() {
        std::os::unix::fs::chown(&path, Some(12345), Some(23456)).unwrap();
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
    let entry = place.entry("a", BOTH);
    let all = OWNERS.with(MetaMask::SETID);
    let mode = || fs::metadata(place.to.join("a")).unwrap().mode() & 0o7777;
    for direct in [true, false] {
        landed(&place.bundle(vec![entry.clone()], OWNERS, direct));
        assert_eq!(mode(), 0o755, "without SETID");
        if is_root() {
            let bundle = place.bundle(vec![entry.clone()], all, direct);
            assert!(landed(&bundle)[0].refused.is_empty());
            let meta = fs::metadata(place.to.join("a")).unwrap();
            assert_eq!((mode(), meta.uid(), meta.gid()), (0o6755, 12345, 23456));
            assert_eq!(landed(&bundle)[0].ino, meta.ino());
            landed(&place.bundle(vec![entry.clone()], BOTH.with(MetaMask::SETID), direct));
            assert_eq!(mode(), 0o755, "setuid root would be more than the source had");
            fs::remove_file(place.to.join("a")).unwrap();
            let nobody = as_nobody(|| place.bundle(vec![entry.clone()], all, direct));
            assert_eq!(landed(&nobody)[0].refused, MetaMask::OWNER.with(MetaMask::GROUP).with(MetaMask::SETID));
            assert_eq!(mode(), 0o755);
        }
        fs::remove_file(place.to.join("a")).unwrap();
    }
}

#[test]
fn extended_attributes_are_kept_and_stale_ones_removed() {
    let place = Place::new();
    for name in ["a", "b"] {
        write(&place.from.join(name), "x", 0o444);
    }
    set_attribute(&place.from.join("a"), "user.long", &"v".repeat(90));
    set_attribute(&place.from.join("a"), "user.haul", "value");
    let (a, b) = (place.entry("a", XATTR), place.entry("b", XATTR));
    assert_eq!(a.xattrs.as_ref().unwrap().len(), 2);
    assert!(a.have.has(MetaMask::XATTR) && b.xattrs.as_ref().unwrap().is_empty());
    as_nobody(|| {
        let _ = fs::remove_file(place.to.join("a"));
        landed(&place.bundle(vec![a.clone(), b.clone()], XATTR, true));
    });
    let to = place.to.join("a");
    assert_eq!(attribute(&to, "user.haul").unwrap(), b"value");
    assert_eq!(fs::metadata(&to).unwrap().mode() & 0o777, 0o444);
    // To a file that its owner may not write, attributes are set all the same.
    let stale = as_nobody(|| {
        let target = Local::open(&place.to, Options::default()).unwrap();
        target.set_meta(&[MetaSpec { name: &a.name, entry: &b, keep: XATTR }]).remove(0).unwrap()
    });
    assert!(stale.refused.is_empty());
    assert_eq!(attribute(&to, "user.haul"), None);
    assert_eq!(fs::metadata(&to).unwrap().mode() & 0o777, 0o444);
    let mut plain = [Entry::bare(a.name.clone(), Kind::File)];
    assert!(place.source.read_xattrs(&mut plain, XATTR).remove(0).is_ok());
    assert_eq!(plain[0].xattrs, a.xattrs);
    assert_eq!(place.source.open(&a, false).unwrap().xattrs(XATTR).unwrap(), **a.xattrs.as_ref().unwrap());
}

#[test]
fn root_keeps_trusted_attributes_and_capabilities_but_not_where_lustre_keeps_its_data() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let path = place.from.join("a");
    write(&path, "x", 0o755);
    // VFS_CAP_REVISION_2, cap_net_raw permitted.
    let capability = [0x01, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    setxattr(&path, "security.capability", &capability, XattrFlags::empty()).unwrap();
    set_attribute(&path, "trusted.haul", "t");
    set_attribute(&path, "trusted.lov", "layout");
    std::os::unix::fs::chown(&path, Some(12345), Some(23456)).unwrap();
    setxattr(&path, "security.capability", &capability, XattrFlags::empty()).unwrap();
    let keep = OWNERS.with(MetaMask::XATTR);
    for direct in [true, false] {
        landed(&place.bundle(vec![place.entry("a", keep)], keep, direct));
        assert_eq!(attribute(&place.to.join("a"), "security.capability").unwrap(), capability);
        assert_eq!(attribute(&place.to.join("a"), "trusted.haul").unwrap(), b"t");
        assert_eq!(attribute(&place.to.join("a"), "trusted.lov"), None);
        fs::remove_file(place.to.join("a")).unwrap();
    }
}

#[test]
fn directories_keep_an_inherited_setgid_bit_unless_the_group_was_kept() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    std::os::unix::fs::chown(&place.to, None, Some(23456)).unwrap();
    fs::set_permissions(&place.to, fs::Permissions::from_mode(0o2777)).unwrap();
    fs::create_dir(place.from.join("d")).unwrap();
    fs::set_permissions(place.from.join("d"), fs::Permissions::from_mode(0o1705)).unwrap();
    let dir = place.root.child(b"d");
    assert!(place.target.make_dirs(&[(&dir, 0o005)]).remove(0).unwrap());
    assert!(!place.target.make_dirs(&[(&dir, 0o005)]).remove(0).unwrap());
    let entry = place.entry("d", BOTH);
    let name = Name::of(&dir);
    let set = |keep| {
        place.target.set_meta(&[MetaSpec { name: &name, entry: &entry, keep }]).remove(0).unwrap();
        let meta = fs::metadata(place.to.join("d")).unwrap();
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (entry.mtime.secs, i64::from(entry.mtime.nanos)));
        (meta.mode() & 0o7777, meta.gid())
    };
    assert_eq!(fs::metadata(place.to.join("d")).unwrap().mode() & 0o7777, 0o2705);
    assert_eq!(set(BOTH), (0o3705, 23456));
    assert_eq!(set(OWNERS.with(MetaMask::SETID)), (0o1705, 0));
}

#[test]
fn the_mask_of_the_process_takes_nothing_away() {
    let place = Place::new();
    write(&place.from.join("a"), "x", 0o666);
    landed(&place.bundle(vec![place.entry("a", BOTH)], BOTH, true));
    assert_eq!(fs::metadata(place.to.join("a")).unwrap().mode() & 0o777, 0o666);
    place.target.make_dirs(&[(&place.root.child(b"d"), 0o077)]).remove(0).unwrap();
    assert_eq!(fs::metadata(place.to.join("d")).unwrap().mode() & 0o777, 0o777);
}

#[test]
fn symlinks_get_their_own_owner_and_time_and_their_target_gets_nothing() {
    let place = Place::new();
    write(&place.base.path().join("outside"), "x", 0o600);
    let before = fs::metadata(place.base.path().join("outside")).unwrap();
    std::os::unix::fs::symlink("../outside", place.from.join("l")).unwrap();
    run("touch", &["-h", "-d", "2001-02-03 04:05:06.789", place.from.join("l").to_str().unwrap()]);
    let keep = OWNERS.with(MetaMask::XATTR).with(MetaMask::ACL);
    if is_root() {
        std::os::unix::fs::lchown(place.from.join("l"), Some(12345), Some(23456)).unwrap();
        rustix::fs::lsetxattr(place.from.join("l"), "trusted.haul", b"t", XattrFlags::empty()).unwrap();
    }
    let entry = place.entry("l", keep);
    assert_eq!(entry.target.as_deref(), Some(&b"../outside"[..]));
    for replaced in [false, true] {
        if replaced {
            fs::remove_file(place.to.join("l")).unwrap();
            write(&place.to.join("l"), "file", 0o644);
        }
        let landed = place.target.make_node(&entry.name, &entry, keep).unwrap();
        let meta = fs::symlink_metadata(place.to.join("l")).unwrap();
        assert!(landed.refused.is_empty() && landed.ino == meta.ino());
        assert_eq!((meta.uid(), meta.gid(), meta.mtime(), meta.mtime_nsec()), (entry.uid, entry.gid, entry.mtime.secs, 789_000_000));
        if is_root() {
            let mut value = [0; 9];
            assert_eq!(rustix::fs::lgetxattr(place.to.join("l"), "trusted.haul", &mut value[..]), Ok(1));
        }
        place.target.set_meta(&[MetaSpec { name: &entry.name, entry: &entry, keep }]).remove(0).unwrap();
    }
    let after = fs::metadata(place.base.path().join("outside")).unwrap();
    assert_eq!((before.mode(), before.mtime_nsec(), before.uid()), (after.mode(), after.mtime_nsec(), after.uid()));
    assert_eq!(place.left(), ["l"]);
}

#[test]
fn a_refused_owner_is_no_error() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    write(&place.from.join("a"), "x", 0o644);
    let entry = place.entry("a", OWNERS);
    as_nobody(|| {
        let target = Local::open(&place.to, Options::default()).unwrap();
        let mut bundle = haul_core::bundle::Bundle { keep: OWNERS, direct: true, ..Default::default() };
        bundle.push(entry);
        place.source.get_bundle(&mut bundle);
        target.put_bundle(&mut bundle);
        assert_eq!(landed(&bundle)[0].refused, MetaMask::OWNER.with(MetaMask::GROUP));
    });
    assert_eq!(fs::metadata(place.to.join("a")).unwrap().uid(), 65534);
}
