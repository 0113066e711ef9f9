use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::UNIX_EPOCH;

use haul_local::{Local, Options};

use super::*;

struct World {
    dir: tempfile::TempDir,
    source: Source,
    cancel: Cancel,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("src");
        fs::create_dir_all(tree.join("d/empty")).unwrap();
        fs::write(tree.join("a"), b"content").unwrap();
        fs::write(tree.join("d/b"), b"more content").unwrap();
        fs::write(tree.join("zero"), b"").unwrap();
        fs::hard_link(tree.join("a"), tree.join("again")).unwrap();
        symlink("a", tree.join("link")).unwrap();
        fs::set_permissions(tree.join("a"), fs::Permissions::from_mode(0o640)).unwrap();
        for name in ["a", "d/b", "zero"] {
            let set = File::options().write(true).open(tree.join(name)).unwrap().set_modified(UNIX_EPOCH + Duration::new(1_000_000, 5));
            set.unwrap();
        }
        let store = Local::open(&tree, Options::default()).unwrap();
        let cancel = Cancel::default();
        let source = Source::read(&store, None, b"src", 2, &cancel).unwrap();
        World { dir, source, cancel }
    }

    /// Runs a script, `$1` being the source and `$2` where its copy goes, and looks at what it made.
    fn after(&self, script: &str) -> verification::Verification {
        let copy = self.dir.path().join("copy");
        fs::create_dir(&copy).unwrap();
        let done =
            std::process::Command::new("sh").args(["-c", script, "sh"]).arg(self.dir.path().join("src")).arg(&copy).status().unwrap();
        assert!(done.success(), "{script}");
        let verification = verification::check(&self.source, &Local::open(&copy, Options::default()).unwrap(), 2, &self.cancel).unwrap();
        fs::remove_dir_all(&copy).unwrap();
        verification
    }
}

#[test]
fn a_right_copy_is_right_and_says_what_came_along() {
    let world = World::new();
    let all = world.after("cp -a $1 $2/");
    assert_eq!((all.wrong, all.kept.as_str()), (0, "mode, mtime, links, hard links"), "{all:?}");
    let seconds = world.after("tar -C $1/.. -cf - src | tar -C $2 -xpf -");
    assert_eq!((seconds.wrong, seconds.kept.as_str()), (0, "mode, mtime to 1 s, links, hard links"), "{seconds:?}");
    let plain = world.after("umask 022; cp -r $1 $2/; chmod 600 $2/src/a");
    assert_eq!((plain.wrong, plain.kept.as_str()), (0, "links"), "{plain:?}");
    assert_eq!(world.after("cp -rL $1 $2/; chmod 600 $2/src/a").kept, "links followed");
    assert_eq!(world.after("cp -a $1 $2/; rm $2/src/link").kept, "mode, mtime, links left out, hard links");
}

#[test]
fn every_difference_of_a_copy_is_named() {
    let world = World::new();
    for (script, telling) in [
        ("cp -a $1 $2/; rm $2/src/d/b", "src/d/b: missing"),
        ("cp -a $1 $2/; printf Content > $2/src/a", "different content"),
        ("cp -a $1 $2/; printf x >> $2/src/zero", "src/zero: 1 bytes instead of 0"),
        ("cp -a $1 $2/; rmdir $2/src/d/empty", "src/d/empty: missing"),
        ("cp -a $1 $2/; rm $2/src/zero; mkdir $2/src/zero", "instead of"),
        ("cp -a $1 $2/; touch $2/src/extra", "1 names that the source does not have"),
        ("cp -a $1 $2/; touch $2/beside", "beside: an unexpected name"),
        ("cp -a $1 $2/; ln -sf d $2/src/link", "a symlink with another target"),
        ("cp -a $1/. $2/", "missing"),
        ("true", "missing"),
    ] {
        let verification = world.after(script);
        assert!(verification.wrong > 0 && verification.named.iter().any(|line| line.contains(telling)), "{script}: {verification:?}");
    }
}

#[test]
fn only_names_with_the_prefix_and_a_number_are_copies() {
    let prefix = "haul-bench-1a-";
    assert!(is_copy(prefix, b"haul-bench-1a-12"));
    for other in ["thesis", prefix, "haul-bench-1a-1a", "haul-bench-1a-thesis"] {
        assert!(!is_copy(prefix, other.as_bytes()), "{other}");
    }
}
