//! `haul demo`: a small run directory is copied, killed in the middle, gone on with, verified and checked.
//!
//! ```text
//! make run7/ -> cp (kill -9) -> jobs -> cp again -> check -> all of it removed, but for --keep
//! ```
//!
//! Every command is this very program, started as a user would, with a state directory of its own; each is
//! shown before it runs. Any of them that does not end as it should ends the demo with its code.

mod tree;

use std::io::IsTerminal;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use haul_core::entry::show;
use haul_core::error::{Error, ErrorKind, Result};
use haul_core::journal::{JobState, State};

use crate::exit::Exit;
use crate::flags::{DemoFlags, Global};
use crate::{out, units};

/// Slow enough that there is something to see, and a middle to be killed in.
const COPY: [&str; 6] = ["cp", "-a", "--verify", "--bwlimit=64M", "run7/", "copy"];
/// Bytes that the first copy may write before it is killed: several chunks have landed by then.
const ENOUGH: u64 = 96 << 20;
/// The first copy is killed after this time at the latest.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn run(flags: &DemoFlags, global: &Global) -> Exit {
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in crate::signals::stopping() {
        // Without it the folder would stay: no reason not to begin.
        let _unhandled = signal_hook::flag::register(signal, stopped.clone());
    }
    let above = flags.dir.clone().unwrap_or_else(std::env::temp_dir);
    let folder = match new_folder(&above) {
        Ok(folder) => folder,
        Err(e) => return out::error(&e),
    };
    let demo = Demo { folder, stopped, bold: global.color && std::io::stdout().is_terminal() };
    let ended = demo.play();
    let exit = match &ended {
        Ok(()) => Exit::Success,
        Err(_) if demo.stopped.load(Ordering::Relaxed) => Exit::Signal,
        Err(e) => out::error(e),
    };
    let shown = show(demo.folder.as_os_str().as_encoded_bytes());
    if flags.keep {
        demo.say(&format!("\nThe folder is kept: {shown}"));
    } else if let Err(e) = std::fs::remove_dir_all(&demo.folder) {
        let e = Error::io(e, "remove").at(demo.folder.as_os_str().as_encoded_bytes());
        return if exit == Exit::Success { out::error(&e) } else { exit };
    } else {
        demo.say(&format!("\n{shown} was removed; `haul demo --keep` keeps it."));
    }
    if exit == Exit::Success {
        demo.say("Next: haul cp -n SRC DST shows what a copy would do; haul help cp explains the rest.");
    }
    exit
}

/// A new folder of this user's alone.
fn new_folder(above: &Path) -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let above = std::path::absolute(above).unwrap_or_else(|_| above.to_path_buf());
    let mut number = u64::from(std::process::id());
    loop {
        let folder = above.join(format!("haul-demo-{number}"));
        match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => number += 100_000,
            Err(e) => {
                let e = Error::io(e, "mkdir").at(folder.as_os_str().as_encoded_bytes());
                return Err(e.hint("choose another directory with --dir DIR; it needs about 450 MiB for a moment"));
            }
        }
    }
}

struct Demo {
    folder: PathBuf,
    stopped: Arc<AtomicBool>,
    bold: bool,
}

impl Demo {
    fn play(&self) -> Result<()> {
        self.say(&format!("A demo, in {}", show(self.folder.as_os_str().as_encoded_bytes())));
        self.title("1. The output of a simulation: many small files and a large one");
        for line in tree::make(&self.folder.join("run7"), &|| self.check())? {
            self.say(&line);
        }
        self.title("2. Copy and verify it; kill -9 in the middle of the large file");
        self.killed_copy()?;
        self.title("3. The interrupted job");
        self.expect_success(&["jobs"])?;
        let landed = self.landed()?;
        self.title("4. The same command again: transferred data is not sent a second time");
        self.expect_success(&COPY)?;
        self.title("5. Compare every byte and attribute of the copy");
        self.expect_success(&["check", "-a", "--checksum", "run7/", "copy"])?;
        self.say(&format!("\nSuccess: killed once, {} not sent again, and the copy is identical.", units::bytes(landed)));
        Ok(())
    }

    fn say(&self, line: &str) {
        // Nobody reads it any more: the demo itself goes on to its end and cleans up.
        let _unread = out::print(format!("{line}\n").as_bytes());
    }

    fn title(&self, title: &str) {
        self.say(&if self.bold { format!("\n\x1b[1m{title}\x1b[0m") } else { format!("\n{title}") });
    }

    fn check(&self) -> Result<()> {
        if self.stopped.load(Ordering::Relaxed) { Err(Error::new(ErrorKind::Cancelled, "demo")) } else { Ok(()) }
    }

    fn start(&self, arguments: &[&str]) -> Result<Child> {
        self.check()?;
        self.say(&format!("$ haul {}", arguments.join(" ")));
        let program = std::env::current_exe().map_err(|e| Error::io(e, "find this program"))?;
        let mut command = Command::new(program);
        command.arg0("haul").args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        command.env("HAUL_STATE_DIR", self.folder.join("state"));
        if !std::io::stdout().is_terminal() {
            command.env("COLUMNS", "80");
        }
        command.spawn().map_err(|e| Error::io(e, "start haul"))
    }

    fn expect_success(&self, arguments: &[&str]) -> Result<()> {
        let ended = wait(&mut self.start(arguments)?)?;
        self.check()?;
        if ended.success() { Ok(()) } else { Err(unexpected(ended)) }
    }

    /// Starts the copy and kills it as soon as part of the large file has landed.
    fn killed_copy(&self) -> Result<()> {
        let mut child = self.start(&COPY)?;
        let until = Instant::now() + PATIENCE;
        while written(child.id()) < ENOUGH && Instant::now() < until && self.check().is_ok() {
            if let Some(ended) = child.try_wait().map_err(|e| Error::io(e, "wait for haul"))? {
                return Err(unexpected(ended));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        child.kill().map_err(|e| Error::io(e, "kill haul"))?;
        let ended = wait(&mut child)?;
        self.check()?;
        if ended.signal() != Some(9) {
            return Err(unexpected(ended));
        }
        // What the killed copy has drawn on a terminal ends without a line end.
        if std::io::stderr().is_terminal() {
            self.say("");
        }
        self.say("Killed.");
        Ok(())
    }

    /// Bytes of unfinished files that the journal knows of.
    fn landed(&self) -> Result<u64> {
        let jobs = State::open(self.folder.join("state"))?.list(SystemTime::now())?;
        let landed = jobs.iter().map(|job| match &job.state {
            JobState::Unfinished { landed, .. } => *landed,
            _ => 0,
        });
        Ok(landed.sum())
    }
}

fn wait(child: &mut Child) -> Result<ExitStatus> {
    child.wait().map_err(|e| Error::io(e, "wait for haul"))
}

fn unexpected(ended: ExitStatus) -> Error {
    Error::new(ErrorKind::Other, "demo").because(format!("the command ended with {ended}, unexpectedly"))
}

/// Bytes that a process has handed to write calls so far; 0 where the system does not say.
fn written(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.trim().parse().ok()).unwrap_or(0)
}
