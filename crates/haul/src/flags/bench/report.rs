//! bench report.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::flags::{Environment, Refusal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFlags {
    /// Run directories, at least one.
    pub runs: Vec<PathBuf>,
    /// Where the page goes; `None` is the run directory of a single run, and no page of several.
    pub out: Option<PathBuf>,
    pub plot: bool,
    /// Columns; `None` is the terminal's, or 80.
    pub width: Option<usize>,
}

/// Regenerate the report of a run, or compare runs
///
/// One run: rewrites its report.html and prints its tables. Several: compares each with the first of its kind, point by
/// point: faster, slower, or not significant.
#[derive(Args)]
#[command(
    override_usage = "haul bench report [OPTIONS] RUN...",
    before_help = "Examples:
  haul bench report run1                        the tables, and run1/report.html
  haul bench report --plot run1                 with plots for the terminal
  haul bench report before after                compare two runs
  haul bench report --out all.html run1 run2    one page for both"
)]
pub struct ReportArgs {
    /// Directories of haul bench runs
    #[arg(value_name = "RUN", required = true, value_hint = ValueHint::DirPath)]
    runs: Vec<PathBuf>,
    /// Write one page of all runs to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
    /// Draw plots as text too
    #[arg(long)]
    plot: bool,
    /// Set the width [default: the terminal's width, or 80]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    width: Option<u16>,
}

impl ReportArgs {
    pub(super) fn resolve(self, _: &Environment<'_>) -> Result<ReportFlags, Refusal> {
        Ok(ReportFlags { runs: self.runs, out: self.out, plot: self.plot, width: self.width.map(usize::from) })
    }
}
