//! `haul bench files`: opens the place, runs the cases, shows what they gave, and leaves nothing behind.

mod show;

use haul_core::place::{OpenOptions, Role};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use haul_bench::files::left::{self, State};
use haul_bench::files::{self as bench, Event, LocalPlace, Measured, Operation, PREFIX, Place, Settings, StorePlace};
use haul_bench::record::{self, Header, Kind, Outcome, Run, Sample};
use haul_core::cancel::{Cancel, Stop};
use haul_core::entry::{self, show as safe};
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Store;
use haul_stores::local::{Local, Options};
use serde_json::json;

use super::runs::{self, now};
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::FilesFlags;
use crate::hosts::Hosts;
use crate::open;
use crate::{out, units};

/// How long files may be removed for, once a signal has come.
const GRACE: Duration = Duration::from_secs(30);
/// Files are removed for as long without a word.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

pub fn run(flags: &FilesFlags, global: &Global) -> Exit {
    let done = match flags.cleanup {
        true => cleanup(flags, global),
        false => measure(flags, global),
    };
    done.unwrap_or_else(|e| out::error(&e))
}

/// Where the user's directory is, opened.
enum Opened {
    Local,
    Store(Arc<dyn Store>),
}

fn opened(flags: &FilesFlags, hosts: &Hosts) -> Result<Opened> {
    let argument = open::Argument::new(&flags.place, hosts);
    if !flags.place.is_remote() {
        return Ok(Opened::Local);
    }
    let host = hosts.reach(&flags.place)?;
    let mut path = host.path(&flags.place);
    if flags.place.scheme.keys {
        // A prefix is there as soon as a key begins with it.
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        let options = OpenOptions { role: Role::Destination, ..OpenOptions::default() };
        return host.open(&path, options).map(Opened::Store);
    }
    match host.lookup(&path)? {
        Some(entry::Kind::Dir) => host.open(&path, OpenOptions::default()).map(Opened::Store),
        Some(_) => Err(Error::new(ErrorKind::Usage, "open").at(&argument.path).because("is not a directory")),
        None => Err(open::missing(&argument.path).hint("make it first, with `haul mkdir`")),
    }
}

/// Twelve random hexadecimal digits.
fn identity() -> Result<String> {
    let mut bytes = [0; 6];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|e| Error::io(e, "read").at(b"/dev/urandom"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn address(flags: &FilesFlags) -> String {
    safe(&flags.place.to_bytes())
}

fn host_name() -> String {
    safe(rustix::system::uname().nodename().to_bytes())
}

/// Makes the directory of the run.
fn made(flags: &FilesFlags, opened: &Opened, id: &str) -> Result<Arc<dyn Place>> {
    let leaf = format!("{PREFIX}{id}");
    let process = std::process::id();
    let mark = bench::mark(&host_name(), process, left::started(process).unwrap_or(0));
    Ok(match opened {
        Opened::Local => Arc::new(LocalPlace::make(&open::path_of(&flags.place.to_bytes()), &leaf, &mark)?),
        Opened::Store(store) => {
            let now = jiff::Timestamp::now();
            let time = entry::Time { secs: now.as_second(), nanos: now.subsec_nanosecond().unsigned_abs() };
            Arc::new(StorePlace::make(store.clone(), &address(flags), &leaf, &mark, time)?)
        }
    })
}

fn measure(flags: &FilesFlags, global: &Global) -> Result<Exit> {
    flags.settings.check()?;
    let hosts = Hosts::for_data(&flags.connect, global.state_dir.as_deref());
    let opened = opened(flags, &hosts)?;
    let id = identity()?;
    // Before anything is made at the place: whether the samples can be kept is known now.
    let mut run = begin(&runs::directory(flags.out.as_deref(), global, Kind::Files), flags, &id)?;
    let signalled = listen();
    let place = made(flags, &opened, &id)?;
    let mut session = Session { flags, global, kept: &mut run, failed: false };
    let ran = session.all(&place, &signalled);
    let stuck = matches!(&ran, Err(e) if e.kind() == ErrorKind::TimedOut && e.op() == "stop");
    let interrupted = signalled.is_set();
    let failed = session.failed;
    // What was measured is kept and shown first: removing many files may take its time.
    let kept = finish(&mut run, interrupted || ran.is_err(), global);
    let removed = match (flags.keep, stuck) {
        (true, _) => Ok(()),
        (false, true) => Err(Error::new(ErrorKind::TimedOut, "remove").at(place.words().as_bytes()).because("not removed")),
        (false, false) => remove(&place, &signalled, global),
    };
    kept?;
    if flags.keep && !global.quiet {
        out::say(&format!("left there, as asked: {}", place.words()));
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
        let left = format!("left there: {}: {}; remove it with `haul bench files --cleanup DIR`", place.words(), e.reason());
        out::say(&left);
        return Ok(exit.or_worse(Exit::Partial));
    }
    Ok(exit)
}

/// The first signal stops what is under way; a second leaves at once.
fn listen() -> Cancel {
    let cancel = Cancel::default();
    let left = "stopped at once; `haul bench files --cleanup DIR` removes what is left there";
    super::signals::listen(&cancel, "stopping and removing the files (a second signal stops at once)", Some(left));
    cancel
}

/// Removes the directory of the run: for as long as it takes, but no longer than `GRACE` after a signal.
fn remove(place: &Arc<dyn Place>, signalled: &Cancel, global: &Global) -> Result<()> {
    let over = Cancel::default();
    let (to, from) = mpsc::channel();
    let (theirs, words) = (over.clone(), place.words());
    let place = place.clone();
    std::thread::spawn(move || {
        let _heard = to.send(place.remove(&theirs));
    });
    let (begun, mut told) = (Instant::now(), global.quiet);
    let mut since = None;
    loop {
        match from.recv_timeout(LOOK) {
            Ok(removed) => return removed,
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Error::new(ErrorKind::Other, "remove").at(words.as_bytes())),
            Err(mpsc::RecvTimeoutError::Timeout) if !signalled.is_set() => {
                if !told && begun.elapsed() > PATIENCE {
                    told = true;
                    out::say_plainly("removing the files ...");
                }
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {
                let since = since.get_or_insert_with(Instant::now);
                if since.elapsed() > GRACE && over.set(Stop::Signal) {
                    continue;
                }
                if since.elapsed() > GRACE + Duration::from_secs(5) {
                    let e = Error::new(ErrorKind::TimedOut, "remove").at(words.as_bytes());
                    return Err(e.because(format!("not all was removed within {} s", GRACE.as_secs())));
                }
            }
        }
    }
}

fn begin(dir: &Path, flags: &FilesFlags, id: &str) -> Result<Run> {
    let local = (!flags.place.is_remote()).then(|| open::path_of(&flags.place.to_bytes()));
    let header = Header {
        id: id.into(),
        places: vec![record::Place::of("place", &address(flags), local.as_deref())],
        settings: flags.settings.to_settings(),
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
        out::say(&format!("what was measured is kept; the same command with --out {dir} goes on"));
    }
    let samples: Vec<Sample> = run.samples.iter().filter(|sample| sample.outcome != Outcome::Interrupted).cloned().collect();
    if !samples.is_empty() {
        runs::results(run, global)?;
    }
    runs::document("bench-files-summary", json!({ "rows": show::rows(&samples) }), global)?;
    runs::page(run.dir(), global);
    Ok(())
}

/// One run, as its measurements come in.
struct Session<'a> {
    flags: &'a FilesFlags,
    global: &'a Global,
    kept: &'a mut Run,
    /// Something was not measured, or not well.
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

    /// What the place cannot do is said before anything begins.
    fn leave_out(&mut self, place: &Arc<dyn Place>, settings: &mut Settings) -> Result<()> {
        let mut refused: Vec<(Operation, String)> = Vec::new();
        for op in settings.operations.clone() {
            if let Some(why) = place.refuses(op).filter(|_| !refused.iter().any(|(known, _)| *known == op)) {
                refused.push((op, why));
            }
        }
        for (op, why) in &refused {
            out::say(&format!("{} is left out: {why}", op.word()));
        }
        settings.operations.retain(|op| !refused.iter().any(|(known, _)| known == op));
        if settings.operations.iter().all(|op| *op == Operation::Cleanup) {
            let e = Error::new(ErrorKind::Unsupported, "bench files").at(place.words().as_bytes());
            return Err(e.because("none of the operations can be done there").hint("choose others with --operation"));
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
                self.say(&format!(
                    "  {} was done for {reached} of {asked} files within the time: what follows has no more",
                    operation.word()
                ));
            }
            Event::Nothing(op) => {
                self.failed = true;
                out::say(&format!("{} has no files to work on: nothing was done before it within its time", op.word()));
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

fn left_by(store: &Arc<dyn Store>, flags: &FilesFlags, leaf: &[u8]) -> Arc<dyn Place> {
    Arc::new(StorePlace::found(store.clone(), &address(flags), leaf))
}

fn cleanup(flags: &FilesFlags, global: &Global) -> Result<Exit> {
    let hosts = Hosts::new(&flags.connect);
    let store: Arc<dyn Store> = match opened(flags, &hosts)? {
        Opened::Local => Arc::new(Local::open(&open::path_of(&flags.place.to_bytes()), Options::default())?),
        Opened::Store(store) => store,
    };
    let signalled = listen();
    let (mut removed, mut exit) = (0u32, Exit::Success);
    for found in left::find(&*store, &host_name())? {
        let name = safe(&found.leaf);
        let goes = found.state == State::Over || (found.state == State::Elsewhere && flags.force);
        let what = match found.state {
            _ if goes => match remove(&left_by(&store, flags, &found.leaf), &signalled, global) {
                Ok(()) => {
                    removed += 1;
                    format!("removed {name}")
                }
                Err(e) => {
                    exit = exit.or_worse(if signalled.is_set() { Exit::Signal } else { Exit::Partial });
                    out::failure(&e);
                    continue;
                }
            },
            State::Over | State::Elsewhere => {
                format!("{name} is left: its run is of another machine and may be at work there; --cleanup --force removes it")
            }
            State::Running => format!("{name} is left: its run is at work on this machine"),
            State::Foreign => format!("{name} is left: it has no mark of `haul bench files` in it"),
        };
        runs::document("bench-files-cleanup", json!({ "name": name, "removed": goes }), global)?;
        if !global.quiet {
            out::say(&what);
        }
    }
    if removed == 0 && !global.quiet && exit == Exit::Success {
        out::say("no run has left anything there that could be removed");
    }
    Ok(exit)
}
