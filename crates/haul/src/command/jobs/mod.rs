//! `haul jobs`: what runs, what was interrupted and can go on, what has finished; and cleaning up behind it.

mod clean;
mod json;
mod resume;

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::journal::{JobInfo, JobState, State, default_root};
use haul_core::store::Token;
use haul_local::unfinished_leaf;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::exit::Exit;
use crate::flags::{Global, JobsCommand};
use crate::text::things;
use crate::{out, render, units};

/// Digits of an id that are shown, unless more are needed to tell it from another.
const SHORT: usize = 8;

pub fn run(command: &JobsCommand, global: &Global) -> Exit {
    let mut report = Report { json: global.json, quiet: global.quiet, text: String::new(), failed: false };
    let done = state(global).and_then(|state| {
        let view = View::of(&state);
        match command {
            JobsCommand::List { all } => list(&state, &view, *all, &mut report),
            JobsCommand::Show(id) => show_one(&state, &view, id, &mut report),
            JobsCommand::Resume(id) => resume::resume(&state, id, global),
            JobsCommand::Clean { jobs, older_than, dry, connect } => {
                let means = clean::Means { jobs, older_than: *older_than, connect };
                clean::clean(&state, &view, &means, *dry, &mut report)
            }
        }
    });
    let printed = out::print(report.text.as_bytes()).map_err(|e| Error::io(e, "write"));
    match done.and(printed) {
        Err(e) => out::error(&e),
        Ok(()) if report.failed => Exit::Partial,
        Ok(()) => Exit::Success,
    }
}

pub(super) fn state(global: &Global) -> Result<State> {
    let root = global.state_dir.clone().or_else(|| default_root(|name| std::env::var_os(name)));
    let root = root.ok_or_else(|| {
        let e = Error::new(ErrorKind::Usage, "open state").because("neither HAUL_STATE_DIR, XDG_STATE_HOME nor HOME is set");
        e.hint("name the directory with --state-dir")
    })?;
    State::open(root)
}

fn unix(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs().cast_signed())
}

/// What is printed at the end, in one piece.
struct Report {
    json: bool,
    quiet: bool,
    text: String,
    failed: bool,
}

impl Report {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// A line of JSON.
    fn record(&mut self, record: &str) {
        self.line(&render::harmless(record.to_string()));
    }
}

/// What lines depend on beside the jobs.
pub(super) struct View {
    pub root: String,
    pub zone: TimeZone,
    /// Seconds since 1970.
    pub now: i64,
}

impl View {
    pub fn of(state: &State) -> Self {
        View { root: show(state.root().as_os_str().as_encoded_bytes()), zone: TimeZone::system(), now: unix(SystemTime::now()) }
    }

    pub fn time(&self, at: Option<i64>) -> String {
        match at.map(Timestamp::from_second) {
            Some(Ok(at)) => at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
            _ => "at an unknown time".into(),
        }
    }

    pub fn ago(&self, at: Option<i64>) -> String {
        let seconds = at.map(|at| self.now.saturating_sub(at).max(0).cast_unsigned());
        seconds.filter(|s| *s > 0).map_or(String::new(), |s| {
            if s < 60 { format!(" ({s} s ago)") } else { format!(" ({} ago)", units::duration(Duration::from_secs(s))) }
        })
    }
}

/// As many digits as tell the jobs apart.
pub(super) fn digits(jobs: &[JobInfo]) -> usize {
    let longest = jobs.iter().flat_map(|a| jobs.iter().filter(|b| a.id != b.id).map(|b| common(&a.id, &b.id))).max();
    longest.map_or(SHORT, |n| (n + 1).max(SHORT))
}

fn common(a: &str, b: &str) -> usize {
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

/// The job that is meant by its id or the beginning of it.
pub(super) fn find<'a>(jobs: &'a [JobInfo], id: &str) -> Result<&'a JobInfo> {
    let mut meant = jobs.iter().filter(|job| job.id.starts_with(id) && !id.is_empty());
    let refuse = |reason: &str, hint: &str| {
        Err(Error::new(ErrorKind::Usage, "find the job").at(id.as_bytes()).because(reason.to_string()).hint(hint.to_string()))
    };
    match (meant.next(), meant.next()) {
        (Some(job), None) => Ok(job),
        (None, _) => refuse("no such job", "`haul jobs` lists them"),
        (Some(_), Some(_)) => refuse("several jobs match", "write more of the ID"),
    }
}

/// Finished jobs that `haul jobs` shows unless all are asked for.
const LAST: usize = 20;

fn list(state: &State, view: &View, all: bool, report: &mut Report) -> Result<()> {
    let mut jobs = state.list(SystemTime::now())?;
    if report.json {
        jobs.iter().for_each(|job| report.record(&json::Job::of(job).line()));
        return Ok(());
    }
    if jobs.is_empty() {
        report.line(&format!("no jobs in {}", view.root));
        return Ok(());
    }
    let width = digits(&jobs);
    // The newest come first.
    let (mut finished, before) = (0, jobs.len());
    jobs.retain(|job| {
        finished += usize::from(matches!(job.state, JobState::Finished { .. }));
        all || finished <= LAST || !matches!(job.state, JobState::Finished { .. })
    });
    let older = before - jobs.len();
    for (n, job) in jobs.iter().enumerate() {
        if n > 0 {
            report.line("");
        }
        overview(job, view, width, &mut report.text);
    }
    if jobs.iter().any(|job| matches!(job.state, JobState::Unfinished { .. })) {
        report.line("\n`haul jobs resume JOB` resumes a job, `haul jobs show JOB` shows details, `haul jobs clean JOB` removes it.");
    }
    if older > 0 {
        report.line(&format!("\n{} finished earlier: `haul jobs list --all`", things(older as u64, "job")));
    }
    Ok(())
}

/// Three or four lines: what it is, where it stands, what to do.
fn overview(job: &JobInfo, view: &View, width: usize, to: &mut String) {
    let standing = match &job.state {
        JobState::Running { pid, host } => format!("running since {}, process {pid} on {}", view.time(job.started), show(host.as_bytes())),
        JobState::Unfinished { .. } => {
            let seen = job.heartbeat.max(job.started);
            format!("unfinished since {}{}", view.time(seen), view.ago(seen))
        }
        JobState::Finished { at, .. } => format!("finished {}{}", view.time(*at), view.ago(*at)),
    };
    let indent = " ".repeat(width + 2);
    let _ = writeln!(to, "{}  {standing}", &job.id[..width.min(job.id.len())]);
    let arrow = format!("{} -> {}", from(job), job.target);
    if crate::text::columns(&arrow) + indent.len() <= 80 {
        let _ = writeln!(to, "{indent}{arrow}");
    } else {
        let _ = writeln!(to, "{indent}{}\n{indent}-> {}", from(job), job.target);
    }
    match &job.state {
        JobState::Running { .. } => {}
        JobState::Unfinished { staging, landed, small, names } => {
            let _ = writeln!(to, "{indent}{}\n{indent}resume: {}", begun(staging.len(), *landed, *small + *names), command(job));
        }
        JobState::Finished { record, .. } => {
            let _ = writeln!(to, "{indent}{}", Did::read(record).line());
        }
    }
}

fn from(job: &JobInfo) -> String {
    match job.sources.as_slice() {
        [] => "?".into(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

fn command(job: &JobInfo) -> String {
    if job.command.is_empty() { "(unknown command line)".into() } else { show(job.command.as_bytes()).replace("\\\\", "\\") }
}

/// "1 large file started, 112 MiB of it transferred, 30 small files to repeat".
fn begun(large: usize, landed: u64, names: u64) -> String {
    let mut parts = Vec::new();
    if large > 0 {
        let of = if large == 1 { "it" } else { "them" };
        parts.push(format!("{} started, {} of {of} transferred", things(large as u64, "large file"), units::bytes(landed)));
    }
    if names > 0 {
        parts.push(format!("{} to repeat", things(names, "small file")));
    }
    if parts.is_empty() { "no partial files".into() } else { parts.join(", ") }
}

/// What is kept of a finished job: see `record` in `transfer/run.rs`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Did {
    files: u64,
    bytes: u64,
    kept: u64,
    deleted: u64,
    seconds: Option<f64>,
    limited_by: Option<String>,
}

impl Did {
    fn read(record: &str) -> Did {
        let value = |word: &str| record.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        let number = |word: &str| value(word).and_then(|v| v.parse::<u64>().ok()).unwrap_or(0);
        Did {
            files: number("files"),
            bytes: number("bytes"),
            kept: number("kept"),
            deleted: number("deleted"),
            seconds: value("seconds").and_then(|v| v.parse().ok()).filter(|s: &f64| s.is_finite() && *s >= 0.0),
            limited_by: value("limited by").map(str::to_string),
        }
    }

    fn line(&self) -> String {
        let mut line = format!("{} and {} transferred", things(self.files, "file"), units::bytes(self.bytes));
        if self.kept > 0 {
            let _ = write!(line, ", {} unchanged", units::count(self.kept));
        }
        if self.deleted > 0 {
            let _ = write!(line, ", {} deleted", units::count(self.deleted));
        }
        if let Some(seconds) = self.seconds {
            let _ = write!(line, ", in {}", units::duration(Duration::from_secs_f64(seconds.min(1e9))));
        }
        line
    }
}

fn show_one(state: &State, view: &View, id: &str, report: &mut Report) -> Result<()> {
    let jobs = state.list(SystemTime::now())?;
    let job = find(&jobs, id)?;
    if report.json {
        report.record(&json::Job::of(job).line());
        return Ok(());
    }
    let to = &mut report.text;
    let row = |to: &mut String, label: &str, value: &str| to.push_str(&format!("{:<12} {value}\n", format!("{label}:")));
    row(to, "Job", &job.id);
    for source in &job.sources {
        row(to, "Source", source);
    }
    row(to, "Destination", &job.target);
    row(to, "Started", &view.time(job.started));
    match &job.state {
        JobState::Running { pid, host } => {
            row(to, "State", &format!("running: process {pid} on {}", show(host.as_bytes())));
            row(to, "Heartbeat", &format!("{}{}", view.time(job.heartbeat), view.ago(job.heartbeat)));
            row(to, "Command", &command(job));
        }
        JobState::Unfinished { staging, landed, small, names } => {
            let seen = job.heartbeat.max(job.started);
            row(to, "State", &format!("unfinished: {}", begun(staging.len(), *landed, *small + *names)));
            row(to, "Last seen", &format!("{}{}", view.time(seen), view.ago(seen)));
            row(to, "Resume", &command(job));
            if !staging.is_empty() {
                to.push_str("\nPartial files at the destination, under their temporary names:\n");
                for (path, token) in staging {
                    to.push_str(&format!("  {}\n    will be {}\n", show(&staged(path, token)), show(path)));
                }
            }
        }
        JobState::Finished { record, at } => {
            row(to, "State", &format!("finished {}", view.time(*at)));
            row(to, "Command", &command(job));
            for line in record.lines() {
                let figure = ["files", "bytes", "kept", "deleted", "seconds", "limited by"].into_iter().find_map(|word| {
                    let value = line.strip_prefix(word)?.strip_prefix(' ')?;
                    Some((word[..1].to_uppercase() + &word[1..], value))
                });
                match figure {
                    Some((label, value)) => row(to, &label, &grouped(value)),
                    None => to.push_str(&format!("{line}\n")),
                }
            }
        }
    }
    Ok(())
}

fn grouped(value: &str) -> String {
    value.parse().map_or_else(|_| value.to_string(), units::count)
}

/// Where the unfinished file is, below the job's destination.
fn staged(path: &[u8], token: &Token) -> Vec<u8> {
    let Some(leaf) = unfinished_leaf(token) else { return path.to_vec() };
    let above = path.iter().rposition(|b| *b == b'/').map_or(&b""[..], |cut| &path[..=cut]);
    [above, leaf].concat()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn job(id: &str, state: JobState) -> JobInfo {
        JobInfo {
            id: id.into(),
            sources: vec!["/home/me/run7/".into()],
            target: "/scratch/run7".into(),
            reached: String::new(),
            command: "cd /home/me && haul cp -a run7/ /scratch/run7".into(),
            directory: Some(b"/home/me".to_vec()),
            arguments: ["haul", "cp", "-a", "run7/", "/scratch/run7"].map(|word| word.as_bytes().to_vec()).into(),
            spec: Some(r#"{"version":1}"#.into()),
            started: Some(1_700_000_000),
            heartbeat: Some(1_700_000_300),
            state,
            figures: None,
        }
    }

    fn view() -> View {
        View { root: "/state".into(), zone: TimeZone::UTC, now: 1_700_003_900 }
    }

    pub fn unfinished() -> JobState {
        let token = Token(b".haul-0123456789abcdef0123456789abcdef@7.1.2".to_vec().into());
        JobState::Unfinished { staging: vec![(b"out/restart.nc".to_vec().into(), token)], landed: 112 << 20, small: 0, names: 30 }
    }

    #[test]
    fn an_overview_says_what_to_do_next() {
        let mut text = String::new();
        overview(&job("3f2a91bc00000000", unfinished()), &view(), 8, &mut text);
        assert_eq!(
            text,
            "3f2a91bc  unfinished since 2023-11-14 22:18:20 (1h00m ago)
          /home/me/run7/ -> /scratch/run7
          1 large file started, 112 MiB of it transferred, 30 small files to repeat
          resume: cd /home/me && haul cp -a run7/ /scratch/run7
"
        );
    }

    #[test]
    fn a_finished_job_is_told_in_one_line() {
        assert_eq!(
            Did::read("files 1204\nbytes 3651000000\nkept 7\ndeleted 0\nseconds 12.345\nlimited by the disk\n").line(),
            "1,204 files and 3.40 GiB transferred, 7 unchanged, in 12 s"
        );
        assert_eq!(Did::read("a record of another kind").line(), "0 files and 0 B transferred");
    }

    #[test]
    fn an_id_may_be_cut_short_as_long_as_it_is_one() {
        let jobs = [job("aaaaaaaaaaaaaaa1", unfinished()), job("aaaaaaaaaaaaaaa2", unfinished()), job("b000000000000000", unfinished())];
        assert_eq!(digits(&jobs), 16);
        assert_eq!(digits(&jobs[1..]), 8);
        assert_eq!(find(&jobs, "b").expect("one").id, "b000000000000000");
        assert!(find(&jobs, "aaaa").is_err() && find(&jobs, "c").is_err() && find(&jobs, "").is_err());
    }

    #[test]
    fn an_unfinished_file_stands_beside_its_name() {
        let JobState::Unfinished { staging, .. } = unfinished() else { unreachable!() };
        let (path, token) = &staging[0];
        assert_eq!(show(&staged(path, token)), "out/.haul-0123456789abcdef0123456789abcdef");
        assert_eq!(show(&staged(path, &Token(b"in-place".to_vec().into()))), "out/restart.nc");
    }
}
