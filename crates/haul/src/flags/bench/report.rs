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

/// Make the report of runs again, and say how they differ
///
/// One run: its report.html is written anew, and what it found is printed. Several: each is set beside the first of its kind,
/// point by point: faster, slower, or not significant.
#[derive(Args)]
#[command(
    override_usage = "haul bench report [OPTIONS] RUN...",
    before_help = "Examples:
  haul bench report run1                        the tables, and run1/report.html
  haul bench report --plot run1                 with plots for the terminal
  haul bench report before after                what is faster, what is slower
  haul bench report --out all.html run1 run2    one page of both"
)]
pub struct ReportArgs {
    /// Directories that haul bench has left
    #[arg(value_name = "RUN", required = true, value_hint = ValueHint::DirPath)]
    runs: Vec<PathBuf>,
    /// Write the page to FILE: one page of all runs
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
    /// Draw the plots as text, too
    #[arg(long)]
    plot: bool,
    /// As wide as COLUMNS [default: the terminal's width, or 80]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    width: Option<u16>,
}

impl ReportArgs {
    pub(super) fn resolve(self, _: &Environment<'_>) -> Result<ReportFlags, Refusal> {
        Ok(ReportFlags { runs: self.runs, out: self.out, plot: self.plot, width: self.width.map(usize::from) })
    }
}
