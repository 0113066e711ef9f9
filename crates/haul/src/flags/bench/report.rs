//! bench report.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Regenerate the report of a run, or compare runs
///
/// One run: rewrites its report.html and prints its tables. Several: compares each with the first of its kind, point by
/// point: faster, slower, or not significant.
#[derive(Args, Debug)]
#[command(
    override_usage = "haul bench report [OPTIONS] RUN...",
    before_help = "Examples:
  haul bench report run1                        the tables, and run1/report.html
  haul bench report before after                compare two runs
  haul bench report --out all.html run1 run2    one page for both"
)]
pub struct ReportFlags {
    /// Directories of haul bench runs
    #[arg(value_name = "RUN", required = true, value_hint = ValueHint::DirPath)]
    pub runs: Vec<PathBuf>,
    /// Write one page of all runs to FILE
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
    /// Set the width [default: the terminal's width, or 80]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    pub width: Option<u16>,
}
