//! What the job of a batch system means for a run: its time limit, its number of restarts, requeuing.

use std::time::SystemTime;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::job::Job;
use haul_core::report::{Ending, Report};
use haul_run::allocation::{self, Allocation, System, command};
use haul_run::run::{JournalChoice, Ran};

use crate::flags::run::BatchChoice;
use crate::{out, units};

/// The job of a batch system round a run, if any.
pub struct Batch {
    job: Option<Allocation>,
    choice: BatchChoice,
}

impl Batch {
    /// # Errors
    /// `Usage` for `--requeue` outside a job of Slurm.
    pub fn of(choice: BatchChoice) -> Result<Batch> {
        let job = allocation::here();
        if choice.requeue && job.as_ref().is_none_or(|job| job.system != System::Slurm) {
            let e = Error::new(ErrorKind::Usage, "--requeue").because("this is no Slurm job: SLURM_JOB_ID is not set");
            return Err(e.hint("submit it with `haul slurm --submit`, or omit --requeue"));
        }
        Ok(Batch { job, choice })
    }

    /// Stops the run before the job's time limit. Adds the line that says so.
    pub fn bound(&self, job: &mut Job, notes: &mut Vec<String>) {
        let Some(batch) = &self.job else { return };
        let cpus = batch.cpus.map(|_| format!("{} on this node", units_of_cpus(allocation::processors())));
        let left = if self.choice.unlimited { None } else { batch.left(SystemTime::now(), &command::time_left) };
        let stops = left.map(allocation::stop_after);
        let first = stops.filter(|stops| job.deadline.is_none_or(|deadline| *stops < deadline));
        if first.is_some() {
            job.deadline = first;
        }
        let end = match (first, stops, self.choice.unlimited) {
            (Some(stops), ..) => Some(format!("stops in {}, before the job's time limit", units::duration(stops))),
            (None, Some(_), _) => Some("--deadline comes before the job's time limit".to_string()),
            (None, None, true) => Some("--deadline none ignores the job's time limit".to_string()),
            (None, None, false) => None,
        };
        let parts: Vec<String> = [cpus, end].into_iter().flatten().collect();
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join("; ")) };
        notes.push(format!("{}{parts}", batch.title()));
    }

    /// A job that runs again resumes what it began, also with `--restart`.
    pub fn journal(&self, choice: JournalChoice) -> JournalChoice {
        let again = self.job.as_ref().is_some_and(|job| job.restarts > 0);
        JournalChoice { restart: choice.restart && !again, ..choice }
    }

    /// # Errors
    /// `Usage` where a run that stops cannot be resumed: the job would begin again for ever.
    pub fn check(&self, resumable: bool) -> Result<()> {
        if !self.choice.requeue || resumable {
            return Ok(());
        }
        let e = Error::new(ErrorKind::Usage, "--requeue").because("a stream cannot be resumed, so the job would start over each time");
        Err(e.hint("copy to a file, or omit --requeue"))
    }

    /// Has the job run again if a deadline stopped the run and another gets further. Slurm ends this process then: it comes last.
    ///
    /// # Errors
    /// See [`command::requeue`].
    pub fn end(&self, ran: &Ran) -> Result<()> {
        let Some(job) = self.job.as_ref().filter(|_| self.choice.requeue && ran.report.ending == Ending::Deadline) else { return Ok(()) };
        if let Some(reason) = in_vain(ran, job.restarts) {
            out::say(&format!("does not requeue Slurm job {}: {reason}", job.job));
            return Ok(());
        }
        out::say(&format!("requeues Slurm job {} to resume", job.job));
        command::requeue(&job.job)
    }
}

/// Why one more run would get no further than this one: the job would run for ever.
fn in_vain(ran: &Ran, restarts: u32) -> Option<&'static str> {
    if !ran.kept {
        return Some("without a journal it would start over each time; name a directory with --state-dir");
    }
    (restarts > 0 && !got_further(&ran.report)).then_some("this run got no further than the one before; give the job more time")
}

fn got_further(report: &Report) -> bool {
    let entries = [report.made, report.renamed, report.deleted].iter().any(|kinds| kinds.total() > 0);
    entries || report.bytes > 0 || report.attributes > 0
}

fn units_of_cpus(count: u32) -> String {
    crate::text::things(u64::from(count), "CPU")
}

#[cfg(test)]
mod tests {
    use haul_core::report::Kinds;

    use super::*;

    #[test]
    fn a_job_runs_again_only_where_that_gets_further() {
        let vain = |kept, report, restarts| in_vain(&Ran { report, kept }, restarts).is_some();
        let nothing = || Report { resumed_bytes: 5, verified_bytes: 5, ..Report::default() };
        assert!(!vain(true, nothing(), 0), "the first run may have had little time");
        assert!(vain(true, nothing(), 1));
        assert!(!vain(true, Report { bytes: 1, ..Report::default() }, 9));
        assert!(!vain(true, Report { made: Kinds { files: 1, ..Kinds::default() }, ..Report::default() }, 9));
        assert!(!vain(true, Report { deleted: Kinds { dirs: 1, ..Kinds::default() }, ..Report::default() }, 9));
        assert!(vain(false, Report { bytes: 1, ..Report::default() }, 0), "nothing is left to resume from");
    }
}
