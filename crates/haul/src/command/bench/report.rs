//! `haul bench report`: read runs, print what they found, write the page.

use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haul_bench::record::{self, Header, Sample};
use haul_bench::{plot, report};
use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};

use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::ReportFlags;
use crate::out;
use crate::render::{JSON_VERSION, harmless, utf8_locale};

/// Columns where there is no terminal: what fits into mails and job logs.
const COLUMNS: usize = 80;

pub fn run(flags: &ReportFlags, global: &Global) -> Exit {
    match make(flags, global) {
        Ok(()) => Exit::Success,
        Err(e) => out::error(&e),
    }
}

fn make(flags: &ReportFlags, global: &Global) -> Result<()> {
    let runs = flags.runs.iter().map(|dir| read(dir)).collect::<Result<Vec<_>>>()?;
    print(&runs, flags, global)?;
    let Some(page) = page_of(flags) else { return Ok(()) };
    record::write_whole(&page, report::html(&runs).as_bytes())?;
    if !global.quiet {
        out::say(&format!("the page is {}", show(page.as_os_str().as_bytes())));
    }
    Ok(())
}

fn read(dir: &Path) -> Result<(Header, Vec<Sample>)> {
    record::read(dir).map_err(|e| match e.kind() {
        ErrorKind::NotFound => e.hint("name a directory that haul bench has left: run.json and samples.jsonl lie in it"),
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

fn print(runs: &[(Header, Vec<Sample>)], flags: &ReportFlags, global: &Global) -> Result<()> {
    let failed = |e: std::io::Error| Error::io(e, "write");
    if !(global.json && global.quiet) {
        let text = text(runs, flags);
        if global.json {
            out::complain(&text.into(), false);
        } else {
            out::print(text.as_bytes()).map_err(failed)?;
        }
    }
    if global.json {
        let mut document = report::summaries(runs);
        document["event"] = "bench-report".into();
        document["version"] = JSON_VERSION.into();
        document["time"] = format!("{:.3}", jiff::Timestamp::now()).into();
        out::print((harmless(document.to_string()) + "\n").as_bytes()).map_err(failed)?;
    }
    Ok(())
}

fn text(runs: &[(Header, Vec<Sample>)], flags: &ReportFlags) -> String {
    let width = flags.width.or_else(terminal_columns).unwrap_or(COLUMNS);
    let unicode = utf8_locale(|name| std::env::var(name).ok());
    let mut text = String::new();
    if let [_, _, ..] = flags.runs.as_slice() {
        for (at, dir) in flags.runs.iter().enumerate() {
            let _ = writeln!(text, "Run {} lies in {}", at + 1, show(dir.as_os_str().as_bytes()));
        }
        text.push('\n');
    }
    text += &report::text(runs, width);
    if flags.plot {
        let _ = write!(text, "\n{}", report::plots(runs, width, unicode));
    }
    if unicode { text } else { plot::terminal::ascii(&text) }
}

/// Of standard output; `None` where it is no terminal.
fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}
