//! What a backend says of itself, and what it is given to reach a host.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::place::{Host, Location, Role, Scheme};
use clap::{ArgMatches, Command};

/// One backend, listed in `PROVIDERS` of haul-run.
pub trait Provider: Sync + fmt::Debug {
    fn schemes(&self) -> &'static [Scheme];

    /// Adds the flags that only this backend has: help, completions, manual pages and docs/flags.md come from here.
    fn declare(&self, command: Command) -> Command {
        command
    }

    /// The values of these flags.
    ///
    /// # Errors
    /// Those of clap.
    fn read(&self, matches: &mut ArgMatches) -> Result<Option<Arc<dyn Values>>, clap::Error> {
        let _ = matches;
        Ok(None)
    }

    /// The values that [`Values::record`] made.
    ///
    /// # Errors
    /// What is no record of this backend's flags.
    fn recall(&self, record: serde_json::Value) -> serde_json::Result<Vec<Arc<dyn Values>>> {
        let _ = record;
        Ok(Vec::new())
    }

    /// Addresses with the same key are reached as one host, once in a run.
    fn host_key(&self, access: &Access, location: &Location) -> String {
        let _ = access;
        format!("{}://{}", location.scheme.word, location.authority())
    }

    /// Logs in, or finds out that the host is there.
    ///
    /// # Errors
    /// Whatever keeps it from being reached.
    fn connect(&self, access: &Access, location: &Location) -> Result<Arc<dyn Host>>;
}

/// The values of a backend's flags.
pub trait Values: Any + fmt::Debug + Send + Sync {
    /// The backend's first scheme and its values for a transfer spec: relative paths are made absolute below `directory`. `None`
    /// for values that are part of others. Flags have no secrets.
    fn record(&self, directory: &Path) -> Option<(Scheme, serde_json::Value)>;
}

/// Makes paths of a record absolute.
pub fn root_all<'a>(paths: impl IntoIterator<Item = &'a mut PathBuf>, directory: &Path) {
    for path in paths {
        *path = directory.join(&*path);
    }
}

/// What a host is reached for: a backend may prepare for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Intent {
    pub role: Role,
    /// Bytes of the largest file that is known to go there.
    pub largest: u64,
    /// The directory that the address names is listed next.
    pub lists: bool,
}

/// How the hosts of a run are reached.
#[derive(Clone, Default)]
pub struct Access {
    values: Vec<Arc<dyn Values>>,
    /// The longest that a host may say nothing; `None` is each backend's own bound.
    pub idle_timeout: Option<Duration>,
    /// `--timeout` of a command that moves no data: a request without an answer for this long ends it, though the host is alive.
    pub answer_timeout: Option<Duration>,
    /// The run moves data: further connections are worth their making.
    pub moves_data: bool,
    /// What the host that is reached next is for.
    pub intent: Intent,
    /// Where it is kept what was learned of hosts.
    pub state_dir: Option<PathBuf>,
    /// `-z`.
    pub compress: bool,
    /// `--streams`: connections for the data of one host.
    pub streams: Option<usize>,
    /// Prints a line for the user; nothing is printed without it.
    pub print: Option<fn(&str)>,
}

impl Access {
    /// With these values of flags.
    #[must_use]
    pub fn with(mut self, values: Arc<dyn Values>) -> Self {
        self.values.retain(|old| (**old).type_id() != (*values).type_id());
        self.values.push(values);
        self
    }

    /// The flags of a backend as they were given.
    pub fn get<T: Values + Default + Clone>(&self) -> T {
        self.values.iter().find_map(|values| (&**values as &dyn Any).downcast_ref().cloned()).unwrap_or_default()
    }

    /// The flags of all backends, for a transfer spec.
    pub fn record(&self, directory: &Path) -> BTreeMap<String, serde_json::Value> {
        let records = self.values.iter().filter_map(|values| values.record(directory));
        records.map(|(scheme, record)| (scheme.word.to_string(), record)).collect()
    }

    /// Other flags of a backend from here on.
    pub fn change<T: Values + Default + Clone>(&mut self, change: impl FnOnce(&mut T)) {
        let mut values = self.get::<T>();
        change(&mut values);
        *self = std::mem::take(self).with(Arc::new(values));
    }

    pub fn print(&self, line: &str) {
        if let Some(print) = self.print {
            print(line);
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.values).finish()
    }
}

/// By the flags alone.
impl PartialEq for Access {
    fn eq(&self, other: &Access) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Eq for Access {}
