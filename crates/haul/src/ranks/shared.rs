//! Commands that go through their arguments one by one, each argument with all ranks, in one session.

use std::sync::{Arc, Mutex, PoisonError};

use haul_core::error::{ErrorKind, Result};
use haul_core::pool::{Session, Stage};
use haul_core::team::wire::{Cursor, put_bytes};
use haul_core::varint;
use haul_run::hosts::Hosts;
use haul_run::location::Location;
use haul_run::open::Argument;

use super::Ranks;
use crate::exit::Exit;
use crate::flags::connect::Connect;
use crate::out;

/// Bytes of one message with results.
const MOST_RESULTS: usize = 16 << 10;

/// The ranks, at rank 0 and for one argument.
#[derive(Clone, Copy)]
pub struct Shared<'a> {
    pub session: &'a Arc<Session>,
    pub argument: usize,
}

impl Shared<'_> {
    /// What all do next; `result` takes each record that others send, and says whether it understands it.
    pub fn stage(&self, phase: u8, result: impl Fn(&[u8]) -> Option<()> + Send + Sync + 'static) -> Stage {
        let mut words = vec![phase];
        varint::put(&mut words, self.argument as u64);
        let results = move |_, bytes: &[u8]| {
            let mut from = Cursor(bytes);
            while !from.is_empty() {
                if from.bytes().and_then(&result).is_none() {
                    return false;
                }
            }
            true
        };
        self.session.stage(words, results)
    }
}

/// Records for rank 0, sent when there are enough of them.
pub struct Outbox {
    send: Box<dyn Fn(Vec<u8>) + Send + Sync>,
    records: Mutex<Vec<u8>>,
}

impl Outbox {
    pub fn of(stage: &Stage) -> Outbox {
        Outbox { send: Box::new(stage.results()), records: Mutex::default() }
    }

    pub fn put(&self, record: &[u8]) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        put_bytes(&mut records, record);
        if records.len() >= MOST_RESULTS {
            let full = std::mem::take(&mut *records);
            drop(records);
            (self.send)(full);
        }
    }

    pub fn flush(&self) {
        let rest = std::mem::take(&mut *self.records.lock().unwrap_or_else(PoisonError::into_inner));
        if !rest.is_empty() {
            (self.send)(rest);
        }
    }
}

/// Has rank 0 `lead`, and the others `help` with each stage that it begins.
pub fn run(
    ranks: Option<&Ranks>,
    places: &[Location],
    connect: &Connect,
    lead: impl FnOnce(Option<&Arc<Session>>) -> Exit,
    mut help: impl FnMut(Stage, u8, &Argument<'_>) -> Result<()>,
) -> Exit {
    let Some(ranks) = ranks else { return lead(None) };
    ranks.begun();
    let session = match Session::open(ranks.team()) {
        Ok(session) => session,
        Err(e) => return out::error(&e),
    };
    if ranks.leads() {
        let exit = lead(Some(&session));
        session.close();
        return exit;
    }
    let hosts = Hosts::new(connect).printing(out::say);
    let mut exit = Exit::Success;
    let ended = loop {
        let (stage, words) = match session.next() {
            Ok(Some(next)) => next,
            Ok(None) => break Ok(()),
            Err(e) => break Err(e),
        };
        let mut from = Cursor(&words);
        let asked = from.small().zip(from.small()).and_then(|(phase, at)| Some((u8::try_from(phase).ok()?, places.get(at as usize)?)));
        let Some((phase, place)) = asked else {
            stage.out();
            continue;
        };
        if let Err(e) = help(stage, phase, &Argument::new(place, &hosts)) {
            if session.check().is_err() {
                break Err(e);
            }
            out::say(&ranks.title());
            let ended = out::error(&e);
            exit = if exit == Exit::Success { ended } else { exit };
        }
    };
    session.close();
    match ended {
        Ok(()) => exit,
        // Rank 0 says it, if it is there.
        Err(e) if e.kind() == ErrorKind::Broken && e.reason().starts_with("rank 0") => out::error(&e),
        Err(e) => Exit::of_error(&e, haul_core::job::Mode::Copy),
    }
}

/// Opens what a stage is about; a rank that cannot takes no part in it.
pub fn opened<T>(stage: Stage, open: impl FnOnce() -> Result<T>) -> Result<(Stage, T)> {
    match open() {
        Ok(opened) => Ok((stage, opened)),
        Err(e) => {
            stage.out();
            Err(e)
        }
    }
}

/// A number of failures, as a record.
pub fn count(kind: u8, number: u64) -> Vec<u8> {
    let mut record = vec![kind];
    varint::put(&mut record, number);
    record
}

/// Whether the ranks cannot go on together.
pub fn is_lost(session: Option<&Arc<Session>>) -> bool {
    session.is_some_and(|session| session.check().is_err())
}
