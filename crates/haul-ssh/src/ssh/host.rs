//! A host behind ssh, reached by haul on it or by plain SFTP.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_core::entry::Kind;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::{DataPath, Host, Location, OpenOptions};
use haul_core::store::Store;

use super::Login;
use crate::agent::{self, RootOptions};
use crate::script;
use crate::sftp;
use haul_core::lock::lock;

/// How long the remote shell may take to say where a user is at home.
const ASKING: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct SshHost {
    pub route: Route,
    /// The connections of its data, in words, as far as they are known in advance.
    pub(super) streams: String,
    /// The host has no haul and could have this one.
    pub(super) placeable: bool,
    pub(super) direct: bool,
    pub(super) login: Arc<Login>,
    pub(super) homes: Mutex<HashMap<String, Home>>,
}

#[derive(Clone, Debug)]
pub(super) enum Home {
    At(Vec<u8>),
    NoUser,
    Unknown,
}

#[derive(Debug)]
pub enum Route {
    Agent(agent::Host),
    Sftp(sftp::Host),
}

/// The user and the rest of `~user/x`, where the name is one that no shell reads anything into.
fn of_user(path: &[u8]) -> Option<(&str, &[u8])> {
    let path = path.strip_prefix(b"~")?;
    let end = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
    let user = std::str::from_utf8(&path[..end]).ok().filter(|user| !user.is_empty() && !user.starts_with('-'))?;
    let is_plain = user.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    is_plain.then_some((user, &path[(end + 1).min(path.len())..]))
}

impl SshHost {
    /// Where another user is at home there, as its SFTP server or its shell says.
    fn home_of(&self, user: &str) -> Home {
        if let Some(known) = lock(&self.homes).get(user) {
            return known.clone();
        }
        let by_server = match &self.route {
            Route::Sftp(host) => host.home_of(user),
            Route::Agent(_) => Err(Error::new(ErrorKind::Unsupported, "open")),
        };
        let home = match by_server {
            Ok(home) if home.starts_with(b"/") => Home::At(home),
            Err(e) if e.kind() == ErrorKind::NotFound => Home::NoUser,
            _ => self.home_by_shell(user),
        };
        lock(&self.homes).insert(user.to_string(), home.clone());
        home
    }

    fn home_by_shell(&self, user: &str) -> Home {
        let said = script::run(&self.login, &format!("printf \"home %s\\n\" ~{user}"), ASKING);
        match said.as_ref().ok().and_then(|said| said.get("home")) {
            Some(home) if home.starts_with('/') => Home::At(home.into()),
            // A shell leaves the word as it is.
            Some(_) => Home::NoUser,
            None => Home::Unknown,
        }
    }

    /// Refuses a path below the home directory of a user that was not found; all others are absolute.
    fn check_home(&self, path: &[u8]) -> Result<()> {
        let Some((user, _)) = of_user(path) else { return Ok(()) };
        let reason = match self.home_of(user) {
            Home::Unknown => format!("the host does not say where {user} is at home"),
            Home::At(_) | Home::NoUser => format!("no user {user} on the host"),
        };
        let e = Error::new(ErrorKind::NotFound, "open").at(path).because(reason);
        Err(e.hint(format!("for a name that begins with ~ write ./~{user}")))
    }

    /// The host as this backend reached it.
    pub fn of(host: &dyn Host) -> Option<&SshHost> {
        (host as &dyn Any).downcast_ref()
    }
}

impl Host for SshHost {
    fn renames(&self) -> bool {
        true
    }

    fn path(&self, location: &Location) -> Vec<u8> {
        if let Some((user, rest)) = of_user(&location.path) {
            let Home::At(home) = self.home_of(user) else {
                // Refused by whatever uses it.
                return [b"~", user.as_bytes(), b"/", rest].concat();
            };
            let slash: &[u8] = if rest.is_empty() || home.ends_with(b"/") { b"" } else { b"/" };
            return [&home[..], slash, rest].concat();
        }
        match &self.route {
            Route::Agent(host) => host.absolute(&location.path),
            Route::Sftp(host) => host.absolute(&location.path),
        }
    }

    fn lookup(&self, path: &[u8]) -> Result<Option<Kind>> {
        self.check_home(path)?;
        match &self.route {
            Route::Agent(host) => host.look(path),
            Route::Sftp(host) => host.look(path),
        }
    }

    fn make_dir(&self, path: &[u8], parents: bool) -> Result<bool> {
        self.check_home(path)?;
        match &self.route {
            Route::Agent(host) => host.make_dir(path, parents).map(|()| true),
            Route::Sftp(host) => host.make_dir(path, parents),
        }
    }

    fn is_here(&self) -> bool {
        matches!(&self.route, Route::Agent(host) if host.is_here())
    }

    fn open(&self, path: &[u8], options: OpenOptions) -> Result<Arc<dyn Store>> {
        self.check_home(path)?;
        let refuse = |reason| Err(Error::new(ErrorKind::Unsupported, "open").at(path).because(reason));
        match &self.route {
            Route::Agent(host) => {
                let OpenOptions { follow, keep_dirlinks, keep_modes, .. } = options;
                Ok(Arc::new(host.open(path, RootOptions { follow, keep_dirlinks, keep_modes })?))
            }
            Route::Sftp(_) if options.follow => refuse("plain SFTP cannot follow remote symlinks (-L)"),
            Route::Sftp(_) if options.one_file_system => refuse("plain SFTP does not report file system boundaries (-x)"),
            Route::Sftp(host) => Ok(Arc::new(host.open(path, options.keep_dirlinks)?)),
        }
    }

    fn data_path(&self, source: &dyn Host) -> DataPath {
        let both = match (&self.route, SshHost::of(source).map(|source| &source.route)) {
            (Route::Agent(to), Some(Route::Agent(from))) if self.direct => to.link_peer(from).is_ok(),
            _ => false,
        };
        if both { DataPath::Direct } else { DataPath::Through }
    }

    fn describe(&self) -> String {
        let streams = &self.streams;
        let hint = if self.placeable { "; --install-agent installs haul" } else { "" };
        match &self.route {
            Route::Agent(_) => format!("by haul on the remote host{streams}"),
            Route::Sftp(_) => format!("over plain SFTP (times to the second, no extended attributes, no ACLs{hint}){streams}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_is_a_user() {
        for (path, user) in [
            (&b"~bob/x/y"[..], Some(("bob", &b"x/y"[..]))),
            (b"~bob", Some(("bob", b""))),
            (b"~b.o-b_1/", Some(("b.o-b_1", b""))),
            (b"~", None),
            (b"~/x", None),
            (b"~$(id)/x", None),
            (b"~-l/x", None),
            (b"~a b/x", None),
            (b"x/~bob", None),
        ] {
            assert_eq!(of_user(path), user, "{}", String::from_utf8_lossy(path));
        }
    }
}
