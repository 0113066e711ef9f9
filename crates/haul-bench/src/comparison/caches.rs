//! The page cache before a measurement.

use std::fs::{self, File};
use std::path::Path;

use haul_core::error::{Error, ErrorKind, Result};

const SWITCH: &str = "/proc/sys/vm/drop_caches";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caches {
    /// Dropped where that is allowed.
    Auto,
    Drop,
    /// Left as they are: the source was read just before.
    Warm,
}

impl Caches {
    pub const ALL: [(Caches, &str); 3] = [(Caches::Auto, "auto"), (Caches::Drop, "drop"), (Caches::Warm, "warm")];

    pub fn word(self) -> &'static str {
        Caches::ALL.iter().find(|(caches, _)| *caches == self).map_or("", |(_, word)| word)
    }

    /// Whether they will be dropped, and why not. Errors: `Denied` where they are to be and cannot.
    pub fn sync(self) -> Result<Settled> {
        let allowed = || fs::OpenOptions::new().write(true).open(SWITCH);
        match self {
            Caches::Warm => Ok(Settled { drop: false, words: "warm" }),
            Caches::Auto if !rustix::process::geteuid().is_root() => Ok(Settled { drop: false, words: "not dropped: needs root" }),
            Caches::Auto => Ok(match allowed() {
                Ok(_) => Settled { drop: true, words: "dropped" },
                Err(_) => Settled { drop: false, words: "not dropped: the system does not allow it" },
            }),
            Caches::Drop => match allowed() {
                Ok(_) => Ok(Settled { drop: true, words: "dropped" }),
                Err(e) => {
                    let e = Error::new(ErrorKind::Denied, "drop caches").at(SWITCH.as_bytes()).because(e.to_string());
                    Err(e.hint("run it as root, or with --caches warm or auto"))
                }
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    pub drop: bool,
    pub words: &'static str,
}

impl Settled {
    /// Syncs what was written before, so that no contender pays for the copy of another, and drops clean pages, names and
    /// inodes of this machine if that is wanted. `written` is where the copies go and `read` what is copied, as far as they are
    /// on this machine; pages of the source that are not on disk yet could not be dropped.
    pub fn prepare(self, written: Option<&Path>, read: Option<&Path>) -> Result<()> {
        for place in written.into_iter().chain(read.filter(|_| self.drop)) {
            let file = File::open(place).map_err(|e| Error::io(e, "open").at(place.as_os_str().as_encoded_bytes()))?;
            rustix::fs::syncfs(&file).map_err(|e| Error::io(e.into(), "sync").at(place.as_os_str().as_encoded_bytes()))?;
        }
        if self.drop {
            fs::write(SWITCH, "3").map_err(|e| Error::io(e, "drop caches").at(SWITCH.as_bytes()))?;
        }
        Ok(())
    }
}
