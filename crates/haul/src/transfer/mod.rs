//! cp, sync, mv and check: from flags to a job, to a run, to an exit code.
//!
//! ```text
//! flags -> TransferSpec -> places (stores, what of them, the slash rule) -> guard (same, inside) -> Job -> run -> Exit
//! ```

mod batch;
mod beside;
mod byte_sink;
mod destination;
mod guard;
mod headline;
mod link_dest;
mod lists;
mod only;
mod places;
mod resolve;
mod run;
mod workers;

use haul_core::entry::MetaMask;
use haul_core::error::{Error, Result};
use haul_core::event::Action;
use haul_core::job::Mode;
use haul_core::journal::Identity;
use haul_core::place::Scheme;
use haul_core::spec::{Operation, TransferSpec};

use crate::exit::Exit;
use crate::flags::copy::CopyOutput;
use crate::flags::run::BatchChoice;
use crate::flags::{CheckFlags, CopyFlags, Global};
use crate::location::Location;
use crate::ranks::Ranks;
use crate::render;

use byte_sink::Outlet;
use resolve::{RunMode, resolve};
pub use run::Session;

/// cp, sync and mv.
pub fn copy(flags: &CopyFlags, global: &Global, ranks: Option<&Ranks>) -> Exit {
    if flags.list_only {
        return only::list(flags, global);
    }
    let addressed;
    let flags = match flags.spec.selection.files_from.as_ref().filter(|_| flags.spec.sources.is_empty()) {
        None => flags,
        Some(input) => match lists::addresses(input, flags.spec.selection.nul_separated) {
            Ok(sources) => {
                let mut with_sources = flags.clone();
                (with_sources.spec.sources, with_sources.spec.selection.files_from) = (sources, None);
                addressed = with_sources;
                &addressed
            }
            Err(e) => return crate::out::error(&e),
        },
    };
    let done = match Outlet::of(&flags.spec) {
        Some(outlet) => outlet.copy(flags, global),
        None => run_copy(flags, global, ranks),
    };
    done.unwrap_or_else(|e| ended(&e, Mode::Copy, ranks))
}

/// An error that ended this process, in the words of one rank only where all have it.
fn ended(error: &Error, mode: Mode, ranks: Option<&Ranks>) -> Exit {
    match ranks {
        Some(ranks) if !ranks.leads() && error.kind() == haul_core::ErrorKind::Cancelled => Exit::Success,
        Some(ranks) if !ranks.leads() => {
            crate::out::say(&ranks.title());
            crate::out::error_in(error, mode)
        }
        _ => crate::out::error_in(error, mode),
    }
}

fn follows(ranks: Option<&Ranks>) -> bool {
    ranks.is_some_and(|ranks| !ranks.leads())
}

fn run_copy(flags: &CopyFlags, global: &Global, ranks: Option<&Ranks>) -> Result<Exit> {
    let conduct =
        RunMode { dry: flags.dry, itemized: flags.output.itemize, guarded: true, together: ranks.is_some(), follows: follows(ranks) };
    let batch = batch::Batch::of(flags.batch)?;
    let with_journal = ranks.filter(|ranks| !ranks.leads()).map(Ranks::wait).transpose()?;
    let mut prepared = resolve(&flags.spec, conduct, &flags.connect, global)?;
    let options = run::RenderChoice {
        dry: flags.dry,
        output: &flags.output,
        names: None,
        no_times: !flags.spec.attributes.keep.has(MetaMask::MTIME),
        lists: Vec::new(),
        zero: flags.spec.selection.nul_separated,
        mode: if flags.spec.operation == Operation::Sync { render::Mode::Sync } else { render::Mode::Copy },
        data_on_stdout: Outlet::of(&flags.spec) == Some(Outlet::Descriptor(1)),
        ranks,
    };
    let session = Session::open(global, options)?;
    batch.bound(&mut prepared.job, &mut prepared.notes);
    session.note(&prepared.notes);
    let reached = prepared.job.target.place().service();
    let identity = Identity { reached, ..identity(&flags.spec) };
    let record = record(&flags.spec, &flags.connect);
    // What went to a stream cannot be taken up again.
    let kept = with_journal.unwrap_or(true) && !flags.dry && !prepared.job.target.caps().streams;
    batch.check(kept || with_journal.is_some())?;
    let journal = run::JournalUse { choice: batch.journal(flags.journal), spec: record, kept };
    let ran = session.run(prepared.job, &prepared.sentence, &identity, journal, prepared.missing);
    prepared.hosts.finish();
    let ran = ran?;
    let exit = session.exit(&ran.report, Mode::Copy);
    if with_journal.is_some() {
        return Ok(exit);
    }
    Ok(batch.end(&ran).map_or_else(|e| crate::out::error(&e).or_worse(exit), |()| exit))
}

/// The text of a spec, with the flags of its backends; empty where there is no working directory.
fn record(spec: &TransferSpec, connect: &crate::flags::connect::Connect) -> String {
    let Ok(directory) = std::env::current_dir() else { return String::new() };
    TransferSpec { access: connect.record(&directory), ..spec.clone() }.to_text(&directory)
}

/// A transfer of a record: see [`TransferSpec::to_text`].
///
/// # Errors
/// `Usage` for what is no spec of a copy, or names what this program does not have.
pub fn recorded(text: &str) -> Result<CopyFlags> {
    use std::os::unix::ffi::OsStrExt;
    let parse = |bytes: &[u8]| {
        let address = crate::location::parse(std::ffi::OsStr::from_bytes(bytes), &|_| false);
        address.map_err(|e| Error::new(haul_core::ErrorKind::Usage, "read the transfer spec").because(e.to_string()))
    };
    let mut spec = TransferSpec::from_text(text, parse)?;
    spec.sources = spec.sources.into_iter().map(|source| crate::location::operand(source, 0)).collect();
    let connect = haul_run::registry::access(&spec.access)?;
    if matches!(spec.operation, Operation::Check { .. }) {
        let e = Error::new(haul_core::ErrorKind::Usage, "read the transfer spec").because("its operation is a check, not a copy");
        return Err(e.hint("run `haul check`"));
    }
    let (output, journal) = (CopyOutput::default(), crate::flags::copy::JournalChoice::default());
    Ok(CopyFlags { spec, dry: false, list_only: false, output, journal, batch: BatchChoice::default(), connect })
}

fn identity(spec: &TransferSpec) -> Identity {
    let absolute = |location: &Location| {
        if location.is_remote() || location.scheme == Scheme::STDIO {
            return location.to_string();
        }
        let mut path = places::absolute(&location.path);
        if location.means_contents() {
            path.push(b'/');
        }
        haul_core::entry::show(&path)
    };
    Identity { sources: spec.sources.iter().map(absolute).collect(), target: absolute(&spec.destination), ..Identity::default() }
}

/// check: both trees are read, nothing is written.
pub fn check(flags: &CheckFlags, global: &Global, ranks: Option<&Ranks>) -> Exit {
    run_check(flags, global, ranks).unwrap_or_else(|e| ended(&e, Mode::Check, ranks))
}

fn run_check(flags: &CheckFlags, global: &Global, ranks: Option<&Ranks>) -> Result<Exit> {
    let batch = batch::Batch::of(flags.batch)?;
    ranks.filter(|ranks| !ranks.leads()).map(Ranks::wait).transpose()?;
    let mut prepared =
        resolve(&flags.spec, RunMode { together: ranks.is_some(), follows: follows(ranks), ..RunMode::default() }, &flags.connect, global)?;
    batch.bound(&mut prepared.job, &mut prepared.notes);
    let nul_separated = flags.spec.selection.nul_separated;
    let options = run::RenderChoice {
        dry: false,
        output: &CopyOutput { failed_to: flags.failed_to.clone(), ..CopyOutput::default() },
        // Bare names between lines of JSON would be neither.
        names: (global.quiet && !global.json).then_some(nul_separated),
        no_times: false,
        lists: [(Action::Missing, &flags.missing_to), (Action::Extra, &flags.extra_to), (Action::Differs, &flags.differing_to)]
            .into_iter()
            .filter_map(|(action, path)| Some((action, path.clone()?)))
            .collect(),
        zero: nul_separated,
        mode: render::Mode::Check,
        data_on_stdout: false,
        ranks,
    };
    let session = Session::open(global, options)?;
    let journal = run::JournalUse::default();
    session.note(&prepared.notes);
    let ran = session.run(prepared.job, &prepared.sentence, &identity(&flags.spec), journal, Vec::new());
    prepared.hosts.finish();
    Ok(session.exit(&ran?.report, Mode::Check))
}

/// The rules of a command that takes filters but is no copy.
pub fn filter(selection: &haul_core::spec::Selection) -> Result<haul_core::filter::Filter> {
    lists::filter(&selection.filters, false)
}
