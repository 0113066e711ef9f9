//! `haul jobs clean`: forgets jobs and removes their unfinished files.

use haul_core::place::OpenOptions;
use haul_run::hosts::Hosts;
use haul_run::location;
use haul_run::location::Location;
use haul_run::open;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use haul_core::entry::{Dir, Kind, Name, show, unshown};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::journal::{JobInfo, JobState, Pick, State};
use haul_core::store::{Place, Store, Token};
use haul_local::{Local, Options};

use super::json::Cleaned;
use super::{Report, View, digits, find, from};
use crate::flags::connect::Connect;
use crate::text::things;
use crate::{out, units};

/// What is to be cleaned, and how its destinations are reached.
pub struct Means<'a> {
    pub jobs: &'a [String],
    pub older_than: Option<Duration>,
    pub connect: &'a Connect,
}

pub fn clean(state: &State, view: &View, means: &Means<'_>, dry: bool, report: &mut Report) -> Result<()> {
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
    if nothing && !says.report.json && !says.report.quiet {
        let old = older_than.map_or(String::new(), |age| format!(" without a heartbeat for {}", units::duration(age)));
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
    let location = location::parse(std::ffi::OsStr::from_bytes(&target), &|_| false);
    if let Some(location) = location.ok().filter(Location::is_remote) {
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
            store.extensions().unfinished.abandon(&name, token)?;
        }
    }
    Ok(())
}

/// On another machine, or in a bucket.
fn abandon_there(location: &Location, reached: &str, leftovers: &[(Box<[u8]>, Token)], connect: &Connect) -> Result<()> {
    let hosts = Hosts::new(connect).printing(out::say);
    let host = hosts.reach(location)?;
    let path = host.path(location);
    if !reached.is_empty() {
        is_reached(host.open(b"/", OpenOptions::default())?.place(), reached)?;
    }
    // A single file that gets another name is written in the directory above it.
    let above = host.split(&path).0;
    let roots = match host.lookup(&path)? {
        Some(Kind::Dir) => vec![&path[..]],
        // Nothing tells a directory without its slash from an object; an upload is only where its key is.
        _ if location.scheme.keys => vec![&path[..], above],
        _ => vec![above],
    };
    for root in roots {
        let store = match host.open(root, OpenOptions::default()) {
            Ok(store) => store,
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        for (path, token) in leftovers {
            if let Some(name) = Name::parse(&Dir::root(), path) {
                store.extensions().unfinished.abandon(&name, token)?;
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
        "its uploads are at {}, not at {}: repeat the options of the run (--endpoint-url, --profile)",
        words(reached),
        words(&place.service())
    ));
    Err(e)
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
            let action = if self.dry { "would remove" } else { "removed" };
            let cleaned = Cleaned { job: &job.id, action, unfinished_files: Some(files as u64), names_again: Some(names), reason: None };
            return self.report.record(&cleaned.line());
        }
        if self.is_quiet() {
            return;
        }
        let word = if self.dry { "would be removed" } else { "removed" };
        let with = if files > 0 { format!(", with {} at the destination", things(files as u64, "unfinished file")) } else { String::new() };
        let line = format!("{}  {word}{with}: {} -> {}", self.short(job), from(job), job.target);
        self.report.line(&line);
        if names > 0 {
            let (indent, many) = (" ".repeat(self.width + 2), things(names, "small file"));
            self.report.line(&format!("{indent}{many} at the destination may be incomplete; any new run repeats them"));
        }
    }

    /// Whether to print errors only. A dry run has nothing else to print.
    fn is_quiet(&self) -> bool {
        self.report.quiet && !self.report.json && !self.dry
    }

    fn running(&mut self, job: &JobInfo) {
        if self.is_quiet() {
            return;
        }
        let JobState::Running { pid, host } = &job.state else { return self.left(job, "it is running") };
        self.left(job, &format!("it is running, as process {pid} on {}", show(host.as_bytes())));
    }

    fn left(&mut self, job: &JobInfo, why: &str) {
        if self.report.json {
            let cleaned = Cleaned { job: &job.id, action: "left", unfinished_files: None, names_again: None, reason: Some(why) };
            return self.report.record(&cleaned.line());
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
