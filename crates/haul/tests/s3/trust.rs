//! What metadata can do to whoever makes files of objects.

use std::os::unix::fs::{FileTypeExt, PermissionsExt};

use crate::support::World;

#[test]
fn devices_and_setuid_bits_come_only_from_metadata_that_is_trusted() {
    let w = World::new();
    w.put(b"in/suid", &[("x-amz-meta-mode", "104755"), ("x-amz-meta-uid", "0"), ("x-amz-meta-gid", "0")], b"#!/bin/sh\n");
    w.put(b"in/sgid", &[("x-amz-meta-mode", "102755")], b"x");
    w.put(b"in/disk", &[("x-amz-meta-mode", "60666"), ("x-amz-meta-rdev", "100000003")], b"");
    w.put(b"in/null", &[("x-amz-meta-mode", "20666"), ("x-amz-meta-rdev", "100000003")], b"");
    let mode = |path: &str| w.path(path).symlink_metadata().expect("it is there").permissions().mode() & 0o7777;
    // From a listing, and from what the index knows by then.
    for to in ["first", "second"] {
        w.haul(&format!("cp -a @/in/ {to}")).ends(0).says("--trust-metadata");
        assert_eq!((mode(&format!("{to}/suid")), mode(&format!("{to}/sgid"))), (0o755, 0o755));
        assert!(!w.path(to).join("null").exists() && !w.path(to).join("disk").exists());
    }
    w.haul("cp -a @/in/suid alone").ends(0);
    assert_eq!(mode("alone"), 0o755);
    // They stay in the bucket.
    w.haul("mv @/in/null moved").ends(23).says("is a special file");
    assert!(w.keys().contains(&"in/null".to_string()));
    w.haul("cp -a --trust-metadata @/in/ all").ends(0).never_says("--trust-metadata");
    assert_eq!((mode("all/suid"), mode("all/sgid")), (0o4755, 0o2755));
    assert!(w.path("all/null").symlink_metadata().expect("it is there").file_type().is_char_device());
    // From bucket to bucket nothing is made of them here.
    w.haul("cp -a --verify @/in/ @/copy/").ends(0);
    assert_eq!(w.header("copy/suid", "x-amz-meta-mode").as_deref(), Some("104755"));
}
