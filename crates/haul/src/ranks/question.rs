//! Whether the places of the ranks are the same, beyond what their names and inodes say: the first rank asks the others what they see.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::meeting;
use super::probe::{Made, Probe};
use super::sample::{Facts, Sampled, Sampler};
use crate::flags::Command;
use haul_run::location::Location;

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Its first file is in the destination; the others make theirs beside it.
    probe: Option<Probe>,
    sample: Vec<Sampled>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Reply {
    sees_probe: bool,
    /// Why this rank could not make its own file.
    refused: Option<String>,
    differing: Vec<(usize, Option<Facts>)>,
}

/// The sources of a command, and its destination.
pub fn places(command: &Command) -> (&[Location], Option<&Location>) {
    match command {
        Command::Copy(flags) => (&flags.spec.sources, Some(&flags.spec.destination)),
        Command::Check(flags) => (&flags.spec.sources, Some(&flags.spec.destination)),
        Command::Du(flags) => (&flags.places, None),
        Command::Rm(flags) => (&flags.places, None),
        Command::Sum(flags) => (&flags.sources, None),
        _ => (&[], None),
    }
}

impl Question {
    /// At the first rank. The probe's file is there until `Made` is dropped.
    pub fn new(command: &Command) -> (Question, Option<Made>) {
        let (sources, destination) = places(command);
        let mut paths: Vec<PathBuf> = meeting::local(sources).collect();
        let destination = destination.and_then(|place| meeting::local(std::slice::from_ref(place)).next());
        let writes = matches!(command, Command::Copy(flags) if !flags.dry);
        let probe = destination.as_deref().filter(|_| writes).and_then(Probe::new);
        let made = probe.as_ref().and_then(|probe| probe.make(0).ok());
        // A destination in which nothing is made is compared as a source is.
        paths.extend(destination.filter(|_| made.is_none()));
        let reads = !matches!(command, Command::Du(_) | Command::Rm(_));
        (Question { probe: probe.filter(|_| made.is_some()), sample: Sampler::default().take(&paths, reads) }, made)
    }

    /// At another rank. Its own file is there until `Made` is dropped.
    pub fn answer(&self, rank: u32) -> (Reply, Option<Made>) {
        let mut reply = Reply { sees_probe: true, refused: None, differing: Sampler::default().differing(&self.sample) };
        let mut made = None;
        if let Some(probe) = &self.probe {
            reply.sees_probe = probe.sees(0);
            match reply.sees_probe.then(|| probe.make(rank)) {
                Some(Ok(file)) => made = Some(file),
                Some(Err(e)) => reply.refused = Some(e.to_string()),
                None => {}
            }
        }
        (reply, made)
    }

    /// At the first rank: why another one sees other places.
    pub fn conflict(&self, rank: u32, reply: &Reply, title: impl Fn(u32) -> String) -> Option<String> {
        let (first, other) = (title(0), title(rank));
        if let Some(probe) = &self.probe {
            let directory = probe.directory();
            if !reply.sees_probe {
                return Some(format!("{directory}: {other} does not see a file that {first} has made there"));
            }
            if let Some(reason) = &reply.refused {
                return Some(format!("{directory}: {other} cannot make a file there: {reason}"));
            }
            if !probe.sees(rank) {
                return Some(format!("{directory}: {first} does not see a file that {other} has made there"));
            }
            probe.remove(rank);
        }
        let mut sampler = Sampler::default();
        let mut differs = |at: usize, there: Option<&Facts>| {
            let sampled = self.sample.get(at).filter(|sampled| sampler.is_another(sampled, there))?;
            let path = haul_core::entry::show(&sampled.path);
            Some(match there {
                Some(_) => format!("{path}: is another one for {other} than for {first}"),
                None => format!("{path}: exists for {first}, but not for {other}"),
            })
        };
        reply.differing.iter().find_map(|(at, there)| differs(*at, there.as_ref()))
    }
}
