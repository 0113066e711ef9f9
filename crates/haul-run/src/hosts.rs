//! The hosts of a run: each is reached once, whatever is asked of it.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::provider::{Access, Intent};
use haul_core::place::{DataPath, Host, Location};

use crate::registry::provider;

#[derive(Debug)]
pub struct Hosts {
    access: Access,
    known: Mutex<Vec<Known>>,
}

#[derive(Debug)]
struct Known {
    /// See [`haul_core::place::provider::Provider::host_key`].
    key: String,
    host: Arc<dyn Host>,
}

impl Hosts {
    pub fn new(access: &Access) -> Self {
        Hosts { access: access.clone(), known: Mutex::default() }
    }

    /// With what prints a line for the user.
    #[must_use]
    pub fn printing(mut self, print: fn(&str)) -> Self {
        self.access.print = Some(print);
        self
    }

    /// For a run that moves data.
    pub fn for_data(access: &Access, state_dir: Option<&Path>) -> Self {
        let mut hosts = Self::new(access);
        hosts.access.moves_data = true;
        hosts.access.state_dir =
            state_dir.map(Path::to_path_buf).or_else(|| haul_core::journal::default_root(|name| std::env::var_os(name)));
        hosts
    }

    #[must_use]
    pub fn compressing(mut self, compress: bool) -> Self {
        self.access.compress = compress;
        self
    }

    #[must_use]
    pub fn streaming(mut self, streams: Option<usize>) -> Self {
        self.access.streams = streams;
        self
    }

    #[must_use]
    pub fn patient(mut self, idle_timeout: Option<Duration>) -> Self {
        self.access.idle_timeout = idle_timeout;
        self
    }

    pub fn access(&self) -> &Access {
        &self.access
    }

    /// The host of an address.
    ///
    /// # Errors
    /// Those of its backend, and `Usage` for standard input and output.
    pub fn reach(&self, location: &Location) -> Result<Arc<dyn Host>> {
        self.reach_for(location, Intent::default())
    }

    /// The same for a transfer.
    ///
    /// # Errors
    /// As [`Hosts::reach`].
    pub fn reach_for(&self, location: &Location, intent: Intent) -> Result<Arc<dyn Host>> {
        let Some(provider) = provider(location.scheme) else {
            let e = Error::new(ErrorKind::Usage, "open").at(&location.to_bytes());
            return Err(e.because("standard input and output are not a place for this").hint("for a file named - write ./-"));
        };
        let key = provider.host_key(&self.access, location);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| known.key == key) {
            return Ok(known.host.clone());
        }
        let mut access = self.access.clone();
        access.intent = intent;
        let host = provider.connect(&access, location)?;
        known.push(Known { key, host: host.clone() });
        Ok(host)
    }

    /// The run is over.
    pub fn finish(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|known| known.host.finish());
    }

    /// How data go from other hosts to another host, once that was arranged; empty where one end is this machine.
    pub fn data_path(&self, sources: &[Location], destination: &Location) -> &'static str {
        if !destination.is_remote() || !sources.iter().all(Location::is_remote) {
            return "";
        }
        let Ok(to) = self.reach(destination) else { return "" };
        let paths: Vec<_> = sources.iter().filter_map(|source| Some(to.data_path(&*self.reach(source).ok()?))).collect();
        match paths.first() {
            Some(DataPath::Direct) if paths.iter().all(|path| *path == DataPath::Direct) => "large files go directly between the hosts",
            Some(DataPath::Within) if paths.iter().all(|path| *path == DataPath::Within) => "server-side copy",
            _ => "through this machine",
        }
    }

    /// How the hosts of a run were reached, for its first line; empty if nothing is to be said.
    pub fn sentence(&self) -> String {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<String> = Vec::new();
        for words in known.iter().map(|known| known.host.describe()).filter(|words| !words.is_empty()) {
            if !all.contains(&words) {
                all.push(words);
            }
        }
        all.join(" and ")
    }
}
