//! A comparison: opening places, the run directory, the rounds, progress.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haul_bench::comparison::{Comparison, Event, Source, prefix};
use haul_bench::plot::Unit;
use haul_bench::process::{Bounds, Group};
use haul_bench::record::{Header, Outcome, Place, Run, Sample, Tool};
use haul_bench::report::points;
use haul_core::cancel::Cancel;
use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::place::url::without_password;
use haul_run::location::{Location, Scheme};
use haul_run::open;
use serde_json::Value;

use super::runs;
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::compare::CompareOptions;
use crate::render::command_line;
use crate::{out, signals, units};

mod keeping;
mod origin;
pub mod reach;
mod target;

pub use keeping::Keeping;
pub use origin::Origin;
pub use target::Target;

const STOPPING: &str = "stopping and cleaning up (a second signal stops at once and leaves the last copy)";

/// Signals end a comparison; the second one at once, with the processes that are being measured.
pub fn listen(cancel: &Cancel) -> Result<Group> {
    let group = Group::default();
    let running = group.clone();
    signals::cancels(cancel, STOPPING, None, move || running.kill())?;
    Ok(group)
}

const COMPARED: &str = "every copy was compared with the source: names, types, sizes, contents";

const SOURCE: [&str; 3] = ["source_files", "source_bytes", "source_hash"];

/// The setting that records how caches were treated.
const CACHES: &str = "caches_before";

pub struct PlannedRun<'a> {
    pub options: &'a CompareOptions,
    pub global: &'a Global,
    pub keeping: &'a Keeping,
    pub from: &'a Origin,
    pub target: &'a Target<'a>,
    pub comparison: Comparison<'a>,
    pub tools: Vec<Tool>,
    /// A run is resumed only with the same.
    pub settings: BTreeMap<String, Value>,
}

impl PlannedRun<'_> {
    /// Holds all rounds that are not in the run directory yet, and shows the results. `Partial` if no copy counts.
    pub fn run(self) -> Result<Exit> {
        let dir = &self.keeping.dir;
        let caches = self.comparison.caches;
        if let Some(old) = self.keeping.old.get(CACHES).filter(|old| **old != caches.words) {
            let e = Error::new(ErrorKind::Exists, "go on").at(dir.as_os_str().as_bytes());
            let old = old.as_str().unwrap_or_default();
            let e = e.because(format!("caches were {old} before the copies of this run; now they would be {}", caches.words));
            return Err(e.hint("resume as the same user on the same machine, or name another directory with --out"));
        }
        let new = !dir.exists();
        let mut run = Run::begin(dir, self.header(caches.words))?;
        let had = run.samples.len();
        let finished = self.prepare(&mut run).map(|source| {
            self.comparison.measure_all(&source, &mut run, &mut |event| {
                if !self.global.quiet {
                    report(&event, self.options.repeat)
                }
            })
        });
        let _ = std::fs::remove_dir_all(&self.keeping.state);
        let finished = match finished {
            Ok(finished) => finished,
            Err(e) => {
                // Nothing was measured: nothing is worth keeping.
                if new && had == 0 {
                    let _ = std::fs::remove_dir_all(dir);
                }
                return Err(e);
            }
        };
        let stopped = match finished {
            Ok(()) => false,
            Err(e) if e.kind() == ErrorKind::Cancelled => true,
            Err(e) => {
                run.finish(None)?;
                return Err(e);
            }
        };
        run.finish((!stopped).then(runs::now))?;
        if stopped {
            out::say_plainly(&how_to_resume(run.dir(), self.options));
        }
        runs::show("bench-compare", &run, self.global)?;
        let ranked = points(&run.samples).iter().any(|point| point.good() > 0 && !point.is_wrong());
        Ok(match (stopped, ranked) {
            (true, _) => Exit::Signal,
            (false, true) => Exit::Success,
            (false, false) => Exit::Partial,
        })
    }

    fn header(&self, caches: &str) -> Header {
        let mut settings = self.settings.clone();
        let fixed: [(&str, Value); 8] = [
            ("source", self.from.location.to_string().into()),
            ("destination", self.target.location().to_string().into()),
            ("repeat", self.options.repeat.into()),
            ("warmup", self.options.warmup.into()),
            ("seed", self.keeping.seed.into()),
            ("limit_seconds", self.options.limit.as_secs_f64().into()),
            ("caches", self.options.caches.word().into()),
            (CACHES, caches.into()),
        ];
        // The source as it was read first; `agree` compares it with the source now.
        let source = SOURCE.iter().filter_map(|name| Some((*name, self.keeping.old.get(*name)?.clone())));
        let extrapolate = self.options.extrapolate.iter();
        let extrapolate =
            extrapolate.flat_map(|(text, bytes)| [("extrapolate", text.as_str().into()), ("extrapolate_bytes", (*bytes).into())]);
        let workers = Some(&self.options.workers).filter(|workers| !workers.is_empty()).map(|workers| ("workers", workers.clone().into()));
        settings.extend(fixed.into_iter().chain(source).chain(extrapolate).chain(workers).map(|(name, value)| (name.to_string(), value)));
        let place = |role: &str, location: &Location| {
            let path = (!location.is_remote()).then(|| open::path_of(&location.path));
            Place::of(role, &location.to_string(), path.as_deref())
        };
        let places = vec![place("source", &self.from.location), place("destination", self.target.location())];
        let mut notes = vec![format!("caches: {caches}")];
        if places.iter().any(|place| place.file_system.is_none()) {
            notes.push("only this machine's caches, not those of the remote host".to_string());
        }
        notes.extend(in_memory(&places).filter(|_| caches == "dropped").map(|words| format!("caches: {words}")));
        notes.push("times end when the tool exits; they do not include writing to disk".to_string());
        notes.push(COMPARED.to_string());
        Header { places, tools: self.tools.clone(), settings, notes, ..self.keeping.header.clone() }
    }

    /// Records the source in the header, or refuses another source than the run began with.
    fn agree(&self, run: &mut Run, source: &Source) -> Result<()> {
        let now: [Value; 3] = [source.files.into(), source.bytes.into(), format!("{:032x}", source.digest).into()];
        let old = SOURCE.map(|name| run.header.settings.get(name).cloned());
        if old.iter().all(Option::is_none) {
            run.header.settings.extend(SOURCE.map(String::from).into_iter().zip(now));
            return run.finish(None);
        }
        if old == now.map(Some) {
            return Ok(());
        }
        let counted = |at: usize| old[at].as_ref().and_then(Value::as_u64).unwrap_or_default();
        let e = Error::new(ErrorKind::Changed, "go on").at(&self.from.location.to_bytes());
        let e = e.because(format!(
            "the source has changed since this run began: it had {} files, {}, and now has {} files, {}{}",
            units::count(counted(0)),
            units::bytes(counted(1)),
            units::count(source.files),
            units::bytes(source.bytes),
            if (counted(0), counted(1)) == (source.files, source.bytes) { ", with other names, times or contents" } else { "" },
        ));
        Err(e.hint("begin a new run with another directory for --out"))
    }

    /// Reads the source, and asks whether there is room for a copy.
    fn prepare(&self, run: &mut Run) -> Result<Source> {
        let quiet = self.global.quiet;
        if !quiet {
            let hint_sequential = match run.samples.len() {
                0 => String::new(),
                n => format!("; resumes after {n} samples"),
            };
            let words =
                format!("samples in {}, seed {}{hint_sequential}", show(self.keeping.dir.as_os_str().as_bytes()), self.keeping.seed);
            out::say_plainly(&words);
        }
        let source = self.from.read(self.comparison.cancel)?;
        self.agree(run, &source)?;
        if !quiet {
            out::say_plainly(&format!(
                "{}: {} files, {}; every copy is compared with it",
                self.from.location,
                units::count(source.files),
                units::bytes(source.bytes)
            ));
            if source.specials > 0 {
                out::say_plainly(&format!("{} fifos, sockets or devices in it are ignored", units::count(source.specials)));
            }
        }
        self.target.clear_left(&prefix(&run.header))?;
        if let Some(space) = self.target.space()?
            && (space.bytes < source.bytes || space.files < source.files + source.dirs)
        {
            let e = Error::new(ErrorKind::NoSpace, "begin").at(&self.target.location().to_bytes());
            let e = e.because(format!(
                "a copy needs {} and {} files, and there is room for {} and {}",
                units::bytes(source.bytes),
                units::count(source.files + source.dirs),
                units::bytes(space.bytes),
                units::count(space.files)
            ));
            return Err(e.hint("name another destination, or a smaller source"));
        }
        Ok(source)
    }
}

fn in_memory(places: &[Place]) -> Option<String> {
    let kind = places.iter().find(|place| place.role == "source")?.file_system.as_deref()?;
    let words = || format!("the source is on {kind}, and its files stay in memory whatever is dropped");
    ["tmpfs", "ramfs"].contains(&kind).then(words)
}

/// One line a copy; it begins when the copy does.
fn report(event: &Event<'_>, repeat: u32) {
    let mut to = io::stderr().lock();
    // The measurement goes on also when nobody reads its progress.
    let _ = match event {
        Event::Begins { nth, of, round: 0, contender } => write!(to, "{nth:>4} of {of}, warm-up, {contender}: "),
        Event::Begins { nth, of, round, contender } => write!(to, "{nth:>4} of {of}, round {round} of {repeat}, {contender}: "),
        Event::Ended(sample) => writeln!(to, "{}", ended(sample)),
        Event::Left(e) => writeln!(to, "haul: a copy could not be removed: {e}"),
    };
    let _ = to.flush();
}

fn ended(sample: &Sample) -> String {
    let reason = sample.reason.as_ref().map_or(String::new(), |reason| format!(": {reason}"));
    match (sample.outcome, sample.seconds) {
        (Outcome::Ok, Some(seconds)) => format!("{}, correct", Unit::Seconds.show(seconds)),
        (outcome, Some(seconds)) if outcome == Outcome::Wrong => format!("{}, {}{reason}", Unit::Seconds.show(seconds), outcome.words()),
        (outcome, _) => format!("{}{reason}", outcome.words()),
    }
}

pub fn found(program: &str) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        use std::os::unix::fs::PermissionsExt;
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| is_program(path));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| is_program(path))
}

pub fn version(argv: &[OsString], cancel: &Cancel, group: &Group) -> Option<String> {
    const LONGEST: Duration = Duration::from_secs(10);
    let ran = haul_bench::process::run(argv, &[], Bounds { limit: LONGEST, cancel, group }).ok()?;
    let first = |text: &[u8]| text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty()).map(show);
    first(&ran.stdout).or_else(|| first(&ran.stderr))
}

/// The command that resumes a run that was stopped.
fn how_to_resume(dir: &Path, options: &CompareOptions) -> String {
    let mut words: Vec<Vec<u8>> = std::env::args_os().map(|word| without_password(word.as_bytes())).collect();
    if let Some(first) = words.first_mut() {
        *first = b"haul".to_vec();
    }
    if options.out.is_none() {
        words.extend([b"--out".to_vec(), dir.as_os_str().as_bytes().to_vec()]);
    }
    let command = command_line(words.iter().map(Vec::as_slice));
    format!("stopped before the end; the samples are kept and the copies removed. To resume:\n  {command}")
}

/// Refuses places that no two of the tools could work between. Errors: `Usage`.
pub fn one_here(source: &Location, destination: &Location) -> Result<()> {
    let shown = destination.to_bytes();
    let refuse = |reason: &str| Err(Error::new(ErrorKind::Usage, "begin").at(&shown).because(reason));
    match (source.is_remote(), destination.is_remote()) {
        (true, true) => refuse("source and destination are both remote: one of them must be on this machine"),
        _ if destination.scheme == Scheme::STDIO => refuse("is not a directory"),
        _ => Ok(()),
    }
}
