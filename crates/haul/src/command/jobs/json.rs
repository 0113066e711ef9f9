//! What `haul jobs --json` prints: one object a job. These structs are the schema, described in docs/json.md.

use std::borrow::Cow;

use haul_core::hash::hex;
use haul_core::journal::{JobInfo, JobState};
use haul_core::store::Token;
use jiff::Timestamp;
use serde::Serialize;

use super::{Did, staged};
use crate::render::json::text;

/// A job in a list.
#[derive(Serialize)]
#[serde(tag = "event", rename = "job")]
pub struct Job<'a> {
    job: &'a str,
    state: &'static str,
    sources: &'a [String],
    target: &'a str,
    directory: Option<Cow<'a, str>>,
    directory_hex: Option<String>,
    command: Vec<Cow<'a, str>>,
    command_hex: Option<Vec<String>>,
    /// A transfer spec: [`haul_core::spec`] has its form.
    spec: Option<serde_json::Value>,
    started: Option<String>,
    heartbeat: Option<String>,
    finished: Option<String>,
    pid: Option<u32>,
    host: Option<&'a str>,
    unfinished: Vec<Unfinished>,
    landed_bytes: Option<u64>,
    names_again: Option<u64>,
    record: Option<Record>,
}

#[derive(Serialize)]
struct Unfinished {
    path: String,
    path_hex: Option<String>,
    staging: String,
    staging_hex: Option<String>,
}

impl Unfinished {
    fn of((path, token): &(Box<[u8]>, Token)) -> Unfinished {
        let staging = staged(path, token);
        let ((path, path_hex), (staging, staging_hex)) = (text(path), text(&staging));
        Unfinished { path: path.into_owned(), path_hex, staging: staging.into_owned(), staging_hex }
    }
}

#[derive(Serialize)]
struct Record {
    files: u64,
    bytes: u64,
    unchanged: u64,
    deleted: u64,
    seconds: Option<f64>,
    limited_by: Option<String>,
}

impl Record {
    fn of(record: &str) -> Record {
        let Did { files, bytes, kept, deleted, seconds, limited_by } = Did::read(record);
        Record { files, bytes, unchanged: kept, deleted, seconds, limited_by }
    }
}

impl<'a> Job<'a> {
    pub fn of(job: &'a JobInfo) -> Job<'a> {
        let time = |at: Option<i64>| at.and_then(|at| Timestamp::from_second(at).ok()).map(|at| at.to_string());
        let (directory, directory_hex) = job.directory.as_deref().map(text).map_or((None, None), |(text, hex)| (Some(text), hex));
        let exact = job.arguments.iter().all(|argument| std::str::from_utf8(argument).is_ok());
        let bare = Job {
            job: &job.id,
            state: "unfinished",
            sources: &job.sources,
            target: &job.target,
            directory,
            directory_hex,
            command: job.arguments.iter().map(|argument| text(argument).0).collect(),
            command_hex: (!exact).then(|| job.arguments.iter().map(|argument| hex(argument)).collect()),
            spec: job.spec.as_deref().and_then(|text| serde_json::from_str(text).ok()),
            started: time(job.started),
            heartbeat: time(job.heartbeat),
            finished: None,
            pid: None,
            host: None,
            unfinished: Vec::new(),
            landed_bytes: None,
            names_again: None,
            record: None,
        };
        match &job.state {
            JobState::Running { pid, host } => Job { state: "running", pid: Some(*pid), host: Some(host), ..bare },
            JobState::Unfinished { staging, landed, small, names } => Job {
                unfinished: staging.iter().map(Unfinished::of).collect(),
                landed_bytes: Some(*landed),
                names_again: Some(*small + *names),
                ..bare
            },
            JobState::Finished { record, at } => Job { state: "finished", finished: time(*at), record: Some(Record::of(record)), ..bare },
        }
    }

    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers under string keys are always JSON")
    }
}

/// What `haul jobs clean` did with a job.
#[derive(Serialize)]
#[serde(tag = "event", rename = "cleaned")]
pub struct Cleaned<'a> {
    pub job: &'a str,
    pub action: &'static str,
    pub unfinished_files: Option<u64>,
    pub names_again: Option<u64>,
    pub reason: Option<&'a str>,
}

impl Cleaned<'_> {
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers under string keys are always JSON")
    }
}

#[cfg(test)]
mod tests {
    use haul_test::documented::{documented, keys};

    use super::super::tests::{job, unfinished};
    use super::*;

    #[test]
    fn jobs_have_the_documented_keys_and_no_others() {
        let record = "files 3\nbytes 9\nkept 1\ndeleted 0\nseconds 1.5\nlimited by the disk\n".to_string();
        let (begun, done) = (job("00", unfinished()), job("01", JobState::Finished { record, at: Some(9) }));
        let found = [&begun, &done].into_iter().flat_map(|job| {
            let value: serde_json::Value = serde_json::from_str(&Job::of(job).line()).expect("JSON");
            assert_eq!(value["command"], serde_json::json!(["haul", "cp", "-a", "run7/", "/scratch/run7"]));
            keys(&value)
        });
        assert_eq!(documented().get("job"), Some(&found.collect()));
        let cleaned = Cleaned { job: "00", action: "left", unfinished_files: None, names_again: None, reason: Some("it runs") };
        assert_eq!(documented().get("cleaned"), Some(&keys(&serde_json::from_str(&cleaned.line()).expect("JSON"))));
    }

    #[test]
    fn words_that_are_no_text_are_there_in_hexadecimal() {
        let mut job = job("00", unfinished());
        job.arguments.push(b"caf\xe9".to_vec());
        let value: serde_json::Value = serde_json::from_str(&Job::of(&job).line()).expect("JSON");
        assert_eq!((&value["command"][5], &value["command_hex"][5]), (&"caf\u{fffd}".into(), &"636166e9".into()));
        assert_eq!(value["directory_hex"], serde_json::Value::Null);
    }
}
