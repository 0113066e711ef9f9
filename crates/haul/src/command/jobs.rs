//! `haul jobs`: what runs, what was interrupted and can go on, what has finished; and cleaning up behind it.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_core::entry::{Dir, Kind, Name, show};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::journal::{JobInfo, JobState, Pick, State, default_root};
use haul_core::store::{Place, Store, Token};
use haul_stores::local::{Local, Options, unfinished_leaf};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::flags::connect::Connect;
use crate::flags::{Global, JobsCommand};
use crate::location::Location;
use crate::remote::{Host, Hosts, is_remote};
use crate::{open, out, render, units};

/// Digits of an id that are shown, unless more are needed to tell it from another.
const SHORT: usize = 8;

pub fn run(command: &JobsCommand, global: &Global) -> Exit {
    let mut report = Report { json: global.json, text: String::new(), failed: false };
    let done = state(global).and_then(|state| {
        let view = View::of(&state);
        match command {
            JobsCommand::List { all } => list(&state, &view, *all, &mut report),
            JobsCommand::Show(id) => show_one(&state, &view, id, &mut report),
            JobsCommand::Clean { jobs, older_than, dry, connect } => {
                let means = Means { jobs, older_than: *older_than, connect };
                clean(&state, &view, &means, *dry, &mut report)
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
    text: String,
    failed: bool,
}

impl Report {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn record(&mut self, record: &Value) {
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
        (None, _) => refuse("there is no such job", "`haul jobs` lists them"),
        (Some(_), Some(_)) => refuse("more than one job begins so", "write more of its id"),
    }
}

/// Finished jobs that `haul jobs` shows unless all are asked for.
const LAST: usize = 20;

fn list(state: &State, view: &View, all: bool, report: &mut Report) -> Result<()> {
    let mut jobs = state.list(SystemTime::now())?;
    if report.json {
        jobs.iter().for_each(|job| report.record(&as_json(job)));
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
        report.line("\n`haul jobs show JOB` tells more, `haul jobs clean JOB` gives it up.");
    }
    if older > 0 {
        report.line(&format!("\n{} that finished earlier: `haul jobs list --all`", things(older as u64, "job")));
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
    if render::columns(&arrow) + indent.len() <= 80 {
        let _ = writeln!(to, "{indent}{arrow}");
    } else {
        let _ = writeln!(to, "{indent}{}\n{indent}-> {}", from(job), job.target);
    }
    match &job.state {
        JobState::Running { .. } => {}
        JobState::Unfinished { staging, landed, small, names } => {
            let _ = writeln!(to, "{indent}{}\n{indent}run again: {}", begun(staging.len(), *landed, *small + *names), command(job));
        }
        JobState::Finished { record, .. } => {
            let _ = writeln!(to, "{indent}{}", did(record));
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
    if job.command.is_empty() { "(the command line is not known)".into() } else { show(job.command.as_bytes()).replace("\\\\", "\\") }
}

fn things(n: u64, one: &str) -> String {
    format!("{} {one}{}", units::count(n), if n == 1 { "" } else { "s" })
}

/// "1 large file begun, 112 MiB of it landed, 30 small files to be done again".
fn begun(large: usize, landed: u64, names: u64) -> String {
    let mut parts = Vec::new();
    if large > 0 {
        let of = if large == 1 { "it" } else { "them" };
        parts.push(format!("{} begun, {} of {of} landed", things(large as u64, "large file"), units::bytes(landed)));
    }
    if names > 0 {
        parts.push(format!("{} to be done again", things(names, "small file")));
    }
    if parts.is_empty() { "no file is half done".into() } else { parts.join(", ") }
}

/// The record of a finished job in one line.
fn did(record: &str) -> String {
    let value = |word: &str| record.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    let number = |word: &str| value(word).and_then(|v| v.parse::<u64>().ok()).unwrap_or(0);
    let seconds = value("seconds").and_then(|v| v.parse::<f64>().ok()).filter(|s| s.is_finite() && *s >= 0.0);
    let mut line = format!("{} and {} moved", things(number("files"), "file"), units::bytes(number("bytes")));
    if number("kept") > 0 {
        let _ = write!(line, ", {} unchanged", units::count(number("kept")));
    }
    if number("deleted") > 0 {
        let _ = write!(line, ", {} deleted", units::count(number("deleted")));
    }
    if let Some(seconds) = seconds {
        let _ = write!(line, ", in {}", units::duration(Duration::from_secs_f64(seconds.min(1e9))));
    }
    line
}

fn show_one(state: &State, view: &View, id: &str, report: &mut Report) -> Result<()> {
    let jobs = state.list(SystemTime::now())?;
    let job = find(&jobs, id)?;
    if report.json {
        report.record(&as_json(job));
        return Ok(());
    }
    let to = &mut report.text;
    let row = |to: &mut String, label: &str, value: &str| to.push_str(&format!("{:<12} {value}\n", format!("{label}:")));
    row(to, "Job", &job.id);
    for source in &job.sources {
        row(to, "Source", source);
    }
    row(to, "Destination", &job.target);
    row(to, "Begun", &view.time(job.started));
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
            row(to, "Run again", &command(job));
            if !staging.is_empty() {
                to.push_str("\nUnfinished files at the destination, under the names that they have till then:\n");
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

fn as_json(job: &JobInfo) -> Value {
    let (word, pid, host, files, landed, names, record, finished) = match &job.state {
        JobState::Running { pid, host } => ("running", Some(*pid), Some(host), Vec::new(), None, None, None, None),
        JobState::Unfinished { staging, landed, small, names } => {
            let files = staging.iter().map(
                |(path, token)| json!({ "path": String::from_utf8_lossy(path), "staging": String::from_utf8_lossy(&staged(path, token)) }),
            );
            ("unfinished", None, None, files.collect(), Some(*landed), Some(*small + *names), None, None)
        }
        JobState::Finished { record, at } => ("finished", None, None, Vec::new(), None, None, Some(record), *at),
    };
    let time = |at: Option<i64>| at.and_then(|at| Timestamp::from_second(at).ok()).map(|at| at.to_string());
    json!({
        "job": job.id,
        "state": word,
        "sources": job.sources,
        "target": job.target,
        "command": job.command,
        "started": time(job.started),
        "heartbeat": time(job.heartbeat),
        "finished": time(finished),
        "pid": pid,
        "host": host,
        "unfinished": files,
        "landed_bytes": landed,
        "names_again": names,
        "record": record,
    })
}

/// What is to be cleaned, and how its destinations are reached.
struct Means<'a> {
    jobs: &'a [String],
    older_than: Option<Duration>,
    connect: &'a Connect,
}

fn clean(state: &State, view: &View, means: &Means<'_>, dry: bool, report: &mut Report) -> Result<()> {
    let now = SystemTime::now();
    let jobs = state.list(now)?;
    let ids = means.jobs.iter().map(|id| find(&jobs, id).map(|job| job.id.clone())).collect::<Result<Vec<_>>>()?;
    let width = digits(&jobs);
    let older_than = means.older_than;
    let pick = Pick { ids, older_than };
    let mut says = Says { report, width, dry };
    if dry {
        for job in jobs.iter().filter(|job| pick.means(job, now)) {
            match &job.state {
                JobState::Running { .. } => says.running(job),
                JobState::Unfinished { staging, small, names, .. } => says.gone(job, staging.len() + *small as usize, *names),
                JobState::Finished { .. } => says.gone(job, 0, 0),
            }
        }
        if !says.report.json {
            says.report.line("DRY RUN: nothing was removed");
        }
        return Ok(());
    }
    let clean = state.clean(&pick, now)?;
    let nothing = clean.jobs.is_empty() && clean.running.is_empty();
    for cleaning in clean.jobs {
        let names = match &cleaning.info.state {
            JobState::Unfinished { names, .. } => *names,
            _ => 0,
        };
        let (info, count) = (cleaning.info.clone(), cleaning.leftovers.len());
        match abandon(&info, &cleaning.leftovers, means.connect).and_then(|()| cleaning.remove()) {
            Ok(()) => says.gone(&info, count, names),
            Err(e) => says.kept(&info, &e),
        }
    }
    clean.running.iter().for_each(|job| says.running(job));
    if nothing && !says.report.json {
        let old = older_than.map_or(String::new(), |age| format!(" without a sign of life for {}", units::duration(age)));
        says.report.line(&format!("no jobs{old} in {}", view.root));
    }
    Ok(())
}

/// Removes the unfinished files of a job. A destination that is not there any more has taken them along.
fn abandon(job: &JobInfo, leftovers: &[(Box<[u8]>, Token)], connect: &Connect) -> Result<()> {
    if leftovers.is_empty() {
        return Ok(());
    }
    let target = unshown(&job.target);
    let location = Location::parse(std::ffi::OsStr::from_bytes(&target), &|_| false);
    if let Some(location) = location.ok().filter(is_remote) {
        return abandon_there(&location, &job.reached, leftovers, connect);
    }
    let path = open::path_of(&target);
    // A single file that gets another name is written in the directory above it.
    let root = if path.is_dir() { path.as_path() } else { path.parent().unwrap_or(Path::new("/")) };
    let store = match Local::open(root, Options::default()) {
        Ok(store) => store,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    for (path, token) in leftovers {
        if let Some(name) = Name::parse(&Dir::root(), path) {
            store.abandon(&name, token)?;
        }
    }
    Ok(())
}

/// On another machine, or in a bucket.
fn abandon_there(location: &Location, reached: &str, leftovers: &[(Box<[u8]>, Token)], connect: &Connect) -> Result<()> {
    let hosts = Hosts::new(connect);
    let host = hosts.reach(location)?;
    let path = host.path(location);
    if !reached.is_empty() {
        is_reached(host.open(b"/")?.place(), reached)?;
    }
    // A single file that gets another name is written in the directory above it.
    let above = host.split(&path).0;
    let roots = match (&*host, host.look(&path)?) {
        (_, Some(Kind::Dir)) => vec![&path[..]],
        // Nothing tells a directory without its slash from an object; an upload is only where its key is.
        (Host::Objects(_), _) => vec![&path[..], above],
        _ => vec![above],
    };
    for root in roots {
        let store = match host.open(root) {
            Ok(store) => store,
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        for (path, token) in leftovers {
            if let Some(name) = Name::parse(&Dir::root(), path) {
                store.abandon(&name, token)?;
            }
        }
    }
    Ok(())
}

/// What is not at this server is not gone: it is at the one where it was begun.
fn is_reached(place: &Place, reached: &str) -> Result<()> {
    if place.service() == reached {
        return Ok(());
    }
    let words = |service: &str| match service.splitn(3, ' ').collect::<Vec<_>>()[..] {
        [_, endpoint, account] => format!("{endpoint} (account {account})"),
        [_, endpoint] => endpoint.to_string(),
        _ => service.to_string(),
    };
    let e = Error::new(ErrorKind::Usage, "clean").because(format!(
        "its uploads are at {}, not at {}: give the flags of the run (--endpoint-url, --profile)",
        words(reached),
        words(&place.service())
    ));
    Err(e)
}

/// What `show` made readable, as the bytes that it was.
fn unshown(shown: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(at) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let (plain, used): (Vec<u8>, usize) = match escape.as_bytes() {
            [b'n', ..] => (vec![b'\n'], 1),
            [b't', ..] => (vec![b'\t'], 1),
            [b'r', ..] => (vec![b'\r'], 1),
            [b'\\', ..] => (vec![b'\\'], 1),
            [b'x', ..] => match escape.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
                Some(byte) => (vec![byte], 3),
                None => (vec![b'\\'], 0),
            },
            [b'u', b'{', ..] => {
                let end = escape.find('}').unwrap_or(0);
                let letter = escape.get(2..end).and_then(|digits| u32::from_str_radix(digits, 16).ok()).and_then(char::from_u32);
                letter.map_or((vec![b'\\'], 0), |c| (c.to_string().into_bytes(), end + 1))
            }
            _ => (vec![b'\\'], 0),
        };
        bytes.extend(plain);
        rest = &escape[used..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// What `clean` says of each job.
struct Says<'a> {
    report: &'a mut Report,
    width: usize,
    dry: bool,
}

impl Says<'_> {
    fn gone(&mut self, job: &JobInfo, files: usize, names: u64) {
        if self.report.json {
            let word = if self.dry { "would remove" } else { "removed" };
            return self.report.record(&json!({ "job": job.id, "action": word, "unfinished_files": files, "names_again": names }));
        }
        let word = if self.dry { "would be removed" } else { "removed" };
        let with = if files > 0 { format!(", with {} at the destination", things(files as u64, "unfinished file")) } else { String::new() };
        let line = format!("{}  {word}{with}: {} -> {}", self.short(job), from(job), job.target);
        self.report.line(&line);
        if names > 0 {
            let (indent, many) = (" ".repeat(self.width + 2), things(names, "small file"));
            self.report.line(&format!("{indent}{many} at the destination may be incomplete; any new run does them again"));
        }
    }

    fn running(&mut self, job: &JobInfo) {
        let JobState::Running { pid, host } = &job.state else { return self.left(job, "it is at work") };
        self.left(job, &format!("it is running, as process {pid} on {}", show(host.as_bytes())));
    }

    fn left(&mut self, job: &JobInfo, why: &str) {
        if self.report.json {
            return self.report.record(&json!({ "job": job.id, "action": "left", "reason": why }));
        }
        let line = format!("{}  left: {why}", self.short(job));
        self.report.line(&line);
    }

    /// Not removed, because its unfinished files could not be.
    fn kept(&mut self, job: &JobInfo, error: &Error) {
        self.report.failed = true;
        let at = error.path().map_or(String::new(), |path| format!("{}: ", show(path)));
        self.left(job, &format!("{at}{}: {}", error.op(), error.reason()));
    }

    fn short<'b>(&self, job: &'b JobInfo) -> &'b str {
        &job.id[..self.width.min(job.id.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(id: &str, state: JobState) -> JobInfo {
        JobInfo {
            id: id.into(),
            sources: vec!["/home/me/run7/".into()],
            target: "/scratch/run7".into(),
            reached: String::new(),
            command: "cd /home/me && haul cp -a run7/ /scratch/run7".into(),
            started: Some(1_700_000_000),
            heartbeat: Some(1_700_000_300),
            state,
            figures: None,
        }
    }

    fn view() -> View {
        View { root: "/state".into(), zone: TimeZone::UTC, now: 1_700_003_900 }
    }

    fn unfinished() -> JobState {
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
          1 large file begun, 112 MiB of it landed, 30 small files to be done again
          run again: cd /home/me && haul cp -a run7/ /scratch/run7
"
        );
    }

    #[test]
    fn a_finished_job_is_told_in_one_line() {
        assert_eq!(
            did("files 1204\nbytes 3651000000\nkept 7\ndeleted 0\nseconds 12.345\nlimited by the disk\n"),
            "1,204 files and 3.40 GiB moved, 7 unchanged, in 12 s"
        );
        assert_eq!(did("a record of another kind"), "0 files and 0 B moved");
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

    #[test]
    fn a_shown_path_is_found_again() {
        for path in [&b"/plain"[..], b"/a\\b", b"/\xff\xfe", b"/new\nline\t", "/\u{202e}x\u{85}y\u{e9}".as_bytes(), b"/\\x41\\"] {
            assert_eq!(unshown(&show(path)), path, "{}", show(path));
        }
    }
}
