//! Bundles of small files.

use std::ops::Range;

use haul_core::bundle::{Bundle, Item, Outcome, Spent};
use haul_core::entry::MetaMask;
use haul_core::error::{Error, ErrorKind, Remedy, Result};
use haul_core::store::Store;

use super::names::Names;
use crate::agent::bundles::add_run;
use crate::agent::frame::LONGEST;
use crate::agent::wire::{Parser, Writer, protocol_error};

const ANSWER: usize = 2 << 20;

fn spent(to: &mut Writer, bundle: &Bundle) {
    to.duration(bundle.spent.reading).duration(bundle.spent.writing).duration(bundle.spent.metadata);
}

/// The result of each file; the ranges of those that were read follow in their order.
pub fn get_bundle(store: &dyn Store, bundle: &mut Bundle, to: &mut Writer) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    store.get_bundle(bundle);
    spent(to, bundle);
    let mut length = 0;
    for item in &bundle.items {
        let own = if matches!(item.outcome, Outcome::Read) { item.at.len() } else { 0 };
        if to.out.len() > ANSWER || length + own + ANSWER > LONGEST {
            let e = Error::new(ErrorKind::Other, "read").because("it does not fit into one answer with others");
            to.mark(2).error(&e.remedy_is(Remedy::Again));
            continue;
        }
        match &item.outcome {
            Outcome::Failed(e) => to.mark(2).error(e),
            Outcome::Read => {
                add_run(&mut runs, &item.at);
                length += own;
                to.mark(0).attributes(&item.entry, bundle.keep).put(own)
            }
            // It is larger than it was listed: left to be read as a large file.
            _ => to.mark(1).attributes(&item.entry, MetaMask::NONE),
        };
    }
    runs
}

/// Items with their lengths, then the bytes of all of them.
pub fn put_bundle(store: &dyn Store, names: &mut Names<'_>, from: &mut Parser<'_>, to: &mut Writer) -> Result<Spent> {
    let (keep, direct, sync) = from.get()?;
    let mut bundle = Bundle { keep, direct, sync, ..Bundle::default() };
    let mut at = 0_usize;
    for _ in 0..from.count()? {
        let entry = names.entry(from)?;
        let end = at.checked_add(from.get()?).ok_or_else(|| protocol_error("an impossible length"))?;
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
            Outcome::Written(landed) => to.result(&Ok(landed)),
            Outcome::Failed(e) => to.result(&Err::<(), _>(e.again())),
            _ => to.result(&Err::<(), _>(Error::new(ErrorKind::Other, "write").because("no result was reported for it"))),
        };
    }
    Ok(bundle.spent)
}
