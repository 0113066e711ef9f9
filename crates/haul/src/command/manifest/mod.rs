//! Manifests: their text, and `haul check --manifest`, which compares a tree with one and reports to people, programs and lists of names.

mod compare;
mod line;

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use haul_core::cancel::Cancel;
use haul_core::entry::show;
use haul_core::error::{Error, Result};
use haul_core::event::Action;
use haul_core::job::Mode;
use haul_core::meter::Meter;
use haul_core::pool::Session;
use haul_core::spec::Input;
use haul_run::hosts::Hosts;
use haul_run::open::{self, Argument};

use compare::{Found, Reports, Tree};
use line::below;
pub use line::{Format, Line, head};

use super::sum::Reading;
use crate::exit::Exit;
use crate::flags::{CheckFlags, Global};
use crate::out;
use crate::ranks::shared::{self, Shared};
use crate::ranks::{self, Ranks};
use crate::render::Clock;
use crate::render::json::{self, Checked, Checks, Failed, Item, Record};

/// Compares the tree with the manifest and reports what differs.
pub fn check(flags: &CheckFlags, input: &Input, global: &Global, ranks: Option<&Ranks>) -> Exit {
    let cancel = Cancel::default();
    let meter = Meter::new(cancel.clone(), ranks::share_limit(ranks, flags.spec.performance.bandwidth));
    let reading = Reading { workers: flags.spec.performance.workers, cancel: &cancel, meter: &meter };
    let lead = |session: Option<&Arc<Session>>| {
        let ranks = session.map(|session| Shared { session, argument: 0 });
        compared(flags, input, reading, global, ranks).unwrap_or_else(|e| out::error_in(&e, Mode::Check))
    };
    let help = |stage, phase, asked: &Argument<'_>| {
        let (stage, opened) = shared::opened(stage, || open::argument(asked))?;
        compare::help(stage, phase, Tree { opened: &opened, path: &asked.path, manifest: None }, reading)
    };
    shared::run(ranks, std::slice::from_ref(&flags.spec.destination), &flags.connect, lead, help)
}

fn compared(flags: &CheckFlags, input: &Input, reading: Reading<'_>, global: &Global, ranks: Option<Shared<'_>>) -> Result<Exit> {
    let (mut from, manifest): (Box<dyn BufRead + Send>, &[u8]) = match input {
        Input::Stdin => (Box::new(io::BufReader::new(io::stdin())), b"-"),
        Input::File(path) => {
            let file = File::open(path).map_err(|e| Error::io(e, "open manifest").at(path.as_os_str().as_bytes()))?;
            (Box::new(io::BufReader::new(file)), path.as_os_str().as_bytes())
        }
    };
    let hosts = Hosts::new(&flags.connect).printing(out::say);
    let asked = Argument::new(&flags.spec.destination, &hosts);
    let opened = open::argument(&asked)?;
    let reporter = Reporter {
        global,
        tree: &asked.path,
        end: if flags.spec.selection.nul_separated { b"\0" } else { b"\n" },
        lists: [
            (Action::Missing, list(&flags.missing_to)?),
            (Action::Extra, list(&flags.extra_to)?),
            (Action::Differs, list(&flags.differing_to)?),
        ],
        clock: Clock::system(),
        unwritten: Mutex::new(None),
    };
    let plan = format!("compares {} with the manifest {}", show(&asked.path), show(manifest));
    reporter.record(&Record::Started {
        version: json::VERSION,
        plan: &plan,
        dry: false,
        job: None,
        sources: &[show(&asked.path)],
        destination: None,
    });
    let reports = Reports { found: &|found| reporter.found(found), failed: &|e, kind| reporter.failed(e, kind) };
    let within = match input {
        Input::Stdin => None,
        Input::File(path) => std::fs::canonicalize(path).ok().and_then(|real| opened.path_of(&real)),
    };
    let tree = Tree { opened: &opened, path: &asked.path, manifest: within.as_deref() };
    let checks = compare::check(&mut *from, tree, flags.is_one_way(), reading, reports, ranks)?;
    reporter.sums(manifest, checks)?;
    Ok(match checks {
        Checks { failed: 1.., .. } => Exit::Partial,
        Checks { missing: 0, differing: 0, extra: 0, .. } => Exit::Success,
        _ => Exit::Differs,
    })
}

fn list(path: &Option<PathBuf>) -> Result<Option<File>> {
    let open = |path: &Path| File::create(path).map_err(|e| Error::io(e, "open").at(path.as_os_str().as_bytes()));
    path.as_deref().map(open).transpose()
}

/// Prints what is found, from any thread.
struct Reporter<'a> {
    global: &'a Global,
    tree: &'a [u8],
    /// Of a name in a list.
    end: &'a [u8],
    lists: [(Action, Option<File>); 3],
    clock: Clock,
    /// The first name that did not get into its list.
    unwritten: Mutex<Option<io::Error>>,
}

impl Reporter<'_> {
    fn record(&self, record: &Record<'_>) {
        if self.global.json {
            let line = json::line(record, &self.clock.utc());
            let _unread = writeln!(io::stdout().lock(), "{line}");
        }
    }

    fn found(&self, found: Found<'_>) {
        let Found { action, why, path, size } = found;
        let list = self.lists.iter().find(|(listed, _)| *listed == action).and_then(|(_, file)| file.as_ref());
        if let Some(mut file) = list
            && let Err(e) = file.write_all(&[path, self.end].concat())
        {
            self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
        }
        if self.global.json {
            return self.record(&Record::Item(Item::listed(action, why, below(self.tree, path), size)));
        }
        let mut to = io::stdout().lock();
        // Names alone can be fed to --files-from.
        let _unread = if self.global.quiet {
            to.write_all(path).and_then(|()| to.write_all(self.end))
        } else {
            writeln!(to, "{:<8} {}", action.word(), show(path))
        };
    }

    fn failed(&self, e: &Error, kind: haul_core::entry::Kind) {
        self.record(&Record::Failed(Failed::of(e, kind)));
        out::failure(e);
    }

    /// The last line.
    fn sums(&self, manifest: &[u8], checks: Checks) -> Result<()> {
        if let Some(e) = self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return Err(Error::io(e, "write list"));
        }
        let Checks { same, missing, differing, extra, failed } = checks;
        let text = format!("{same} identical, {missing} missing, {differing} differing, {extra} extra, {failed} unreadable");
        let written = |result: io::Result<()>| result.map_err(|e| Error::io(e, "write"));
        if self.global.json {
            let line = json::line(&Record::Checked(Checked::of(self.tree, manifest, checks)), &self.clock.utc());
            written(out::print(format!("{line}\n").as_bytes()))?;
        }
        match (self.global.quiet, self.global.json) {
            (true, _) => Ok(()),
            (false, true) => {
                out::say_plainly(&text);
                Ok(())
            }
            (false, false) => written(out::print(format!("{text}\n").as_bytes())),
        }
    }
}
