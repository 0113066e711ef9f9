//! Rounds in which every contender makes the same copy once, in random order, so that all share the same minutes.
//!
//! ```text
//! for each round: for each contender, shuffled:
//!     new directory -> caches -> timed copy -> verification -> removal -> sample
//! ```

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use haul_core::cancel::Cancel;
use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::store::Store;
use serde_json::Value;

use crate::process::{self, Bounds, Ending, Group, Ran};
use crate::record::{Outcome, Run, Sample};

pub mod caches;
pub mod own;
pub mod source;
pub mod verification;

pub use caches::{Caches, Settled};
pub use own::{Left, Own, is_fresh_name};
pub use source::Source;

/// A place for copies.
pub trait Target {
    /// Makes the empty directory `name`. Errors: `Exists` where anything is there.
    fn make(&self, name: &str) -> Result<()>;

    /// What tells the directory `name` from another that has the name later: one word; `None` where nothing does. Errors:
    /// `NotFound`.
    fn mark(&self, name: &str) -> Result<Option<String>>;

    /// Removes it with all that is in it; no error if it is not there.
    fn clear(&self, name: &str) -> Result<()>;

    /// What lies in it now, read afresh.
    fn open(&self, name: &str) -> Result<Arc<dyn Store>>;

    /// Where it is on this machine, if it is.
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
        let input = self.input.as_ref().map(|text| {
            let mut file = unnamed()?;
            file.write_all(text)?;
            file.rewind()?;
            Ok(file)
        });
        let input = input.transpose().map_err(|e: std::io::Error| Error::io(e, "write a command's input"))?;
        process::pipe(&self.stages, &self.env, input, bounds)
    }
}

/// A file in memory that no name leads to.
fn unnamed() -> std::io::Result<std::fs::File> {
    Ok(rustix::fs::memfd_create("input", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// Makes the command of a contender for the copy that goes into the directory of this name.
pub type Prepare<'a> = Box<dyn Fn(&str) -> Result<Call> + 'a>;

/// Who takes part.
pub struct Contender<'a> {
    pub name: String,
    pub factors: BTreeMap<String, Value>,
    /// Which of the targets it copies to.
    pub target: usize,
    pub prepare: Prepare<'a>,
    /// Why it cannot run at all.
    pub absent: Option<String>,
}

/// What is to be measured, and where.
pub struct Comparison<'a> {
    pub contenders: &'a [Contender<'a>],
    pub targets: &'a [&'a dyn Target],
    pub source: &'a Source,
    /// Where the source is on this machine, if it is.
    pub from: Option<&'a Path>,
    pub repeat: u32,
    pub warmup: u32,
    pub seed: u64,
    /// For each copy.
    pub limit: Duration,
    pub caches: Settled,
    /// That look at the copies.
    pub threads: usize,
    pub cancel: &'a Cancel,
    /// The processes of the contender whose turn it is.
    pub group: &'a Group,
}

/// What goes on.
#[derive(Debug)]
pub enum Event<'a> {
    Begins {
        nth: u32,
        of: u32,
        round: u32,
        contender: &'a str,
    },
    Checking {
        contender: &'a str,
    },
    Ended(&'a Sample),
    /// A directory could not be removed.
    Left(Error),
}

impl Comparison<'_> {
    /// Measures all that `run` does not have yet. Errors: what concerns no contender alone, as a destination that is full;
    /// `Cancelled` when it was told to stop, and everything that was measured is kept.
    pub fn measure_all(&self, run: &mut Run, told: &mut dyn FnMut(Event<'_>)) -> Result<()> {
        let own = Own::of(run.dir());
        let rounds = self.warmup + self.repeat;
        let names = || self.contenders.iter().map(|contender| contender.name.as_str());
        own.clear(self.targets, &|name| is_fresh_name(name, names(), rounds))?;
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
                told(Event::Begins { nth, of, round: repetition, contender: &contender.name });
                let (sample, stuck) = self.measure(contender, repetition, round + 1, &own, told)?;
                told(Event::Ended(&sample));
                let stopped = sample.outcome == Outcome::Interrupted;
                run.add(sample)?;
                if let Some(process) = stuck {
                    return Err(unkillable(process, &contender.name));
                }
                if stopped {
                    own.forget();
                    return Err(Error::new(ErrorKind::Cancelled, "stop"));
                }
            }
        }
        own.forget();
        Ok(())
    }

    /// Measured already, or not worth another try: what is missing stays missing, and what has used up its time once would again.
    fn is_done(&self, run: &Run, contender: &Contender<'_>, repetition: u32) -> bool {
        let given_up = |sample: &&Sample| {
            let over = matches!(sample.outcome, Outcome::Missing | Outcome::Timeout);
            over && sample.contender == contender.name && sample.factors == contender.factors
        };
        run.samples.iter().any(|sample| given_up(&sample)) || (repetition > 0 && run.has(&contender.name, &contender.factors, repetition))
    }

    /// Also says which process is still there, if one cannot be killed.
    fn measure(
        &self,
        contender: &Contender<'_>,
        repetition: u32,
        number: u32,
        own: &Own,
        told: &mut dyn FnMut(Event<'_>),
    ) -> Result<(Sample, Option<u32>)> {
        let mut sample = Sample {
            contender: contender.name.clone(),
            factors: contender.factors.clone(),
            repetition,
            at: jiff::Timestamp::now().to_string(),
            files: Some(self.source.files + self.source.links),
            bytes: Some(self.source.bytes),
            caches: Some(self.caches.words.to_string()),
            ..Sample::default()
        };
        if let Some(reason) = &contender.absent {
            sample.outcome = Outcome::Missing;
            sample.reason = Some(reason.clone());
            return Ok((sample, None));
        }
        let target = self.targets[contender.target];
        let name = fresh_name(&contender.name, number);
        let call = (contender.prepare)(&name)?;
        sample.command = call.shown();
        own.make(contender.target, target, &name)?;
        let ran = self
            .caches
            .prepare(target.local(), self.from)
            .and_then(|()| call.run(Bounds { limit: self.limit, cancel: self.cancel, group: self.group }));
        let stuck = ran.as_ref().ok().and_then(|ran| ran.stuck);
        match ran {
            Ok(ran) => self.evaluate(&ran, &mut sample, target, &name, told),
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
            // It may still write: what it made stays noted, and goes when the run is gone on with.
            return Ok((sample, stuck));
        }
        // What is left of a copy that was killed may still be written to for a moment from the far side.
        let cleared = (0..4).find_map(|attempt| {
            if attempt > 0 {
                std::thread::sleep(Duration::from_millis(200 << attempt));
            }
            target.clear(&name).ok()
        });
        match cleared {
            Some(()) => own.done(&name)?,
            None => told(Event::Left(target.clear(&name).err().unwrap_or_else(|| Error::new(ErrorKind::Other, "remove")))),
        }
        Ok((sample, None))
    }

    fn evaluate(&self, ran: &Ran, sample: &mut Sample, target: &dyn Target, name: &str, told: &mut dyn FnMut(Event<'_>)) {
        sample.seconds = Some(ran.seconds);
        sample.user = Some(ran.user);
        sample.system = Some(ran.system);
        sample.peak = ran.peak;
        if ran.peak.is_none() {
            sample.more.insert("peak_below".into(), ran.peak_below.into());
        }
        let (outcome, reason) = match ran.ending {
            Ending::Exit(0) => {
                told(Event::Checking { contender: &sample.contender });
                let checked = target.open(name).and_then(|copy| verification::check(self.source, &*copy, self.threads, self.cancel));
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

/// Why a run ends whose contender is still at it.
pub fn unkillable(process: u32, name: &str) -> Error {
    let e = Error::new(ErrorKind::TimedOut, "stop").at(name.as_bytes());
    let e = e.because(format!(
        "process {process} cannot be killed: it waits in the kernel for a disk or a server, and would disturb the next measurements"
    ));
    e.hint(
        "check the file system that it waits for; when the process is gone, the same command with --out and this run's directory resumes",
    )
}

/// The last line that a program said, if any.
fn last_words(stderr: &[u8]) -> String {
    const LONGEST: usize = 200;
    let line = stderr.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).rfind(|line| !line.is_empty());
    line.map_or(String::new(), |line| format!(": {}", show(&line[..line.len().min(LONGEST)])))
}

/// The name of a fresh directory: nothing but letters, digits and `.`, `_`, `-`.
pub fn fresh_name(contender: &str, number: u32) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    let name: String = contender.chars().map(plain).collect();
    format!("{}-{number}", name.trim_start_matches('.'))
}

#[cfg(test)]
mod tests;
