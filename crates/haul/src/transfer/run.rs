//! A run as the terminal shows it: display, log, lists of names, signals.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use haul_core::cancel::{Cancel, Stop};
use haul_core::error::Result;
use haul_core::event::Action;
use haul_core::job::Mode;
use haul_core::report::Report;
use haul_core::rlimit;
use haul_local::trusted;
use haul_run::plan::Plan;
use haul_run::run::{Begun, Ended, JournalChoice, JournalUse, Ran, Rank, Run};
use rustix::fs::OFlags;

use crate::exit::Exit;
use crate::figures::Figures;
use crate::flags::Global;
use crate::flags::copy::CopyOutput;
use crate::flags::global::Progress;
use crate::rank_lines::Print;
use crate::ranks::Ranks;
use crate::render::{self, Renderer};
use crate::signals;

/// What a command says of its output.
pub struct RenderChoice<'a> {
    pub dry: bool,
    pub output: &'a CopyOutput,
    pub names: Option<bool>,
    /// Modification times are not preserved.
    pub no_times: bool,
    /// `--missing-to` and its like.
    pub lists: Vec<(Action, PathBuf)>,
    pub zero: bool,
    pub mode: render::Mode,
    /// Text must not go there.
    pub data_on_stdout: bool,
    pub ranks: Option<&'a Ranks>,
}

pub struct Session<'a> {
    pub renderer: Arc<Renderer>,
    /// Prints what other ranks send, while this is here.
    _print: Option<Arc<Print>>,
    ranks: Option<&'a Ranks>,
    quiet: bool,
    state_dir: Option<PathBuf>,
    /// A job's deadline counts from here.
    opened: Instant,
    /// The command line, for the journal.
    argv: Vec<OsString>,
}

fn appending(path: &Path, op: &'static str) -> Result<File> {
    trusted::open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND, op)
}

impl<'a> Session<'a> {
    pub fn open(global: &Global, choice: RenderChoice<'a>) -> Result<Self> {
        // Files that other ranks than the first write have their number behind the name.
        let follower = choice.ranks.filter(|ranks| !ranks.leads());
        let own = |path: &Path| match follower {
            None => path.to_path_buf(),
            Some(ranks) => [path.as_os_str(), format!(".{}", ranks.rank()).as_ref()].iter().copied().collect::<OsString>().into(),
        };
        let list = |path: &PathBuf| {
            let path = &own(path);
            let file = trusted::open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, "open")?;
            Ok(render::FailedTo { file, name: haul_core::entry::show(path.as_os_str().as_bytes()), zero: choice.zero })
        };
        let failed_to = choice.output.failed_to.as_ref().map(list).transpose()?;
        let lists = choice.lists.iter().map(|(action, path)| Ok((*action, list(path)?))).collect::<Result<_>>()?;
        let term = std::env::var("TERM").ok();
        let live = std::io::IsTerminal::is_terminal(&std::io::stderr()) && render::can_draw(term.as_deref());
        let (progress, live) = match global.progress {
            Progress::Auto => (render::PROGRESS_DEFAULT, live),
            Progress::On => (render::PROGRESS_DEFAULT, live),
            Progress::Every(every) => (every, false),
        };
        let options = render::Options {
            mode: choice.mode,
            quiet: global.quiet,
            verbose: global.verbose,
            itemize: choice.output.itemize,
            no_times: choice.no_times,
            json: global.json,
            dry: choice.dry,
            stat: choice.output.stat,
            live: live && follower.is_none(),
            progress,
            shows_totals: global.progress != Progress::Auto,
            color: global.color && std::io::IsTerminal::is_terminal(&std::io::stderr()),
            fold: folds(),
            unicode: crate::text::utf8_locale(|name| std::env::var(name).ok()),
            names: choice.names,
            log: global.log.as_deref().map(|path| appending(&own(path), "open log")).transpose()?,
            follower: follower.map(Ranks::title),
            lines: choice.ranks.map(|ranks| ranks.lines().clone()),
            failed_to,
            lists,
            command: Some(render::command_line(global.argv.iter().map(|a| a.as_bytes()))),
            ..render::Options::default()
        };
        let renderer = Renderer::new(options, render::Outputs::of(choice.data_on_stdout, choice.ranks.map(Ranks::lines)));
        let print = choice.ranks.filter(|ranks| ranks.leads()).map(|ranks| {
            let renderer = renderer.clone();
            let print: Arc<Print> = Arc::new(move |stream, lines| renderer.pass_on(stream, lines));
            ranks.lines().print_by(&print);
            print
        });
        Ok(Session {
            renderer,
            _print: print,
            ranks: choice.ranks,
            quiet: global.quiet || follower.is_some(),
            state_dir: global.state_dir.clone(),
            opened: Instant::now(),
            argv: global.argv.clone(),
        })
    }

    /// Lines about the run, before it begins.
    pub fn note(&self, notes: &[String]) {
        if !self.quiet {
            notes.iter().for_each(|note| self.renderer.say(note));
        }
    }

    /// How a run ends that has a report.
    pub fn exit(&self, report: &Report, mode: Mode) -> Exit {
        let exit = Exit::of_report(report, mode);
        if self.renderer.has_lost_output() { exit.or_worse(Exit::Io) } else { exit }
    }

    /// Runs what was planned; without `usage` no journal is kept.
    pub fn run(&self, plan: Plan, sentence: String, usage: Option<JournalUse>) -> Result<Ran> {
        let (cancel, show_progress) = (Cancel::default(), Arc::new(AtomicBool::new(false)));
        let _listening = listen(cancel.clone(), show_progress.clone(), self.renderer.clone())?;
        let (sources, target) = (plan.identity.sources.clone(), plan.identity.target.clone());
        let begun = move |begun: Begun| {
            self.renderer.begin(render::Run {
                job: begun.job,
                sources: sources.clone(),
                destination: Some(target.clone()),
                stops: begun.deadline,
                network: begun.network,
                starts_over: begun.starts_over,
            });
        };
        let ended = |ended: &Ended<'_>| {
            self.renderer.leave();
            let processors = ended.report.processors(ended.processors);
            Figures::of(ended.report, ended.ends, (processors, ended.fixed_workers), SystemTime::now()).text()
        };
        let go = |journal| self.ranks.map_or(Ok(()), |ranks| ranks.go(journal));
        plan.execute(Run {
            observer: self.renderer.clone(),
            begun: &begun,
            ended: &ended,
            cancel,
            show_progress,
            sentence,
            journal: usage,
            opened: self.opened,
            rank: self.ranks.map(|ranks| Rank { team: ranks.team(), number: ranks.rank(), go: &go }),
        })
    }

    /// The journal of this command.
    pub fn journal(&self, choice: JournalChoice, spec: String) -> JournalUse {
        JournalUse {
            choice,
            state_dir: self.state_dir.clone(),
            spec,
            arguments: self.argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
            command: command_from_anywhere(&self.argv),
        }
    }
}

/// A terminal is as wide as it says; a pipe only where the environment says so, as `COLUMNS=80 haul ...` does.
fn folds() -> Option<render::Fold> {
    if std::io::IsTerminal::is_terminal(&std::io::stdout()) {
        return Some(render::Fold::Terminal);
    }
    let columns = std::env::var("COLUMNS").ok()?.parse().ok()?;
    (columns >= 40).then_some(render::Fold::Columns(columns))
}

/// The command line as `haul jobs` shows it: its names are relative to the directory in which it was given.
fn command_from_anywhere(argv: &[OsString]) -> String {
    let command = render::command_line(argv.iter().map(|a| a.as_bytes()));
    match std::env::current_dir() {
        Ok(directory) => format!("cd {} && {command}", render::command_line(std::iter::once(directory.as_os_str().as_bytes()))),
        Err(_) => command,
    }
}

/// Signals are heard while this lives: not by a run that has ended, where others follow in the same process.
struct Listening(signal_hook::iterator::Handle);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// SIGINT, SIGTERM and SIGHUP stop the run, a second one at once; SIGUSR1 shows progress. Inherited ignores stay.
fn listen(cancel: Cancel, show_progress: Arc<AtomicBool>, renderer: Arc<Renderer>) -> Result<Option<Listening>> {
    use signal_hook::consts::SIGUSR1;
    let wanted = [signals::stopping(), signals::heeded(&[SIGUSR1])].concat();
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return Ok(None) };
    let listening = Listening(signals.handle());
    let hear = move || {
        let mut stopping = false;
        for signal in signals.forever() {
            if signal == SIGUSR1 {
                // Apart: whoever prints at this moment may be stuck, and the next signal must be heard all the same.
                let (renderer, show_progress) = (renderer.clone(), show_progress.clone());
                let _not_shown = rlimit::spawn("show", move || {
                    renderer.show_progress();
                    show_progress.store(true, Ordering::Relaxed);
                });
            } else if stopping {
                renderer.leave();
                return signals::leave(Exit::Signal);
            } else {
                stopping = true;
                cancel.set(Stop::Signal);
                let renderer = renderer.clone();
                let words = "stopping; transferred data is kept (a second signal stops at once)";
                let _not_said = rlimit::spawn("show", move || renderer.say(words));
            }
        }
    };
    rlimit::spawn("signals", hear)?;
    Ok(Some(listening))
}
