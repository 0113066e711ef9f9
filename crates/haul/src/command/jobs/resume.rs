//! `haul jobs resume`: runs an unfinished job again as it was begun.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::SystemTime;

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::journal::{JobInfo, JobState, State};
use haul_run::open;

use super::{command, find};
use crate::flags::Global;
use crate::out;

/// Becomes the recorded command in its directory; returns only if that failed.
pub fn resume(state: &State, id: &str, global: &Global) -> Result<()> {
    let jobs = state.list(SystemTime::now())?;
    let job = find(&jobs, id)?;
    let arguments = arguments(job, global.json)?;
    if !global.quiet && !global.json {
        out::say(&format!("resuming {}: {}", job.id, command(job)));
    }
    if let Some(directory) = &job.directory {
        std::env::set_current_dir(open::path_of(directory)).map_err(|e| {
            let e = Error::io(e, "change to the directory of the job").at(directory);
            e.hint("its arguments are relative to it; `haul jobs clean` removes the job")
        })?;
    }
    let program = std::env::current_exe().map_err(|e| Error::io(e, "find this program"))?;
    let mut words = arguments.into_iter();
    let mut next = Command::new(program);
    if let Some(name) = words.next() {
        next.arg0(name);
    }
    // Its own --state-dir, if it has one, leads to the same place.
    let failed = next.args(words).env("HAUL_STATE_DIR", state.root()).exec();
    Err(Error::io(failed, "start haul"))
}

/// The words to run again: without `--restart`, which would forget what has landed.
fn arguments(job: &JobInfo, json: bool) -> Result<Vec<OsString>> {
    let refuse = |kind, why: String, hint: String| Err(Error::new(kind, "resume").at(job.id.as_bytes()).because(why).hint(hint));
    match &job.state {
        JobState::Finished { .. } => refuse(ErrorKind::Usage, "the job is finished".into(), format!("to repeat it: {}", command(job))),
        JobState::Running { pid, host } => refuse(
            ErrorKind::Busy,
            format!("the job is running, as process {pid} on {}", show(host.as_bytes())),
            "wait until it ends, or stop it: it keeps the transferred data".into(),
        ),
        JobState::Unfinished { .. } if job.sources.iter().any(|source| source == "-") => refuse(
            ErrorKind::Usage,
            "its source is standard input, which cannot be read again".into(),
            "run its pipeline again; `haul jobs clean` removes the partial file".into(),
        ),
        JobState::Unfinished { .. } if job.arguments.is_empty() => refuse(
            ErrorKind::Usage,
            "its arguments are not recorded: an earlier version of haul started it".into(),
            format!("run it again: {}", command(job)),
        ),
        JobState::Unfinished { .. } => {
            let options = job.arguments.iter().position(|word| word == b"--").unwrap_or(job.arguments.len());
            let kept = job.arguments.iter().enumerate().filter(|(at, word)| *at >= options || *word != b"--restart");
            let mut words: Vec<OsString> = kept.map(|(_, word)| OsString::from_vec(word.clone())).collect();
            if json {
                words.insert(1.min(words.len()), "--json".into());
            }
            Ok(words)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{job, unfinished};
    use super::*;

    #[test]
    fn words_are_those_of_the_record() {
        let mut begun = job("00", unfinished());
        begun.arguments = ["haul", "cp", "--restart", "-a", "a b", "--", "--restart"].map(|word| word.as_bytes().to_vec()).into();
        assert_eq!(arguments(&begun, false).expect("words"), ["haul", "cp", "-a", "a b", "--", "--restart"]);
        assert_eq!(arguments(&begun, true).expect("words")[..3], ["haul", "--json", "cp"]);
        begun.arguments.clear();
        assert!(arguments(&begun, false).expect_err("of an old version").next_step().is_some_and(|next| next.contains("cd /home/me")));
    }

    #[test]
    fn standard_input_is_not_read_again() {
        let piped = JobInfo { sources: vec!["-".into()], ..job("00", unfinished()) };
        assert!(arguments(&piped, false).expect_err("its input is gone").next_step().is_some_and(|next| next.contains("pipeline")));
    }

    #[test]
    fn what_runs_or_has_finished_is_not_resumed() {
        let running = job("00", JobState::Running { pid: 7, host: "node1".into() });
        assert_eq!(arguments(&running, false).expect_err("it runs").kind(), ErrorKind::Busy);
        let finished = job("00", JobState::Finished { record: String::new(), at: None });
        assert_eq!(arguments(&finished, false).expect_err("it is done").kind(), ErrorKind::Usage);
    }
}
