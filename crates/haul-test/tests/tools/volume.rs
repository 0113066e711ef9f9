//! Volumes appear, limit, and vanish.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use haul_test::volume::{Kind, Volume};

fn kind_at(path: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().rfind(|line| line.split(' ').nth(1) == path.to_str()).map(|line| line.split(' ').nth(2).unwrap().to_owned())
}

#[test]
fn volumes_mount_and_vanish() {
    let kinds = [
        ("ext4", Kind::Ext4 { mount_options: String::new() }),
        ("xfs", Kind::Xfs),
        ("btrfs", Kind::Btrfs { quota: None }),
        ("tmpfs", Kind::Tmpfs { inodes: None }),
    ];
    for (name, kind) in kinds {
        let volume = Volume::new(&kind, 320 << 20).unwrap();
        let path = volume.path().to_owned();
        assert_eq!(kind_at(&path).as_deref(), Some(name));
        fs::write(path.join("file"), b"content").unwrap();
        volume.sync().unwrap();
        drop(volume);
        assert_eq!(kind_at(&path), None, "{name}");
        assert!(!path.parent().unwrap().exists(), "{name}: its directory is gone");
    }
}

#[test]
fn a_busy_volume_goes_all_the_same() {
    let volume = Volume::tmpfs(1 << 20).unwrap();
    let path = volume.path().to_owned();
    let open = fs::File::create(path.join("open")).unwrap();
    drop(volume);
    assert_eq!(kind_at(&path), None);
    drop(open);
}

#[test]
fn limits_limit() {
    let full = |volume: &Volume, size: usize| fs::write(volume.path().join("large"), vec![1; size]).map_err(|error| error.kind());
    assert_eq!(full(&Volume::tmpfs(1 << 20).unwrap(), 2 << 20), Err(ErrorKind::StorageFull));

    let few = Volume::new(&Kind::Tmpfs { inodes: Some(5) }, 1 << 20).unwrap();
    let made = (0..10).take_while(|number| fs::write(few.path().join(number.to_string()), b"").is_ok()).count();
    assert!((1..10).contains(&made), "{made} files under a limit of 5 inodes");

    let quota = Volume::new(&Kind::Btrfs { quota: Some(4 << 20) }, 200 << 20).unwrap();
    assert_eq!(full(&quota, 32 << 20), Err(ErrorKind::QuotaExceeded));

    let read_only = Volume::new(&Kind::Ext4 { mount_options: "ro".to_owned() }, 16 << 20).unwrap();
    assert_eq!(full(&read_only, 1), Err(ErrorKind::ReadOnlyFilesystem));
}

#[test]
fn a_refusal_says_what_the_program_said() {
    let error = Volume::xfs(1 << 20).unwrap_err();
    assert!(error.to_string().contains("mkfs.xfs"), "{error}");
}
