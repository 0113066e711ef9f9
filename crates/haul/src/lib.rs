//! haul: moves data between the places where research and HPC people keep it. The programs are thin: `haul` is one process,
//! `haul-mpi` a rank among others.

#![warn(clippy::print_stdout, clippy::print_stderr)]

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::{Arc, mpsc};

use haul_core::job::Mode;
use haul_core::team::Transport;
use haul_core::{Error, ErrorKind};
use haul_run::allocation;
use jiff::Timestamp;
use jiff::tz::TimeZone;

mod allocator;
mod command;
mod completions;
mod exit;
mod figures;
mod flags;
mod help;
mod hints;
mod out;
mod rank_lines;
mod ranks;
mod render;
mod retries;
mod signals;
mod spread;
mod text;
mod transfer;
mod units;

use exit::Exit;
use flags::{Command, Environment, Invocation, Parsed, Text, UsageError};
use ranks::Ranks;

/// The program, from the command line of this process to its exit code; with a team, one of its ranks.
///
/// It has a thread of its own, so that a second signal ends the process while it is stuck in a system call.
pub fn run(member: Option<Member>) -> Code {
    let (end, ends) = mpsc::channel();
    signals::leave_by(end.clone());
    let other = member.clone();
    let begun = std::thread::Builder::new().name("haul".into()).stack_size(STACK).spawn(move || {
        let mut ended = Ended { end, code: PANICKED };
        ended.code = program(member).code();
    });
    match begun {
        Ok(_) => Code(ends.recv().unwrap_or(PANICKED)),
        Err(_) => Code(program(other).code()),
    }
}

/// This process as a rank.
#[derive(Clone)]
pub struct Member {
    pub transport: Arc<dyn Transport>,
    /// The name of what carries the messages, for errors.
    pub library: String,
}

/// Prints an error that kept the program from its work.
pub fn failed(error: &Error) -> Code {
    Code(out::error(error).code())
}

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u8);

impl Code {
    /// It does not end by itself: a signal or a panic ends it.
    pub fn is_forced(self) -> bool {
        self.0 == Exit::Signal.code() || self.0 == PANICKED
    }

    /// The most severe code of several processes.
    pub fn worst(codes: &[u8]) -> Code {
        if codes.contains(&PANICKED) { Code(PANICKED) } else { Code(exit::worst(codes)) }
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        code.0.into()
    }
}

/// That of a main thread on Linux.
const STACK: usize = 8 << 20;
/// The exit code of a program that panicked.
const PANICKED: u8 = 101;

/// Reports the end of the program, also by a panic.
struct Ended {
    end: mpsc::Sender<u8>,
    code: u8,
}

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.end.send(self.code); // main left at a signal
    }
}

fn program(member: Option<Member>) -> Exit {
    let argv: Vec<OsString> = std::env::args_os().collect();
    let color = !no_color();
    // With a handler a write beyond the limit on file sizes (ulimit -f) fails with an error of its file; without, it kills.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
    if argv.iter().take_while(|word| *word != "--").any(|word| word == "--json") {
        out::errors_as_json();
    }
    // All ranks have the same command line: one of them talks about it.
    let speaks = member.as_ref().is_none_or(|member| member.transport.rank() == 0);
    match parse(&argv, umask()) {
        Ok(Parsed::Run(invocation)) => match member {
            None => dispatch(*invocation, None),
            Some(member) => run_as_rank(*invocation, member),
        },
        Ok(Parsed::Print(text)) if speaks => ended(out::print_text(&text, color)),
        Ok(Parsed::Print(_)) => Exit::Success,
        Err(error) if !speaks => error.exit,
        Err(error) => {
            out::record(&usage(&error.text.plain));
            out::complain(&error.text, color);
            error.exit
        }
    }
}

/// A refused command line, of which the first paragraph is the reason.
fn usage(text: &str) -> Error {
    let reason = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ").trim().to_string();
    Error::new(ErrorKind::Usage, "read the command line").because(reason)
}

fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Reads a command line, with the world as it is now.
fn parse(argv: &[OsString], umask: u32) -> Result<Parsed, UsageError> {
    let environment = Environment {
        // A dangling symlink is there, too.
        exists: &|path| path.symlink_metadata().is_ok(),
        state_dir: std::env::var_os("HAUL_STATE_DIR"),
        no_color: no_color(),
        now: Timestamp::now(),
        zone: TimeZone::system(),
        umask,
    };
    flags::parse(argv, &environment)
}

/// Does what a command line says, as a rank among others.
fn run_as_rank(invocation: Invocation, member: Member) -> Exit {
    let mode = if matches!(invocation.command, Command::Check(_)) { Mode::Check } else { Mode::Copy };
    let ranks = match Ranks::new(member.transport, &member.library) {
        Ok(ranks) => ranks,
        Err(e) => return out::error_in(&e, mode),
    };
    if !ranks.are_several() {
        return dispatch(invocation, None);
    }
    if let Some(e) = ranks::refused(&invocation.command) {
        return if ranks.leads() { out::error_in(&e, mode) } else { Exit::of_error(&e, mode) };
    }
    match ranks.meet(&invocation) {
        Ok(true) => {
            out::through(ranks.lines().clone());
            let exit = dispatch(invocation, Some(&ranks));
            ranks.dismiss();
            ranks.lines().close();
            exit
        }
        Ok(false) => Exit::Success,
        Err(e) => {
            if !ranks.leads() {
                out::say(&ranks.title());
            }
            out::error_in(&e, mode)
        }
    }
}

/// Does what a command line says.
fn dispatch(invocation: Invocation, ranks: Option<&Ranks>) -> Exit {
    if let Some(error) = ranks.is_none().then(|| refuse_uncoordinated_tasks(&invocation.command)).flatten() {
        return out::error_in(&error, if matches!(invocation.command, Command::Check(_)) { Mode::Check } else { Mode::Copy });
    }
    let color = invocation.global.color;
    let refuse = |reason: String| {
        out::record(&usage(&reason));
        out::complain(&Text::from(format!("error: {reason}\n")), color);
        Exit::Usage
    };
    let global = &invocation.global;
    let _retries = retries::enter(&invocation);
    match invocation.command {
        Command::Copy(flags) => transfer::copy(&flags, global, ranks),
        Command::Check(flags) => command::check(&flags, global, ranks),
        Command::Sum(flags) => command::sum(&flags, global, ranks),
        Command::Ls(flags) => command::ls(&flags, global),
        Command::Du(flags) => command::du(&flags, global, ranks),
        Command::Tree(flags) => command::tree(&flags, global),
        Command::Cat(flags) => command::cat(&flags),
        Command::Mkdir(flags) => command::mkdir(&flags),
        Command::Rm(flags) => command::rm(&flags, global, ranks),
        Command::Ln(flags) => command::ln(&flags, global),
        Command::Set(flags) => command::set(&flags, global),
        Command::Df(flags) => command::df(&flags, global),
        Command::Mb(flags) => command::mb(&flags),
        Command::Rb(flags) => command::rb(&flags, global),
        Command::Head(flags) => command::head(&flags, global),
        Command::Presign(flags) => command::presign(&flags, global),
        Command::Object(flags) => command::object(&flags, global),
        Command::Batch(flags) => command::batch::run(&flags, global),
        Command::Doctor(flags) => command::doctor::run(&flags, global),
        Command::Bench(bench) => command::bench::run(&bench, global),
        Command::Why(flags) => command::why::run(&flags, global),
        Command::Slurm(flags) => command::slurm::run(&flags, global),
        Command::Jobs(jobs) => command::jobs::run(&jobs, global),
        Command::Demo(flags) => command::demo::run(&flags, global),
        Command::Help(topic) => match help::page(topic.as_deref()) {
            Ok(text) => ended(out::print_text(&text, color)),
            Err(reason) => refuse(reason),
        },
        Command::Completions(shell) => ended(out::print(&completions::script(shell))),
        Command::Complete(flags) => ended(out::print(&command::complete::lines(&flags, global))),
        Command::Agent(flags) => command::agent::run(&flags),
        Command::FlagsTable => ended(out::print(flags::table::markdown().as_bytes())),
        Command::Man(None) => match help::manual() {
            Ok(pages) => ended(out::print(pages.first().map_or(&[][..], |(_, text)| text))),
            Err(e) => refuse(e.to_string()),
        },
        Command::Man(Some(dir)) => match help::write_manual(&dir) {
            Ok(count) => {
                ended(out::print(format!("{count} pages in {}\n", haul_core::entry::show(dir.as_os_str().as_encoded_bytes())).as_bytes()))
            }
            Err(e) => {
                refuse(format!("{}: write manual pages: {e}", dir.display()));
                Exit::Io
            }
        },
    }
}

/// Tasks of srun or mpirun that know nothing of each other would all do the same.
fn refuse_uncoordinated_tasks(command: &Command) -> Option<Error> {
    let works = matches!(
        command,
        Command::Copy(_)
            | Command::Check(_)
            | Command::Sum(_)
            | Command::Mkdir(_)
            | Command::Rm(_)
            | Command::Ln(_)
            | Command::Set(_)
            | Command::Batch(_)
    );
    let tasks = allocation::tasks::read(&|name| std::env::var(name).ok()).filter(|_| works)?;
    let reason = format!("{} has started {} tasks of this command, and each would do all of the work", tasks.by, tasks.count);
    let one = if tasks.by == "srun" { "srun -n 1" } else { "no mpirun" };
    let hint = format!(
        "use haul-mpi, which shares the work among the tasks, or {one}; \
         set {}=independent if each task does something else",
        allocation::tasks::CHOICE
    );
    Some(Error::new(ErrorKind::Usage, "start").because(reason).hint(hint))
}

fn ended(result: std::io::Result<()>) -> Exit {
    if result.is_ok() { Exit::Success } else { Exit::Io }
}

/// The umask, which can only be read by setting it: done before there is a thread that creates files.
pub fn umask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(mask);
    mask.bits()
}
