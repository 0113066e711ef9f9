//! The variables and the home directory that settings come from: the process's own, or a table.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Read by whoever wants a setting, never written. `Debug` shows no value: some are secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment(Arc<Kind>);

#[derive(PartialEq, Eq)]
enum Kind {
    Process,
    Table { variables: HashMap<String, String>, home: Option<PathBuf> },
}

impl Environment {
    /// The process's own, read when asked.
    pub fn process() -> Environment {
        Environment(Arc::new(Kind::Process))
    }

    /// Nothing but this.
    pub fn table<'a>(home: Option<PathBuf>, variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Environment {
        let variables = variables.into_iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        Environment(Arc::new(Kind::Table { variables, home }))
    }

    /// A variable's value; one that is empty or not UTF-8 counts as not set.
    pub fn get(&self, name: &str) -> Option<String> {
        let value = match &*self.0 {
            Kind::Process => std::env::var(name).ok(),
            Kind::Table { variables, .. } => variables.get(name).cloned(),
        };
        value.filter(|value| !value.is_empty())
    }

    /// The first of these that is set.
    pub fn first(&self, names: &[&'static str]) -> Option<(&'static str, String)> {
        names.iter().find_map(|name| self.get(name).map(|value| (*name, value)))
    }

    /// "true" in any case, as the SDKs read their switches.
    pub fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    pub fn home(&self) -> Option<PathBuf> {
        match &*self.0 {
            Kind::Process => std::env::home_dir().filter(|home| !home.as_os_str().is_empty()),
            Kind::Table { home, .. } => home.clone(),
        }
    }

    /// A path as people write it in settings: `~/x` is below the home directory.
    pub fn path(&self, written: &str) -> PathBuf {
        match (written.strip_prefix("~/"), self.home()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(written),
        }
    }

    /// Every variable that is text. (`std::env::vars` would panic at one that is not.)
    fn all(&self) -> HashMap<String, String> {
        match &*self.0 {
            Kind::Process => {
                std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))).collect()
            }
            Kind::Table { variables, .. } => variables.clone(),
        }
    }
}

impl Default for Environment {
    fn default() -> Self {
        Environment::process()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &*self.0 {
            Kind::Process => "Environment(process)",
            Kind::Table { .. } => "Environment(table)",
        })
    }
}

impl reqsign_core::Env for Environment {
    fn var(&self, key: &str) -> Option<String> {
        self.get(key)
    }

    fn vars(&self) -> HashMap<String, String> {
        self.all()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        self.home()
    }
}
