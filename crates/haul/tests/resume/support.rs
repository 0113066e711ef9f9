//! A source, a destination and a state directory, and what runs leave in it.

use std::ops::Deref;
use std::path::PathBuf;

use haul_core::journal::{Begin, Identity, State};
use haul_test::compare::What;
use haul_test::program::Running;
use haul_test::scratch::{Scratch, entries};
use haul_test::slowfs::{Fault, FaultKind, Options, SlowFs};

pub const CHUNK: u64 = 64 << 10;
/// A copy with chunks of that size, which ends with numbers.
pub const COPY: &str = "cp --json --chunk-size 64K";

pub struct World(Scratch);

impl Deref for World {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.0
    }
}

impl World {
    pub fn new(tree: &str) -> World {
        World(Scratch::with(tree))
    }

    /// A run that takes a minute, in the middle of its file.
    #[track_caller]
    pub fn slow(&self, flags: &str) -> Running {
        let mut run = self.haul(&format!("{COPY} --bwlimit 100K {flags} src/ dst")).start();
        run.until("a staging file", || !self.staging("dst").is_empty());
        run
    }

    /// Dies right behind this record of its journal.
    #[track_caller]
    pub fn killed_at(&self, record: u64, words: &str) {
        let ended = self.haul(words).killed_at(record).run();
        assert!(ended.was_killed(), "{ended}");
    }

    /// The destination is `old` again, and nothing is known of it.
    pub fn begin_anew(&self) {
        self.remove("dst");
        self.remove(&self.state);
        self.sh("cp -a old dst");
    }

    /// Shows a directory of the world through a file system that fails like this.
    pub fn mount(&self, directory: &str, faults: &[Fault]) -> SlowFs {
        self.tree(&format!("{directory}/"));
        let mounted = SlowFs::mount(&self.path(directory), Options { threads: 8, ..Options::fast() }).expect("FUSE");
        faults.iter().for_each(|fault| mounted.faults().add(fault.clone()));
        mounted
    }

    /// Names of the files in the directories of jobs: `journal`, `lock`, `record`.
    pub fn kept_of_jobs(&self) -> Vec<String> {
        let jobs = self.state.join("jobs");
        let mut names: Vec<String> = entries(&jobs).iter().flat_map(|job| entries(&jobs.join(job))).collect();
        names.sort();
        names
    }

    pub fn journal(&self) -> PathBuf {
        let jobs = self.state.join("jobs");
        let journals: Vec<_> = entries(&jobs).iter().map(|job| jobs.join(job).join("journal")).filter(|path| path.exists()).collect();
        let [journal] = &journals[..] else { panic!("journals: {journals:?}") };
        journal.clone()
    }

    /// The job that `haul cp src/ dst` is.
    pub fn identity(&self) -> Identity {
        let sources = vec![format!("{}/", self.path("src").display())];
        Identity { sources, target: self.path("dst").display().to_string(), ..Identity::default() }
    }

    /// What has landed according to a copy of the journal: bytes of large files, and how many writes are open.
    pub fn landed(&self) -> (u64, usize) {
        self.sh(&format!("rm -rf ../state-copy && cp -a {} ../state-copy", self.state.display()));
        let state = State::open(self.path("../state-copy")).expect("it is there");
        let job = state.begin(&self.identity(), Begin::default()).expect("nobody holds it");
        let (_journal, past) = job.journal().expect("it can be read");
        let sessions = past.leftovers();
        (sessions.iter().map(|session| session.bytes()).sum(), sessions.len())
    }

    /// The trees are identical, no staging file is left, and of the job only what it did.
    #[track_caller]
    pub fn assert_done(&self, destination: &str, what: What, when: &str) {
        println!("{when}");
        self.assert_same("src", destination, what);
        self.assert_clean(destination);
        assert_eq!(self.kept_of_jobs(), ["figures", "record"], "{when}");
    }
}

/// A read that takes five minutes.
pub fn hang(name: &str) -> Fault {
    Fault::always(name, FaultKind::ReadHang { duration: std::time::Duration::from_secs(300) })
}

/// Bytes that say which version they are of and where in the file they belong.
pub fn versioned(version: u8, size: usize) -> Vec<u8> {
    (0..size).map(|i| if i % 4 == 0 { version } else { ((i / 4) >> (8 * (i % 4 - 1))) as u8 }).collect()
}
