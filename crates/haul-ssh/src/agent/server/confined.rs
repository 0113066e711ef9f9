//! `haul agent --root DIR`: an agent that serves one directory. Its clients see DIR as `/` and as their home directory.
//!
//! Below an opened root a local store resolves one component a call and follows nothing, so what has to be confined is how roots
//! are opened, looked up and made, what follows links (`-L`), and what reaches further than files: device nodes, other hosts.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_core::entry::{check_leaf, show};
use haul_core::error::{Error, ErrorKind, Result};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::agent::ops;

#[derive(Debug)]
pub struct Confined {
    dir: OwnedFd,
    path: PathBuf,
    pub read_only: bool,
    /// The kernel resolves paths below a directory by itself (openat2, Linux 5.6).
    resolves: bool,
}

fn fail(e: Errno, op: &'static str, path: &[u8]) -> Error {
    let e = match e {
        // Where a link or a `..` leads out.
        Errno::XDEV => Error::new(ErrorKind::Denied, op).because("it is not below the directory that this login may use"),
        Errno::NOTDIR => Error::new(ErrorKind::Usage, op).because("it is not a directory"),
        e => Error::io(e.into(), op),
    };
    e.at(path)
}

impl Confined {
    /// # Errors
    /// The directory cannot be opened.
    pub fn new(path: &Path, read_only: bool) -> Result<Confined> {
        let at = |e: Errno| fail(e, "open", path.as_os_str().as_bytes());
        let dir = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).map_err(at)?;
        let path = rustix::fs::readlink(proc_path(&dir), Vec::new()).map_err(at)?;
        let probed = rustix::fs::openat2(&dir, c".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH);
        let resolves = !matches!(probed, Err(Errno::NOSYS | Errno::PERM));
        Ok(Confined { dir, path: PathBuf::from(OsStr::from_bytes(path.as_bytes())), read_only, resolves })
    }

    /// What is at a path of the client, without any rights to its content.
    pub fn find(&self, path: &[u8], op: &'static str) -> Result<OwnedFd> {
        self.resolve(path, OFlags::PATH | OFlags::CLOEXEC).map_err(|e| fail(e, op, path))
    }

    fn resolve(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let parts = parts_of(path);
        if !self.resolves {
            return self.walk(&parts, flags);
        }
        let below = if parts.is_empty() { b".".to_vec() } else { parts.join(&b'/') };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        loop {
            match rustix::fs::openat2(&self.dir, &below[..], flags, Mode::empty(), resolve) {
                // A rename somewhere has disturbed it.
                Err(Errno::AGAIN | Errno::INTR) => {}
                opened => return opened,
            }
        }
    }

    /// One component after the other, and no link: for kernels that cannot resolve below a directory.
    fn walk(&self, parts: &[&[u8]], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let mut at = rustix::fs::openat(&self.dir, c".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        for (i, part) in parts.iter().enumerate() {
            check_leaf(part).map_err(|_| Errno::XDEV)?;
            let last = i + 1 == parts.len();
            let flags = if last { flags } else { OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC };
            at = rustix::fs::openat(&at, *part, flags | OFlags::NOFOLLOW, Mode::empty())?;
            if last && rustix::fs::fstat(&at).is_ok_and(|st| rustix::fs::FileType::from_raw_mode(st.st_mode).is_symlink()) {
                return Err(Errno::LOOP);
            }
        }
        Ok(at)
    }

    /// Makes a directory, and with `parents` those above it. One that exists is as good.
    pub fn make_dir(&self, path: &[u8], parents: bool, mode: Mode) -> Result<()> {
        let parts = parts_of(path);
        let failed = |e| fail(e, "mkdir", path);
        for count in if parents { 1 } else { parts.len() }..=parts.len() {
            let Some((leaf, above)) = parts[..count].split_last() else { return Ok(()) };
            check_leaf(leaf).map_err(|_| failed(Errno::XDEV))?;
            let above = self.resolve(&above.join(&b'/'), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC).map_err(failed)?;
            match rustix::fs::mkdirat(&above, *leaf, mode) {
                Err(Errno::EXIST) => {}
                made => made.map_err(failed)?,
            }
        }
        self.resolve(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC).map(|_| ()).map_err(failed)
    }

    /// The path of a directory below as clients see it.
    ///
    /// # Errors
    /// It is elsewhere by now.
    pub fn shown(&self, real: &[u8]) -> Result<Vec<u8>> {
        let below = Path::new(OsStr::from_bytes(real)).strip_prefix(&self.path).map_err(|_| fail(Errno::XDEV, "open", b"/"))?;
        Ok([b"/", below.as_os_str().as_bytes()].concat())
    }

    pub fn allow(&self, kind: u8) -> Result<()> {
        let denied = |reason: &str| Err(Error::new(ErrorKind::Denied, "ask").because(reason));
        match kind {
            ops::TLS_READER | ops::TLS_LINK_PEER => {
                Err(Error::new(ErrorKind::Unsupported, "connect").because("this login serves one directory and reaches no other host"))
            }
            kind if self.read_only && !only_reads(kind) => denied("this login may only read (haul agent --read-only)"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let only = if self.read_only { " for reading" } else { "" };
        write!(f, "{}{only}", show(self.path.as_os_str().as_bytes()))
    }
}

/// A path of a client: whether it begins with a slash or not, it begins at the served directory.
fn parts_of(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").collect()
}

/// Names the same file as a descriptor, for calls that want a path.
pub fn proc_path(fd: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

fn only_reads(kind: u8) -> bool {
    matches!(
        kind,
        ops::HELLO
            | ops::LOOK
            | ops::ROOT
            | ops::STAT
            | ops::STAT_MANY
            | ops::LIST
            | ops::OPEN
            | ops::CLOSE
            | ops::READ
            | ops::STAMP
            | ops::EXTENTS
            | ops::XATTRS
            | ops::HASH
            | ops::GET_BUNDLE
            | ops::READ_XATTRS
            | ops::DIGEST
            | ops::VOLUME
            | ops::FORGET
            | ops::SIGNATURE
            | ops::FACTS
            | ops::WORKED
            | ops::OWNER_NAME
            | ops::OWNER_ID
            | ops::TLS_LISTEN
            | ops::TLS_CONNECT
    )
}

/// A request to follow links, wherever they lead.
pub fn refuse_links() -> Error {
    Error::new(ErrorKind::Denied, "open").because("this login serves one directory: links out of it cannot be followed (-L)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().expect("a temporary directory");
        let dir = place.path().join("served");
        std::fs::create_dir_all(dir.join("a/b")).expect("made");
        std::fs::create_dir(place.path().join("outside")).expect("made");
        std::fs::write(place.path().join("outside/secret"), "x").expect("written");
        for (target, link) in [
            ("../outside", "out"),
            ("/etc", "etc"),
            ("a", "in"),
            ("../served/a", "back"),
            ("out/secret", "file"),
            ("/proc/self/root", "magic"),
        ] {
            std::os::unix::fs::symlink(target, dir.join(link)).expect("linked");
        }
        (place, dir)
    }

    #[test]
    fn no_path_leads_out() {
        let (place, dir) = tree();
        for resolves in [true, false] {
            let mut confined = Confined::new(&dir, false).expect("opened");
            confined.resolves &= resolves;
            for path in ["/", "", "a", "/a/b", "./a//b/.", "a/b/"] {
                confined.find(path.as_bytes(), "stat").unwrap_or_else(|e| panic!("{path}: {e}"));
            }
            for path in [
                "..",
                "a/../..",
                "/../outside",
                "out",
                "out/secret",
                "etc",
                "etc/passwd",
                "back",
                "back/b",
                "file",
                "magic/etc",
                "a/../../outside/secret",
            ] {
                assert!(confined.find(path.as_bytes(), "stat").is_err(), "{path} {resolves}");
                assert!(confined.make_dir(format!("{path}/new").as_bytes(), true, Mode::RWXU).is_err(), "{path} {resolves}");
            }
            assert_eq!(confined.find(b"in/b", "stat").is_ok(), confined.resolves);
            confined.make_dir(b"/a/c/d", true, Mode::RWXU).expect("made");
            confined.make_dir(b"/a/c/d", false, Mode::RWXU).expect("it is there");
            assert!(confined.make_dir(b"/a/x/d", false, Mode::RWXU).is_err());
            assert!(confined.make_dir(b"out", true, Mode::RWXU).is_err());
            assert!(confined.make_dir(b"a/..", true, Mode::RWXU).is_err());
            std::fs::remove_dir_all(dir.join("a/c")).expect("removed");
        }
        let names: Vec<_> =
            std::fs::read_dir(place.path().join("outside")).expect("listed").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["secret"]);
    }

    #[test]
    fn clients_see_paths_below_the_directory() {
        let (_place, dir) = tree();
        let confined = Confined::new(&dir, false).expect("opened");
        let real = dir.canonicalize().expect("it is there");
        assert_eq!(confined.shown(real.as_os_str().as_bytes()).expect("below"), b"/");
        assert_eq!(confined.shown(real.join("a/b").as_os_str().as_bytes()).expect("below"), b"/a/b");
        assert!(confined.shown(b"/etc").is_err());
    }
}
