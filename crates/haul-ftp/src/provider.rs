//! `ftp://` and `ftps://`.

use std::sync::Arc;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use haul_core::error::Result;
use haul_core::place::url::{self, Fault, split_authority, split_port, user_text};
use haul_core::place::{Host, Location, Scheme, Syntax};

use super::flags::Flags;
use super::host::FtpHost;
use super::secret;
use haul_core::place::provider::{Access, Provider, Values};
use haul_net::http_client::TlsFlags;

pub const FTP: Scheme = Scheme(&Syntax {
    word: "ftp",
    help: "ftp://user@host:port/path, ftps://...: FTP servers, the latter with TLS; /~/path is below the login directory",
    short: false,
    escapes: true,
    home: true,
    keys: false,
    parse,
});

pub const FTPS: Scheme = Scheme(&Syntax { word: "ftps", help: "", short: false, escapes: true, home: true, keys: false, parse });

pub const GSIFTP: Scheme = Scheme(&Syntax {
    word: "gsiftp",
    help: "gsiftp://host:port/path: GridFTP servers, with the proxy or certificate of the user (X509_USER_PROXY)",
    short: false,
    escapes: true,
    home: true,
    keys: false,
    parse: url::parse,
});

pub const SSHFTP: Scheme = Scheme(&Syntax {
    word: "sshftp",
    help: "sshftp://user@host:port/path: GridFTP servers that ssh starts; commands go through ssh, data unencrypted",
    short: false,
    escapes: true,
    home: true,
    keys: false,
    parse: url::parse,
});

#[derive(Debug)]
pub struct FtpProvider;

impl Provider for FtpProvider {
    fn schemes(&self) -> &'static [Scheme] {
        &[FTP, FTPS, GSIFTP, SSHFTP]
    }

    fn declare(&self, command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn read(&self, matches: &mut ArgMatches) -> Result<Option<Arc<dyn Values>>, clap::Error> {
        // The backend of object stores declares the flags of TLS.
        let tls = TlsFlags::from_arg_matches(matches)?;
        Ok(Some(Arc::new(Flags { tls, ..Flags::from_arg_matches_mut(matches)? })))
    }

    fn recall(&self, record: serde_json::Value) -> serde_json::Result<Vec<Arc<dyn Values>>> {
        Ok(vec![Arc::new(serde_json::from_value::<Flags>(record)?)])
    }

    fn connect(&self, access: &Access, location: &Location) -> Result<Arc<dyn Host>> {
        Ok(Arc::new(FtpHost::connect(access, location)?))
    }
}

/// As other URLs, but a password is taken: it is kept apart, and the location does not have it.
fn parse(scheme: Scheme, rest: &[u8]) -> Result<Location, Fault> {
    let (authority, path) = split_authority(rest);
    let Some(at) = authority.iter().rposition(|byte| *byte == b'@') else { return url::parse(scheme, rest) };
    let (login, machine) = (&authority[..at], &authority[at + 1..]);
    let Some(colon) = login.iter().position(|byte| *byte == b':') else { return url::parse(scheme, rest) };
    let bad = |why: &str| Fault::new(why, format!("write {}://USER@HOST/PATH and put the password into ~/.netrc", scheme.word)).hidden();
    let password = percent_encoding::percent_decode(&login[colon + 1..]).decode_utf8().map_err(|_| bad("a password that is not UTF-8"))?;
    if password.chars().any(char::is_control) {
        return Err(bad("a password with control characters"));
    }
    let user = user_text(&login[..colon]).map_err(|_| bad("not a valid user name"))?;
    let without = [user.as_bytes(), b"@", machine, path].concat();
    let location = url::parse(scheme, &without).map_err(Fault::hidden)?;
    split_port(machine).map_err(Fault::hidden)?;
    secret::written(&user, location.host.as_deref().unwrap_or_default(), password.into_owned());
    Ok(location)
}
