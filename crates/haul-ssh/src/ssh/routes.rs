//! What earlier runs found out about hosts: whether data connections can be made, and whether haul is there.

use std::path::PathBuf;
use std::time::Duration;

use haul_core::entry::show as safe;

use crate::agent::DirectOutcome;

/// A file for each host, `<state directory>/hosts/<host>`, says that no data connection could be opened; one named `<host>=plain`, that
/// haul is not there. After a day both are forgotten: networks and hosts change.
#[derive(Clone, Debug)]
pub struct Routes(pub Option<PathBuf>);

/// What a file is about, behind the host's name.
const DATA: &str = "";
const PLAIN: &str = "=plain";
const BLOCKED: &str = "no data connection could be opened";
const FAILING: &str = "data connections opened and then failed";

const FORGOTTEN: Duration = Duration::from_secs(24 * 3600);

impl Routes {
    /// `about` has a character that no host name leaves.
    fn file(&self, endpoint: &str, about: &str) -> Option<PathBuf> {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "@._-".contains(c) { c } else { '+' };
        Some(self.0.as_ref()?.join("hosts").join(endpoint.chars().map(plain).collect::<String>() + about))
    }

    pub fn is_closed(&self, endpoint: &str) -> bool {
        self.is_known(endpoint, DATA)
    }

    /// Whether a run of today did not find haul on the host.
    pub fn is_plain(&self, endpoint: &str) -> bool {
        self.is_known(endpoint, PLAIN)
    }

    /// For later runs: whether haul is on the host.
    pub fn found(&self, endpoint: &str, is_there: bool) {
        // An answer that is known already costs nothing.
        if !is_there || self.is_plain(endpoint) {
            self.note(endpoint, PLAIN, (!is_there).then_some("haul was not found there"));
        }
    }

    fn is_known(&self, endpoint: &str, about: &str) -> bool {
        let written = self.file(endpoint, about).and_then(|file| file.metadata().ok()).and_then(|meta| meta.modified().ok());
        written.is_some_and(|written| written.elapsed().is_ok_and(|age| age < FORGOTTEN))
    }

    /// For later runs: whether a data connection to a host could be made.
    pub fn learn(&self, endpoint: &str, works: bool) {
        self.note(endpoint, DATA, (!works).then_some(BLOCKED));
    }

    fn note(&self, endpoint: &str, about: &str, trouble: Option<&str>) {
        let Some(file) = self.file(endpoint, about) else { return };
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
            DirectOutcome::Works => self.note(endpoint, DATA, None),
            DirectOutcome::Blocked => self.note(endpoint, DATA, Some(BLOCKED)),
            DirectOutcome::Fails(e) => {
                self.note(endpoint, DATA, Some(FAILING));
                let why = safe(e.reason().as_bytes());
                print(&format!(
                    "{endpoint}: data connections failed twice ({why}); data now goes through ssh, for a day without a new \
                     try (--no-direct never tries, --data-ports tries again, `haul doctor {endpoint}` tests them)"
                ));
            }
        }
    }
}
