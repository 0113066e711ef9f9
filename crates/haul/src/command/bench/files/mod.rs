//! `haul bench files`: open the place, run the cases, show the results, remove the files.

mod show;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_bench::files::{self as bench, Event, LocalPlace, Measured, Operation, PREFIX, Place, Settings, StorePlace};
use haul_bench::record::{self, Header, Kind, Outcome, Run, Sample};
use haul_core::cancel::Cancel;
use haul_core::entry::{self, show as safe};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::{OpenOptions, Role};
use haul_core::store::Store;
use haul_run::hosts::Hosts;
use haul_run::open;
use serde_json::json;

use super::runs::{self, now};
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::FilesFlags;
use crate::{out, signals, units};

const STOPPING: &str = "stopping and removing the files (a second signal stops at once)";
const LEFT: &str = "stopped at once; the directory of the run, haul-bench-files-..., is left: remove it with `haul rm -r`";

pub fn run(flags: &FilesFlags, global: &Global) -> Exit {
    measure(flags, global).unwrap_or_else(|e| out::error(&e))
}

/// The user's directory, opened; `None` on this machine.
fn opened(flags: &FilesFlags, hosts: &Hosts) -> Result<Option<Arc<dyn Store>>> {
    let argument = open::Argument::new(&flags.place, hosts);
    if !flags.place.is_remote() {
        return Ok(None);
    }
    let host = hosts.reach(&flags.place)?;
    let mut path = host.path(&flags.place);
    if flags.place.scheme.keys {
        // A prefix is there as soon as a key begins with it.
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        let options = OpenOptions { role: Role::Destination, ..OpenOptions::default() };
        return host.open(&path, options).map(Some);
    }
    match host.lookup(&path)? {
        Some(entry::Kind::Dir) => host.open(&path, OpenOptions::default()).map(Some),
        Some(_) => Err(Error::new(ErrorKind::Usage, "open").at(&argument.path).because("is not a directory")),
        None => Err(open::missing(&argument.path).hint("make it first, with `haul mkdir`")),
    }
}

fn address(flags: &FilesFlags) -> String {
    safe(&flags.place.to_bytes())
}

fn made(flags: &FilesFlags, opened: Option<Arc<dyn Store>>) -> Result<Arc<dyn Place>> {
    let leaf = format!("{PREFIX}{:012x}", runs::random() >> 16);
    Ok(match opened {
        None => Arc::new(LocalPlace::make(&open::path_of(&flags.place.to_bytes()), &leaf)?),
        Some(store) => Arc::new(StorePlace::make(store, &address(flags), &leaf)?),
    })
}

fn measure(flags: &FilesFlags, global: &Global) -> Result<Exit> {
    flags.settings.check()?;
    let hosts = Hosts::for_data(&flags.connect, global.state_dir.as_deref()).printing(out::say);
    let opened = opened(flags, &hosts)?;
    // Before anything is made at the place: whether the samples can be kept is known now.
    let mut run = begin(&runs::directory(flags.out.as_deref(), global, Kind::Files), flags)?;
    let signalled = Cancel::default();
    signals::cancels(&signalled, STOPPING, Some(LEFT), || {})?;
    let place = made(flags, opened)?;
    let mut session = Session { flags, global, kept: &mut run, failed: false };
    let ran = session.all(&place, &signalled);
    let stuck = matches!(&ran, Err(e) if e.kind() == ErrorKind::TimedOut && e.op() == "stop");
    let interrupted = signalled.is_set();
    let failed = session.failed;
    // The results are kept and shown first: removing many files may take long.
    let kept = finish(&mut run, interrupted || ran.is_err(), global);
    let removed = match (flags.keep, stuck) {
        (true, _) => Ok(()),
        (false, true) => Err(Error::new(ErrorKind::TimedOut, "remove").at(place.words().as_bytes()).because("not removed")),
        (false, false) => place.remove(),
    };
    kept?;
    if flags.keep && !global.quiet {
        out::say(&format!("kept: {}", place.words()));
    }
    let exit = match ran {
        Ok(()) if failed => Exit::Partial,
        Ok(()) => Exit::Success,
        Err(e) if interrupted => {
            if e.kind() != ErrorKind::Cancelled {
                out::failure(&e);
            }
            out::say(if removed.is_ok() && !flags.keep { "stopped by a signal; no files were left behind" } else { "stopped by a signal" });
            Exit::Signal
        }
        Err(e) => out::error(&e),
    };
    if let Err(e) = removed {
        out::say(&format!("not removed: {}; `haul rm -r {}` removes it", e.reason(), place.words()));
        return Ok(exit.or_worse(Exit::Partial));
    }
    Ok(exit)
}

fn begin(dir: &Path, flags: &FilesFlags) -> Result<Run> {
    let local = (!flags.place.is_remote()).then(|| open::path_of(&flags.place.to_bytes()));
    let header = Header {
        places: vec![record::Place::of("place", &address(flags), local.as_deref())],
        settings: record::settings(&flags.settings),
        notes: show::notes(&flags.settings, local.is_some()),
        ..runs::header(Kind::Files)
    };
    Run::begin(dir, header)
}

/// Ends the run and shows its results, with `--json` as the last line.
fn finish(run: &mut Run, cut_off: bool, global: &Global) -> Result<()> {
    run.finish((!cut_off).then(now))?;
    if cut_off && !global.quiet {
        let dir = safe(run.dir().as_os_str().as_bytes());
        out::say(&format!("what was measured is kept; the same command with --out {dir} resumes"));
    }
    runs::show("bench-files-summary", run, global)
}

/// One run, as its measurements come in.
struct Session<'a> {
    flags: &'a FilesFlags,
    global: &'a Global,
    kept: &'a mut Run,
    failed: bool,
}

impl Session<'_> {
    fn say(&self, line: &str) {
        if !self.global.quiet {
            out::say_plainly(line);
        }
    }

    fn all(&mut self, place: &Arc<dyn Place>, cancel: &Cancel) -> Result<()> {
        let mut settings = self.flags.settings.clone();
        self.leave_out(place, &mut settings)?;
        settings.check_space(&**place)?;
        self.say(&show::plan(&settings, &place.words()));
        for prepared in show::prepared(&settings.operations) {
            self.say(&prepared);
        }
        let before: Vec<Sample> = self.kept.samples.clone();
        let have = |op: Operation, case, each, repetition| {
            let factors = Measured::factors(op, case, each);
            let same = |s: &&Sample| s.contender == op.word() && s.factors == factors && s.repetition == repetition;
            before.iter().filter(|s| s.outcome != Outcome::Interrupted).any(|s| same(&s))
        };
        bench::run(place, &settings, cancel, &have, &mut |event| self.event(&event))
    }

    /// Reports and removes operations that the place does not support.
    fn leave_out(&mut self, place: &Arc<dyn Place>, settings: &mut Settings) -> Result<()> {
        let mut refused: Vec<(Operation, String)> = Vec::new();
        for op in settings.operations.clone() {
            if let Some(why) = place.refuses(op).filter(|_| !refused.iter().any(|(known, _)| *known == op)) {
                refused.push((op, why));
            }
        }
        for (op, why) in &refused {
            out::say(&format!("{} is skipped: {why}", op.word()));
        }
        settings.operations.retain(|op| !refused.iter().any(|(known, _)| known == op));
        if settings.operations.iter().all(|op| *op == Operation::Cleanup) {
            let e = Error::new(ErrorKind::Unsupported, "bench files").at(place.words().as_bytes());
            return Err(e.because("no operation is supported there").hint("choose others with --operation"));
        }
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Case { case, repetition, number, of } => {
                let again = if self.flags.settings.repeat > 1 { format!(", repetition {repetition}") } else { String::new() };
                let each = self.flags.settings.layout(*case).counts.first().copied().unwrap_or(0);
                self.say(&format!("case {number} of {of}: {}{again}", show::case_words(*case, each)));
            }
            Event::Preparing(op) if self.global.verbose > 0 => self.say(&format!("  {} (not counted)", op.word())),
            Event::Preparing(_) => {}
            Event::Short { operation, reached, asked } => {
                let (reached, asked) = (units::count(*reached), units::count(*asked));
                self.say(&format!("  {} did {reached} of {asked} files within the time: later operations have no more", operation.word()));
            }
            Event::Nothing(op) => {
                self.failed = true;
                out::say(&format!("{} has no files: the operation before it did none within its time", op.word()));
            }
            Event::Measured(measured) => self.measured(measured)?,
        }
        Ok(())
    }

    fn measured(&mut self, measured: &Measured) -> Result<()> {
        let sample = measured.sample();
        if self.global.verbose > 0 {
            self.say(&format!("  {}", show::one(&sample)));
        }
        if measured.failure.is_none() && sample.outcome == Outcome::Failed {
            self.failed = true;
            out::say(&format!("{}: {}", measured.operation.word(), sample.reason.as_deref().unwrap_or_default()));
        }
        if let Some(e) = &measured.failure {
            self.failed = true;
            let of = format!("{} of {} files failed in {}; the first", measured.tally.failures, measured.asked, measured.operation.word());
            out::say(&format!("{of}: {}", safe(e.to_string().as_bytes())));
        }
        runs::document("bench-files", json!({ "sample": sample }), self.global)?;
        self.kept.add(sample)
    }
}
