//! A prefix that is listed in ranges of keys by several processes. How keys are spread is not known: a range of which a whole page was
//! read is divided when one of them is idle.

use std::sync::atomic::Ordering;

use haul_core::error::Result;
use haul_core::pool::Item;
use haul_core::team::wire::{Cursor, put_bytes};

use super::scope::Scope;
use crate::inventory::Object;
use crate::pages;

/// Keys from a position on and before another; empty is the start and the end of the prefix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    pub start: Vec<u8>,
    pub until: Vec<u8>,
}

impl Item for Range {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_bytes(&mut out, &self.start);
        put_bytes(&mut out, &self.until);
        out
    }

    fn decode(bytes: &[u8]) -> Option<Range> {
        let mut from = Cursor(bytes);
        let range = Range { start: from.bytes()?.to_vec(), until: from.bytes()?.to_vec() };
        from.is_empty().then_some(range)
    }

    fn is_open(&self) -> bool {
        true
    }
}

impl Scope {
    /// Calls `each` for the objects of a range, in the order of keys. While `wants`, the upper halves of what is left go to `give`.
    ///
    /// # Errors
    /// What the service answers, and a listing that goes round.
    pub fn read_range(&self, range: Range, wants: &dyn Fn() -> bool, give: &dyn Fn(Range), each: &mut dyn FnMut(&Object)) -> Result<()> {
        let (bucket, prefix) = (self.bucket(), self.prefix());
        let mut at = if range.start.is_empty() { prefix.to_vec() } else { range.start };
        let mut until = if range.until.is_empty() { pages::after_all(prefix) } else { range.until };
        let mut token = None;
        while at < until {
            let page = bucket.flat_objects(prefix, &at, token.as_deref(), false)?.page;
            page.objects.iter().filter(|object| object.key < until).for_each(&mut *each);
            (at, token) = (page.until, page.token);
            // Where a listing begins at the start whatever it is asked, each further range would cost all pages before it.
            if token.is_some()
                && !bucket.client.from_start.load(Ordering::Relaxed)
                && wants()
                && let Some((middle, _)) = pages::halved(&at, &until)
            {
                give(Range { start: middle.clone(), until: std::mem::replace(&mut until, middle) });
            }
        }
        Ok(())
    }
}
