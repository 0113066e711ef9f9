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
#[command(next_help_heading = "Output")]
pub struct GlobalArgs {
    /// List each action; -vv also lists skipped items and the reasons
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Output")]
    verbose: u8,
    /// Print errors only
    #[arg(short, long, global = true, help_heading = "Output")]
    quiet: bool,
    /// Print one JSON event per line on standard output (text goes to standard error)
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
    /// Write all events to FILE too
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    log: Option<PathBuf>,
    /// Show progress; with =SECS, one line every SECS seconds
    #[arg(long, global = true, value_name = "SECS", num_args = 0..=1, require_equals = true, default_missing_value = "",
        value_parser = parse_progress, help_heading = "Output")]
    progress: Option<Progress>,
    /// Keep journals in DIR (default: HAUL_STATE_DIR, or ~/.local/state/haul)
    #[arg(long, global = true, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    state_dir: Option<PathBuf>,
    /// Disable colors (also: NO_COLOR in the environment)
    #[arg(long, visible_alias = "no-colour", global = true, help_heading = "Output")]
    no_color: bool,
    /// Print this help
    #[arg(long, global = true, action = ArgAction::HelpShort, help_heading = "Output")]
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
