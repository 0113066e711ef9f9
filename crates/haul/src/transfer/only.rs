//! `--list-only`: a dry run into nothing, whose items are printed as rsync lists its sources.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::engine::{self, Setup};
use haul_core::entry::{Entry, Kind, show};
use haul_core::error::{Error, Result};
use haul_core::event::{Action, Event, Observer};
use haul_core::job::Mode;
use haul_core::journal::{Journal, Progress};
use haul_core::plan::Policy;
use haul_core::spec::{Safety, TransferSpec};
use haul_core::store::Empty;
use haul_core::tune::{Fixed, Limits};
use haul_run::location::Location;
use haul_run::plan::{self, RunMode};

use crate::exit::Exit;
use crate::flags::{CopyFlags, Global};

use crate::{command, out, units};

pub fn list(flags: &CopyFlags, global: &Global) -> Exit {
    match run(flags, global) {
        Ok(exit) => exit,
        Err(e) => out::error(&e),
    }
}

fn run(flags: &CopyFlags, global: &Global) -> Result<Exit> {
    let nowhere = TransferSpec {
        destination: Location::local(b"."),
        comparison: Policy::DEFAULT,
        deletion: None,
        safety: Safety::default(),
        ..flags.spec.clone()
    };
    let mode = RunMode { dry: true, ..super::mode(global, None) };
    let mut prepared = plan::open(&nowhere, &mode, &flags.connect)?;
    prepared.job.target = Arc::new(Empty::default());
    prepared.job.rename = None;
    prepared.missing.iter().for_each(out::failure);
    let lines = Arc::new(Lines(Mutex::new(std::io::BufWriter::new(std::io::stdout()))));
    let setup = Setup {
        observer: lines.clone(),
        journal: Journal::none(),
        past: Progress::default(),
        cancel: Cancel::default(),
        tuner: Box::new(Fixed(Limits { workers: 1 })),
        most_workers: 1,
        processors: 1,
        spill: std::env::temp_dir(),
        heartbeat: Box::new(|| ()),
        sentence: String::new(),
        show_progress: Arc::default(),
        team: None,
    };
    let mut report = engine::run(prepared.job, setup);
    prepared.missing.iter().for_each(|e| report.fail(e));
    match lines.0.lock().unwrap_or_else(PoisonError::into_inner).flush() {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io(e, "write")),
        _ => Ok(Exit::of_report(&report, Mode::Copy)),
    }
}

struct Lines(Mutex<std::io::BufWriter<std::io::Stdout>>);

impl Observer for Lines {
    fn on(&self, event: &Event<'_>) {
        match event {
            Event::Item { action, entry, .. } if *action != Action::Skip => {
                let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                // A reader that has gone shows at the end.
                let _told_at_the_end = writeln!(to, "{}", line(entry));
            }
            Event::Failed { error, .. } => out::failure(error),
            _ => {}
        }
    }
}

/// As rsync has it: mode, size, time, name.
fn line(entry: &Entry) -> String {
    let name = match entry.name.path() {
        path if path.is_empty() => ".".into(),
        path => show(&path),
    };
    let slash = if entry.kind == Kind::Dir { "/" } else { "" };
    let target = entry.target.as_deref().map_or(String::new(), |target| format!(" -> {}", show(target)));
    let time = match jiff::Timestamp::new(entry.mtime.secs, entry.mtime.nanos.cast_signed()) {
        Ok(at) => at.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y/%m/%d %H:%M:%S").to_string(),
        Err(_) => format!("@{}", entry.mtime.secs),
    };
    format!("{} {:>14} {time} {name}{slash}{target}", command::files::mode_words(entry), units::count(entry.size))
}
