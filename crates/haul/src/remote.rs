//! Hosts behind ssh: each is reached once in a run, whatever is asked of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use haul_stores::sftp::{CHANNELS, Host};
use haul_stores::ssh::{Login, Target};

use crate::flags::connect::Connect;
use crate::location::{Location, Scheme};

/// The hosts that this run has reached.
pub struct Hosts<'a> {
    connect: &'a Connect,
    /// The longest that a host may say nothing; `None` is haul's own bound.
    patience: Option<Duration>,
    known: Mutex<Vec<(Key, Arc<Host>)>>,
}

type Key = (Option<String>, Option<String>, Option<u16>);

/// Whether an address names a host to be reached by ssh.
pub fn is_remote(location: &Location) -> bool {
    matches!(location.scheme, Scheme::Ssh | Scheme::Sftp)
}

impl<'a> Hosts<'a> {
    pub fn new(connect: &'a Connect) -> Self {
        Hosts { connect, patience: None, known: Mutex::default() }
    }

    #[must_use]
    pub fn patient(self, patience: Option<Duration>) -> Self {
        Hosts { patience, ..self }
    }

    pub fn reach(&self, location: &Location) -> Result<Arc<Host>> {
        let key = (location.user.clone(), location.host.clone(), location.port);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, host)) = known.iter().find(|(other, _)| *other == key) {
            return Ok(host.clone());
        }
        let Some(name) = location.host.clone() else {
            return Err(Error::new(ErrorKind::Usage, "connect").because("the address names no host"));
        };
        let connect = self.connect;
        let target = Target {
            host: name,
            user: location.user.clone(),
            port: location.port.or(connect.port),
            command: connect.ssh.as_ref().map(|words| words_of(words)).unwrap_or_default(),
            config: connect.ssh_config.clone(),
            jump: connect.jump.clone(),
            identities: connect.identities.clone(),
            options: connect.ssh_options.iter().map(Into::into).collect(),
            patience: self.patience,
        };
        let endpoint = target.endpoint();
        let login = Arc::new(Login::new(target)?);
        let host = Arc::new(Host::connect("ssh", endpoint, Box::new(move || login.sftp()), CHANNELS)?);
        known.push((key, host.clone()));
        Ok(host)
    }
}

/// `-e 'ssh -p 2222'`: the command and its arguments, split at blanks as rsync does.
fn words_of(command: &std::ffi::OsStr) -> Vec<std::ffi::OsString> {
    use std::os::unix::ffi::OsStrExt;
    let words = command.as_bytes().split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    words.map(|word| std::ffi::OsStr::from_bytes(word).to_os_string()).collect()
}
