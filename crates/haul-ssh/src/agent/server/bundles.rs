//! Bundles of small files.

use std::ops::Range;

use haul_core::bundle::{Bundle, Item, Outcome, Spent};
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::Store;

use super::names::Names;
use crate::agent::frame::LONGEST;
use crate::agent::wire::{Parser, Writer, protocol_error};

/// Bytes of attributes that one answer carries, about.
const ANSWER: usize = 2 << 20;

fn spent(to: &mut Writer, bundle: &Bundle) {
    to.duration(bundle.spent.reading).duration(bundle.spent.writing).duration(bundle.spent.metadata);
}

/// The result of each file; the ranges of those that were read follow in their order.
pub fn get_bundle(store: &dyn Store, bundle: &mut Bundle, to: &mut Writer) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    store.get_bundle(bundle);
    spent(to, bundle);
    let mut length = 0;
    for item in &bundle.items {
        let own = if matches!(item.outcome, Outcome::Read) { item.at.len() } else { 0 };
        if to.out.len() > ANSWER || length + own + ANSWER > LONGEST {
            let e = Error::new(ErrorKind::Other, "read").because("it does not fit into one answer with others");
            to.byte(2).error(&e.remedy_is(Remedy::Again));
            continue;
        }
        match &item.outcome {
            Outcome::Failed(e) => to.byte(2).error(e),
            Outcome::Read => {
                match runs.last_mut() {
                    Some(last) if last.end == item.at.start => last.end = item.at.end,
                    _ => runs.push(item.at.clone()),
                }
                length += own;
                to.byte(0).attributes_of(&item.entry, bundle.keep).number(own as u64)
            }
            // It is larger than it was listed: left to be read as a large file.
            _ => to.byte(1).attributes(&item.entry),
        };
    }
    runs
}

/// Items with their lengths, then the bytes of all of them.
pub fn put_bundle(store: &dyn Store, names: &mut Names<'_>, from: &mut Parser<'_>, to: &mut Writer) -> Result<Spent> {
    let mut bundle = Bundle { keep: from.mask()?, direct: from.flag()?, sync: from.flag()?, ..Bundle::default() };
    let mut at = 0_usize;
    for _ in 0..from.count()? {
        let entry = names.entry(from)?;
        let length = usize::try_from(from.number()?).unwrap_or(usize::MAX);
        let end = at.checked_add(length).ok_or_else(|| protocol_error("an impossible length"))?;
        bundle.items.push(Item { entry, at: at..end, outcome: Outcome::Read });
        at = end;
    }
    if at != from.0.len() {
        return Err(protocol_error("a bundle that is not as long as its files"));
    }
    bundle.data = from.0.to_vec();
    store.put_bundle(&mut bundle);
    spent(to, &bundle);
    for item in &bundle.items {
        match &item.outcome {
            Outcome::Written(landed) => to.byte(0).landed(landed),
            Outcome::Failed(e) => to.byte(1).error(e),
            _ => to.byte(1).error(&Error::new(ErrorKind::Other, "write").because("no result was reported for it")),
        };
    }
    Ok(bundle.spent)
}
