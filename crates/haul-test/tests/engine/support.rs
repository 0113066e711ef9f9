//! One run of the engine, with everything that a test may want to change in reach.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use haul_core::cancel::Cancel;
use haul_core::engine::{Setup, run};
use haul_core::entry::MetaMask;
use haul_core::event::{Action, Event, Observer, Why};
use haul_core::filter::Filter;
use haul_core::job::{Bounds, Job, Links, Mode, Pick, Root};
use haul_core::journal::{Journal, Progress};
use haul_core::plan::Policy;
use haul_core::report::Report;
use haul_core::store::Store;
use haul_core::tune::{Fixed, Limits};

pub fn job(source: Arc<dyn Store>, target: Arc<dyn Store>) -> Job {
    Job {
        mode: Mode::Copy,
        roots: vec![Root { store: source, pick: Pick::Contents }],
        target,
        rename: None,
        policy: Policy::DEFAULT,
        links: Links { copy: true, follow: false, safe: false, keep_dirlinks: false, hard: true, specials: true },
        filter: Filter::default(),
        bounds: Bounds::default(),
        keep: MetaMask::MTIME.with(MetaMask::MODE),
        sparse: false,
        in_place: false,
        one_file_system: false,
        sync: false,
        verify: false,
        delete: false,
        delete_excluded: false,
        ignore_errors: false,
        max_delete: None,
        backup: None,
        remove_source: false,
        force: false,
        one_way: false,
        dry: false,
        workers: None,
        chunk: 64 << 10,
        limit: None,
        retries: 3,
        progress: Duration::from_secs(60),
        deadline: None,
        timeout: None,
        link_dest: Vec::new(),
        ordered: false,
        avoid: Vec::new(),
        recurse_listed: false,
        owner: None,
        chmod: Vec::new(),
    }
}

/// What happened to which name.
#[derive(Default)]
pub struct Diary(pub Mutex<Vec<(Action, Why, String)>>);

impl Observer for Diary {
    fn on(&self, event: &Event<'_>) {
        if let Event::Item { action, why, entry, .. } = event {
            self.0.lock().unwrap().push((*action, *why, String::from_utf8_lossy(&entry.name.path()).into_owned()));
        }
    }
}

impl Diary {
    pub fn of(&self, action: Action) -> Vec<String> {
        let mut names: Vec<String> = self.0.lock().unwrap().iter().filter(|i| i.0 == action).map(|i| i.2.clone()).collect();
        names.sort();
        names
    }
}

pub fn go(job: Job) -> (Report, Arc<Diary>) {
    go_with(job, 4, Journal::none(), Progress::default())
}

pub fn go_with(job: Job, workers: u32, journal: Journal, past: Progress) -> (Report, Arc<Diary>) {
    let diary = Arc::new(Diary::default());
    let setup = Setup {
        observer: diary.clone(),
        journal,
        past,
        cancel: Cancel::default(),
        tuner: Box::new(Fixed(Limits { workers })),
        most_workers: 64,
        processors: 2,
        spill: std::env::temp_dir(),
        heartbeat: Box::new(|| {}),
        sentence: String::new(),
        poke: Arc::new(AtomicBool::new(false)),
    };
    (run(job, setup), diary)
}
