//! Trees are what their text says, and the same each time.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use haul_test::compare::{What, assert_same, same};
use haul_test::content;
use haul_test::nasty;
use haul_test::nobody::{NobodyProgram, give};
use haul_test::tree::{Tree, file_seed, flat, spread};
use haul_test::volume::Volume;

use crate::{copy, directory};

#[test]
fn the_text_is_made() {
    let base = directory();
    let tree = Tree::new(base.path()).unwrap();
    tree.build("src: a=1K b=0 d/c=9000:0600 e/:0750 l->a h=>a p| s=~1G@1M+4K x:0400").unwrap();
    let stat = |name: &str| fs::symlink_metadata(tree.join("src").join(name)).unwrap();
    assert_eq!(stat("a").len(), 1024);
    assert_eq!(stat("b").len(), 0);
    assert_eq!((stat("d/c").len(), stat("d/c").mode() & 0o7777), (9000, 0o600));
    assert_eq!((stat("e").is_dir(), stat("e").mode() & 0o7777), (true, 0o750));
    assert_eq!(fs::read_link(tree.join("src/l")).unwrap(), Path::new("a"));
    assert_eq!(stat("h").ino(), stat("a").ino());
    assert!(stat("p").file_type().is_fifo());
    assert_eq!(stat("s").len(), 1 << 30);
    assert!(stat("s").blocks() * 512 < 1 << 20);
    assert_eq!(stat("x").mode() & 0o7777, 0o400);
    let mut wanted = vec![0; 1024];
    content::fill(file_seed(Path::new("a")), 0, &mut wanted);
    assert_eq!(fs::read(tree.join("src/a")).unwrap(), wanted);
    for bad in ["a", "a=x", "a=1:9", "s=~1M@3", "s=~"] {
        let error = tree.build(bad).unwrap_err();
        assert!(error.to_string().contains(bad), "{bad}: {error}");
    }
}

#[test]
fn a_seed_gives_one_tree() {
    let base = directory();
    for seed in [1, 2, 77] {
        let [one, two] = ["one", "two"].map(|name| Tree::new(base.path().join(format!("{name}{seed}"))).unwrap());
        one.random(seed, 60).unwrap();
        two.random(seed, 60).unwrap();
        assert_same(one.path(), two.path(), What::ALL);
    }
    assert!(!same(&base.path().join("one1"), &base.path().join("one2"), What::CONTENT).unwrap());
}

#[test]
fn bulk_trees_have_their_numbers() {
    let base = directory();
    flat(&base.path().join("flat"), 301, 650).unwrap();
    let sizes: Vec<u64> = fs::read_dir(base.path().join("flat")).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
    assert_eq!((sizes.len(), sizes.iter().all(|size| *size == 650)), (301, true));
    spread(&base.path().join("spread"), 7, 5, 10).unwrap();
    let mut counts = BTreeMap::new();
    for directory in fs::read_dir(base.path().join("spread")).unwrap() {
        let directory = directory.unwrap();
        counts.insert(directory.file_name(), fs::read_dir(directory.path()).unwrap().count());
    }
    assert_eq!((counts.len(), counts.values().all(|count| *count == 5)), (7, true));
    let first = |directory: &str| fs::read(base.path().join("spread").join(directory).join("f0000000")).unwrap();
    assert_ne!(first("d00000"), first("d00001"), "files in different directories differ");
}

#[test]
fn the_nasty_tree_is_whole_on_every_file_system() {
    let volumes = [
        ("ext4", Volume::ext4(256 << 20).unwrap()),
        ("xfs", Volume::xfs(320 << 20).unwrap()),
        ("btrfs", Volume::btrfs(256 << 20).unwrap()),
        ("tmpfs", Volume::tmpfs(256 << 20).unwrap()),
    ];
    for (name, volume) in volumes {
        let left_out = nasty::build_shallow(&volume.path().join("nasty")).unwrap();
        assert_eq!(left_out, Vec::<String>::new(), "{name}: as root nothing is left out");
        copy(&volume.path().join("nasty"), &volume.path().join("copy"));
        assert_same(&volume.path().join("nasty"), &volume.path().join("copy"), What::ALL);
        nasty::deep(&volume.path().join("nasty")).unwrap();
        assert!(!same(&volume.path().join("nasty"), &volume.path().join("copy"), What::CONTENT).unwrap());
        nasty::deep(&volume.path().join("copy")).unwrap();
        assert_same(&volume.path().join("nasty"), &volume.path().join("copy"), What { mtime: None, ..What::ALL });
    }
}

#[test]
fn nobody_is_nobody() {
    let base = directory();
    let tree = Tree::new(base.path()).unwrap();
    tree.build("secret=10:0600 own=10:0600").unwrap();
    give(base.path()).unwrap();
    give(&tree.join("own")).unwrap();
    let cat = NobodyProgram::new(Path::new("/bin/cat")).unwrap();
    assert!(cat.command().arg(tree.join("own")).output().unwrap().status.success());
    let refused = cat.command().arg(tree.join("secret")).output().unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Permission denied"));
    let id = NobodyProgram::new(Path::new("/usr/bin/id")).unwrap().command().output().unwrap();
    let id = String::from_utf8_lossy(&id.stdout).into_owned();
    assert!(id.starts_with("uid=65534") && !id.contains("(root)"), "{id}");
}
