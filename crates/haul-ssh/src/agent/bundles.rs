//! Bundles of small files: each is one request and one answer.

use std::ops::Range;

use haul_core::bundle::{Bundle, Outcome};
use haul_core::entry::Entry;
use haul_core::error::Result;

use super::ops;
use super::store::Remote;
use super::wire::{Parser, protocol_error};

/// Bytes of attributes that one request carries, about: a frame has an end.
const REQUEST: usize = 2 << 20;
/// What an entry takes in a frame, about.
pub(super) fn weight_of(entry: &Entry) -> usize {
    let xattrs = entry.xattrs.iter().flat_map(|xattrs| xattrs.iter()).map(|(name, value)| name.len() + value.len() + 8).sum::<usize>();
    100 + entry.name.leaf.len() + entry.target.as_ref().map_or(0, |target| target.len()) + xattrs
}

/// Cuts things into batches that fit into one request each.
pub(super) fn batches<T>(things: &[T], weight: impl Fn(&T) -> usize) -> Vec<&[T]> {
    let mut batches = Vec::new();
    let (mut start, mut sum) = (0, 0);
    for (i, thing) in things.iter().enumerate() {
        let more = weight(thing);
        if i > start && sum + more > REQUEST {
            batches.push(&things[start..i]);
            (start, sum) = (i, 0);
        }
        sum += more;
    }
    if start < things.len() {
        batches.push(&things[start..]);
    }
    batches
}

/// Adds a range of a buffer to those that are sent; ranges that follow each other are sent as one part.
pub(super) fn add_run(runs: &mut Vec<Range<usize>>, at: &Range<usize>) {
    match runs.last_mut() {
        Some(last) if last.end == at.start => last.end = at.end,
        _ => runs.push(at.clone()),
    }
}

fn spent(bundle: &mut Bundle, from: &mut Parser<'_>) -> Result<()> {
    bundle.spent.reading += from.duration()?;
    bundle.spent.writing += from.duration()?;
    bundle.spent.metadata += from.duration()?;
    Ok(())
}

impl Remote {
    pub(super) fn get(&self, bundle: &mut Bundle, listed: &[usize]) -> Result<()> {
        let mut to = self.root.request();
        to.put((bundle.keep, bundle.follow, bundle.past_caches, listed.len()));
        let mut weight = 0;
        for i in listed {
            let entry = &bundle.items[*i].entry;
            to.listed(entry);
            weight += entry.size.min(1 << 20) + 200;
        }
        let answer = self.root.ask(ops::GET_BUNDLE, &to, &[], weight)?.wait()?;
        let mut from = answer.body();
        spent(bundle, &mut from)?;
        let mut results = Vec::with_capacity(listed.len());
        for i in listed {
            let name = bundle.items[*i].entry.name.clone();
            results.push(match from.byte()? {
                0 => (Some(from.attributes(name)?), Some(Outcome::Read), from.get()?),
                1 => (Some(from.attributes(name)?), None, 0_usize),
                _ => (None, Some(Outcome::Failed(from.error()?.on(&name))), 0),
            });
        }
        let sum = results.iter().try_fold(0_usize, |sum, (.., length)| sum.checked_add(*length));
        if sum != Some(from.0.len()) {
            return Err(protocol_error("a bundle that is not as long as its files"));
        }
        let mut at = bundle.data.len();
        bundle.data.extend_from_slice(from.0);
        for (i, (entry, outcome, length)) in listed.iter().zip(results) {
            let item = &mut bundle.items[*i];
            if let Some(entry) = entry {
                item.entry = entry;
            }
            if let Some(outcome) = outcome {
                item.outcome = outcome;
            }
            item.at = at..at + length;
            at += length;
        }
        Ok(())
    }

    pub(super) fn put(&self, bundle: &mut Bundle, read: &[usize]) -> Result<()> {
        let mut to = self.root.request();
        to.put((bundle.keep, bundle.direct, bundle.sync, read.len()));
        for i in read {
            let item = &bundle.items[*i];
            to.entry(&item.entry).put(item.at.end - item.at.start);
        }
        let mut runs = Vec::new();
        read.iter().for_each(|i| add_run(&mut runs, &bundle.items[*i].at));
        let parts: Vec<&[u8]> = runs.into_iter().map(|run| &bundle.data[run]).collect();
        let weight = parts.iter().map(|part| part.len() as u64).sum();
        let answer = self.root.ask(ops::PUT_BUNDLE, &to, &parts, weight)?.wait()?;
        let mut from = answer.body();
        spent(bundle, &mut from)?;
        for i in read {
            let item = &mut bundle.items[*i];
            item.outcome = from.result()?.map_or_else(|e| Outcome::Failed(e.on(&item.entry.name)), Outcome::Written);
        }
        Ok(())
    }
}
