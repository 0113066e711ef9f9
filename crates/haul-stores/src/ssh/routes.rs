//! Results of data connections to hosts in earlier runs.

use std::path::PathBuf;
use std::time::Duration;

use haul_core::entry::show as safe;

use crate::agent::DirectOutcome;

/// A file for each host, `<state directory>/hosts/<host>`, says that no data connection could be opened. After a day it is tried
/// again: networks change.
#[derive(Clone, Debug)]
pub struct Routes(pub Option<PathBuf>);

const BLOCKED: &str = "no data connection could be opened";
const FAILING: &str = "data connections opened and then failed";

const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);

impl Routes {
    fn file(&self, endpoint: &str) -> Option<PathBuf> {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "@._-".contains(c) { c } else { '+' };
        Some(self.0.as_ref()?.join("hosts").join(endpoint.chars().map(plain).collect::<String>()))
    }

    pub fn is_closed(&self, endpoint: &str) -> bool {
        let written = self.file(endpoint).and_then(|file| file.metadata().ok()).and_then(|meta| meta.modified().ok());
        written.is_some_and(|written| written.elapsed().is_ok_and(|age| age < FORGOTTEN))
    }

    /// For later runs: whether a data connection to a host could be made.
    pub fn learn(&self, endpoint: &str, works: bool) {
        self.note(endpoint, (!works).then_some(BLOCKED));
    }

    fn note(&self, endpoint: &str, trouble: Option<&str>) {
        let Some(file) = self.file(endpoint) else { return };
        // It saves time in the next run; failing to keep it is no failure.
        let _ = match trouble {
            None => std::fs::remove_file(&file),
            Some(trouble) => {
                file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&file, format!("{trouble}\n")))
            }
        };
    }

    /// The result of a run's data connections. What the user should know goes to `print`.
    pub fn saw(&self, endpoint: &str, seen: &DirectOutcome, print: &dyn Fn(&str)) {
        match seen {
            DirectOutcome::Works => self.note(endpoint, None),
            DirectOutcome::Blocked => self.note(endpoint, Some(BLOCKED)),
            DirectOutcome::Fails(e) => {
                self.note(endpoint, Some(FAILING));
                let why = safe(e.reason().as_bytes());
                print(&format!(
                    "{endpoint}: data connections failed twice ({why}); data now goes through ssh, for a day without a new \
                     try (--no-direct never tries, --data-ports tries again, `haul doctor {endpoint}` tests them)"
                ));
            }
        }
    }
}
