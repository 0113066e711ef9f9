//! One transfer as a call.

use std::sync::Arc;

use haul_core::error::Result;
use haul_core::event::Observer;
use haul_core::report::Report;
use haul_core::spec::TransferSpec;

use crate::plan::{self, RunMode};
use crate::registry;
use crate::run::{JournalUse, Run};

/// Does what the spec says and returns what was done; a file that failed is in the report, not an error. As by the program, the journal in
/// the user's state directory lets the next call with the same places resume. The calling thread waits; [`plan::open`] and
/// [`plan::Plan::execute`] are the two halves, for a caller that shows the plan, stops the run or keeps no journal.
///
/// # Errors
/// What kept the run from beginning: see [`plan::open`] and [`plan::Plan::execute`]. Nothing has been written then.
pub fn transfer(spec: &TransferSpec, observer: Arc<dyn Observer>) -> Result<Report> {
    let access = registry::access(&spec.access)?;
    let plan = plan::open(spec, &RunMode { guarded: true, ..RunMode::default() }, &access)?;
    let journal = JournalUse { spec: plan::text(spec, &access), ..JournalUse::default() };
    Ok(plan.execute(Run { journal: Some(journal), ..Run::new(observer) })?.report)
}

#[cfg(test)]
mod tests {
    use haul_core::spec::Operation;

    use super::*;
    use crate::location::Location;

    #[test]
    fn a_spec_becomes_a_report() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("from")).expect("made");
        std::fs::write(dir.path().join("from/a"), b"abc").expect("written");
        let place = |leaf: &str| Location::local(format!("{}/{leaf}", dir.path().display()).as_bytes());
        let spec = TransferSpec::new(Operation::Copy, vec![place("from/")], place("to"));
        let plan = plan::open(&spec, &RunMode::default(), &Default::default()).expect("a plan");
        let report = plan.execute(Run::new(Arc::new(()))).expect("a run").report;
        assert_eq!((report.made.files, report.bytes, report.failed), (1, 3, 0));
        assert_eq!(std::fs::read(dir.path().join("to/a")).expect("copied"), b"abc");
        let onto_itself = TransferSpec::new(Operation::Copy, vec![place("from")], place("from/below"));
        assert_eq!(transfer(&onto_itself, Arc::new(())).map(drop).map_err(|e| e.kind()), Err(haul_core::ErrorKind::Usage));
    }
}
