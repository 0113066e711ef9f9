//! The reference trees of `--link-dest`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::{OpenOptions, Role};
use haul_core::store::Store;
use haul_ssh::ssh;

use super::destination::device;
use super::endpoints::{EndpointRequest, Places};
use crate::hosts::Hosts;
use crate::location::Location;
use crate::open;

/// Trees beside the destination.
type References = Vec<Arc<dyn Store>>;

/// Refuses `--link-dest` before anything is made at a destination that is known to have no use for it.
pub fn refuse(destination: &Location, hosts: &Hosts) -> Result<()> {
    let (scheme, e) = (destination.scheme, Error::new(ErrorKind::Unsupported, "--link-dest"));
    if scheme.keys {
        return Err(e.because("object stores have no hard links"));
    }
    if scheme == ssh::SSH || scheme == ssh::SFTP {
        return if ssh::is_sftp(&hosts.access().get(), destination) { Err(by_sftp()) } else { Ok(()) };
    }
    if destination.is_remote() {
        return Err(e.because("the destination's server has no hard links").hint("omit --link-dest"));
    }
    Ok(())
}

fn by_sftp() -> Error {
    let e = Error::new(ErrorKind::Unsupported, "--link-dest").because("plain SFTP cannot link to files outside the destination");
    e.hint("haul on the remote host can: --install-agent installs it")
}

/// The reference trees of `--link-dest`, and what is to be said of those that are not there: the first of a
/// series of backups has none before it.
pub fn link_dest(dirs: &[PathBuf], places: &Places, asked: &EndpointRequest<'_>) -> Result<(References, Vec<String>)> {
    let (mut found, mut notes) = (Vec::new(), Vec::new());
    let target = open::path_of(&places.target_path);
    for dir in dirs {
        let path = reference(&target, dir, places.is_made);
        let store = match places.target_host.open(path.as_os_str().as_bytes(), OpenOptions { role: Role::Destination, ..asked.options }) {
            Ok(store) => store,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                notes.push(not_there(&path));
                continue;
            }
            Err(e) => return Err(e),
        };
        match (device(store.extensions().identity), device(places.target.extensions().identity)) {
            (None, _) => return Err(by_sftp()),
            (from, to) if places.is_made && from != to => return Err(crosses(&path)),
            _ => found.push(store),
        }
    }
    Ok((found, notes))
}

/// A destination that is not made yet, in a dry run, cannot be gone through.
fn reference(target: &Path, dir: &Path, is_made: bool) -> PathBuf {
    match dir.strip_prefix("..") {
        Ok(rest) if !is_made => target.parent().unwrap_or(Path::new("/")).join(rest),
        _ => target.join(dir),
    }
}

fn not_there(path: &Path) -> String {
    format!("--link-dest {}: no such directory; ignored", show(path.as_os_str().as_bytes()))
}

fn crosses(path: &Path) -> Error {
    let e = Error::new(ErrorKind::Usage, "--link-dest").at(path.as_os_str().as_bytes());
    let e = e.because("is on another file system; hard links cannot cross file systems");
    e.hint("choose a directory on the destination's file system, or omit --link-dest")
}
