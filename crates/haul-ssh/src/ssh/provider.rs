//! `host:path`, `ssh://` and `sftp://`.

use std::sync::Arc;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use haul_core::error::Result;
use haul_core::place::{Host, Location, Scheme, Syntax, url};

use super::flags::Flags;
use super::reach::Reach;
use haul_core::place::provider::{Access, Provider, Values};

pub const SSH: Scheme = Scheme(&Syntax {
    word: "ssh",
    help: "host:path, user@host:path, ssh://user@host:port/path: over ssh",
    short: true,
    escapes: true,
    home: true,
    keys: false,
    parse: url::parse,
});

pub const SFTP: Scheme = Scheme(&Syntax {
    word: "sftp",
    help: "sftp://user@host:port/path: over ssh, by plain SFTP only",
    short: false,
    escapes: true,
    home: true,
    keys: false,
    parse: url::parse,
});

#[derive(Debug)]
pub struct SshProvider;

pub fn is_plain(flags: &Flags, location: &Location) -> bool {
    location.scheme == SFTP || flags.no_agent
}

impl Provider for SshProvider {
    fn schemes(&self) -> &'static [Scheme] {
        &[SSH, SFTP]
    }

    fn declare(&self, command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn read(&self, matches: &mut ArgMatches) -> Result<Option<Arc<dyn Values>>, clap::Error> {
        Ok(Some(Arc::new(Flags::from_arg_matches_mut(matches)?)))
    }

    fn recall(&self, record: serde_json::Value) -> serde_json::Result<Vec<Arc<dyn Values>>> {
        Ok(vec![Arc::new(serde_json::from_value::<Flags>(record)?)])
    }

    fn host_key(&self, access: &Access, location: &Location) -> String {
        let scheme = if is_plain(&access.get(), location) { SFTP } else { SSH };
        format!("{}://{}", scheme.word, location.authority())
    }

    fn connect(&self, access: &Access, location: &Location) -> Result<Arc<dyn Host>> {
        let plain = is_plain(&access.get(), location);
        Ok(Arc::new(Reach::new(access, location)?.host(plain, &location.path)?))
    }
}
