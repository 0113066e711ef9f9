//! The comparer finds every planted difference, and only that.

use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;

use haul_test::compare::{What, assert_same, differences, same};
use haul_test::tree::{Tree, set_mtime};
use haul_test::volume::Volume;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, makedev, mknodat};

use crate::{copy, directory};

const SPEC: &str = "a=1K b=300K c=> d/x=10 d/e/ l->a s=~8M@4M+4K p|";

type Plant = fn(&Path);

#[test]
fn each_planted_difference_is_found() {
    // On ext4: holes and attributes are its own there, whatever the temporary directory is on.
    let volume = Volume::ext4(64 << 20).expect("ext4");
    let table: &[(&str, &str, Plant)] = &[
        ("a", "missing", |t| fs::remove_file(t.join("a")).unwrap()),
        ("d/y", "extra", |t| fs::write(t.join("d/y"), b"").unwrap()),
        ("d/x", "kind", |t| {
            fs::remove_file(t.join("d/x")).unwrap();
            symlink("a", t.join("d/x")).unwrap();
        }),
        ("p", "kind", |t| {
            fs::remove_file(t.join("p")).unwrap();
            fs::write(t.join("p"), b"").unwrap();
        }),
        ("a", "size", |t| fs::write(t.join("a"), b"short").unwrap()),
        ("b", "bytes", |t| flip(&t.join("b"), 299 << 10)),
        ("s", "bytes", |t| flip(&t.join("s"), 4 << 20)),
        ("s", "bytes", |t| flip(&t.join("s"), 1 << 20)),
        ("l", "target", |t| {
            fs::remove_file(t.join("l")).unwrap();
            symlink("b", t.join("l")).unwrap();
        }),
        ("n", "device", |t| {
            fs::remove_file(t.join("n")).unwrap();
            mknodat(CWD, t.join("n"), FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 5)).unwrap();
        }),
        ("a", "mode", |t| fs::set_permissions(t.join("a"), fs::Permissions::from_mode(0o4644)).unwrap()),
        ("d", "mode", |t| fs::set_permissions(t.join("d"), fs::Permissions::from_mode(0o700)).unwrap()),
        ("l", "owner", |t| lchown(t.join("l"), Some(1), None).unwrap()),
        ("d/e", "owner", |t| lchown(t.join("d/e"), None, Some(7)).unwrap()),
        ("", "owner", |t| lchown(t, Some(9), None).unwrap()),
        ("a", "mtime", |t| set_mtime(&t.join("a"), 1_000_000, 1).unwrap()),
        ("d/e", "mtime", |t| set_mtime(&t.join("d/e"), 1_000_000, 0).unwrap()),
        ("l", "mtime", |t| set_mtime(&t.join("l"), 1_000_000, 0).unwrap()),
        ("k", "hard link", |t| {
            fs::remove_file(t.join("h")).unwrap();
            fs::copy(t.join("k"), t.join("h")).unwrap();
        }),
        ("d/z", "hard link", |t| {
            fs::remove_file(t.join("d/z")).unwrap();
            fs::hard_link(t.join("d/x"), t.join("d/z")).unwrap();
        }),
        ("s", "holes", |t| {
            let bytes = fs::read(t.join("s")).unwrap();
            fs::write(t.join("s"), bytes).unwrap();
        }),
        ("a", "xattr", |t| lsetxattr(t.join("a"), "user.new", b"1", XattrFlags::empty()).unwrap()),
        ("d", "xattr", |t| lsetxattr(t.join("d"), "user.there", b"2", XattrFlags::empty()).unwrap()),
        ("a", "xattr", |t| rustix::fs::lremovexattr(t.join("a"), "user.gone").unwrap()),
        ("", "xattr", |t| lsetxattr(t, "trusted.top", b"", XattrFlags::empty()).unwrap()),
    ];
    for (number, (path, property, plant)) in table.iter().enumerate() {
        let first = volume.path().join(format!("{number}a"));
        let second = volume.path().join(format!("{number}b"));
        let tree = Tree::new(&first).unwrap();
        tree.build(SPEC.replace("c=>", "k=20 h=>k d/z=10").as_str()).unwrap();
        mknodat(CWD, tree.join("n"), FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 3)).unwrap();
        lsetxattr(tree.join("d"), "user.there", b"1", XattrFlags::empty()).unwrap();
        lsetxattr(tree.join("a"), "user.gone", b"1", XattrFlags::empty()).unwrap();
        copy(&first, &second);
        assert_same(&first, &second, What::ALL);
        plant(&second);
        let found = differences(&first, &second, What::ALL).unwrap();
        assert!(
            found.iter().any(|difference| difference.path == path.as_bytes() && difference.property == *property),
            "planted {property} at {path:?}, found {found:#?}"
        );
        // Further lines may only come from what the planting itself changed: times, links, and owners of names made anew.
        let bystanders: Vec<_> =
            found.iter().filter(|d| d.path != path.as_bytes() && d.property != "mtime" && d.property != "hard link").collect();
        assert!(bystanders.is_empty(), "planted {property} at {path:?}, found also {bystanders:#?}");
        fs::remove_dir_all(&first).unwrap();
        fs::remove_dir_all(&second).unwrap();
    }
}

#[test]
fn what_is_not_asked_is_not_told() {
    let base = directory();
    let first = Tree::new(base.path().join("a")).unwrap();
    first.build(SPEC.replace("c=>", "").as_str()).unwrap();
    copy(first.path(), &base.path().join("b"));
    let second = Tree::new(base.path().join("b")).unwrap();
    second.build("a:0600").unwrap();
    second.set_mtime("a", 5, 5).unwrap();
    assert!(same(first.path(), second.path(), What::CONTENT).unwrap());
    assert!(!same(first.path(), second.path(), What::USUAL).unwrap());
    first.set_mtime("a", 5, 900_000_000).unwrap();
    let coarse = What { mtime: Some(1_000_000_000), directory_mtime: false, ..What::CONTENT };
    assert!(same(first.path(), second.path(), coarse).unwrap());
    assert!(!same(first.path(), second.path(), What { mtime: Some(1), ..coarse }).unwrap());
}

#[test]
fn files_compare_too_and_errors_name_the_path() {
    let base = directory();
    let tree = Tree::new(base.path()).unwrap();
    tree.build("a=10 b=10 c=10").unwrap();
    fs::copy(tree.join("a"), tree.join("b")).unwrap();
    assert!(same(&tree.join("a"), &tree.join("b"), What::CONTENT).unwrap());
    assert!(!same(&tree.join("a"), &tree.join("c"), What::CONTENT).unwrap());
    let error = same(&tree.join("a"), &tree.join("absent"), What::CONTENT).unwrap_err();
    assert!(error.to_string().contains("absent"), "{error}");
}

fn flip(path: &Path, offset: u64) {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
}
