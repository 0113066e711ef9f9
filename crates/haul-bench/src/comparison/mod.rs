//! Rounds in which every contender makes the same copy once, in random order, so that all share the same minutes.
//!
//! ```text
//! for each round: for each contender, shuffled:
//!     new directory -> caches -> timed copy -> verification -> removal -> sample
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use haul_core::cancel::Cancel;
use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Store;

use crate::process::{self, Bounds, Ending, Group, Ran};
use crate::record::{Header, Outcome, Run, Sample};

pub mod caches;
pub mod source;
pub mod verification;

pub use caches::{Caches, Settled};
pub use source::Source;

pub trait Target {
    /// Makes the empty directory `name`. Errors: `Exists` where anything is there.
    fn make(&self, name: &str) -> Result<()>;

    /// Removes it with all that is in it; no error if it is not there.
    fn clear(&self, name: &str) -> Result<()>;

    fn open(&self, name: &str) -> Result<Arc<dyn Store>>;

    /// Its path, if it is on this machine.
    fn local(&self) -> Option<&Path>;
}

/// Programs to run, each reading what the one before it writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    pub stages: Vec<Vec<OsString>>,
    /// For the first one's standard input.
    pub input: Option<Vec<u8>>,
    pub env: Vec<(OsString, OsString)>,
}

impl Call {
    /// As a person may read it; `|` between programs.
    pub fn shown(&self) -> Vec<String> {
        let stage = |stage: &Vec<OsString>| stage.iter().map(|word| show(word.as_encoded_bytes())).collect::<Vec<_>>();
        let mut words = self.stages.iter().map(stage).collect::<Vec<_>>().join(&"|".to_string());
        if let Some(input) = &self.input {
            words.push(format!("<<< {}", show(input.trim_ascii())));
        }
        words
    }

    fn run(&self, bounds: Bounds<'_>) -> Result<Ran> {
        let input = self.input.as_ref().map(|text| process::unnamed(text)).transpose();
        let input = input.map_err(|e| Error::io(e, "write a command's input"))?;
        process::pipe(&self.stages, &self.env, input, bounds)
    }
}

/// Makes the command of a contender for the copy that goes into the directory of this name.
pub type Prepare<'a> = Box<dyn Fn(&str) -> Result<Call> + 'a>;

/// A tool, or haul with a number of workers.
pub struct Contender<'a> {
    pub name: String,
    pub prepare: Prepare<'a>,
    /// Why it cannot run at all.
    pub absent: Option<String>,
}

pub struct Comparison<'a> {
    pub contenders: Vec<Contender<'a>>,
    pub target: &'a dyn Target,
    /// The source's path, if it is on this machine.
    pub from: Option<PathBuf>,
    pub repeat: u32,
    pub warmup: u32,
    pub seed: u64,
    /// For each copy.
    pub limit: Duration,
    pub caches: Settled,
    pub threads: usize,
    pub cancel: &'a Cancel,
    /// The processes of the contender whose turn it is.
    pub group: &'a Group,
}

#[derive(Debug)]
pub enum Event<'a> {
    Begins {
        nth: u32,
        of: u32,
        round: u32,
        contender: &'a str,
    },
    Ended(&'a Sample),
    /// A directory could not be removed.
    Left(Error),
}

impl Comparison<'_> {
    /// Measures all that `run` does not have yet. Errors: what concerns no contender alone, as a destination that is full;
    /// `Cancelled`, and the samples are kept.
    pub fn measure_all(&self, source: &Source, run: &mut Run, report: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let rounds = self.warmup + self.repeat;
        let of = rounds * u32::try_from(self.contenders.len()).unwrap_or(u32::MAX);
        let mut nth = 0;
        for round in 0..rounds {
            for place in crate::order::order(self.seed, round, self.contenders.len()) {
                nth += 1;
                self.cancel.check()?;
                let contender = &self.contenders[place];
                // Warm-ups are numbered from 0 downwards in time and count for nothing.
                let repetition = (round + 1).saturating_sub(self.warmup);
                if self.is_done(run, contender, repetition) {
                    continue;
                }
                report(Event::Begins { nth, of, round: repetition, contender: &contender.name });
                let name = format!("{}{}", prefix(&run.header), run.samples.len() + 1);
                let (sample, stuck) = self.measure(source, contender, repetition, &name, report)?;
                report(Event::Ended(&sample));
                let stopped = sample.outcome == Outcome::Interrupted;
                run.add(sample)?;
                if let Some(process) = stuck {
                    return Err(unkillable(process, &contender.name));
                }
                if stopped {
                    return Err(Error::new(ErrorKind::Cancelled, "stop"));
                }
            }
        }
        Ok(())
    }

    /// Measured already, or not worth another try: a missing program, or one that has exceeded its time once.
    fn is_done(&self, run: &Run, contender: &Contender<'_>, repetition: u32) -> bool {
        let given_up = |sample: &&Sample| {
            let over = matches!(sample.outcome, Outcome::Missing | Outcome::Timeout);
            over && sample.contender == contender.name
        };
        run.samples.iter().any(|sample| given_up(&sample)) || (repetition > 0 && run.has(&contender.name, repetition))
    }

    /// Also returns the process that cannot be killed, if there is one.
    fn measure(
        &self,
        source: &Source,
        contender: &Contender<'_>,
        repetition: u32,
        name: &str,
        report: &mut dyn FnMut(Event<'_>),
    ) -> Result<(Sample, Option<u32>)> {
        let mut sample = Sample {
            contender: contender.name.clone(),
            repetition,
            at: jiff::Timestamp::now().to_string(),
            files: Some(source.files + source.links),
            bytes: Some(source.bytes),
            caches: Some(self.caches.words.to_string()),
            ..Sample::default()
        };
        if let Some(reason) = &contender.absent {
            sample.outcome = Outcome::Missing;
            sample.reason = Some(reason.clone());
            return Ok((sample, None));
        }
        let target = self.target;
        let call = (contender.prepare)(name)?;
        sample.command = call.shown();
        target.make(name)?;
        let ran = self
            .caches
            .prepare(target.local(), self.from.as_deref())
            .and_then(|()| call.run(Bounds { limit: self.limit, cancel: self.cancel, group: self.group }));
        let stuck = ran.as_ref().ok().and_then(|ran| ran.stuck);
        match ran {
            Ok(ran) => self.evaluate(source, &ran, &mut sample, name),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                sample.outcome = Outcome::Missing;
                sample.reason = Some(e.to_string());
            }
            Err(e) => {
                sample.outcome = Outcome::Failed;
                sample.reason = Some(e.to_string());
            }
        }
        if stuck.is_some() {
            // It may still write: its copy is removed when the run is resumed.
            return Ok((sample, stuck));
        }
        // A remote process may outlive the killed connection, and write for a moment.
        let mut cleared = target.clear(name);
        for attempt in 1..4 {
            if cleared.is_err() {
                std::thread::sleep(Duration::from_millis(200 << attempt));
                cleared = target.clear(name);
            }
        }
        if let Err(e) = cleared {
            report(Event::Left(e));
        }
        Ok((sample, None))
    }

    fn evaluate(&self, source: &Source, ran: &Ran, sample: &mut Sample, name: &str) {
        sample.seconds = Some(ran.seconds);
        sample.user = Some(ran.user);
        sample.system = Some(ran.system);
        sample.peak = ran.peak;
        if ran.peak.is_none() {
            sample.more.insert("peak_below".into(), ran.peak_below.into());
        }
        let (outcome, reason) = match ran.ending {
            Ending::Exit(0) => {
                let checked = self.target.open(name).and_then(|copy| verification::check(source, &*copy, self.threads, self.cancel));
                match checked {
                    Ok(verification) => {
                        sample.more.insert("kept".into(), verification.kept.clone().into());
                        sample.more.insert("wrong".into(), verification.wrong.into());
                        match verification.wrong {
                            0 => (Outcome::Ok, None),
                            1 => (Outcome::Wrong, Some(verification.named.join("; "))),
                            wrong => (Outcome::Wrong, Some(format!("{wrong} wrong names, as {}", verification.named.join("; ")))),
                        }
                    }
                    Err(_) if self.cancel.is_set() => (Outcome::Interrupted, None),
                    Err(e) => (Outcome::Wrong, Some(format!("the copy cannot be read: {e}"))),
                }
            }
            Ending::Exit(code) => (Outcome::Failed, Some(format!("ended with code {code}{}", last_words(&ran.stderr)))),
            Ending::Signal(signal) => (Outcome::Failed, Some(format!("ended by signal {signal}{}", last_words(&ran.stderr)))),
            Ending::Timeout => (Outcome::Timeout, Some(format!("not done after {} s, and killed", self.limit.as_secs_f64()))),
            Ending::Cancelled => (Outcome::Interrupted, None),
        };
        sample.outcome = outcome;
        sample.reason = reason;
    }
}

/// The error that ends a run whose contender cannot be killed.
pub fn unkillable(process: u32, name: &str) -> Error {
    let e = Error::new(ErrorKind::TimedOut, "stop").at(name.as_bytes());
    let e = e.because(format!(
        "process {process} cannot be killed: it waits in the kernel for a disk or a server, and would disturb the next measurements"
    ));
    e.hint(
        "check the file system that it waits for; when the process is gone, the same command with --out and this run's directory resumes",
    )
}

/// The last line of a program's errors, if any.
fn last_words(stderr: &[u8]) -> String {
    const LONGEST: usize = 200;
    let line = stderr.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).rfind(|line| !line.is_empty());
    line.map_or(String::new(), |line| format!(": {}", show(&line[..line.len().min(LONGEST)])))
}

/// The beginning of the names of the run's directories at the destination; a number follows. A directory with such a name at the
/// start was left by a killed process of this run.
pub fn prefix(header: &Header) -> String {
    format!("haul-bench-{}-", header.id)
}

/// Whether a name at the destination is one that the run with this [`prefix`] gives.
pub fn is_copy(prefix: &str, name: &[u8]) -> bool {
    name.strip_prefix(prefix.as_bytes()).is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests;
