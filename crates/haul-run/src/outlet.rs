//! Standard output, devices and pipes as destinations: they take bytes, and have no content.

use std::borrow::Cow;
use std::os::fd::{OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::sync::Mutex;

use haul_core::entry::MetaMask;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::lock::lock;
use haul_core::place::Scheme;
use haul_core::plan::{Compare, Policy};
use haul_core::spec::{Safety, TransferSpec};
use haul_local::trusted;
use rustix::fs::OFlags;

use crate::stream::Output;
use crate::{location, open};

/// A pipe that takes several files. Opened for each, its reader would see an end between two of them, and without a reader the next
/// would wait for one.
static HELD: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// What takes the bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlet {
    /// 1 is standard output.
    Descriptor(RawFd),
    Special(PathBuf),
}

impl Outlet {
    /// `None` for a destination of any other kind. A device that `--force` replaces is such.
    pub fn of(spec: &TransferSpec) -> Option<Outlet> {
        let destination = &spec.destination;
        if destination.scheme == Scheme::STDIO {
            return Some(Outlet::Descriptor(location::descriptor_of(destination, 1)));
        }
        if destination.is_remote() || destination.means_contents() || spec.comparison.force || spec.sources.is_empty() {
            return None;
        }
        let place = open::path_of(&destination.path);
        place.metadata().is_ok_and(|meta| !meta.is_file() && !meta.is_dir()).then_some(Outlet::Special(place))
    }

    /// Waits for the reader of a pipe, as open(2) does.
    pub fn open(&self) -> Result<Output> {
        self.writer().map(Output::new)
    }

    fn writer(&self) -> Result<OwnedFd> {
        let to = match self {
            Outlet::Descriptor(number) => return location::inherited(*number),
            Outlet::Special(path) => match &*lock(&HELD) {
                Some(held) => held.try_clone(),
                None => return trusted::open(path, OFlags::WRONLY, "open").map(Into::into),
            },
        };
        to.map_err(|e| Error::io(e, "open").at(&self.words()))
    }

    fn is_pipe(&self) -> bool {
        matches!(self, Outlet::Special(path) if path.metadata().is_ok_and(|meta| meta.file_type().is_fifo()))
    }

    fn words(&self) -> Cow<'_, [u8]> {
        match self {
            Outlet::Descriptor(1) => b"standard output".into(),
            Outlet::Descriptor(number) => format!("/dev/fd/{number}").into_bytes().into(),
            Outlet::Special(path) => path.as_os_str().as_bytes().into(),
        }
    }

    /// Refuses what the spec asks for and cannot be had here. `json`: events go to standard output.
    ///
    /// # Errors
    /// `Usage`.
    pub fn check(&self, spec: &TransferSpec, json: bool) -> Result<()> {
        let refuse = |reason: &str, hint: &str| {
            let e = Error::new(ErrorKind::Usage, "copy to").at(&self.words()).because(reason.to_string());
            Err(e.hint(hint.to_string()))
        };
        if let Outlet::Special(path) = self {
            let kind = path.metadata().map_err(|e| Error::io(e, "open").at(&self.words()))?.file_type();
            if !kind.is_char_device() && !kind.is_fifo() {
                return refuse("is a block device or a socket", "use dd to write to a block device; --force replaces it with a file");
            }
        }
        if json && *self == Outlet::Descriptor(1) {
            return refuse("receives the data, so --json cannot print there", "use --log FILE, or write to a named pipe");
        }
        if spec.safety.verify || spec.safety.remove_source {
            return refuse("cannot be read back", "--verify, --remove-source-files and mv need a file");
        }
        if let Some(source) = spec.sources.iter().find(|source| source.scheme != Scheme::STDIO && source.means_contents()) {
            let e = Error::new(ErrorKind::Usage, "read").at(&source.to_bytes()).because("is a directory");
            return Err(e.hint("name a file"));
        }
        Ok(())
    }

    /// Keeps a pipe open until the program ends: its reader sees one stream of what several runs write.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn hold(&self) -> Result<()> {
        if self.is_pipe() {
            let held = self.writer()?;
            *lock(&HELD) = Some(held);
        }
        Ok(())
    }
}

/// As much of a spec as holds where only bytes are taken: nothing is there to be compared, and what a link names is meant.
pub fn bytes_only(spec: &TransferSpec) -> TransferSpec {
    let mut spec = spec.clone();
    spec.comparison = Policy { compare: Compare::Never, ..Policy::DEFAULT };
    let follow = !spec.sources.iter().any(open::follows_from_here);
    (spec.attributes.keep, spec.attributes.links.follow, spec.attributes.sparse) = (MetaMask::NONE, follow, false);
    (spec.deletion, spec.safety) = (None, Safety { sync: false, ..Safety::default() });
    spec
}
