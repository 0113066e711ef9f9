//! Options that every command takes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ValueHint};

use super::{Environment, Refusal};
use crate::units;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// How often `-v` was given.
    pub verbose: u8,
    pub quiet: bool,
    pub json: bool,
    pub log: Option<PathBuf>,
    pub progress: Progress,
    /// `--state-dir`, else `HAUL_STATE_DIR`.
    pub state_dir: Option<PathBuf>,
    /// False with `--no-color` or `NO_COLOR`; whether there is a terminal is for the renderer to find out.
    pub color: bool,
    /// The file mode creation mask that the user gave, read once at the start.
    pub umask: u32,
    /// The command line as it was given, the program's name first.
    pub argv: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// On a terminal, and otherwise a line now and then.
    Auto,
    /// `--progress`, `-P`: also where it would not be shown.
    On,
    /// `--progress=SECS`; at least a second.
    Every(Duration),
}

#[derive(Args)]
#[command(next_help_heading = "Seeing it")]
pub struct GlobalArgs {
    /// Name each thing that is done; -vv also says what is left alone and why
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Seeing it")]
    verbose: u8,
    /// Only errors
    #[arg(short, long, global = true, help_heading = "Seeing it")]
    quiet: bool,
    /// One event a line as JSON on standard output; text for people goes to standard error
    #[arg(long, global = true, help_heading = "Seeing it")]
    json: bool,
    /// Write everything that happens to FILE as well
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Seeing it")]
    log: Option<PathBuf>,
    /// Show progress; with =SECS a line every so many seconds
    #[arg(long, global = true, value_name = "SECS", num_args = 0..=1, require_equals = true, default_missing_value = "",
        value_parser = parse_progress, help_heading = "Seeing it")]
    progress: Option<Progress>,
    /// Keep journals in DIR (else HAUL_STATE_DIR, else ~/.local/state/haul)
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Seeing it")]
    state_dir: Option<PathBuf>,
    /// No colours (also: NO_COLOR in the environment)
    #[arg(long, visible_alias = "no-colour", global = true, help_heading = "Seeing it")]
    no_color: bool,
    /// Print this help
    #[arg(long, global = true, action = ArgAction::HelpShort, help_heading = "Seeing it")]
    help: Option<bool>,
}

fn parse_progress(text: &str) -> Result<Progress, String> {
    if text.is_empty() { Ok(Progress::On) } else { units::parse_interval(text).map(Progress::Every) }
}

impl GlobalArgs {
    pub(super) fn resolve(self, environment: &Environment<'_>) -> Result<Global, Refusal> {
        if self.quiet && self.verbose > 0 {
            return Err("-q and -v contradict each other; leave one out".into());
        }
        let from_environment = environment.state_dir.clone().filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let _ = self.help;
        Ok(Global {
            verbose: self.verbose,
            quiet: self.quiet,
            json: self.json,
            log: self.log,
            progress: self.progress.unwrap_or(Progress::Auto),
            state_dir: self.state_dir.or(from_environment),
            color: !(self.no_color || environment.no_color),
            umask: environment.umask,
            // Filled in by whoever has the whole line.
            argv: Vec::new(),
        })
    }
}
