//! The first line of the output: what the run understood.

use haul_core::entry::show;
use haul_core::job::{Job, Mode};
use haul_core::place::Scheme;
use haul_core::spec::{Operation, TransferSpec};
use haul_run::plan::{Plan, absolute};

use haul_core::place::Location;

use crate::units;

/// The address as a person would look for it: a local path in full.
fn shown(location: &Location, stdio: &str) -> String {
    if location.scheme == Scheme::STDIO {
        return if location.path.is_empty() { stdio.into() } else { location.to_string() };
    }
    if location.is_remote() { location.to_string() } else { show(&absolute(&location.path)) }
}

/// With how the data go.
pub fn sentence(spec: &TransferSpec, plan: &Plan) -> String {
    let Plan { job, hosts, distrusted, .. } = plan;
    let (verb, joint) = match spec.operation {
        Operation::Move => ("moves", "to"),
        Operation::Sync => ("syncs", "to"),
        Operation::Copy => ("copies", "to"),
        Operation::Check { .. } => ("checks", "against"),
    };
    let what = match &spec.sources[..] {
        [one] if one.means_contents() && one.scheme != Scheme::STDIO => format!("the contents of {}", shown(one, "")),
        [one] => shown(one, "standard input"),
        many => format!("{} sources", many.len()),
    };
    let mut sentence = format!("{verb} {what} {joint} {}", shown(&spec.destination, "standard output"));
    let way = hosts.sentence();
    if !way.is_empty() {
        sentence.push(' ');
        sentence.push_str(&way);
    }
    if let Some(workers) = job.workers.filter(|_| !job.dry) {
        sentence.push_str(&format!(", {workers} worker{}", if workers == 1 { "" } else { "s" }));
    }
    if let Some(limit) = job.limit {
        sentence.push_str(&format!(", at most {}", units::rate(limit as f64)));
    }
    // What one system copies by itself is not read back: a move compares sizes before it deletes.
    let within = job.remove_source
        && job.target.caps().copies
        && job.roots.iter().all(|root| job.target.extensions().server_side.copies(&*root.store, 1));
    if within {
        sentence.push_str(", copied by the server, comparing sizes");
    } else if job.verify {
        sentence.push_str(", verified");
    }
    if job.deletion.is_some() {
        sentence.push_str(", deleting files that the source does not have");
    }
    if let Some(lost) = lost(job) {
        sentence.push_str(&format!(", without {lost}"));
    }
    if *distrusted && job.links.specials {
        sentence.push_str(", without devices and setuid bits (--trust-metadata)");
    }
    let data_path = if job.mode == Mode::Check { "" } else { hosts.data_path(&spec.sources, &spec.destination) };
    if !data_path.is_empty() {
        sentence.push_str(", ");
        sentence.push_str(data_path);
    }
    sentence
}

/// What was asked for and the destination can never keep.
fn lost(job: &Job) -> Option<&'static str> {
    let caps = job.target.caps();
    let links = job.links.hard && !caps.hard_links;
    let holes = job.sparse && !caps.holes;
    match (links, holes) {
        (true, true) => Some("hard links and holes"),
        (true, false) => Some("hard links"),
        (false, true) => Some("holes"),
        (false, false) => None,
    }
}
