//! Items of a bundle by their index, for stores that work on all of them at once.

use crate::bundle::{Bundle, Item, Outcome};
use crate::error::Error;

/// Items to be read.
pub fn listed(bundle: &Bundle) -> Vec<usize> {
    indices(bundle, |outcome| matches!(outcome, Outcome::Listed))
}

/// Items to be written.
pub fn read(bundle: &Bundle) -> Vec<usize> {
    indices(bundle, |outcome| matches!(outcome, Outcome::Read))
}

fn indices(bundle: &Bundle, wanted: impl Fn(&Outcome) -> bool) -> Vec<usize> {
    (0..bundle.items.len()).filter(|i| wanted(&bundle.items[*i].outcome)).collect()
}

pub fn fail(item: &mut Item, e: Error) {
    item.outcome = Outcome::Failed(e.on(&item.entry.name));
}

/// Fails items, but for those that have a result already.
pub fn fail_all(bundle: &mut Bundle, items: &[usize], e: &Error) {
    for i in items {
        let item = &mut bundle.items[*i];
        if !matches!(item.outcome, Outcome::Written(_) | Outcome::Failed(_)) {
            fail(item, e.again());
        }
    }
}
