//! The directory of a run, and the run that is in it already.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_bench::record::host::nearest;
use haul_bench::record::{self, Header, Kind};
use haul_core::error::{Error, ErrorKind, Result};
use haul_run::open;
use serde_json::Value;

use super::super::runs;
use super::Origin;
use crate::flags::Global;
use crate::flags::bench::compare::CompareOptions;

/// The directory of a run, and the properties that a resumed run keeps.
pub struct Keeping {
    pub dir: PathBuf,
    /// With the identity of the run that is there, if there is one: it is in names at the destination.
    pub header: Header,
    pub old: BTreeMap<String, Value>,
    pub seed: u64,
    /// For the state of haul as a contender: not the user's.
    pub state: PathBuf,
}

impl Keeping {
    pub fn of(options: &CompareOptions, global: &Global) -> Keeping {
        let dir = runs::directory(options.out.as_deref(), global, Kind::Compare);
        let mut header = runs::header(Kind::Compare);
        let mut old = BTreeMap::new();
        if let Ok((there, _)) = record::read(&dir) {
            (header.id, old) = (there.id, there.settings);
        }
        let seed = options.seed.or_else(|| old.get("seed")?.as_u64()).unwrap_or_else(|| runs::random() & 0xffff_ffff);
        Keeping { header, old, state: dir.join("haul-state"), dir, seed }
    }

    /// Refuses a run directory that is the source or in it: samples written there would change the source.
    pub fn apart(&self, from: &Origin, options: &CompareOptions) -> Result<()> {
        // What is not there yet is below the nearest directory that is.
        if from.location.is_remote() || !nearest(&self.dir).is_some_and(|dir| dir.starts_with(open::path_of(&from.location.path))) {
            return Ok(());
        }
        let e = Error::new(ErrorKind::Usage, "keep the samples").at(self.dir.as_os_str().as_bytes());
        let e = e.because("this run directory is the source or inside it: what is written there would change what is copied");
        Err(e.hint(match options.out {
            Some(_) => "name a directory outside of the source with --out",
            None => "it lies below the state directory, which the source contains: name one outside of the source with --out DIR",
        }))
    }

    /// For programs that are run: haul's own jobs are not to lie among the user's.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        vec![("HAUL_STATE_DIR".into(), self.state.clone().into())]
    }
}
