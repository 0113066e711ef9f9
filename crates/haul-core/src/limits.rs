//! Limits of this process (setrlimit(2), `ulimit`) in words.

use rustix::process::{Resource, getrlimit};

/// Most workers that the limits on address space and on open files have room for, at least 1; `None` without a limit.
pub fn most_workers() -> Option<u32> {
    /// Bytes of a worker: its stack, its bundle and what the allocator keeps for it. 5.1 MiB were measured.
    const WORKER: u64 = 8 << 20;
    /// Descriptors of a worker: both ends of a file, directories, connections; and those of the program itself.
    const FILES: u64 = 8;
    const FILES_OF_ALL: u64 = 32;
    let by_space = getrlimit(Resource::As).current.map(|limit| {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages: u64 = text.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
        limit.saturating_sub(pages * rustix::param::page_size() as u64) / WORKER
    });
    let by_files = getrlimit(Resource::Nofile).current.map(|limit| limit.saturating_sub(FILES_OF_ALL) / FILES);
    let least = by_space.into_iter().chain(by_files).min()?;
    Some(u32::try_from(least).unwrap_or(u32::MAX).max(1))
}

/// What to do about EMFILE.
pub fn too_few_descriptors() -> String {
    let most = getrlimit(Resource::Nofile).current.map_or("no limit".into(), |most| most.to_string());
    format!("the limit on open files (ulimit -n) is {most}: raise it to 256 or more and run the same command again")
}

/// What to do about EFBIG.
pub fn file_too_large() -> String {
    match getrlimit(Resource::Fsize).current {
        Some(most) => {
            format!("file size is limited to {} KiB here (ulimit -f): raise the limit and run the same command again", most / 1024)
        }
        None => "it exceeds the maximum file size of the file system".into(),
    }
}
