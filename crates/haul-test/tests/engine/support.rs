//! One run of the engine, with everything that a test may want to change in reach.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_core::cancel::Cancel;
use haul_core::engine::{Setup, run};
use haul_core::entry::{Dir, Entry, Kind, MetaMask, Name};
use haul_core::event::{Action, Event, Observer, Warning, Why};
use haul_core::job::Job;
use haul_core::journal::{Journal, Progress};
use haul_core::report::Report;
use haul_core::store::Store;
use haul_core::tune::{Fixed, Limits, Tuner};
use haul_test::content::{fill, seed};
use haul_test::memory::Memory;

pub fn job(source: Arc<dyn Store>, target: Arc<dyn Store>) -> Job {
    Job { chunk: 64 << 10, ..Job::copying(source, target) }
}

/// A copy from one store in memory to another.
pub fn copying(source: &Memory, target: &Memory) -> Job {
    job(Arc::new(source.again()), Arc::new(target.again()))
}

/// What happened to which name.
#[derive(Default)]
pub struct Diary(pub Mutex<Vec<(Action, Why, String)>>, Mutex<Vec<Warning>>);

impl Observer for Diary {
    fn on(&self, event: &Event<'_>) {
        match event {
            Event::Item { action, why, entry, .. } => {
                self.0.lock().unwrap().push((*action, *why, String::from_utf8_lossy(&entry.name.path()).into_owned()));
            }
            Event::Warned(warning) => self.1.lock().unwrap().push((*warning).clone()),
            _ => {}
        }
    }
}

impl Diary {
    /// How many warnings are notes with these words.
    pub fn notes(&self, words: &str) -> usize {
        let is_it = |warning: &&Warning| matches!(warning, Warning::Note(text) if text.contains(words));
        self.1.lock().unwrap().iter().filter(is_it).count()
    }

    pub fn of(&self, action: Action) -> Vec<String> {
        let mut names: Vec<String> = self.0.lock().unwrap().iter().filter(|i| i.0 == action).map(|i| i.2.clone()).collect();
        names.sort();
        names
    }
}

pub fn go(job: Job) -> (Report, Arc<Diary>) {
    Run::default().go(job)
}

/// What a run has beside its job.
pub struct Run {
    pub workers: u32,
    pub processors: u32,
    pub tuner: Option<Box<dyn Tuner>>,
    pub journal: Journal,
    pub past: Progress,
    pub cancel: Cancel,
    /// After this a run counts as hung, which is a failure and not a wait.
    pub bound: Duration,
}

impl Default for Run {
    fn default() -> Self {
        let bound = Duration::from_secs(120);
        Run {
            workers: 4,
            processors: 2,
            tuner: None,
            journal: Journal::none(),
            past: Progress::default(),
            cancel: Cancel::default(),
            bound,
        }
    }
}

impl Run {
    pub fn workers(workers: u32) -> Self {
        Run { workers, ..Run::default() }
    }

    pub fn setup(self, observer: Arc<dyn Observer>) -> Setup {
        Setup {
            observer,
            journal: self.journal,
            past: self.past,
            cancel: self.cancel,
            tuner: self.tuner.unwrap_or(Box::new(Fixed(Limits { workers: self.workers }))),
            most_workers: 64,
            processors: self.processors,
            spill: std::env::temp_dir(),
            heartbeat: Box::new(|| {}),
            sentence: String::new(),
            show_progress: Arc::new(AtomicBool::new(false)),
            team: None,
        }
    }

    pub fn go(self, job: Job) -> (Report, Arc<Diary>) {
        let diary = Arc::new(Diary::default());
        let (bound, setup) = (self.bound, self.setup(diary.clone()));
        (bounded(bound, move || run(job, setup)), diary)
    }
}

/// Does something on a thread of its own and fails if it takes longer than `most`.
pub fn bounded<T: Send + 'static>(most: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, wait) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || done.send(work()));
    match wait.recv_timeout(most) {
        Ok(value) => value,
        Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("not done after {most:?}"),
        Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("what was sent was received"),
        },
    }
}

pub fn name(path: &str) -> Name {
    Name::parse(&Dir::root(), path.as_bytes()).expect("a plain path")
}

/// Puts a symlink or a fifo into a store.
pub fn put_node(store: &Memory, path: &str, kind: Kind, target: &str) {
    let mut entry = Entry::bare(name(path), kind);
    entry.target = (kind == Kind::Link).then(|| target.as_bytes().into());
    entry.mode = 0o644;
    store.make_node(&name(path), &entry, MetaMask::NONE).unwrap();
}

pub fn put_hard_link(store: &Memory, path: &str, existing: &str) {
    store.make_hard_link(&name(path), &name(existing)).unwrap();
}

/// Bytes that depend on the path and on a number.
pub fn content(path: &str, version: u64, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    fill(seed(path.as_bytes()) ^ version, 0, &mut bytes);
    bytes
}

/// In what two stores differ: names, kinds, contents, link targets, times and modes of files, who shares an inode.
pub fn differences(a: &Memory, b: &Memory) -> Vec<String> {
    let (x, y) = (described(a), described(b));
    let mut all = Vec::new();
    for path in x.keys().chain(y.keys()).collect::<std::collections::BTreeSet<_>>() {
        if x.get(path) != y.get(path) {
            all.push(format!("{path}: {:?} and {:?}", x.get(path), y.get(path)));
        }
    }
    all
}

pub fn assert_same(a: &Memory, b: &Memory) {
    let all = differences(a, b);
    assert!(all.is_empty(), "{all:#?}");
}

fn described(store: &Memory) -> std::collections::BTreeMap<String, String> {
    let mut first: std::collections::HashMap<u64, String> = std::collections::HashMap::new();
    let mut all = std::collections::BTreeMap::new();
    for path in store.paths() {
        let shown = String::from_utf8_lossy(&path).trim_end_matches('/').to_string();
        let entry = store.entry(&shown).expect("it was listed");
        let hash = store.get(&shown).map(|bytes| haul_core::hash::xxh128(&bytes));
        let one_with =
            if entry.kind == Kind::File { first.entry(entry.ino).or_insert_with(|| shown.clone()).clone() } else { String::new() };
        let times = matches!(entry.kind, Kind::File | Kind::Dir).then_some(entry.mtime);
        let mode = (entry.kind != Kind::Link).then_some(entry.mode & 0o777);
        all.insert(shown, format!("{:?} {} {hash:x?} {times:?} {mode:?} {:?} {one_with}", entry.kind, entry.size, entry.target));
    }
    all
}
