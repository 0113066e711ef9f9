//! From the command line to a [`Command`] of plain structs.
//!
//! Parsing does nothing but check what was written: no file is opened, no clock read, no environment asked. What it
//! must know of the world (which names exist, what time it is) comes in an [`Environment`].
//!
//! ```text
//! argv -> clap (spelling, numbers) -> hints (a value after an option that takes none) -> resolve (order, contradictions) -> Command
//! ```

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use haul_core::place::url::without_password;
use haul_run::location;
use haul_run::location::Location;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::exit::Exit;

pub mod batch;
mod before;
pub mod bench;
pub mod bucket;
pub mod change;
pub mod check;
pub mod connect;
pub mod copy;
mod foreign;
pub mod global;
mod gridftp;
pub mod hints;
pub mod jobs;
pub mod keep;
pub mod list;
pub mod ln;
pub mod object;
pub mod other;
mod places;
mod regions;
pub mod run;
pub mod same;
pub mod select;
pub mod set;
mod shown;
pub mod slurm;
pub mod speed;
pub mod table;
pub mod why;

pub use batch::BatchFlags;
pub use bucket::{HeadFlags, MbFlags, PresignFlags, RbFlags};
pub use change::{MkdirFlags, RmFlags};
pub use check::{CheckFlags, SumFlags};
pub use copy::CopyFlags;
pub use global::Global;
pub use jobs::JobsCommand;
pub use list::{CatFlags, DuFlags, LsFlags, TreeFlags};
pub use ln::{DfFlags, LnFlags};
pub use object::ObjectFlags;
pub use other::{DemoFlags, DoctorFlags};
pub use set::SetFlags;
pub use slurm::SlurmFlags;
pub use why::WhyFlags;

/// What parsing may know of the world.
pub struct Environment<'a> {
    /// Whether a local path exists, a dangling symlink included.
    pub exists: &'a dyn Fn(&Path) -> bool,
    /// `HAUL_STATE_DIR`.
    pub state_dir: Option<OsString>,
    /// `NO_COLOR` is set to something.
    pub no_color: bool,
    pub now: Timestamp,
    pub zone: TimeZone,
    /// For clauses of `--chmod` that name no class.
    pub umask: u32,
}

/// A command line that was understood.
#[derive(Debug)]
pub struct Invocation {
    pub global: Global,
    pub command: Command,
}

#[derive(Debug)]
pub enum Command {
    /// cp, sync or mv: see [`haul_core::spec::Operation`].
    Copy(Box<CopyFlags>),
    Check(Box<CheckFlags>),
    Sum(Box<SumFlags>),
    Ls(LsFlags),
    Du(DuFlags),
    Tree(TreeFlags),
    Cat(CatFlags),
    Mkdir(MkdirFlags),
    Rm(RmFlags),
    Ln(LnFlags),
    /// chmod, chown and chgrp.
    Set(SetFlags),
    Df(DfFlags),
    Mb(MbFlags),
    Rb(RbFlags),
    Head(HeadFlags),
    Presign(PresignFlags),
    /// tag, acl, restore and bucket-version.
    Object(ObjectFlags),
    /// `haul run`: command lines from a file.
    Batch(BatchFlags),
    Doctor(DoctorFlags),
    Bench(bench::BenchCommand),
    Jobs(JobsCommand),
    Why(WhyFlags),
    /// A script for a batch system.
    Slurm(Box<SlurmFlags>),
    Demo(DemoFlags),
    Completions(clap_complete::Shell),
    /// The directory for the pages; `None` writes haul's own page to standard output.
    Man(Option<PathBuf>),
    /// A command or a topic; `None` is the list of them.
    Help(Option<String>),
    FlagsTable,
    Agent(other::AgentFlags),
    /// For the scripts of shells.
    Complete(other::CompleteFlags),
}

/// Text for a terminal and without escape sequences.
#[derive(Clone, Debug)]
pub struct Text {
    pub plain: String,
    pub styled: String,
}

impl From<String> for Text {
    fn from(plain: String) -> Self {
        Text { styled: plain.clone(), plain }
    }
}

#[derive(Debug)]
pub enum Parsed {
    Run(Box<Invocation>),
    /// `--help`, `--version`: for standard output.
    Print(Text),
}

/// A command line that was not understood: what to say on standard error and how to end.
#[derive(Debug)]
pub struct UsageError {
    pub text: Text,
    pub exit: Exit,
}

/// The reason and the next step of a contradiction.
pub(crate) type Refusal = String;

const TEMPLATE: &str = "{about-section}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// Fast, resumable, verified file transfer: local, SSH, S3, HTTP, FTP, GridFTP
#[derive(Parser)]
#[command(
    name = "haul",
    version,
    disable_help_flag = true,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    override_usage = "haul COMMAND [OPTIONS] [ARGUMENTS]",
    help_template = TEMPLATE,
    before_help = "Examples:
  haul demo                               watch a copy being killed, resumed, verified
  haul cp -a project /scratch/me          create /scratch/me/project
  haul sync --delete data/ /backup/data   make /backup/data identical to data",
    after_help = "`haul COMMAND --help` explains a command; `haul help` lists the topics (exit-codes, filters, addresses, ...)."
)]
pub struct Cli {
    #[command(flatten)]
    global: global::GlobalArgs,
    #[command(subcommand)]
    command: CommandArgs,
}

#[derive(Subcommand)]
enum CommandArgs {
    Cp(Box<copy::CpArgs>),
    Sync(Box<copy::SyncArgs>),
    Mv(Box<copy::MvArgs>),
    Check(Box<check::CheckArgs>),
    Sum(Box<check::SumArgs>),
    Ls(list::LsArgs),
    Du(list::DuArgs),
    Tree(list::TreeArgs),
    Cat(list::CatArgs),
    Mkdir(change::MkdirArgs),
    Rm(change::RmArgs),
    Ln(ln::LnArgs),
    Chmod(set::ChmodArgs),
    Chown(set::ChownArgs),
    Chgrp(set::ChgrpArgs),
    Df(ln::DfArgs),
    Mb(bucket::MbArgs),
    Rb(bucket::RbArgs),
    Head(bucket::HeadArgs),
    Presign(bucket::PresignArgs),
    Tag(object::TagArgs),
    Acl(object::AclArgs),
    Restore(object::RestoreArgs),
    BucketVersion(object::BucketVersionArgs),
    Run(batch::BatchArgs),
    Doctor(other::DoctorArgs),
    Bench(bench::BenchArgs),
    Why(why::WhyArgs),
    Slurm(slurm::SlurmArgs),
    Jobs(jobs::JobsArgs),
    Demo(other::DemoArgs),
    Completions(other::CompletionsArgs),
    Man(other::ManArgs),
    Help(other::HelpArgs),
    #[command(hide = true)]
    Agent(other::AgentArgs),
    #[command(hide = true)]
    Complete(other::CompleteArgs),
    #[command(hide = true)]
    FlagsTable(other::FlagsTableArgs),
}

/// The definitions that help, completions, man pages and the table of flags are made from.
pub fn definitions() -> clap::Command {
    fn alike(command: clap::Command) -> clap::Command {
        let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_string()).collect();
        let command = names.iter().fold(command, |command, name| {
            command.mut_subcommand(name, |sub| alike(sub.help_template(TEMPLATE).args_override_self(true).disable_help_subcommand(true)))
        });
        shown::add_short_help(shown::hide_foreign(shown::accept_expires(command)))
    }
    alike(Cli::command())
}

/// Reads a command line, the program's name first.
pub fn parse(argv: &[OsString], environment: &Environment<'_>) -> Result<Parsed, UsageError> {
    let mut definitions = definitions();
    let whole = argv;
    let argv = &before::command_first(&gridftp::translated(argv), &definitions)[..];
    let name = hints::command_name(argv, &definitions);
    let exit = if name.as_deref() == Some("check") { Exit::CheckUsage } else { Exit::Usage };
    let refuse = |reason: String| UsageError { text: Text::from(refusal_text(&reason, name.as_deref())), exit };
    let matches = match definitions.try_get_matches_from_mut(argv) {
        Ok(matches) => matches,
        Err(e) if e.kind() == clap::error::ErrorKind::DisplayHelp => {
            let long = argv.iter().take_while(|word| *word != "--").any(|word| word == "--help");
            return Ok(Parsed::Print(if long { rendered(&e) } else { short_help(argv) }));
        }
        // Many tools have both forms.
        Err(e) if hints::unknown_command(&e) == Some("version") => {
            return Ok(Parsed::Print(Text::from(definitions.render_version())));
        }
        Err(e) if !e.use_stderr() => return Ok(Parsed::Print(rendered(&e))),
        Err(e) => {
            // A key file after -i makes one argument too many: the cause is worth more than the effect.
            let reason = hints::stray_value(argv, &definitions, environment.exists);
            if let Some(reason) = reason.or_else(|| hints::foreign_flag(&e, name.as_deref())).or_else(|| hints::foreign_command(&e)) {
                return Err(refuse(reason));
            }
            let command = name.as_deref().and_then(|name| definitions.find_subcommand(name));
            return Err(UsageError { text: rendered(&hints::as_written(e, argv, command)), exit });
        }
    };
    if let Some(reason) = hints::stray_value(argv, &definitions, environment.exists) {
        return Err(refuse(reason));
    }
    if let Some((name, given)) = matches.subcommand()
        && shown::COPIES.contains(&name)
        && given.get_flag("human_readable")
        && !given.contains_id("paths")
    {
        let asked = ["haul", name, "--help"].map(OsString::from);
        return Ok(Parsed::Print(short_help(&asked)));
    }
    let cli = Cli::from_arg_matches(&matches).map_err(|e| UsageError { text: rendered(&e), exit })?;
    let (_, given) = matches.subcommand().ok_or_else(|| refuse("no command; `haul help` lists them".into()))?;
    let mut invocation = resolve(cli, given, environment).map_err(refuse)?;
    invocation.global.argv = whole.iter().map(|word| OsString::from_vec(without_password(word.as_bytes()))).collect();
    Ok(Parsed::Run(Box::new(invocation)))
}

/// What `-h` prints, of a command line that asks for help.
fn short_help(argv: &[OsString]) -> Text {
    match shown::short(definitions()).try_get_matches_from(argv) {
        Err(e) => rendered(&e),
        Ok(_) => Text::from(String::new()),
    }
}

fn resolve(cli: Cli, given: &ArgMatches, environment: &Environment<'_>) -> Result<Invocation, Refusal> {
    let mut global = cli.global.resolve(environment)?;
    let command = match cli.command {
        CommandArgs::Cp(args) => Command::Copy(Box::new(args.resolve(given, &mut global, environment)?)),
        CommandArgs::Sync(args) => Command::Copy(Box::new(args.resolve(given, &mut global, environment)?)),
        CommandArgs::Mv(args) => Command::Copy(Box::new(args.resolve(given, &mut global, environment)?)),
        CommandArgs::Check(args) => Command::Check(Box::new(args.resolve(given, environment)?)),
        CommandArgs::Sum(args) => Command::Sum(Box::new(args.resolve(given, environment)?)),
        CommandArgs::Ls(args) => Command::Ls(args.resolve(given, environment)?),
        CommandArgs::Du(args) => Command::Du(args.resolve(given, environment)?),
        CommandArgs::Tree(args) => Command::Tree(args.resolve(given, environment)?),
        CommandArgs::Cat(args) => Command::Cat(args.resolve(environment)?),
        CommandArgs::Mkdir(args) => Command::Mkdir(args.resolve(environment)?),
        CommandArgs::Rm(args) => Command::Rm(args.resolve(given, environment)?),
        CommandArgs::Ln(args) => Command::Ln(args.resolve(environment)?),
        CommandArgs::Chmod(args) => Command::Set(args.resolve(environment)?),
        CommandArgs::Chown(args) => Command::Set(args.resolve(environment)?),
        CommandArgs::Chgrp(args) => Command::Set(args.resolve(environment)?),
        CommandArgs::Df(args) => Command::Df(args.resolve(environment)?),
        CommandArgs::Mb(args) => Command::Mb(args.resolve(environment)?),
        CommandArgs::Rb(args) => Command::Rb(args.resolve(environment)?),
        CommandArgs::Head(args) => Command::Head(args.resolve(environment)?),
        CommandArgs::Presign(args) => Command::Presign(args.resolve(environment)?),
        CommandArgs::Tag(args) => Command::Object(args.resolve(environment)?),
        CommandArgs::Acl(args) => Command::Object(args.resolve(environment)?),
        CommandArgs::Restore(args) => Command::Object(args.resolve(environment)?),
        CommandArgs::BucketVersion(args) => Command::Object(args.resolve(environment)?),
        CommandArgs::Run(args) => Command::Batch(args.resolve()),
        CommandArgs::Doctor(args) => Command::Doctor(args.resolve()?),
        CommandArgs::Bench(args) => Command::Bench(args.resolve(environment)?),
        CommandArgs::Why(args) => Command::Why(args.resolve()),
        CommandArgs::Slurm(args) => Command::Slurm(Box::new(args.resolve(environment)?)),
        CommandArgs::Jobs(args) => Command::Jobs(args.resolve()),
        CommandArgs::Demo(args) => Command::Demo(args.resolve()),
        CommandArgs::Completions(args) => Command::Completions(args.shell),
        CommandArgs::Man(args) => Command::Man(args.dir),
        CommandArgs::Help(args) => Command::Help(args.topic),
        CommandArgs::Agent(args) => Command::Agent(args.resolve()),
        CommandArgs::Complete(args) => Command::Complete(args.resolve()),
        CommandArgs::FlagsTable(_) => Command::FlagsTable,
    };
    Ok(Invocation { global, command })
}

fn rendered(error: &clap::Error) -> Text {
    let text = error.render();
    Text { plain: text.to_string(), styled: text.ansi().to_string() }
}

fn refusal_text(reason: &str, command: Option<&str>) -> String {
    let help = command.map_or_else(|| "haul --help".to_string(), |name| format!("haul {name} --help"));
    format!("error: {reason}\n\nFor more information, try '{help}'.\n")
}

/// Reads addresses and refuses schemes that are not built.
fn locations(arguments: &[OsString], environment: &Environment<'_>) -> Result<Vec<Location>, Refusal> {
    arguments.iter().map(|argument| location(argument, environment)).collect()
}

fn location(argument: &OsString, environment: &Environment<'_>) -> Result<Location, Refusal> {
    location::parse(argument, environment.exists).map_err(|e| e.to_string())
}

/// For every option among `ids` that was written, once for each time: its place, its id, its place among its own values.
fn in_order<'a>(given: &ArgMatches, ids: impl IntoIterator<Item = &'a str>) -> Vec<(usize, &'a str, usize)> {
    let mut found = Vec::new();
    for id in ids {
        if given.value_source(id) == Some(clap::parser::ValueSource::CommandLine)
            && let Some(places) = given.indices_of(id)
        {
            found.extend(places.enumerate().map(|(nth, place)| (place, id, nth)));
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests;
