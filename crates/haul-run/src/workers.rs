//! How many workers a run begins with, and who finds their number.

use haul_core::job::Job;
use haul_core::tune::{Climb, Fixed, Limits, Tuner};

/// The tuner asks for no more; a local store gains nothing beyond, and each has a descriptor or three.
pub const MOST: u32 = 128;

/// Workers at the least over a network, where each waits for round trips: the connections are counted elsewhere.
const FAR: u32 = 8;

/// What finds the number of workers: as many as were asked for, or a climb from a number that suits the ends of the run.
pub fn tuner(job: &Job, processors: u32) -> Box<dyn Tuner> {
    if let Some(workers) = job.workers {
        return Box::new(Fixed(Limits { workers }));
    }
    let ends = job.roots.iter().map(|root| &root.store).chain([&job.target]);
    match ends.map(|store| store.caps()).filter(|caps| caps.remote).map(|caps| caps.tuning.first_workers).max() {
        Some(first) => Box::new(Climb::new(processors, FAR, MOST).over_network(first)),
        None => Box::new(Climb::new(processors, 1, MOST)),
    }
}
