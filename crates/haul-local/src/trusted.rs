//! Paths that root writes to or takes rules from: resolved one component at a time, through no symlink of another user, who could
//! point it anywhere at any time. Everybody else reaches by such a link only what they may reach anyway.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::{Owners, Who};
use haul_core::user_names::LocalOwners;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Links that are followed one after the other at the most, as the kernel does.
const MOST_LINKS: u32 = 40;

const DIR: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Whether paths are resolved here, and not by the kernel: for a root of the machine, not for one of a user namespace, which has no more
/// rights than its user and sees the links of others as those of nobody (user_namespaces(7)).
fn is_needed() -> bool {
    let is_whole = |map: String| map.split_whitespace().eq(["0", "0", "4294967295"]);
    rustix::process::geteuid().is_root() && std::fs::read_to_string("/proc/self/uid_map").map_or(true, is_whole)
}

/// The file at `path`, opened with `flags`; it may be created.
///
/// # Errors
/// `Denied` for a symlink of another user on the way, which root does not follow.
pub fn open(path: &Path, flags: OFlags, op: &'static str) -> Result<File> {
    let fail = |e: Errno| Error::io(e.into(), op).at(path.as_os_str().as_bytes());
    let (flags, mode) = (flags | OFlags::CLOEXEC, Mode::from_raw_mode(0o666));
    if !is_needed() {
        return rustix::fs::open(path, flags, mode).map(File::from).map_err(fail);
    }
    let (above, leaf) = resolve(path, op)?;
    match rustix::fs::openat(&above, &leaf, flags | OFlags::NOFOLLOW, mode) {
        // A link into procfs, which leads to something without a name: it is this process's own.
        Err(Errno::LOOP) if is_proc(&above) => rustix::fs::openat(&above, &leaf, flags, mode),
        opened => opened,
    }
    .map(File::from)
    .map_err(fail)
}

/// Whether `path` may be resolved by the kernel.
///
/// # Errors
/// `Denied`: see [`open`].
pub fn check(path: &Path) -> Result<()> {
    match is_needed().then(|| resolve(path, "open")) {
        Some(Err(e)) if e.kind() == ErrorKind::Denied => Err(e),
        _ => Ok(()),
    }
}

/// The directory at `path`, as [`open`] opens files.
pub(super) fn open_dir(path: &Path, flags: OFlags) -> Result<std::result::Result<OwnedFd, Errno>> {
    if !is_needed() {
        return Ok(rustix::fs::open(path, flags, Mode::empty()));
    }
    let (above, leaf) = resolve(path, "open")?;
    Ok(match rustix::fs::openat(&above, &leaf, flags | OFlags::NOFOLLOW, Mode::empty()) {
        Err(Errno::LOOP | Errno::NOTDIR) if is_proc(&above) => rustix::fs::openat(&above, &leaf, flags, Mode::empty()),
        opened => opened,
    })
}

/// Makes a directory, and with `parents` those above it; `false` if it is there.
pub(super) fn make_dir(path: &Path, parents: bool) -> Result<bool> {
    let fail = |e: Errno| Error::io(e.into(), "mkdir").at(path.as_os_str().as_bytes());
    let make = |path: &Path| -> Result<std::result::Result<(), Errno>> {
        if !is_needed() {
            return Ok(rustix::fs::mkdir(path, Mode::from_raw_mode(0o777)));
        }
        let (above, leaf) = resolve(path, "mkdir")?;
        Ok(rustix::fs::mkdirat(&above, &leaf, Mode::from_raw_mode(0o777)))
    };
    let above: Vec<&Path> = path.ancestors().skip(1).filter(|path| parents && !path.as_os_str().is_empty()).collect();
    for path in above.into_iter().rev() {
        match make(path)? {
            Ok(()) | Err(Errno::EXIST) => {}
            // A file system may say of what is there that it cannot be made.
            Err(_) if path.is_dir() => {}
            Err(e) => return Err(fail(e)),
        }
    }
    match make(path)? {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) if path.is_dir() => Ok(false),
        Err(e) => Err(fail(e)),
    }
}

/// The directory that holds what `path` names, and its name there, which is no symlink.
///
/// # Errors
/// `Denied`: see [`open`].
fn resolve(path: &Path, op: &'static str) -> Result<(OwnedFd, OsString)> {
    let fail = |e: Errno| Error::io(e.into(), op).at(path.as_os_str().as_bytes());
    let dir = |at: &OwnedFd, part: &OsStr| rustix::fs::openat(at, part, DIR, Mode::empty()).map_err(fail);
    let begin = |path: &Path| rustix::fs::openat(CWD, if path.is_absolute() { c"/" } else { c"." }, DIR, Mode::empty()).map_err(fail);
    let (mut at, mut links, mut walked) = (begin(path)?, 0, PathBuf::new());
    // The last part comes first.
    let mut rest: Vec<OsString> = parts(path);
    while let Some(part) = rest.pop() {
        if part == "/" {
            at = begin(Path::new("/"))?;
            walked = "/".into();
            continue;
        }
        walked.push(&part);
        if part == ".." {
            at = dir(&at, &part)?;
            continue;
        }
        let found = match rustix::fs::openat(&at, &part, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) if rest.is_empty() => return Ok((at, part)),
            found => found.map_err(fail)?,
        };
        let facts = rustix::fs::fstat(&found).map_err(fail)?;
        if !FileType::from_raw_mode(facts.st_mode).is_symlink() {
            if rest.is_empty() {
                return Ok((at, part));
            }
            at = found;
            continue;
        }
        if facts.st_uid != 0 {
            let user = LocalOwners.name(Who::User, facts.st_uid).ok().flatten();
            let user = user.map_or_else(|| facts.st_uid.to_string(), |name| show(&name));
            let e = Error::new(ErrorKind::Denied, op).at(path.as_os_str().as_bytes());
            let e =
                e.because(format!("{} is a symlink of user {user}, which root does not follow here", show(walked.as_os_str().as_bytes())));
            return Err(e.hint("if it is right, write the path that it leads to"));
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(fail(Errno::LOOP));
        }
        if is_proc(&at) {
            if rest.is_empty() {
                return Ok((at, part));
            }
            at = dir(&at, &part)?;
            continue;
        }
        let target = rustix::fs::readlinkat(&found, c"", Vec::new()).map_err(fail)?;
        walked.pop();
        rest.extend(parts(Path::new(&OsString::from_vec(target.into_bytes()))));
    }
    Ok((at, ".".into()))
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let mut parts: Vec<OsString> =
        path.components().filter(|part| *part != Component::CurDir).map(|part| part.as_os_str().to_os_string()).collect();
    parts.reverse();
    parts
}

fn is_proc(dir: &OwnedFd) -> bool {
    const PROC: i64 = 0x9fa0;
    rustix::fs::fstatfs(dir).is_ok_and(|st| st.f_type == PROC)
}
