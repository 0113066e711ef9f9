//! `http://` and `https://`.

use std::sync::Arc;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use haul_core::error::Result;
use haul_core::place::{Host, Location, Scheme, Syntax, url};

use super::flags::Flags;
use super::host::WebHost;
use haul_core::place::provider::{Access, Provider, Values};
use haul_net::http_client::TlsFlags;

pub const HTTPS: Scheme = Scheme(&Syntax {
    word: "https",
    help: "https://host/path, http://host:port/path: files of web servers, for reading; a directory ends in a slash",
    short: false,
    escapes: false,
    home: false,
    keys: false,
    parse: url::parse,
});

pub const HTTP: Scheme = Scheme(&Syntax { word: "http", help: "", ..copy(HTTPS) });

const fn copy(scheme: Scheme) -> Syntax {
    let Syntax { word, help, short, escapes, home, keys, parse } = *scheme.0;
    Syntax { word, help, short, escapes, home, keys, parse }
}

#[derive(Debug)]
pub struct WebProvider;

impl Provider for WebProvider {
    fn schemes(&self) -> &'static [Scheme] {
        &[HTTPS, HTTP]
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
        Ok(Arc::new(WebHost::new(access, location)?))
    }
}
