//! Who logs in: the name and password of an address, of `~/.netrc`, or as somebody types them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::Location;
use zeroize::Zeroizing;

use haul_core::lock::lock;
use haul_net::http_client::Environment;
use haul_net::netrc::Netrc;
use haul_net::terminal::ask;

/// What a server wants of somebody without a name.
const ANONYMOUS: (&str, &str) = ("anonymous", "anonymous@");

pub struct Login {
    pub user: String,
    pub password: Zeroizing<String>,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({})", self.user)
    }
}

/// Passwords of addresses, by user and host. An address holds none itself, so that none gets into a journal, a transfer spec or a
/// message; it is read long before anybody connects.
static WRITTEN: Mutex<BTreeMap<(String, String), Zeroizing<String>>> = Mutex::new(BTreeMap::new());

pub fn written(user: &str, host: &str, password: String) {
    lock(&WRITTEN).insert((user.to_string(), host.to_string()), Zeroizing::new(password));
}

impl Login {
    pub fn known(user: &str, password: &str) -> Login {
        Login { user: user.into(), password: Zeroizing::new(password.into()) }
    }

    /// For an address. Asks only where a user is named whose password nobody knows.
    /// Error: `Broken` where there is nobody to ask.
    pub fn of(location: &Location, environment: &Environment, print: &dyn Fn(&str)) -> Result<Login> {
        let host = location.host.clone().unwrap_or_default();
        let key = (location.user.clone().unwrap_or_default(), host.clone());
        if let Some(password) = lock(&WRITTEN).get(&key).cloned() {
            print("WARNING: other users of this machine can see a password in an address: put it into ~/.netrc");
            return Ok(Login::known(&key.0, &password));
        }
        if let Some((user, password)) = Netrc::read(environment).of(&host, location.user.as_deref()) {
            return Ok(Login::known(user, password));
        }
        match location.user.as_deref() {
            None => Ok(Login::known(ANONYMOUS.0, ANONYMOUS.1)),
            Some(user) if matches!(user, "anonymous" | "ftp") => Ok(Login::known(user, ANONYMOUS.1)),
            Some(user) => Ok(Login::known(user, &ask(&format!("{user}@{host}'s password: "), no_password)?)),
        }
    }
}

fn no_password() -> Error {
    let e = Error::new(ErrorKind::Broken, "log in").because("no password is known, and there is no terminal to ask for it");
    e.hint("put it into ~/.netrc: machine HOST login NAME password WORD")
}
