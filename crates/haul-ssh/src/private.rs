//! A place for sockets that no other user can reach, control sockets of ssh and those by which sessions join an agent; and names there.

use std::hash::BuildHasher;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;

/// This user's private directory for sockets, with a short path: a socket's may have 104 bytes. It is kept.
pub fn private_directory() -> Option<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.as_os_str().len() < 50);
    for above in runtime.into_iter().chain([PathBuf::from("/tmp")]) {
        let path = above.join(format!("haul-{user}"));
        let _there_already = std::fs::DirBuilder::new().mode(0o700).create(&path);
        let ours = path.symlink_metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == user && meta.permissions().mode() & 0o077 == 0);
        if ours {
            return Some(path);
        }
    }
    None
}

/// For a name that no other process has.
pub fn unique() -> u64 {
    std::collections::hash_map::RandomState::new().hash_one(std::process::id())
}
