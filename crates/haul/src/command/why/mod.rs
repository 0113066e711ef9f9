//! `haul why`: what limited a run, where its time went, and what to try next.

mod show;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use haul_core::entry::show as printable;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::journal::{JobInfo, JobState, State};
use serde_json::{Value, json};

use super::bench;
use super::jobs::{View, digits, find, state};
use crate::exit::Exit;
use crate::figures::Figures;
use crate::flags::{Global, WhyFlags};
use crate::{out, render};

/// Columns that the page needs.
const NARROWEST: usize = 40;

pub fn run(flags: &WhyFlags, global: &Global) -> Exit {
    let print = |text: String| out::print(text.as_bytes()).map_err(|e| Error::io(e, "write"));
    let printed = match &flags.what {
        Some(what) if Path::new(what).join("run.json").exists() => bench::report::explain(Path::new(what), global),
        Some(what) => one(what, global).and_then(print),
        None => last(global).and_then(print),
    };
    match printed {
        Ok(()) => Exit::Success,
        Err(e) => out::error(&e),
    }
}

fn refuse(what: &[u8], reason: impl Into<String>, hint: &str) -> Error {
    Error::new(ErrorKind::Usage, "explain").at(what).because(reason.into()).hint(hint.to_string())
}

/// The job that is named by the beginning of its id.
fn one(what: &OsStr, global: &Global) -> Result<String> {
    let bytes = what.as_bytes();
    let is_id = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_hexdigit);
    if !is_id {
        let reason = if Path::new(what).is_dir() { "no haul bench run in that directory" } else { "neither a job nor a directory" };
        return Err(refuse(bytes, reason, "`haul jobs` lists the jobs; a run of haul bench is named by its directory"));
    }
    let state = state(global)?;
    let jobs = state.list(SystemTime::now())?;
    let id = what.to_string_lossy();
    let job = find(&jobs, &id)?;
    explain(job, &jobs, &state, global)
}

/// The last run that came to an end.
fn last(global: &Global) -> Result<String> {
    let state = state(global)?;
    let jobs = state.list(SystemTime::now())?;
    let Some(job) = jobs.iter().find(|job| !matches!(job.state, JobState::Running { .. })) else {
        let root = printable(state.root().as_os_str().as_bytes());
        let reason = if jobs.is_empty() { "no run is recorded" } else { "no run has ended yet" };
        let hint = "run a copy first; dry runs, check and copies without a state directory are not recorded";
        return Err(refuse(root.as_bytes(), reason, hint));
    };
    explain(job, &jobs, &state, global)
}

fn explain(job: &JobInfo, jobs: &[JobInfo], state: &State, global: &Global) -> Result<String> {
    let view = View::of(state);
    let short = &job.id[..digits(jobs).min(job.id.len())];
    let Some(figures) = job.figures.as_deref().and_then(Figures::read) else {
        let (reason, hint) = match &job.state {
            JobState::Running { pid, host } => (
                format!("it is running, as process {pid} on {host}; the analysis follows when it ends"),
                "`kill -USR1 PID` shows how far it is",
            ),
            JobState::Unfinished { .. } => ("its last run was killed before its analysis".to_string(), "run it again: it resumes"),
            JobState::Finished { .. } => ("it was run by another version of haul".to_string(), "run it again with this one"),
        };
        return Err(refuse(short.as_bytes(), reason, hint));
    };
    if global.json {
        return Ok(line(&as_json(job, &figures)));
    }
    Ok(show::text(job, short, &figures, &view, bench::width().max(NARROWEST)))
}

fn line(document: &Value) -> String {
    render::harmless(document.to_string()) + "\n"
}

fn as_json(job: &JobInfo, figures: &Figures) -> Value {
    let mut document = json!({
        "event": "why",
        "job": job.id,
        "command": job.command,
    });
    if let (Value::Object(document), Ok(Value::Object(more))) = (&mut document, serde_json::to_value(figures)) {
        document.extend(more);
        document.insert("version".into(), render::JSON_VERSION.into());
    }
    document
}

#[cfg(test)]
mod tests {
    use haul_test::documented::{documented, keys};

    use super::*;

    pub fn as_documented(document: &Value) {
        let event = document["event"].as_str().unwrap_or_default();
        assert_eq!(Some(&keys(document)), documented().get(event), "{event}");
    }

    #[test]
    fn the_documents_have_the_documented_keys_and_no_others() {
        let job = show::tests::job();
        let ranks = Some(crate::spread::SpreadFigures::from(&crate::spread::tests::spread()));
        let figures = Figures { ranks, ..show::tests::figures() };
        as_documented(&as_json(&job, &Figures { remote_source: figures.remote_destination.clone(), ..figures }));
    }
}
