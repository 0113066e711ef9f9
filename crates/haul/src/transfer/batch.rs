//! What the job of a batch system means for a run: its time limit, its number of restarts, requeuing.

use std::time::SystemTime;

use haul_core::error::{Error, ErrorKind, Result};
use haul_core::job::Job;
use haul_core::report::{Ending, Report};

use crate::allocation::{self, Allocation, System, command};
use crate::flags::copy::JournalChoice;
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

    /// Has the job run again if a deadline stopped the run. Slurm ends this process then: it comes last.
    ///
    /// # Errors
    /// See [`command::requeue`].
    pub fn end(&self, report: &Report) -> Result<()> {
        match &self.job {
            Some(job) if self.choice.requeue && report.ending == Ending::Deadline => {
                out::say(&format!("requeues Slurm job {} to resume", job.job));
                command::requeue(&job.job)
            }
            _ => Ok(()),
        }
    }
}

fn units_of_cpus(count: u32) -> String {
    crate::render::things(u64::from(count), "CPU")
}
