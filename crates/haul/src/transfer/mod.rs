//! cp, sync, mv and check: from flags to a plan, to a run, to an exit code.

mod batch;
mod headline;
mod only;
mod run;

use haul_core::entry::MetaMask;
use haul_core::error::{Error, Result};
use haul_core::event::Action;
use haul_core::job::Mode;
use haul_core::spec::{Operation, TransferSpec};
use haul_run::outlet::Outlet;
use haul_run::plan::{self, RunMode};

use crate::exit::Exit;
use crate::flags::copy::CopyOutput;
use crate::flags::{CheckFlags, CopyFlags, Global};
use crate::ranks::Ranks;
use crate::render;

use run::Session;

/// cp, sync and mv.
pub fn copy(flags: &CopyFlags, global: &Global, ranks: Option<&Ranks>) -> Exit {
    if flags.list_only {
        return only::list(flags, global);
    }
    let addressed;
    let flags = match flags.spec.selection.files_from.as_ref().filter(|_| flags.spec.sources.is_empty()) {
        None => flags,
        Some(input) => match plan::addresses(input, flags.spec.selection.nul_separated) {
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
        Some(outlet) => copy_to_outlet(&outlet, flags, global),
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

/// Sources follow one another, each in a run of its own, until one fails.
fn copy_to_outlet(outlet: &Outlet, flags: &CopyFlags, global: &Global) -> Result<Exit> {
    outlet.check(&flags.spec, global.json)?;
    if flags.spec.sources.len() > 1 && !flags.dry {
        outlet.hold()?;
    }
    for source in &flags.spec.sources {
        let spec = TransferSpec { sources: vec![source.clone()], ..flags.spec.clone() };
        let exit = run_copy(&CopyFlags { spec, ..flags.clone() }, global, None)?;
        if exit != Exit::Success {
            return Ok(exit);
        }
    }
    Ok(Exit::Success)
}

/// How a plan is made for this command.
fn mode(global: &Global, ranks: Option<&Ranks>) -> RunMode {
    RunMode {
        together: ranks.is_some(),
        follows: ranks.is_some_and(|ranks| !ranks.leads()),
        gives_t: global.argv.iter().any(|word| word == "-t"),
        state_dir: global.state_dir.clone(),
        umask: Some(global.umask),
        print: Some(crate::out::say),
        ..RunMode::default()
    }
}

fn run_copy(flags: &CopyFlags, global: &Global, ranks: Option<&Ranks>) -> Result<Exit> {
    let mode = RunMode { dry: flags.dry, itemized: flags.output.itemize, guarded: true, ..mode(global, ranks) };
    let batch = batch::Batch::of(flags.batch)?;
    let with_journal = ranks.filter(|ranks| !ranks.leads()).map(Ranks::wait).transpose()?;
    let mut plan = plan::open(&flags.spec, &mode, &flags.connect)?;
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
    batch.bound(&mut plan.job, &mut plan.notes);
    session.note(&plan.notes);
    // What went to a stream cannot be taken up again.
    let kept = with_journal.unwrap_or(true) && !flags.dry && !plan.job.target.caps().streams;
    batch.check(kept || with_journal.is_some())?;
    let journal = kept.then(|| session.journal(batch.journal(flags.journal), plan::text(&flags.spec, &flags.connect)));
    let sentence = headline::sentence(&flags.spec, &plan);
    let ran = session.run(plan, sentence, journal)?;
    let exit = session.exit(&ran.report, Mode::Copy);
    if with_journal.is_some() {
        return Ok(exit);
    }
    Ok(batch.end(&ran).map_or_else(|e| crate::out::error(&e).or_worse(exit), |()| exit))
}

/// check: both trees are read, nothing is written.
pub fn check(flags: &CheckFlags, global: &Global, ranks: Option<&Ranks>) -> Exit {
    run_check(flags, global, ranks).unwrap_or_else(|e| ended(&e, Mode::Check, ranks))
}

fn run_check(flags: &CheckFlags, global: &Global, ranks: Option<&Ranks>) -> Result<Exit> {
    let batch = batch::Batch::of(flags.batch)?;
    ranks.filter(|ranks| !ranks.leads()).map(Ranks::wait).transpose()?;
    let mut plan = plan::open(&flags.spec, &mode(global, ranks), &flags.connect)?;
    batch.bound(&mut plan.job, &mut plan.notes);
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
    session.note(&plan.notes);
    let sentence = headline::sentence(&flags.spec, &plan);
    Ok(session.exit(&session.run(plan, sentence, None)?.report, Mode::Check))
}
