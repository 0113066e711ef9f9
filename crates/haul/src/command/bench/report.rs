//! `haul bench report`: read runs, print their results, write the page.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_bench::record;
use haul_bench::report::{self, Record};
use haul_core::entry::show;
use haul_core::error::{ErrorKind, Result};

use super::runs;
use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::ReportFlags;
use crate::out;

pub fn run(flags: &ReportFlags, global: &Global) -> Exit {
    match make(flags, global) {
        Ok(()) => Exit::Success,
        Err(e) => out::error(&e),
    }
}

/// Prints the results of a run in sentences, without its tables; with `--json` as a report.
pub fn explain(dir: &Path, global: &Global) -> Result<()> {
    let run = read(dir)?;
    if global.json {
        return runs::document("bench-report", report::summaries(&[run]), global);
    }
    runs::text(report::sentences(&run.0, &run.1, runs::width()), global)
}

fn make(flags: &ReportFlags, global: &Global) -> Result<()> {
    let found = flags.runs.iter().map(|dir| read(dir)).collect::<Result<Vec<_>>>()?;
    print(&found, flags, global)?;
    let Some(page) = page_of(flags) else { return Ok(()) };
    record::write_whole(&page, report::html(&found).as_bytes())?;
    if !global.quiet {
        out::say(&format!("report: {}", show(page.as_os_str().as_bytes())));
    }
    Ok(())
}

fn read(dir: &Path) -> Result<Record> {
    record::read(dir).map_err(|e| match e.kind() {
        ErrorKind::NotFound => e.hint("name the directory of a haul bench run, which has run.json and samples.jsonl"),
        _ => e,
    })
}

fn page_of(flags: &ReportFlags) -> Option<PathBuf> {
    match (&flags.out, flags.runs.as_slice()) {
        (Some(out), _) => Some(out.clone()),
        (None, [run]) => Some(run.join("report.html")),
        (None, _) => None,
    }
}

fn print(found: &[Record], flags: &ReportFlags, global: &Global) -> Result<()> {
    runs::text(text(found, flags), global)?;
    runs::document("bench-report", report::summaries(found), global)
}

fn text(found: &[Record], flags: &ReportFlags) -> String {
    let width = flags.width.map_or_else(runs::width, usize::from);
    let mut text = String::new();
    if let [_, _, ..] = flags.runs.as_slice() {
        for (at, dir) in flags.runs.iter().enumerate() {
            let _ = writeln!(text, "Run {}: {}", at + 1, show(dir.as_os_str().as_bytes()));
        }
        text.push('\n');
    }
    text += &report::text(found, width);
    text
}
